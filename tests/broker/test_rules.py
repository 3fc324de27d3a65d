"""What versions do differently when they start."""

from __future__ import annotations

import pytest

from rmqtool.broker.dispatch import DispatchRules
from rmqtool.broker.release import Version
from rmqtool.broker.rules import PROVEN, AbnormalStart, NormalStart, Rules
from rmqtool.formats.sys_flag import SysFlag
from rmqtool.startup.records import DispatchRequest
from tests.broker.jars import VERSIONS
from tests.startup.conftest import FURTHER_VERSIONS


def test_proven_lines() -> None:
    """What counts as proven is what tests compare with real message stores."""
    assert {Version.parse(text) for text in (*VERSIONS, *FURTHER_VERSIONS)} == PROVEN


@pytest.mark.parametrize(
    ("version", "start"),
    [
        ("4.9.8", NormalStart.THIRD_LAST),
        ("5.3.1", NormalStart.THIRD_LAST),
        ("5.3.2", NormalStart.QUEUE_MAXIMUM),
        ("5.3.4", NormalStart.FIRST_RECORD),
    ],
)
def test_rule_holds_from_its_release_on(version: str, start: NormalStart) -> None:
    """Between two lines a release has the rules that it brought, not those of its line."""
    assert start is Rules(Version.parse(version)).normal_start


def test_rules_of_5_5() -> None:
    """5.4 still goes by times, ends a pull at a hole, and goes back for queues never written."""
    before, since = (Rules(Version.parse(line)) for line in ("5.4", "5.5"))
    assert (before.reads_on_in_rocksdb, since.reads_on_in_rocksdb) == (False, True)
    assert (before.skips_unstarted_queues, since.skips_unstarted_queues) == (False, True)
    assert AbnormalStart.CHECKED_STORE_TIME is Rules(Version.parse("5.4")).abnormal_start
    assert AbnormalStart.QUEUED_OFFSET is Rules(Version.parse("5.5")).abnormal_start


@pytest.mark.parametrize(
    ("sys_flag", "count"),
    [
        (0, 1),
        (SysFlag.TRANSACTION_PREPARED_TYPE, 0),
        (SysFlag.TRANSACTION_COMMIT_TYPE, 1),
        (SysFlag.TRANSACTION_ROLLBACK_TYPE, 0),
        (SysFlag.TRANSACTION_ROLLBACK_TYPE | SysFlag.COMPRESSED_FLAG, 0),
        (SysFlag.TRANSACTION_COMMIT_TYPE | SysFlag.BORNHOST_V6_FLAG, 1),
    ],
)
def test_what_goes_to_queues(sys_flag: int, count: int) -> None:
    """Half messages and rollbacks go to no queue, whatever else their flags say."""
    record = DispatchRequest("T", 0, 0, 100, 0, 0, sys_flag, {"a": "b"})
    assert count == len([*DispatchRules(Rules(Version.parse("5.3.3"))).places(record)])
