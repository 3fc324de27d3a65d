"""A start with queues in RocksDB that is told by columns is the start that is told by objects."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np
import pytest

from rmqtool.errors import RmqtoolError
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.queues import rocks
from rmqtool.queues.queue_names import EndList, EndsOfQueues, NameList, QueueEnds, QueueNames
from rmqtool.queues.rocks import RocksQueues
from rmqtool.queues.short import ShortQueues, ShortRows
from rmqtool.startup import predict
from rmqtool.startup.losses import LogReading
from rmqtool.startup.plain_queues import PlainQueues
from rmqtool.startup.rocksdb import opening
from rmqtool.startup.rocksdb.keyed_queue import KeyedQueue
from rmqtool.startup.rocksdb.model import RocksModel
from rmqtool.startup.rocksdb.plain_keyed import plain_keyed
from rmqtool.startup.rocksdb.stages import RocksBefore
from rmqtool.store.tree import open_store
from tests.damage import DAMAGES as DAMAGES_OF_LOGS
from tests.damage import NotApplicable
from tests.damage_rocksdb import DAMAGES
from tests.stores import FIXTURES, broker_conf, fixture_store

if TYPE_CHECKING:
    from rmqtool.queues.kinds import Units
    from rmqtool.startup.prediction import Prediction

RELEASES: Final = ("5.3.3", "5.4.0", "5.5.0", "5.5.1")
FIXTURE: Final = sorted(path.name for path in FIXTURES.glob("rocketmq-*rocksdb*"))
STORE: Final = "rocketmq-5.3.3-rocksdb"
OF_LOGS: Final = sorted(
    name
    for name, damage in DAMAGES_OF_LOGS.items()
    if name in {"abort", "no-checkpoint"} or "segment" in name or "body" in name
)


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let columns be read of few queues."""
    monkeypatch.setattr(rocks, "MANY_QUEUES", 1)


def same(store: Path, release: str, conf: str | None, patch: pytest.MonkeyPatch) -> None:
    """Demand the same prediction with plain queues as columns and with each as an object."""
    by_columns = predicted(store, release, conf)
    with patch.context() as objects:
        objects.setattr(opening, "plain_keyed", lambda *_: PlainQueues[KeyedQueue].none())
        assert predicted(store, release, conf) == by_columns


def predicted(store: Path, release: str, conf: str | None) -> Prediction | str:
    """Predict a start, or say why that cannot be done."""
    try:
        return predict(open_store(str(store), conf), release, reads=LogReading.ALL)
    except RmqtoolError as error:
        return str(error)


