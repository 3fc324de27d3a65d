"""Which queue offsets have lost their messages: the same before a repair and after it."""

from __future__ import annotations

import numpy as np
import pytest

from rmqtool.ledger.numbers import (
    MOST_UNNAMED,
    HeldNumbers,
    UnitNumbers,
    last_believed,
    lost_numbers,
)

SIZE = 100  # bytes of each record

Pair = tuple[int, int]  # queue offset, number of the record in the log
Stretch = tuple[int, int]


def held(*pairs: Pair, count: int = 1) -> HeldNumbers:
    """Give records by queue offset and place."""
    numbers = np.array([number for number, _ in pairs], np.int64)
    places = np.array([place for _, place in pairs], np.int64)
    return HeldNumbers(numbers, np.full(len(pairs), count), places * SIZE)


def lost(
    records: HeldNumbers, units: HeldNumbers, *holes: int, unread: int = 1 << 40
) -> list[Stretch]:
    """Ask; `holes` are places without a record, from `unread` on nothing was read."""
    named = UnitNumbers(*units)
    is_lost = np.isin(named.physical_offsets, np.array(holes) * SIZE)
    is_unread = named.physical_offsets >= unread * SIZE
    found = lost_numbers(records, named, is_lost, is_unread)
    assert found.messages == int((found.ends - found.starts).sum())
    return list(zip(found.starts.tolist(), found.ends.tolist(), strict=True))


SOUND = ((5, 0), (6, 1), (7, 2), (8, 3))
WITHOUT_7 = ((5, 0), (6, 1), (8, 3))


@pytest.mark.parametrize(
    ("units", "holes"),
    [
        pytest.param(SOUND, (2,), id="a unit leads nowhere"),
        pytest.param(((5, 0), (6, 1), (7, 3), (8, 3)), (), id="repaired: the next unit twice"),
        pytest.param(WITHOUT_7, (), id="the unit is gone"),
        pytest.param((), (), id="all units are gone"),
        pytest.param(((5, 0), (6, 1), (7, 9), (8, 3)), (9,), id="a unit that nothing is read for"),
    ],
)
def test_one_lost(units: tuple[Pair, ...], holes: tuple[int, ...]) -> None:
    """However the queue was damaged or repaired, the same message is lost."""
    assert [(7, 8)] == lost(held(*WITHOUT_7), held(*units), *holes)


@pytest.mark.parametrize(
    ("records", "units"),
    [
        pytest.param(SOUND, SOUND, id="sound"),
        pytest.param(SOUND, (), id="no units"),
        pytest.param((), (), id="nothing"),
        pytest.param(((5, 0), (6, 1), (70, 2), (8, 3)), SOUND, id="a wrong number, units right"),
        pytest.param((*SOUND, (1 << 62, 4)), (), id="no room for so many before the last one"),
        pytest.param(((5, 0), (6, 1), (70, 2), (8, 3)), (), id="a wrong number, no units"),
        pytest.param(SOUND, ((15, 0), (16, 1), (17, 2), (18, 3)), id="units stand elsewhere"),
        pytest.param(
            SOUND,
            (*SOUND, *((number + 200, place) for number, place in SOUND)),
            id="a file of the queue once more, under another name",
        ),
        pytest.param(((90, 0), (91, 1), (0, 2), (1, 3)), ((0, 2), (1, 3)), id="began again"),
        pytest.param(((5, 0), (6, 1), (6, 2), (7, 3)), (), id="twice the same number"),
    ],
)
def test_none_lost(records: tuple[Pair, ...], units: tuple[Pair, ...]) -> None:
    """What is only numbered wrongly, or by an earlier queue of that name, is not lost."""
    assert [] == lost(held(*records), held(*units))


def test_ends() -> None:
    """Units before the first record and after the last one tell of messages, too."""
    assert [(4, 5), (9, 11)] == lost(held(*SOUND), held((4, 7), *SOUND, (9, 8), (10, 9)), 7, 8, 9)
    assert [(4, 6)] == lost(held(), held((4, 7), (5, 8)), 7, 8)


def test_room_for_batches() -> None:
    """What a few lost batches may have held before the last record is lost."""
    assert [(9, 1000)] == lost(held(*SOUND, (1000, 4)), held())


def test_batches() -> None:
    """A unit of a batch queue stands for all messages of its record."""
    records = held((0, 0), (20, 2), count=10)
    units = HeldNumbers(
        *(np.array(column) for column in ([0, 10, 20], [10, 10, 10], [0, 100, 200]))
    )
    assert [(10, 20)] == lost(records, units, 1)
    assert [(10, 20)] == lost(records, held(count=10))


def test_batch_unit_numbered_wrongly() -> None:
    """A unit of a batch queue states its queue offset: a flipped bit in it loses no message."""
    records = held((0, 0), (10, 1), (20, 2), count=10)
    places = np.array([0, 100, 200])
    for wrong in (0, 1, 2):
        numbers = np.array([0, 10, 20])
        numbers[wrong] += 1 << 20
        assert [] == lost(records, HeldNumbers(numbers, np.full(3, 10), places)), wrong


def test_last_believed() -> None:
    """Units past the end of the log tell of what it lost, but for those that lead anywhere."""
    assert last_believed([], 7) == 7
    assert last_believed([3, 8, 9], 7) == 9
    assert last_believed([9, 7 + MOST_UNNAMED], 7) == 7 + MOST_UNNAMED
    assert last_believed([9 + MOST_UNNAMED, 8, 1 << 40], 7) == 8


def test_unread() -> None:
    """Units into files that were not read are believed."""
    assert [(7, 8)] == lost(held((5, 0), (6, 1)), held(*SOUND, (9, 4)), 2, unread=3)
