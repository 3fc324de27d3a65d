"""Queues in a starting broker: many records at a time do what they do one by one."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.broker.rules import MinimumSearch
from rmqtool.formats.consume_queue import CQ_UNIT, PRE_BLANK
from rmqtool.startup.files import FileQueue
from rmqtool.startup.queues import ConsumeQueue, EmptyLastFile
from rmqtool.startup.units import numbered_units

UNITS_A_FILE = 5


def queue(units: int = 0) -> ConsumeQueue:
    """Give a queue of records of ten bytes each."""
    made = ConsumeQueue("topic", 0, FileQueue("consumequeue/topic/0", UNITS_A_FILE * CQ_UNIT.size))
    for number in range(units):
        made.put_unit(number * 10, 10, number)
    return made


def content(made: ConsumeQueue) -> list[tuple[int, int]]:
    """Give the units."""
    return [
        (int(unit["physical_offset"]), int(unit["size"]))
        for _, units in numbered_units(made.files, made.layout)
        for unit in units
    ]


RECORDS = st.lists(
    st.tuples(st.integers(0, 300), st.integers(1, 30), st.integers(0, 20)), max_size=30
)


@given(there=st.integers(0, 12), records=RECORDS, is_sorted=st.booleans())
def test_many_like_one_by_one(
    there: int, records: list[tuple[int, int, int]], *, is_sorted: bool
) -> None:
    """In order or not, with gaps, repetitions, and old ones between."""
    one, many = queue(there), queue(there)
    records = sorted(records) if is_sorted else records
    for offset, size, queue_offset in records:
        one.put_unit(offset, size, queue_offset)
    many.put_many(*(np.array([row[n] for row in records], np.int64) for n in range(3)))
    assert content(one) == content(many)
    assert (one.maximum, one.max_physical_offset, one.appended, one.shifted) == (
        many.maximum,
        many.max_physical_offset,
        many.appended,
        many.shifted,
    )


@given(start=st.integers(0, 20), count=st.integers(1, 20))
def test_run_of_records(start: int, count: int) -> None:
    """A queue that begins in the middle of its first file is filled up before it."""
    made = queue()
    numbers = np.arange(start, start + count, dtype=np.int64)
    made.put_many(numbers * 10, np.full(count, 10, np.int64), numbers)
    assert start + count == made.maximum
    assert (0, 0) == (made.shifted, made.min_position // CQ_UNIT.size - start)
    blanks = start % UNITS_A_FILE
    assert [(0, 0x7FFFFFFF)] * blanks == content(made)[:blanks]


def test_gap_shifts() -> None:
    """A gap is not left open: what follows it stands too early."""
    made = queue(3)
    made.put_unit(100, 10, 5)
    assert (4, 1) == (made.maximum, made.shifted)


def test_recover_stops_at_the_first_bad_unit() -> None:
    """What lies behind it is cut, files included."""
    made = queue(3 * UNITS_A_FILE)
    made.files.files[1].written.append((CQ_UNIT.size, bytearray(CQ_UNIT.packer.pack(-1, 10, 0))))
    made.recover()
    assert (UNITS_A_FILE + 1, 10 * (UNITS_A_FILE + 1)) == (made.maximum, made.max_physical_offset)
    assert 2 == len(made.files.files)


def test_truncate_before_the_first_unit() -> None:
    """A queue that loses everything believes that it has all up to the cut."""
    made = queue(7)
    made.truncate(0)
    assert (0, 0, []) == (made.maximum, made.max_physical_offset, made.files.files)
    made.truncate(500)
    assert 500 == made.max_physical_offset


def test_truncate_makes_a_unit_of_zeros() -> None:
    """The first unit of the last file is kept unseen."""
    made = queue(UNITS_A_FILE)
    made.files.last_for_append(0)
    made.truncate(10_000)
    assert [(0, 0)] == content(made)[UNITS_A_FILE:]


def test_minimum_is_the_first_unit_in_the_log() -> None:
    """Both searches find it; behind the last unit only the newer one goes."""
    for search in MinimumSearch:
        made = queue(UNITS_A_FILE)
        made.correct_minimum(25, search)
        assert 3 == made.minimum
    linear, binary = queue(3), queue(3)
    linear.correct_minimum(1000, MinimumSearch.LINEAR)
    binary.correct_minimum(1000, MinimumSearch.BINARY)
    assert (0, 3) == (linear.minimum, binary.minimum)


def test_empty_last_file_throws() -> None:
    """5.0 to 5.4 read before the first byte of the file; 5.5 does not."""
    made = queue(UNITS_A_FILE)
    made.files.last_for_append(0)
    with pytest.raises(EmptyLastFile):
        deepcopy(made).correct_minimum(0, MinimumSearch.BINARY)
    made.correct_minimum(0, MinimumSearch.GUARDED)
    assert 0 == made.minimum


def test_pre_blank_is_a_unit_of_offset_zero() -> None:
    """When the log begins at 0 the linear search takes it for a message."""
    made = queue()
    made.put_unit(1000, 10, 7)
    assert PRE_BLANK == bytes(made.files.files[0].written[0][1][: CQ_UNIT.size])
    made.correct_minimum(0, MinimumSearch.LINEAR)
    assert 5 == made.minimum
