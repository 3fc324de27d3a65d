"""Files under wrong names: no log is rewritten to fit a name, and queues are made anew."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from rmqtool import repair
from rmqtool.findings.catalogue import Severity
from rmqtool.repair.remedies import renames
from tests import plain_store
from tests.inflict import flip_bits
from tests.repair.advice import follow
from tests.repair.repaired import Broken, cost_of, traces
from tests.stores import broker_conf, fixture_store

NAME: Final = "rocketmq-5.3.3-traffic"


@pytest.fixture
def store(tmp_path: Path) -> Broken:
    """Give a sound store."""
    return Broken(fixture_store(NAME, tmp_path), str(broker_conf(NAME)))


def exchange(one: Path, other: Path) -> None:
    """Exchange the names of two files."""
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def test_exchanged_segments(store: Broken) -> None:
    """Two files that lie in each other's place are to be exchanged first; then all is sound."""
    first, second, *_ = plain_store.segments(store.root)
    exchange(first, second)
    plan = store.plan()
    assert [] == [edit.path for edit in plan.edits if edit.path.startswith("commitlog")]
    advice = f"first exchange the names of commitlog/{first.name} and commitlog/{second.name}"
    assert all(left.why.startswith(advice) for left in plan.left)
    assert follow(store.root, plan)
    assert [] == store.plan().edits
    assert [] == store.findings()


def test_copied_segment(store: Broken) -> None:
    """A copy of a file that is there is moved out, never renamed to it."""
    first, second, third, *_ = plain_store.segments(store.root)
    shutil.copyfile(third, second)
    (left, *_) = store.plan().left
    assert left.why.startswith(f"first move commitlog/{second.name} out of the store")
    assert third.name in left.why
    assert follow(store.root, store.plan())
    assert not second.exists()
    plan = store.plan()
    repair.apply(plan, in_place=True)
    assert first.stat().st_size == second.stat().st_size
    assert [] == store.findings()


def test_copy_of_an_emptied_segment(store: Broken) -> None:
    """Where the file of that name has lost all its bytes, the two are exchanged; nothing is lost.

    Renamed to it, the copy would be put over a file that is there.
    """
    whole = plain_store.records(store.root)
    first, *_ = plain_store.segments(store.root)
    copy = first.with_name(f"{4096:020}")
    shutil.copyfile(first, copy)
    first.write_bytes(b"")
    (left, *_) = store.plan().left
    assert left.why.startswith("first exchange the names of ")
    assert follow(store.root, store.plan())
    (left, *_) = store.plan().left
    assert left.why == f"first move commitlog/{copy.name} out of the store: it holds no record"
    assert follow(store.root, store.plan())
    repair.apply(store.plan(), in_place=True)
    assert whole == plain_store.records(store.root)
    assert ([], []) == (store.findings(), store.plan().edits)


@pytest.mark.parametrize("place", [1, 4], ids=["over-another", "past-the-end"])
def test_topic_beside_a_stale_copy(place: int, store: Broken) -> None:
    """A flipped topic is put back, and no unit is lost, once the copy of its segment is away."""
    first, second, *_ = plain_store.segments(store.root)
    length = int(second.name)
    copy = first.with_name(f"{place * length:020}")
    queue = ("traffic-orders", 1)
    whole = [
        record
        for record in plain_store.records(store.root)
        if (record.topic, record.integer("queue_id")) == queue
    ]
    directory = store.root / "consumequeue" / queue[0] / str(queue[1])
    before = plain_store.units(directory)
    record = next(record for record in whole if record.path == first)
    position, _ = record.places()["topic"]
    flip_bits(first, record.position + position, 1)
    shutil.copyfile(first, copy)
    why = store.plan().left[0].why
    assert why.startswith(f"first save the messages of commitlog/{copy.name} ")
    assert follow(store.root, store.plan())
    assert not copy.exists()
    repair.apply(store.plan(), in_place=True)
    assert record.raw == first.read_bytes()[record.position : record.position + record.size]
    gone = {record.physical_offset for record in whole if record.path == copy}
    after = {unit.physical_offset for unit in plain_store.units(directory)}
    assert {unit.physical_offset for unit in before} - gone <= after
    assert ([], []) == (store.findings(), store.plan().edits)


