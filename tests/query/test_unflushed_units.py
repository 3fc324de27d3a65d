"""Queues in RocksDB that were not flushed: what the log has is found, as if they had been."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rmqtool.derive.queue_runs import QueueRun
from rmqtool.formats.consume_queue import CQ_UNIT, QueueKind
from rmqtool.query.groups import ConsumerGroup
from rmqtool.query.lookup import Lookup
from rmqtool.query.requests import ByQueueOffset, ByTime
from rmqtool.query.unflushed_units import UnflushedQueue
from rmqtool.ranges import Boundary
from rmqtool.store.tree import open_store
from tests.rocksdb import never_flushed
from tests.stores import fixture_store
from tests.tables.dumped import rows

CRASHED = ("rocketmq-5.3.3-rocksdb-crash", "rocketmq-5.5.0-rocksdb-crash")
Places = dict[tuple[str, int], list[tuple[int, int]]]


def _as_it_is(store: Path) -> None:  # flushed once, some thousand messages before the end
    del store


def _empty(store: Path) -> None:
    never_flushed(store / "consumequeue")


@pytest.fixture(params=[_as_it_is, _empty], ids=["behind", "never-flushed"])
def store(request: pytest.FixtureRequest, name: str, tmp_path: Path) -> Path:
    """Give a store that was killed, with some units in its database, or none."""
    root = fixture_store(name, tmp_path)
    flush: Callable[[Path], None] = request.param
    flush(root)
    return root


def _places(store: Path) -> Places:
    """Give queue offset and physical offset of each record that is sent to consumers, by queue."""
    found: Places = defaultdict(list)
    for row in rows(store):
        if row["transaction"] in {"none", "commit"}:
            place = row["queue_offset"], row["physical_offset"]
            found[row["topic"], row["queue_id"]].append(place)
    return found


@pytest.mark.parametrize("name", CRASHED)
def test_places(store: Path) -> None:
    """First, middle and last message of each queue are found by their place, and none after it."""
    with Lookup(open_store(store)) as lookup:
        assert lookup.unflushed_queues
        for (topic, queue_id), places in _places(store).items():
            for queue_offset, physical_offset in (places[0], places[len(places) // 2], places[-1]):
                answer = lookup.find(ByQueueOffset(topic, queue_id, queue_offset))
                assert [physical_offset] == [hit.record.physical_offset for hit in answer.hits]
            end = places[-1][0] + 1
            answer = lookup.find(ByQueueOffset(topic, queue_id, end))
            assert f"has offsets [0, {end})" in answer.summary
        assert "no topic 'nix'" in lookup.find(ByQueueOffset("nix", 0, 0)).summary


@pytest.mark.parametrize("name", CRASHED)
def test_times(store: Path) -> None:
    """A time leads to the last message of each queue, flushed or not; --no-scan reads no log."""
    places = _places(store)
    topic = max(places, key=lambda one: len(places[one]))[0]
    request = ByTime(2**42, topic=topic, boundary=Boundary.UPPER)
    with Lookup(open_store(store)) as lookup:
        found = lookup.find(request).rows or []
    ends = {row["queue_id"]: (row["queue_offset"], row["physical_offset"]) for row in found}
    wanted = {number: some[-1] for (name, number), some in places.items() if name == topic}
    assert wanted == ends
    with Lookup(open_store(store), scan=False) as lookup:
        assert not lookup.unflushed_queues
        assert wanted != {
            row["queue_id"]: (row["queue_offset"], row["physical_offset"])
            for row in lookup.find(request).rows or []
        }


@pytest.mark.parametrize("name", CRASHED)
def test_lag(store: Path) -> None:
    """A group that has consumed all is not ahead of the queue, and one message less is a lag."""
    places = _places(store)
    topic = max(places, key=lambda one: len(places[one]))[0]
    ends = {number: found[-1][0] + 1 for (name, number), found in places.items() if name == topic}
    with Lookup(open_store(store)) as lookup:
        group = ConsumerGroup(lookup, "late")
        group.committed = {(topic, number): end - (number == 0) for number, end in ends.items()}
        lags = list(group.rows([topic]))
    states = {row["queue_id"]: (row["state"], row["lag"]) for row in lags}
    assert {0: ("lag", 1)} | dict.fromkeys(range(1, len(ends)), ("consumed", 0)) == states


@pytest.mark.parametrize("name", CRASHED)
def test_units(store: Path) -> None:
    """Units are the same however they are read; each names the record that says its number."""
    places = _places(store)
    with Lookup(open_store(store)) as lookup:
        late = lookup.unflushed_queues
        assert set(late) & set(places)
        for name in set(late) & set(places):  # the others are light ones
            queue = late[name]
            assert isinstance(queue, UnflushedQueue)
            span, wanted = queue.span(), dict(places[name])
            assert (0, len(wanted)) == (span.min_offset, span.max_offset)
            packed = queue.read(0, span.max_offset)
            used = b"".join(units.tobytes() for _, units in queue.used())
            assert packed.tobytes() == used
            assert [*wanted.values()] == packed["physical_offset"].tolist()
            assert [one for one, _ in queue.used(5, 9)][:1] == [5][: len(wanted) - 5]
            middle = span.max_offset // 2
            unit = queue.look_up(middle)
            assert unit is not None
            assert unit.unit is not None
            assert wanted[middle] == unit.unit.physical_offset
            assert queue.look_up(span.max_offset) is None
            assert queue.look_up(-1) is None


def test_stretches() -> None:
    """Units from one offset to before another come as they follow each other; a gap parts them."""
    runs = [_run(first, count) for first, count in ((7, 2), (3, 2), (10, 1))]
    queue = UnflushedQueue(("orders", 0), "consumequeue", None, runs)

    def used(first: int, end: int | None = None) -> list[tuple[int, list[int]]]:
        stretches = queue.used(first, end)
        return [(number, units["physical_offset"].tolist()) for number, units in stretches]

    assert [(3, [300, 400]), (7, [700, 800]), (10, [1000])] == used(0)
    assert [(4, [400]), (7, [700])] == used(4, 8)
    assert [(10, [1000])] == used(10)
    assert [] == used(5, 7) == used(11)
    packed = queue.packed(4, 4)
    units = np.frombuffer(packed, CQ_UNIT.dtype)
    assert [400, 0, 0, 700] == units["physical_offset"].tolist()


def _run(first: int, count: int) -> QueueRun:
    units = np.zeros(count, CQ_UNIT.dtype)
    units["physical_offset"] = 100 * np.arange(first, first + count)
    times = np.arange(count, dtype=np.int64)
    return QueueRun(
        b"orders", 0, first, memoryview(units.tobytes()), count, 0, QueueKind.CONSUME_QUEUE, times
    )
