"""How far a queue reaches, by a few reads, is what reading all of its units says."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.queues.discovery import UNITS, Queues
from rmqtool.queues.units import QueueSpan
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.place import OpenFile, Place
from rmqtool.store.queues import QueueFiles
from rmqtool.store.record_heads import OpenFiles
from rmqtool.store.tree import open_store
from rmqtool.store.used import BLOCK
from tests.plain_store import PRE_BLANK, queue_directories, units
from tests.store.built_store import QUEUE_FILE_LENGTH, write_queue
from tests.stores import fixture_names, fixture_store

PER_FILE = QUEUE_FILE_LENGTH // CQ_UNIT.size


def range_of(
    directory: Path, log_start: int = 0, kind: ArtefactKind = ArtefactKind.CONSUME_QUEUE
) -> QueueSpan:
    """Read one queue's range."""
    with OpenFiles() as opened:
        return UNITS[kind].of(QueueFiles("T", 0, Place.of(directory), "q"), opened).span(log_start)


def unit(number: int, size: int = 100) -> bytes:
    """Give the unit of a record; tags codes of zero end a unit with zeros."""
    return CQ_UNIT.build({"physical_offset": 1000 * number, "size": size, "tags_code": 0})


@pytest.mark.parametrize("name", fixture_names())
def test_fixtures(name: str, tmp_path: Path) -> None:
    """Offsets and counts of every queue of a real store are those of its units."""
    root = fixture_store(name, tmp_path)
    store = open_store(root)
    start = store.commitlog.start
    with Queues(store) as queues:
        ranges = [queue.span(start) for queue in queues.files.queues()]
    found = {(unit.topic, unit.queue_id): unit for unit in ranges}
    for directory in queue_directories(root):
        real = [
            unit
            for unit in units(directory)
            if (unit.physical_offset, unit.size) != PRE_BLANK[:2] and unit.physical_offset >= start
        ]
        queue = found[directory.parent.name, int(directory.name)]
        assert len(real) == queue.messages
        if real:
            first = (int(real[0].path.name) + real[0].position) // CQ_UNIT.size
            assert (first, first + len(real)) == (queue.min_offset, queue.max_offset)
            assert queue.last is not None
            assert real[-1].physical_offset == queue.last.physical_offset
        if queue.is_exact and real:
            assert sum(unit.size for unit in real) / len(real) == queue.mean_size


