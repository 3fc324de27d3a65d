"""Files that no broker loads: a byte too long, or under a number that cannot be theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqtool import rebuild, repair
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.registry_conf import BC_LEN
from rmqtool.findings.registry_consume_queue import CQ_EMPTY
from rmqtool.findings.registry_index import IX_CRASH
from rmqtool.findings.registry_layout import FS_NAME
from rmqtool.findings.registry_state import TL_REF
from rmqtool.startup import predict
from rmqtool.store.tree import open_store
from tests import inflict, plain_store
from tests.check.validation import run
from tests.damage import DAMAGES
from tests.stores import broker_conf, fixture_store

NAME = "rocketmq-5.3.3-traffic"


def _repair(store: Path) -> None:
    """Repair a store that a broker refuses; nothing stays, and a second plan is empty."""
    conf = broker_conf(NAME)
    assert not predict(open_store(store, conf), "5.3.3").starts
    plan = repair.plan(store, broker_conf=str(conf))
    assert plan.edits
    assert not plan.left
    repair.apply(plan, in_place=True)
    assert not repair.plan(store, broker_conf=str(conf)).edits
    assert predict(open_store(store, conf), "5.3.3").is_whole


def test_byte_appended(tmp_path: Path) -> None:
    """A byte more than a broker made of the last commitlog file is cut off."""
    store = fixture_store(NAME, tmp_path)
    path = plain_store.segments(store)[-1]
    before = path.read_bytes()
    path.write_bytes(before + b"\x01")
    _repair(store)
    assert before == path.read_bytes()


def test_byte_appended_to_the_only_file(tmp_path: Path) -> None:
    """An empty file that is named after it does not make it right; zeros before it are no gap."""
    name = "rocketmq-5.5.0-rocksdb"
    store, conf = fixture_store(name, tmp_path), broker_conf(name)
    (path,) = plain_store.segments(store)
    before = path.read_bytes()
    path.write_bytes(before + b"\x01")
    empty = path.with_name(f"{len(before) + 1:020}")
    empty.touch()
    plan = repair.plan(store, broker_conf=str(conf))
    assert {FS_NAME} <= {left.code for left in plan.left}
    assert BC_LEN not in {left.code for left in plan.left}
    assert not plan.edits
    empty.unlink()  # as the plan says
    repair.apply(repair.plan(store, broker_conf=str(conf)), in_place=True)
    assert before == path.read_bytes()
    assert not repair.plan(store, broker_conf=str(conf)).edits


@pytest.mark.parametrize("number", [1, 10, 20])
def test_queue_under_a_wrong_number(number: int, tmp_path: Path) -> None:
    """A queue file whose number is no multiple of its length is made anew where it belongs."""
    store = fixture_store(NAME, tmp_path)
    path = min(plain_store.queue_directories(store)[0].iterdir())
    before = path.read_bytes()
    path.rename(path.with_name(f"{int(path.name) + number:020}"))
    conf = broker_conf(NAME)
    plan = repair.plan(store, broker_conf=str(conf))
    repair.apply(plan, in_place=True)
    assert before == path.read_bytes()
    assert not repair.plan(store, broker_conf=str(conf)).edits
    assert predict(open_store(store, conf), "5.3.3").is_whole


@pytest.mark.parametrize("number", [0, 1])
def test_zeros_under_the_same_name(number: int, tmp_path: Path) -> None:
    """Of two commitlog files of one name the one of zeros goes, whichever directory holds it."""
    store = fixture_store(NAME, tmp_path)
    whole = plain_store.segments(store)[1]
    before = whole.read_bytes()
    twin = store / "commitlog-2" / whole.name
    twin.parent.mkdir()
    twin.write_bytes(before)
    zeros = (whole, twin)[number]
    zeros.write_bytes(bytes(len(before)))
    conf = tmp_path / "broker.conf"
    paths = f"storePathCommitLog={whole.parent},{twin.parent}"
    conf.write_text(f"{broker_conf(NAME).read_text()}\n{paths}\n", encoding="utf-8")
    plan = repair.plan(store, broker_conf=str(conf))
    assert [("FS-DUP", zeros.parent.name)] == [
        (str(edit.code), Path(edit.path).parent.name) for edit in plan.edits
    ]
    assert [] == plan.left
    repair.apply(plan, in_place=True)
    assert [number == 1, number == 0] == [whole.exists(), twin.exists()]
    after = repair.plan(store, broker_conf=str(conf))
    assert ([], []) == (after.edits, after.left)


def test_empty_log_of_timers(tmp_path: Path) -> None:
    """Timers whose messages an empty log has lost are in the plan, as they are found afterwards."""
    name = "rocketmq-5.3.3-timer"
    store = fixture_store(name, tmp_path)
    plain_store.segments(store)[0].write_bytes(b"")
    conf = broker_conf(name)
    plan = repair.plan(store, broker_conf=str(conf), bridge_missing=True, clamp_offsets=True)
    repair.apply(plan, in_place=True)
    findings, _, _ = run(store, conf=conf)
    stays = {
        (finding.code, finding.path)
        for finding in findings
        if finding.severity is not Severity.NOTE
    }
    assert TL_REF in {code for code, _ in stays}
    assert stays <= {(finding.code, finding.path) for finding in plan.left}
    assert not repair.plan(store, broker_conf=str(conf), bridge_missing=True).edits


@pytest.mark.parametrize("size", [0, 23])
@pytest.mark.parametrize("version", ["4.9.3", "5.3.3"])
def test_short_checkpoint_after_a_crash(version: str, size: int, tmp_path: Path) -> None:
    """A new checkpoint has the time of the index: a start after a crash would destroy it."""
    name = f"rocketmq-{version}-traffic"
    store = fixture_store(name, tmp_path)
    (store / "abort").touch()
    checkpoint = store / "checkpoint"
    time = checkpoint.read_bytes()[16:24]
    checkpoint.write_bytes(checkpoint.read_bytes()[:size])
    conf = broker_conf(name)
    repair.apply(repair.plan(store, broker_conf=str(conf)), in_place=True)
    assert time <= checkpoint.read_bytes()[16:24]
    findings, _, _ = run(store, conf=conf)
    assert not [finding for finding in findings if finding.severity is not Severity.NOTE]
    assert not repair.plan(store, broker_conf=str(conf)).edits


def test_log_of_timers_damaged_twice(tmp_path: Path) -> None:
    """It ends at its first bad record, in whichever file that is; files behind it go."""
    name = "rocketmq-5.3.3-timer"
    store = fixture_store(name, tmp_path)
    files = sorted((store / "timerlog").iterdir())
    for path in files[:2]:
        inflict.write_at(path, 520, bytes([0x11]) * 52)
    conf = str(broker_conf(name))
    plan = repair.plan(store, broker_conf=conf)
    gone = [f"timerlog/{path.name}" for path in files[1:]]
    assert [*gone, "timerwheel"] == [edit.path for edit in plan.edits if edit.action == "remove"]
    assert [(f"timerlog/{files[0].name}", 520)] == [
        (edit.path, edit.position) for edit in plan.edits if edit.action == "write"
    ][:1]
    repair.apply(plan, in_place=True)
    assert [] == repair.plan(store, broker_conf=conf).edits


def test_queue_of_zeros_of_a_damaged_store(tmp_path: Path) -> None:
    """Whose only message is lost with its segment: a broker would count a unit, so it is gone."""
    name = "rocketmq-5.5.0-traffic"
    store, conf = fixture_store(name, tmp_path), str(broker_conf(name))
    (file,) = (store / "consumequeue").glob("long-topic*/0/*")
    (unit,) = plain_store.units(file.parent)
    file.write_bytes(bytes(file.stat().st_size))
    segment = max(
        path for path in plain_store.segments(store) if int(path.name) <= unit.physical_offset
    )
    segment.unlink()
    plan = repair.plan(store, broker_conf=conf, bridge_missing=True)
    repair.apply(plan, in_place=True)
    assert not file.exists()
    assert not repair.plan(store, broker_conf=conf, bridge_missing=True).edits


def test_index_without_a_checkpoint(tmp_path: Path) -> None:
    """The plan names the files of the index that a start destroys, those that it mends, too."""
    name = "rocketmq-5.5.0-traffic"
    store, conf = fixture_store(name, tmp_path), str(broker_conf(name))
    first, second, newest = sorted((store / "index").iterdir())
    newest.unlink()
    raw = first.read_bytes(), second.read_bytes()
    first.write_bytes(raw[1])
    second.write_bytes(raw[0])
    (store / "checkpoint").unlink()
    (store / "abort").touch()
    plan = repair.plan(store, broker_conf=conf)
    assert plan.edits
    repair.apply(plan, in_place=True)
    left = {one.path for one in plan.left if one.code == IX_CRASH}
    again = repair.plan(store, broker_conf=conf)
    stays = {one.path for one in again.left if one.code == IX_CRASH}
    assert stays
    assert stays <= left
    assert not again.edits


def test_first_message_is_lost(tmp_path: Path) -> None:
    """The plan says who receives a message again, and a rebuild what stands in for lost ones."""
    name = "rocketmq-5.3.3-traffic"
    store, conf = fixture_store(name, tmp_path), str(broker_conf(name))
    DAMAGES["lose-first-of-queue"].inflict(store)
    plan = repair.plan(store, broker_conf=conf)
    assert "consumers of 1 queue receive 1 neighbouring message again" in plan.notes
    (edit,) = (edit for edit in plan.edits if "queue offset 0" in (edit.lost or ""))
    assert "CQ-GAP" == str(edit.code)
    tallies = [queue.tally for queue in rebuild.consume_queues(store, tmp_path / "new").queues]
    assert [1] == [tally.copies for tally in tallies if tally.copies]


def test_only_file_cut(tmp_path: Path) -> None:
    """Nor does such a file speak for a length that no broker is told."""
    name = "rocketmq-5.5.0-rocksdb"
    store, conf = fixture_store(name, tmp_path), broker_conf(name)
    (path,) = plain_store.segments(store)
    path.write_bytes(path.read_bytes()[:419])
    empty = path.with_name(f"{419:020}")
    empty.touch()
    plan = repair.plan(store, broker_conf=str(conf))
    assert not plan.edits
    assert BC_LEN not in {left.code for left in plan.left}
    empty.unlink()  # as the plan says
    repair.apply(repair.plan(store, broker_conf=str(conf)), in_place=True)
    assert not repair.plan(store, broker_conf=str(conf)).edits
    assert predict(open_store(store, conf), "5.5.0").starts


def test_zeros_after_a_file_that_is_not_full(tmp_path: Path) -> None:
    """Recovery deletes a file without a unit that does not go on where the units end: a note."""
    store, conf = fixture_store(NAME, tmp_path), broker_conf(NAME)
    last = plain_store.units(plain_store.busiest_queue(store))[-1].path
    length = last.stat().st_size
    zeros = last.with_name(f"{int(last.name) + length:020}")
    zeros.write_bytes(bytes(length))
    findings, _, _ = run(store, "full", conf)
    (empty,) = [finding for finding in findings if finding.code == CQ_EMPTY]
    assert (Severity.NOTE, length) == (empty.severity, empty.length)
    start = predict(open_store(store, conf), "5.3.3")
    (deleted,) = [queue.deleted_files for queue in start.queues if queue.deleted_files]
    assert (str(zeros.relative_to(store)),) == deleted
