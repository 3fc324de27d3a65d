"""After a repair a broker runs on, and the second look is as clean as the first."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from rmqtool import repair
from tests import inflict
from tests.broker.jvm import Jvm
from tests.repair.broker import run_on, survivors
from tests.repair.broker.test_repaired import findings, found_before
from tests.stores import broker_conf, fixture_store

pytestmark = pytest.mark.broker

END_TIMESTAMP = 8  # of an index file's header
INDEX_MSG_TIMESTAMP = 16  # of the checkpoint


def keep_index(root: Path) -> None:
    """Let the checkpoint say that all of the index was flushed, so that a start keeps it."""
    newest = max((root / "index").iterdir())
    (end,) = struct.unpack_from(">q", newest.read_bytes(), END_TIMESTAMP)
    inflict.write_at(root / "checkpoint", INDEX_MSG_TIMESTAMP, struct.pack(">q", end))


@pytest.mark.parametrize("is_cut", [False, True], ids=["crashed", "index past the log"])
def test_second_look(jvm: Jvm, tmp_path: Path, *, is_cut: bool) -> None:
    """Brokers index the last record again, and skip new ones until the log is past the index."""
    name = f"rocketmq-{jvm.version}-traffic"
    root = fixture_store(name, tmp_path)
    (root / "abort").touch()
    keep_index(root)
    if is_cut:
        inflict.drop_last_records(root)
        assert findings(root, name, jvm.version)["IX-KEY"] == 1, "its entries are in the way"
    conf = str(broker_conf(name))
    plan = repair.plan(root, broker_version=jvm.version, broker_conf=conf, clamp_offsets=True)
    repair.apply(plan, in_place=True)
    truth = survivors.Truth.of(root)
    opened = survivors.open_store(jvm, root, name)
    assert (True, 0) == (opened.loads, opened.behind)
    assert run_on.MESSAGES == run_on.put_more(jvm, opened, truth)
    by_key = [*run_on.answers(opened, truth)]
    opened.close()
    records = run_on.records_of(root)
    assert any(answer.places for answer in by_key)
    assert [answer for answer in by_key if answer.strangers(records)] == []
    assert not findings(root, name, jvm.version) - found_before(name, jvm.version)
