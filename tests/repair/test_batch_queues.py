"""A batch queue keeps its ranges of queue offsets: a hole would stop its consumers."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from rmqtool import repair
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from tests import plain_store
from tests.damage import DAMAGES
from tests.inflict import flip_bits, resize, write_at
from tests.repair.repaired import broken, traces

NAME = "rocketmq-5.5.0-batch-queue"


def units(directory: Path) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Read all units of a batch queue."""
    raw = b"".join(path.read_bytes() for path in sorted(directory.iterdir()))
    found = np.frombuffer(raw, BATCH_CQ_UNIT.dtype, len(raw) // BATCH_CQ_UNIT.size)
    return found[found["size"] > 0]


@pytest.mark.parametrize("chosen", [[0], [3], [5, 6, 7], [0, 1], [-2, -1]], ids=str)
def test_ranges(chosen: list[int], tmp_path: Path) -> None:
    """Each unit keeps its place and range; that of a lost record names a sound neighbour."""
    store = broken(NAME, None, tmp_path)
    assert store is not None
    log = plain_store.records(store.root)
    topic, queue_id = next(
        (record.topic, record.integer("queue_id"))
        for record in log
        if (store.root / "batchconsumequeue" / record.topic).is_dir()
    )
    own = [r for r in log if (r.topic, r.integer("queue_id")) == (topic, queue_id)]
    for number in chosen:
        position, _ = own[number].places()["body"]
        flip_bits(own[number].path, own[number].position + position, 1)
    directory = store.root / "batchconsumequeue" / topic / str(queue_id)
    original, before = units(directory), traces(store.root)
    repair.apply(store.plan(), in_place=True)
    found = units(directory)
    for name in ("msg_base_offset", "batch_size"):
        assert original[name].tolist() == found[name].tolist()
    lost = {own[number].physical_offset for number in chosen}
    sound = {record.physical_offset for record in own} - lost
    assert sound == set(found["physical_offset"].tolist())
    assert ([], []) == (store.findings(), store.plan().edits)
    repair.undo(store.root)
    assert before == traces(store.root)


def test_queue_offset_beside_a_bridge(tmp_path: Path) -> None:
    """A damaged queue offset is that, wherever repair has put a bridge; its unit stands for it."""
    store = broken(NAME, None, tmp_path)
    assert store is not None
    log = plain_store.records(store.root)
    batches = {path.name for path in (store.root / "batchconsumequeue").iterdir()}
    other = next(record for record in log if record.topic not in batches)
    flip_bits(other.path, other.position + other.places()["body"][0], 1)
    alone = [one for one in log if one.topic in batches and not one.integer("sys_flag")]
    position, _ = alone[1].places()["queue_offset"]
    flip_bits(alone[1].path, alone[1].position + position + 3, 1)
    assert "CL-QOFF-GAP" in {finding.code for finding in store.findings()}
    repair.apply(store.plan(), in_place=True)
    assert ["CL-QOFF-GAP"] == [finding.code for finding in store.findings()]


@pytest.mark.parametrize("is_gone", [True, False], ids=["queue lost", "unit wrong, too"])
def test_queue_offset_without_its_unit(tmp_path: Path, *, is_gone: bool) -> None:
    """The records beside it tell a damaged queue offset: its unit gets the place between theirs."""
    store = broken(NAME, None, tmp_path)
    assert store is not None
    batches = {path.name for path in (store.root / "batchconsumequeue").iterdir()}
    alone = [
        one
        for one in plain_store.records(store.root)
        if one.topic in batches and not one.integer("sys_flag")
    ]
    record = alone[1]
    position, _ = record.places()["queue_offset"]
    flip_bits(record.path, record.position + position + 3, 1)
    directory = store.root / "batchconsumequeue" / record.topic / str(record.integer("queue_id"))
    sound = units(directory)
    if is_gone:
        shutil.rmtree(directory)
    else:  # as a broker writes it, when it dispatches the record
        number = int(np.flatnonzero(sound["physical_offset"] == record.physical_offset)[0])
        path = sorted(directory.iterdir())[number // 10]
        base = BATCH_CQ_UNIT["msg_base_offset"].position
        flip_bits(path, number % 10 * BATCH_CQ_UNIT.size + base + 3, 1)
    expected = {"BQ-UNIT", "CL-QOFF-GAP"}
    assert expected == {finding.code for finding in store.findings()}
    repair.apply(store.plan(), in_place=True)
    assert sound.tolist() == units(directory).tolist()
    assert ["CL-QOFF-GAP"] == [finding.code for finding in store.findings()]
    assert [] == store.plan().edits


def test_early_blank(tmp_path: Path) -> None:
    """What lies under a blank that came too early keeps its ranges, too."""
    store = broken(NAME, None, tmp_path)
    assert store is not None
    directories = sorted((store.root / "batchconsumequeue").glob("*/*"))
    original = [units(directory) for directory in directories]
    DAMAGES["close-segment-early"].inflict(store.root)
    repair.apply(store.plan(), in_place=True)
    for directory, before in zip(directories, original, strict=True):
        for name in ("msg_base_offset", "batch_size"):
            assert before[name].tolist() == units(directory)[name].tolist()
    assert ([], []) == (store.findings(), store.plan().edits)


def test_length_without_records(tmp_path: Path) -> None:
    """A queue of which the log has nothing gets the length that brokers load, all the same."""
    store = broken(NAME, None, tmp_path)
    assert store is not None
    file = max((store.root / "batchconsumequeue").glob("*/*/*"))
    length = file.stat().st_size
    resize(file, length + 1)
    for path in plain_store.segments(store.root):
        resize(path, 0)
    repair.apply(store.plan(), in_place=True)
    assert length == file.stat().st_size


@pytest.mark.parametrize("field", ["queue_offset", "properties"])
def test_numbers_that_differ(field: str, tmp_path: Path) -> None:
    """The unit tells which is right of INNER_BASE and queueOffset."""
    store = broken(NAME, None, tmp_path)
    assert store is not None
    record = next(r for r in plain_store.records(store.root) if "INNER_BASE" in r.properties)
    before = record.path.read_bytes()
    position, length = record.places()[field]
    if field == "properties":
        position += record.raw[position : position + length].index(b"INNER_BASE\x01")
        length = len(b"INNER_BASE\x010")
    flip_bits(record.path, record.position + position + length - 1, 1)
    plan = store.plan()
    assert ["CL-BATCH"] == [edit.code for edit in plan.edits]
    repair.apply(plan, in_place=True)
    assert before == record.path.read_bytes()
    assert ([], []) == (store.findings(), store.plan().edits)


def test_topic_and_queue_file(tmp_path: Path) -> None:
    """The range of a record that names another topic stays filled: the second repair is empty."""
    store = broken(NAME, None, tmp_path)
    assert store is not None
    batches = [r for r in plain_store.records(store.root) if "INNER_BASE" in r.properties]
    record = next(
        r for r in batches if r.integer("queue_id") == 1 and "145" in r.properties.values()
    )
    position, _ = record.places()["topic"]
    flip_bits(record.path, record.position + position, 1)
    (store.root / "batchconsumequeue/batch-queue/1" / f"{1380:020}").unlink()
    plan = store.plan()
    repair.apply(plan, in_place=True)
    left = {(finding.code, finding.path) for finding in plan.left}
    assert {(finding.code, finding.path) for finding in store.findings()} <= left
    assert [] == store.plan().edits


def test_release_without_batch_queues(tmp_path: Path) -> None:
    """What a repair for 4.9.3 makes, which has consume queues alone, the next one keeps."""
    store = broken(NAME, None, tmp_path)
    assert store is not None
    record = next(r for r in plain_store.records(store.root) if r.topic == "batch-queue")
    position, _ = record.places()["queue_id"]
    flip_bits(record.path, record.position + position, 1 << 7)
    plan = repair.plan(store.root, broker_version="4.9.3", bridge_missing=True)
    made = {edit.path for edit in plan.edits if edit.path.startswith("consumequeue/batch-queue/")}
    assert made
    repair.apply(plan, in_place=True)
    assert not repair.plan(store.root, broker_version="4.9.3", bridge_missing=True).edits


def test_log_ends_before(tmp_path: Path) -> None:
    """Units past the log are named, and go, in a queue of which the log has no record any more.

    `validate` said nothing of such a queue, and `repair` left it.
    """
    store = broken(NAME, None, tmp_path)
    assert store is not None
    log = plain_store.records(store.root)
    batches = {path.name for path in (store.root / "batchconsumequeue").iterdir()}
    first = next(record for record in log if record.topic in batches)
    for record in log:
        if record.physical_offset > first.physical_offset:
            write_at(record.path, record.position, bytes(record.size))
    other = f"batchconsumequeue/{first.topic}/{1 - first.integer('queue_id')}/"
    assert "CQ-RANGE" in {it.code for it in store.findings() if it.path.startswith(other)}
    repair.apply(store.plan(), in_place=True)
    assert ([], []) == (store.findings(), store.plan().edits)
    assert not any((store.root / other).iterdir())


def test_all_records_are_lost(tmp_path: Path) -> None:
    """Units whose records are lost go where none is left that could stand for them."""
    store = broken(NAME, None, tmp_path)
    assert store is not None
    directory, before = store.root / "batchconsumequeue", traces(store.root)
    for record in plain_store.records(store.root):
        if (directory / record.topic).is_dir():
            write_at(record.path, record.position, bytes(record.size))
    damaged = traces(store.root)
    repair.apply(store.plan(), in_place=True)
    assert ([], []) == (store.findings(), store.plan().edits)
    assert [] == [path for path in directory.glob("*/*/*") if path.is_file()]
    repair.undo(store.root)
    assert before != damaged == traces(store.root)
