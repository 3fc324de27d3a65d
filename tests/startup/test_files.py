"""The broker's mapped files in memory."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.startup.files import FileQueue, ModelFile, java_remainder
from rmqtool.store.place import Place

LENGTH = 100
PAGE = 4096  # bytes; holes of a sparse file begin and end with a page
UNIT = 20


def queue_of(count: int) -> FileQueue:
    """Give a queue of full files that lie nowhere."""
    files = [
        ModelFile(f"q/{number}", number * LENGTH, LENGTH, Place("/nowhere"), LENGTH)
        for number in range(count)
    ]
    return FileQueue("q", LENGTH, files)


def test_cut_inside_a_file() -> None:
    """The file that holds the offset stays with a lower position, those behind it go."""
    queue = queue_of(4)
    queue.cut(150)
    assert [100, 50] == [file.wrote_position for file in queue.files]
    assert ["q/2", "q/3"] == queue.deleted
    assert (0, 150) == (queue.minimum, queue.maximum)


def test_cut_at_a_border_keeps_an_empty_file() -> None:
    """The file that begins at the offset stays, with nothing in it."""
    queue = queue_of(3)
    queue.cut(100)
    assert [100, 0] == [file.wrote_position for file in queue.files]


def test_append_goes_on_in_a_new_file() -> None:
    """A full file is followed by the next; in an empty queue the offset says which."""
    queue = queue_of(1)
    assert LENGTH == queue.last_for_append(0).start
    assert not queue.files[-1].is_first_created
    empty = FileQueue("q", LENGTH)
    assert 700 == empty.last_for_append(750).start
    assert empty.files[-1].is_first_created
    assert [f"q/{700:020}"] == empty.created


def test_created_and_cut_again() -> None:
    """A file that would be created and deleted again is neither."""
    queue = FileQueue("q", LENGTH)
    queue.last_for_append(0)
    queue.delete_last()
    assert ([], []) == (queue.created, queue.deleted)


@given(
    writes=st.lists(
        st.tuples(st.integers(0, LENGTH), st.binary(min_size=1, max_size=30)), max_size=6
    ),
    asked=st.tuples(st.integers(0, LENGTH), st.integers(0, LENGTH)),
)
def test_reader_sees_what_is_written(
    tmp_path: Path, writes: list[tuple[int, bytes]], asked: tuple[int, int]
) -> None:
    """Appended bytes lie over those of the file, and the file itself stays as it is."""
    path = tmp_path / "file"
    expected = bytearray(range(LENGTH))
    path.write_bytes(expected)
    file = ModelFile("file", 0, LENGTH, Place.of(path), LENGTH)
    for position, data in writes:
        if position + len(data) <= LENGTH:
            file.wrote_position = position
            file.append(data)
            expected[position : position + len(data)] = data
    with file.open() as reader:
        position, length = asked
        assert bytes(expected[position : position + length]) == reader.read_at(position, length)
    assert bytes(range(LENGTH)) == path.read_bytes()


@given(st.integers(-(10**6), 10**6), st.integers(1, 1000))
def test_java_remainder(number: int, divisor: int) -> None:
    """The sign is that of the dividend, and the quotient rounds towards zero."""
    remainder = java_remainder(number, divisor)
    assert number == int(number / divisor) * divisor + remainder


@pytest.mark.parametrize("pages", [(), (0,), (1,), (0, 2), (1, 2, 5), (3, 5), (4,)])
@pytest.mark.parametrize("end", [6 * PAGE, 6 * PAGE // UNIT * UNIT, 4 * PAGE + 7])
def test_stretches_of_a_sparse_file(pages: tuple[int, ...], end: int, quick_path: Path) -> None:
    """Holes begin and end amid a unit: whole units with data come once, in order, and that ends."""
    path = quick_path / "0"
    with path.open("wb") as file:
        file.truncate(6 * PAGE)
        for page in pages:
            file.seek(page * PAGE)
            file.write(b"\1" * PAGE)
    with ModelFile("0", 0, 6 * PAGE, Place(str(path))).open() as reader:
        found = list(islice(reader.stretches(end, UNIT), 20))
    covered = [number for begin, stop in found for number in range(begin // UNIT, stop // UNIT)]
    assert all(begin % UNIT == 0 and begin < stop <= end for begin, stop in found)
    data = {at // UNIT for page in pages for at in range(page * PAGE, (page + 1) * PAGE)}
    wanted = {number for number in data if (number + 1) * UNIT <= end}
    assert wanted <= set(covered)
    assert sorted(set(covered)) == covered
    assert len(covered) <= len(data)
