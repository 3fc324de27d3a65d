"""The plan of a repair beside a running broker, which goes on writing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rmqtool import repair
from rmqtool.check.log.commitlog import LogPass
from rmqtool.findings.finding import Finding
from rmqtool.store.moment import Moment
from tests import plain_store
from tests.stores import broker_conf, fixture_store


@pytest.mark.parametrize("name", ["rocketmq-4.9.3-traffic", "rocketmq-5.3.3-traffic"])
def test_appended_meanwhile(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Units of records that are appended after the log was read are not past its end."""
    root = fixture_store(name, tmp_path)
    (root / "abort").touch()
    record = plain_store.records(root)[-5]
    whole = record.path.read_bytes()
    shorter = whole[: record.position].ljust(len(whole), b"\0")
    plain = LogPass.check

    def check(
        self: LogPass, begin: Callable[[], Iterator[Finding]] | None = None
    ) -> Iterator[Finding]:
        yield from plain(self, begin)
        record.path.write_bytes(whole)

    monkeypatch.setattr(LogPass, "check", check)
    monkeypatch.setattr(Moment, "is_live", True)
    record.path.write_bytes(shorter)
    plan = repair.plan(root, broker_conf=str(broker_conf(name)))
    assert ([], []) == (plan.edits, plan.left)