@pytest.mark.parametrize("fixture", FIXTURE)
def test_fixtures(fixture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What real brokers wrote, as each release would start on it."""
    conf = broker_conf(fixture)
    store = fixture_store(fixture, tmp_path)
    for release in RELEASES:
        same(store, release, str(conf) if conf.is_file() else None, monkeypatch)


@pytest.mark.parametrize("damage", sorted(DAMAGES))
def test_damaged(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Units that are missing or wrong, rows of ends that say something else."""
    store = fixture_store(DAMAGES[damage].fixture, tmp_path)
    DAMAGES[damage].inflict(store)
    same(store, RELEASES[sorted(DAMAGES).index(damage) % len(RELEASES)], None, monkeypatch)


@pytest.mark.parametrize("damage", OF_LOGS)
def test_damaged_log(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queues are cut, written to, begin later, or point to what is not there."""
    store = fixture_store(STORE, tmp_path)
    try:
        DAMAGES_OF_LOGS[damage].inflict(store)
    except NotApplicable as error:
        pytest.skip(str(error))
    same(store, RELEASES[OF_LOGS.index(damage) % len(RELEASES)], None, monkeypatch)


@pytest.mark.parametrize("fixture", [STORE, f"{STORE}-expired"])
def test_are_plain(fixture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a sound store with many queues these are plain, and nothing takes them out."""
    taken: list[RocksModel] = []
    with_keyed = RocksBefore.with_keyed

    def keeps(model: RocksModel) -> RocksBefore:
        taken.append(model)
        return with_keyed(model)

    monkeypatch.setattr(RocksBefore, "with_keyed", keeps)
    prediction = predict(open_store(str(fixture_store(fixture, tmp_path))))
    (model,) = taken
    assert len([*model.plain_keyed.left]) > len(model.keyed)
    assert len(prediction.queues) == len(model.plain_keyed) + len(model.keyed)


class Drawn(NamedTuple):
    """A queue as a database may have it."""

    first: int
    offsets: list[int]
    sizes: list[int]
    ends: QueueEnds


def drawn(random: np.random.Generator) -> Drawn:
    """Draw one, often with something that is odd."""
    first, count = int(random.choice([0, 0, 2, 5])), int(random.integers(1, 6))
    offsets = sorted(random.choice(1000, count, replace=False).tolist())
    sizes = random.choice([100] * 9 + [0], count).tolist()
    if not random.integers(4):
        random.shuffle(offsets)
    shift, step, back = (int(random.choice([0, 0, 0, by])) for by in (1, 1, -2))
    maximum = (offsets[-1] + shift, first + count - 1 - step)
    place = int(random.integers(1000)) if random.integers(2) else offsets[0]
    minimum = (place, max(first + back + int(random.choice([0, 0, 0, 1])), 0))
    ends = (maximum if random.integers(4) else None, minimum if random.integers(2) else None)
    return Drawn(first, offsets, sizes, QueueEnds(*ends))


def units_of(queue: Drawn) -> Units:
    """Give its units."""
    units = np.zeros(len(queue.offsets), CQ_UNIT.dtype)
    units["physical_offset"], units["size"] = queue.offsets, queue.sizes
    return units


@pytest.mark.parametrize("seed", range(20))
def test_drawn(seed: int) -> None:
    """A plain queue is one of which an object says nothing else, and a queue in order is plain."""
    random = np.random.default_rng(seed)
    queues, log_minimum = [drawn(random) for _ in range(300)], int(random.choice([-1, 0, 400]))
    listed, maxima, minima = NameList(), EndList.new(), EndList.new()
    for number, queue in enumerate(queues):
        listed.add(b"orders", number)
        for ends, row in zip((maxima, minima), queue.ends, strict=True):
            if row is not None:
                ends.add((b"orders", number), row)
    names = QueueNames.of(listed)[0]
    gaps = random.integers(0, 2, len(queues))  # units before each that are of queues with gaps
    others = [np.zeros(gap, CQ_UNIT.dtype) for gap in gaps.tolist()]
    parts = [part for pair in zip(others, map(units_of, queues), strict=True) for part in pair]
    units = np.concatenate(parts).astype(CQ_UNIT.dtype)
    raw = np.pad(units.view(np.uint8).reshape(-1, CQ_UNIT.size), ((0, 0), (0, 8)))
    first = np.array([queue.first for queue in queues])
    counts = np.array([len(queue.offsets) for queue in queues])
    columns = (first, first + counts, np.cumsum(counts + gaps) - counts, raw)
    short = ShortQueues(ShortRows(names, np.arange(len(queues))), *columns)
    source = cast(RocksQueues, SimpleNamespace(ends=EndsOfQueues(maxima, minima)))
    plain = plain_keyed(source, short, log_minimum)
    assert len(plain)
    for number, queue in enumerate(queues):
        key, end = ("orders", number), queue.first + len(queue.offsets)
        of_object = KeyedQueue(*key, *queue.ends, np.arange(queue.first, end), units_of(queue))
        minimum, is_sorted = of_object.minimum(log_minimum), queue.offsets == sorted(queue.offsets)
        says_same = (minimum, of_object.next_offset) == (queue.first, end) and all(queue.sizes)
        says_same &= of_object.maximum_row is not None
        says_same &= (of_object.maximum_row or (0,))[0] == queue.offsets[-1]
        if key in plain:
            assert says_same
            assert is_sorted
            assert plain.extent(key) == (minimum, end)
            (taken,) = plain.take_out([key])
            assert (taken.maximum_row, taken.minimum_row) == queue.ends
            assert np.array_equal(taken.units, of_object.units)
        elif says_same and is_sorted:  # its units begin before the log, and `min` is believed
            assert queue.offsets[0] < log_minimum