def test_queue_file_under_a_wrong_name(store: Broken) -> None:
    """It is taken out, and the queue is what the log says."""
    before = traces(store.root)
    queue = plain_store.busiest_queue(store.root)
    file = plain_store.numbered(queue)[0]
    shutil.copyfile(file, file.with_name(f"{7:020}"))
    plan = store.plan()
    assert [("remove", "FS-NAME")] == [(edit.action, str(edit.code)) for edit in plan.edits]
    repair.apply(plan, in_place=True)
    assert [] == store.findings()
    after = traces(store.root)
    assert {path: trace.digest for path, trace in before.items()} == {
        path: trace.digest for path, trace in after.items()
    }


def test_queue_file_of_zeros_that_recovery_deletes(store: Broken) -> None:
    """After a clean stop and after a crash it stays, as the store is sound without an edit."""
    queue = plain_store.busiest_queue(store.root)
    last = plain_store.units(queue)[-1].path
    following = queue / f"{int(last.name) + last.stat().st_size:020}"
    following.write_bytes(bytes(last.stat().st_size))
    assert [] == store.findings()
    assert [] == store.plan().edits
    (store.root / "abort").touch()
    assert [] == [edit for edit in store.plan().edits if following.name in edit.path]


@pytest.mark.parametrize("name", ["00", "+0", " 0"])
def test_queue_under_another_number(name: str, store: Broken) -> None:
    """No broker reads such a directory: the queue is written from the log, as it was."""
    queue = store.root / "consumequeue/traffic-orders/0"
    files = {path.name: path.read_bytes() for path in queue.iterdir()}
    queue.rename(queue.with_name(name))
    said = {(str(finding.code), finding.severity, finding.path) for finding in store.findings()}
    assert ("FS-NAME", Severity.DAMAGE, f"consumequeue/traffic-orders/{name}") in said
    assert (False, 280) == cost_of(store.root, store.conf)
    repair.apply(store.plan(), in_place=True)
    assert files == {path.name: path.read_bytes() for path in queue.iterdir()}
    assert ([], (False, 0)) == (store.findings(), cost_of(store.root, store.conf))


@pytest.mark.parametrize("name", ["00", "0.bak"])
def test_copy_of_a_queue(name: str, store: Broken) -> None:
    """Beside the queue itself such a directory does no harm."""
    queue = store.root / "consumequeue/traffic-orders/0"
    shutil.copytree(queue, queue.with_name(name))
    (finding,) = store.findings()
    assert (finding.code, finding.severity) == ("FS-NAME", Severity.WARNING)
    assert (False, 0) == cost_of(store.root, store.conf)
    repair.apply(store.plan(), in_place=True)
    assert [] == store.findings()


@pytest.mark.parametrize(
    "name", ["131072", "+0000000000000131072", "00000000000000131072.bak", " 131072", "x"]
)
def test_segment_under_a_foreign_name(name: str, store: Broken) -> None:
    """A file of the log is renamed to where its records say that they lie; it never leaves."""
    _, segment, *_ = plain_store.segments(store.root)
    flip_bits(segment, 4, 1)  # the first record no longer tells
    odd = segment.with_name(name)
    segment.rename(odd)
    plan = store.plan()
    assert [] == plan.edits
    advice = f"first rename commitlog/{name} to {segment.name}: its records say that they lie there"
    assert {advice} == {left.why for left in plan.left}
    assert [(f"commitlog/{name}", f"commitlog/{segment.name}")] == renames(advice)
    odd.rename(segment)
    flip_bits(segment, 4, 1)
    assert ([], []) == (store.findings(), store.plan().edits)


def test_segment_under_a_foreign_name_twice(store: Broken) -> None:
    """A copy of a file that is there goes; one that holds other records is saved first."""
    first, second, *_ = plain_store.segments(store.root)
    copy = second.with_name("copy")
    shutil.copyfile(second, copy)
    assert [("remove", "commitlog/copy")] == [
        (edit.action, edit.path) for edit in store.plan().edits
    ]
    flip_bits(copy, 200, 1)
    plan = store.plan()
    assert [] == plan.edits
    assert {left.why.startswith("first save the messages of commitlog/copy") for left in plan.left}
    assert first.is_file()
