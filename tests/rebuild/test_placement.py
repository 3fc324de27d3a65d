"""Where units belong: late starts, holes, repeats, damaged numbers; and what a broker does."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.derive.queue_runs import QueueRun
from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE, QueueKind
from rmqtool.rebuild.placement import FEW_FILLERS, BrokerPlacement, Placement

SEGMENT = 1000  # bytes of a segment
SIZE = 100  # of a record

Rows = dict[int, int]  # queue offset: number of the record that is there; -1 for a filler


def runs(numbers: Sequence[int], log_start: int = 0) -> list[QueueRun]:
    """Give records one behind the other with these queue offsets, as the runs they make."""
    found: list[list[int]] = []
    for at, number in enumerate(numbers):
        if at and number == numbers[at - 1] + 1:
            found[-1].append(at)
        else:
            found.append([at])
    return [
        QueueRun(
            b"T", 0, numbers[ats[0]], memoryview(b"".join(unit(at, log_start) for at in ats)),
            len(ats), 1000 + ats[-1], QueueKind.CONSUME_QUEUE,
        )
        for ats in found
    ]  # fmt: skip


def unit(at: int, log_start: int = 0) -> bytes:
    """Give the unit of the n-th record."""
    return CQ_UNIT.packer.pack(log_start + at * SIZE, SIZE, at)


def placed(placement: Placement, numbers: Sequence[int], log_start: int = 0) -> dict[int, bytes]:
    """Give what lies at each queue offset."""
    units = [units for run in runs(numbers, log_start) for units in placement.add(run)]
    units += placement.finish()
    found: dict[int, bytes] = {}
    for unit in units:
        raw = bytes(unit.packed) * unit.repeated
        for number in range(len(raw) // CQ_UNIT_SIZE):
            at = unit.queue_offset + number
            assert at not in found
            found[at] = raw[number * CQ_UNIT_SIZE :][:CQ_UNIT_SIZE]
    return found


def units_of(**rows: int) -> dict[int, bytes]:
    """Give expected units: `q5=0` is the record 0 at queue offset 5."""
    return {int(name[1:]): unit(at) for name, at in rows.items()}


def test_in_order() -> None:
    """Without damage a unit is at its queue offset, wherever the queue starts."""
    placement = Placement(0, SEGMENT)
    # Seven messages of another queue lie before: the first ones of this one have expired.
    log_start = 7 * SEGMENT
    expected = {5 + at: unit(at, log_start) for at in range(20)}
    assert expected == placed(placement, range(5, 25), log_start)
    assert (True, 5, 25, 20) == (
        placement.tally.is_whole, placement.first, placement.next, placement.tally.units,
    )  # fmt: skip


def test_hole_in_first_segment() -> None:
    """A hole before which no segment lies gets copies of the next unit: twice, never lost."""
    placement = Placement(0, SEGMENT)
    at = {0: unit(0), 1: unit(1), 2: unit(9), 3: unit(9), 4: unit(9)}
    found = [units for run in runs([0, 1]) for units in placement.add(run)]
    later = QueueRun(b"T", 0, 4, memoryview(unit(9)), 1, 9, QueueKind.CONSUME_QUEUE)
    found += [*placement.add(later), *placement.finish()]
    raw = b"".join(bytes(units.packed) * units.repeated for units in found)
    assert b"".join(at.values()) == raw
    assert (2, 3) == (placement.tally.filler, placement.tally.units)


def test_hole_in_later_segment() -> None:
    """Elsewhere it gets units on the last byte of the segment before, as long as a segment."""
    placement = Placement(0, SEGMENT)
    numbers = [*range(12)]
    found = [units for run in runs(numbers) for units in placement.add(run)]
    late = QueueRun(b"T", 0, 15, memoryview(unit(25)), 1, 25, QueueKind.CONSUME_QUEUE)
    found += [*placement.add(late), *placement.finish()]
    filler = CQ_UNIT.packer.pack(2 * SEGMENT - 1, SEGMENT, 0)
    raw = b"".join(bytes(units.packed) * units.repeated for units in found)
    assert b"".join(unit(at) for at in numbers) + filler * 3 + unit(25) == raw


def test_misnumbered() -> None:
    """One damaged number among its neighbours' is put where it is missing."""
    placement = Placement(0, SEGMENT)
    expected = units_of(q0=0, q1=1, q2=2, q3=3, q4=4)
    assert expected == placed(placement, [0, 1, 66, 3, 4])
    assert 1 == placement.tally.misnumbered


@pytest.mark.parametrize("wrong", [9, 1 << 20, -5])
def test_misnumbered_first(wrong: int) -> None:
    """A damaged number of the first record does not move, or cost, those behind it."""
    placement = Placement(0, SEGMENT)
    log_start = 50 * SEGMENT
    found = placed(placement, [wrong, 1, 2, 3, 4], log_start)
    expected = {at: unit(at, log_start) for at in range(5)}
    if wrong < 0:
        del expected[0]  # nothing tells that it was not the last one of a renumbered queue
    assert expected == found
    assert (wrong > 0, wrong < 0) == (
        placement.tally.misnumbered == 1, placement.tally.implausible == 1,
    )  # fmt: skip


def test_misnumbered_last() -> None:
    """An impossible number of the last record is left out: it must not fill the disk."""
    placement = Placement(0, SEGMENT)
    assert units_of(q0=0, q1=1) == placed(placement, [0, 1, 2 + (1 << 40)])
    assert 1 == placement.tally.implausible


def test_repeated() -> None:
    """Of two records with one number the first one wins, as in a broker."""
    placement = Placement(0, SEGMENT)
    assert units_of(q0=0, q1=1, q2=2, q3=5) == placed(placement, [0, 1, 2, 1, 2, 3])
    assert 2 == placement.tally.repeated


def test_jump() -> None:
    """A jump that several records agree on is one, even if the log has no room for the messages."""
    placement = Placement(0, SEGMENT)
    found = placed(placement, [0, 1, 1000, 1001, 1002])
    assert [*range(1003)] == [*found]
    assert 998 == placement.tally.filler
    placement = Placement(0, SEGMENT)
    far = 2 + 10 * FEW_FILLERS
    assert units_of(q0=0, q1=1) == placed(placement, [0, 1, far, far + 1])
    assert 2 == placement.tally.implausible


@given(st.lists(st.integers(-2, 40), max_size=30))
def test_any_numbers(numbers: list[int]) -> None:
    """Whatever the numbers, units lie without hole or overlap, and each record is accounted for."""
    placement = Placement(0, SEGMENT)
    found = placed(placement, numbers)
    tally = placement.tally
    assert [*range(placement.first, placement.next)] == [*found] or not found
    assert len(numbers) == tally.units + tally.repeated + tally.implausible
    assert len(found) == tally.units + tally.filler


@given(st.lists(st.integers(0, 12), max_size=30))
def test_like_broker(numbers: list[int]) -> None:
    """`like_broker` is the table of ConsumeQueue#putMessagePositionInfo, record by record."""
    log_start = 20 * SEGMENT
    first, skipped = -1, 0
    expected: list[bytes] = []
    for at, number in enumerate(numbers):
        if first < 0:
            first = number
        end = first + len(expected)
        if number not in {0, end} and number < end and expected:
            skipped += 1
        else:
            expected.append(unit(at, log_start))
    placement = BrokerPlacement(0, SEGMENT)
    found = placed(placement, numbers, log_start)
    assert {first + at: one for at, one in enumerate(expected)} == found
    assert (skipped, 0) == (placement.tally.repeated, placement.tally.filler)
