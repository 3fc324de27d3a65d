"""Units are read as their files hold them: across files, holes and ends that were cut off."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.formats.batch_queue import BATCH_CQ_UNIT, BATCH_CQ_UNIT_SIZE
from rmqtool.formats.consume_queue import CQ_UNIT_SIZE as SIZE
from rmqtool.queues.discovery import BatchUnits
from rmqtool.queues.files import PlainUnits
from rmqtool.queues.units import UnitPlace
from rmqtool.store.place import Place
from rmqtool.store.queues import QueueFiles
from rmqtool.store.record_heads import OpenFiles

PER_FILE = 5
LENGTH = PER_FILE * SIZE


def queue_of(directory: Path, opened: OpenFiles) -> PlainUnits:
    """Open a directory as a queue."""
    files = QueueFiles("T", 3, Place.of(directory), "consumequeue/T/3", LENGTH)
    return PlainUnits.of(files, opened)


def open_descriptors() -> int:
    """Count the files that this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def write(directory: Path, files: dict[int, bytes]) -> bytes:
    """Write files by their number; give the bytes of the queue, zeros where no file is."""
    space = bytearray()
    for number, raw in sorted(files.items()):
        (directory / f"{number * LENGTH:020}").write_bytes(raw)
        space += bytes(number * LENGTH - len(space)) + raw
    return bytes(space)


FILES = st.dictionaries(
    st.integers(0, 4),
    st.lists(st.sampled_from([b"\0", b"\1"]), max_size=PER_FILE).flatmap(
        lambda units: st.sampled_from([b"".join(unit * SIZE for unit in units)])
    ),
    max_size=4,
)  # fmt: skip


@given(FILES, st.integers(0, 25), st.integers(0, 12), st.integers(0, 19))
def test_any_range(
    tmp_path_factory: pytest.TempPathFactory,
    files: dict[int, bytes],
    first: int,
    count: int,
    torn: int,
) -> None:
    """A range is the bytes of the files, zeros where none is; what is used of it is the rest."""
    directory = tmp_path_factory.mktemp("queue")
    if files:
        last = max(files)
        files[last] = files[last][: max(len(files[last]) - torn, 0)]
    space = write(directory, files)
    end = first + count
    wanted = space[first * SIZE : end * SIZE].ljust(count * SIZE, b"\0")
    with OpenFiles() as opened:
        queue = queue_of(directory, opened)
        assert wanted == queue.packed(first, count)
        assert wanted == queue.read(first, count).tobytes()
        seen = bytearray(count * SIZE)
        for number, units in queue.used(first, end):
            assert first <= number
            assert number + len(units) <= end
            seen[(number - first) * SIZE : (number - first + len(units)) * SIZE] = units.tobytes()
        whole = bytearray(wanted)
        for number, raw in files.items():  # what is left of a unit counts for `packed` only
            torn_unit = number * PER_FILE + len(raw) // SIZE
            if len(raw) % SIZE and first <= torn_unit < end:
                whole[(torn_unit - first) * SIZE : (torn_unit - first + 1) * SIZE] = bytes(SIZE)
        assert whole == seen


def test_place(tmp_path: Path) -> None:
    """A unit lies in the file of its number; where no file is, its place is the directory."""
    write(tmp_path, {1: b"\1" * LENGTH, 2: b"\1" * (LENGTH - 1)})
    with OpenFiles() as opened:
        queue = queue_of(tmp_path, opened)
        assert UnitPlace(f"consumequeue/T/3/{LENGTH:020}", 2 * SIZE) == queue.locate(7)
        assert UnitPlace("consumequeue/T/3", None) == queue.locate(4)
        assert [False, True, False] == [queue.holds(number) for number in (4, 9, 14)]
        assert 2 * PER_FILE == queue.blank_end
        assert queue.look_up(4) is None
        unit = queue.look_up(14)
        assert unit is not None
        assert (None, "the file ends in it") == (unit.unit, unit.problem)


def test_missing(tmp_path: Path) -> None:
    """A queue without files has no unit, no place for a pre-blank, and reads as zeros."""
    with OpenFiles() as opened:
        queue = PlainUnits(("T", 3), "consumequeue/T/3", opened)
        assert not queue.is_there
        assert bytes(2 * SIZE) == queue.packed(0, 2)
        assert ([], None, 0) == ([*queue.used()], queue.look_up(0), queue.blank_end)
        assert (None, 0) == (queue.span().last, queue.span().max_offset)
    assert not list(tmp_path.iterdir())


def test_holes_are_not_read(tmp_path: Path) -> None:
    """Of a sparse file only what has data is read."""
    with (tmp_path / f"{0:020}").open("wb") as file:
        file.seek(30_000 * SIZE)
        file.write(b"\1" * SIZE)
        file.truncate(60_000 * SIZE)
    with OpenFiles() as opened:
        stretches = [*queue_of(tmp_path, opened).used()]
    assert 400 > sum(len(units) for _, units in stretches)  # a page has some 200 units
    used = [number + row for number, units in stretches for row in np.flatnonzero(units["size"])]
    assert [30_000] == used


def test_few_stay_open(tmp_path: Path) -> None:
    """No more files than allowed stay open, and all are closed in the end."""
    write(tmp_path, dict.fromkeys(range(9), b"\x01" * LENGTH))
    before = open_descriptors()
    with OpenFiles(2) as opened:
        queue = queue_of(tmp_path, opened)
        for number in range(9 * PER_FILE):
            assert b"\1" * SIZE == queue.packed(number, 1)
            assert before + 2 >= open_descriptors()
        assert before < open_descriptors()
    assert before == open_descriptors()


def test_few_may_be_open(tmp_path: Path) -> None:
    """Where a process may have few files open, half of these stay open at most."""
    write(tmp_path, dict.fromkeys(range(40), b"\x01" * LENGTH))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = open_descriptors()
    allowed = 2 * before
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    try:
        with OpenFiles() as opened:
            queue = queue_of(tmp_path, opened)
            for number in range(0, 40 * PER_FILE, PER_FILE):
                assert b"\1" * SIZE == queue.packed(number, 1)
            assert before + allowed // 2 >= open_descriptors()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@given(st.lists(st.integers(1, 4), max_size=30), st.integers(0, 3), st.integers(-1, 130))
def test_batches(
    tmp_path_factory: pytest.TempPathFactory, batches: list[int], spare: int, wanted: int
) -> None:
    """The unit found for a queue offset is the one whose range of offsets has it."""
    directory = tmp_path_factory.mktemp("batches")
    units, base = [], 0
    for number, count in enumerate(batches):
        units.append(BATCH_CQ_UNIT.packer.pack(number * 90, 90, 0, 7, base, count, -1, 0))
        base += count
    length = 4 * BATCH_CQ_UNIT_SIZE
    raw = b"".join(units) + bytes(spare * BATCH_CQ_UNIT_SIZE)
    for start in range(0, len(raw), length):
        (directory / f"{start:020}").write_bytes(raw[start : start + length].ljust(length, b"\0"))
    with OpenFiles() as opened:
        queue = BatchUnits.of(QueueFiles("T", 0, Place.of(directory), "q"), opened)
        unit = queue.find(wanted)
        assert len(batches) == queue.count
        assert (0, base) == (queue.span().min_offset, queue.span().max_offset)
    if not 0 <= wanted < base:
        assert unit is None
        return
    assert unit is not None
    assert unit.unit is not None
    assert 0 <= wanted - unit.unit.queue_offset < unit.unit.messages
    assert batches[unit.unit.number] == unit.unit.messages
    assert 7 == unit.unit.store_timestamp