@pytest.mark.parametrize("name", [n for n in fixture_names() if n.endswith("batch-queue")])
def test_batch_fixtures(name: str, tmp_path: Path) -> None:
    """A batch queue's maximum is the base of its last unit and that unit's messages."""
    root = fixture_store(name, tmp_path)
    queues = list(Queues(open_store(root)).batches.queues())
    assert queues
    for queue in queues:
        raw = b"".join(file.place.read(1 << 20) for file in queue.files)
        rows = list(BATCH_CQ_UNIT.packer.iter_unpack(raw[: len(raw) // 46 * 46]))
        used = [row for row in rows if row[1] > 0]
        span = queue.span()
        assert used[0][4] == span.min_offset
        assert used[-1][4] + used[-1][5] == span.max_offset


@given(
    pre_blanks=st.integers(0, 2 * PER_FILE),
    count=st.integers(0, 3 * PER_FILE),
    expired=st.integers(0, 3 * PER_FILE),
    size=st.sampled_from([91, 256, 65536]),
)
def test_any_queue(
    tmp_path_factory: pytest.TempPathFactory, pre_blanks: int, count: int, expired: int, size: int
) -> None:
    """Fillers in front, expired units and the zeros behind are told from what is alive."""
    directory = tmp_path_factory.mktemp("queue")
    numbers = range(pre_blanks, pre_blanks + count)
    write_queue(directory, [unit(number, size) for number in numbers], pre_blanks)
    log_start = 1000 * (pre_blanks + expired)
    alive = [number for number in numbers if 1000 * number >= log_start]
    span = range_of(directory, log_start)
    assert len(alive) == span.messages
    assert count - len(alive) == span.expired
    if count:
        assert pre_blanks + count == span.max_offset
    if alive:
        assert (alive[0], size) == (span.min_offset, span.mean_size)


def test_unused_last_file(tmp_path: Path) -> None:
    """A last file of zeros is passed over, whether it is a hole or written zeros."""
    write_queue(tmp_path, [unit(number) for number in range(PER_FILE)])
    assert PER_FILE == range_of(tmp_path).max_offset
    (tmp_path / f"{QUEUE_FILE_LENGTH:020}").write_bytes(bytes(QUEUE_FILE_LENGTH))
    assert PER_FILE == range_of(tmp_path).max_offset


def test_large_file_without_holes(tmp_path: Path) -> None:
    """In a copy that lost its holes the end is bisected."""
    for count in (1, 204, 205, 9_999):
        raw = b"".join(unit(number) for number in range(count))
        (tmp_path / f"{0:020}").write_bytes(raw.ljust(200_000, b"\0"))
        assert count == range_of(tmp_path).max_offset


def test_few_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a file is, some blocks of it are read, those of a bisection in zeros, too."""
    count = 9_003
    raw = b"".join(map(unit, range(count)))
    (tmp_path / f"{0:020}").write_bytes(raw.ljust(400_000, b"\0"))
    read: list[int] = []

    def counting(file: OpenFile, position: int, length: int) -> bytes:
        raw = read_at(file, position, length)
        read.append(len(raw))
        return raw

    read_at = OpenFile.read_at
    monkeypatch.setattr(OpenFile, "read_at", counting)
    assert count == range_of(tmp_path).max_offset
    assert sum(read) <= 12 * BLOCK


def test_odd_lengths(tmp_path: Path) -> None:
    """Part of a unit at the end of a file is not counted."""
    for length in (0, 1, 19, 20, 59):
        (tmp_path / f"{0:020}").write_bytes(b"".join(map(unit, range(3)))[:length])
        assert length // 20 == range_of(tmp_path).max_offset


def test_empty_directory(tmp_path: Path) -> None:
    """A queue without files is empty."""
    span = range_of(tmp_path)
    assert (0, 0, None, True) == (span.messages, span.max_offset, span.last, span.is_exact)


WILD_SIZES = st.sampled_from([-(2**31), -1, 0, 1, 255, 256, 2**24 - 1, 2**24, 2**31 - 1])
WILD_PLACES = st.sampled_from([-(2**63), -1, 0, 1, 2**56 - 1, 2**56, 2**63 - 1])


@given(st.lists(st.tuples(WILD_PLACES, WILD_SIZES), min_size=1, max_size=8))
def test_wild_units(tmp_path_factory: pytest.TempPathFactory, wild: list[tuple[int, int]]) -> None:
    """The last unit is the last that can be one; the mean is that of all where all can be."""
    directory = tmp_path_factory.mktemp("queue")
    raw = b"".join(CQ_UNIT.packer.pack(place, size, 7) for place, size in wild)
    (directory / "00000000000000000000").write_bytes(raw)
    real = [
        (place, size)
        for place, size in wild
        if place >= 0 and size > 0 and (place, size) != PRE_BLANK[:2]
    ]
    span = range_of(directory)
    last = span.last and (span.last.physical_offset, span.last.size)
    assert (real[-1] if real else None) == last
    if len(real) == len(wild):
        assert sum(size for _, size in wild) / len(wild) == span.mean_size


@given(st.binary(max_size=600))
def test_random_bytes(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    """Random bytes raise nothing, in a queue of either kind."""
    directory = tmp_path_factory.mktemp("random")
    (directory / f"{0:020}").write_bytes(raw)
    for kind in (ArtefactKind.CONSUME_QUEUE, ArtefactKind.BATCH_QUEUE):
        range_of(directory, 100, kind)
