"""Where the units of a queue are looked for, by the numbers of its records and by what it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

import pytest

from rmqtool.derive.queue_runs import QueueRun
from rmqtool.errors import UnreadablePath
from rmqtool.formats.consume_queue import CQ_UNIT, QueueKind
from rmqtool.ledger.numbering import Break, Numbering, PlacedUnits, Turn, WrongNumbers
from rmqtool.ledger.walk import WalkedQueue
from rmqtool.queues.kinds import as_units
from rmqtool.queues.units import QueueSpan, QueueUnits, UnitPlace
from rmqtool.store.artefact import ArtefactKind

if TYPE_CHECKING:
    from rmqtool.queues.kinds import Units

SIZE: Final = 100  # bytes of a record


class Held(QueueUnits):
    """A queue that holds units of some records, from number 0 on."""

    topic, queue_id, path, kind = "t", 0, "consumequeue/t/0", ArtefactKind.CONSUME_QUEUE

    def __init__(self, records: Iterable[int], *, is_readable: bool = True) -> None:
        self.raw = packed(records)
        self.is_readable = is_readable

    def packed(self, first: int, count: int) -> bytes:
        """Give units; zeros for those that are not there."""
        if not self.is_readable:
            raise UnreadablePath(path=self.path, reason="no")
        size = CQ_UNIT.size
        return self.raw[first * size : (first + count) * size].ljust(count * size, b"\0")

    def span(self, log_start: int = 0) -> QueueSpan:
        """Nobody asks."""
        raise NotImplementedError

    def used(self, first: int = 0, end: int | None = None) -> Iterator[tuple[int, Units]]:
        """Nobody asks."""
        raise NotImplementedError

    def locate(self, number: int) -> UnitPlace:
        """Nobody asks."""
        raise NotImplementedError

    def look_up(self, number: int) -> None:
        """Nobody asks."""
        raise NotImplementedError


def packed(records: Iterable[int]) -> bytes:
    """Give the units of records, by their numbers in the log."""
    return b"".join(CQ_UNIT.packer.pack(record * SIZE, SIZE, 0) for record in records)


def run(queue_offset: int, *records: int) -> QueueRun:
    """Give the run of records in a row."""
    units = memoryview(packed(records))
    return QueueRun(b"t", 0, queue_offset, units, len(records), 0, QueueKind.CONSUME_QUEUE)


def placed(
    there: Iterable[int], *runs: QueueRun, is_moved: Callable[[int], bool] = lambda _: False
) -> tuple[list[int], list[WrongNumbers], list[Break]]:
    """Give where units are looked for, what is wrong with numbers, and the breaks."""
    numbering = Numbering(Held(there), is_moved)
    given = [item for one in runs for item in numbering.place(one)]
    given += numbering.finish()
    places = [item.queue_offset for item in given if isinstance(item, PlacedUnits)]
    wrong = [item for item in given if isinstance(item, WrongNumbers)]
    return places, wrong, numbering.breaks


def test_follows() -> None:
    """Numbers that follow are the places of their units, wherever a queue begins."""
    assert ([5, 7], [], []) == placed([], run(5, 0, 1), run(7, 2))


def test_break() -> None:
    """Numbers that no record has are a break; the units after them are at their numbers."""
    breaks = [Break(2, 4, SIZE, 2 * SIZE)]
    assert ([0, 4], [], breaks) == placed([0, 1, 9, 9, 2], run(0, 0, 1), run(4, 2))


def test_outlier() -> None:
    """A number is wrong where the unit lies at the next one, and the record after goes on there."""
    wrong = [WrongNumbers(Turn.OUTLIER, 2, 70, 1, 2 * SIZE)]
    assert ([0, 2, 3], wrong, []) == placed(range(4), run(0, 0, 1), run(70, 2), run(3, 3))


def test_shift() -> None:
    """Where all later numbers are as far off, the units lie elsewhere."""
    wrong = [WrongNumbers(Turn.SHIFT, 2, 3, 1, 2 * SIZE)]
    assert ([0, 2, 3], wrong, []) == placed(range(4), run(0, 0, 1), run(3, 2), run(4, 3))


def test_jump() -> None:
    """One record that jumps, and has no unit, is to blame: the next one goes on before it."""
    wrong = [WrongNumbers(Turn.JUMP, 1, 8, 1, SIZE)]
    there = [0, 7, 2]
    assert ([0, 8, 2], wrong, []) == placed(there, run(0, 0), run(8, 1), run(2, 2))


def test_restart() -> None:
    """A numbering that goes back begins again, and its breaks are forgotten."""
    wrong = [WrongNumbers(Turn.RESTART, 9, 0, 1, 3 * SIZE)]
    there = [3]
    assert ([0, 7, 0], wrong, []) == placed(there, run(0, 0), run(7, 1, 2), run(0, 3))


def test_taken() -> None:
    """Records with numbers that earlier ones have, which have the units, are in no queue."""
    wrong = [WrongNumbers(Turn.TAKEN, 3, 1, 2, 3 * SIZE)]
    assert ([0, 3], wrong, []) == placed(range(3), run(0, 0, 1, 2), run(1, 3, 4, 5))
    wrong = [WrongNumbers(Turn.TAKEN, 2, 1, 1, 2 * SIZE)]
    assert ([0, 2], wrong, []) == placed(range(2), run(0, 0, 1), run(1, 2), run(2, 3))


def test_moved() -> None:
    """A record that lies elsewhere than it says has no place here."""
    assert ([0], [], []) == placed([0], run(0, 0), run(1, 5), is_moved=lambda at: at == 5 * SIZE)


def test_unread() -> None:
    """Units that cannot be read are taken for what they should be; all others are read."""
    queue = WalkedQueue(Held(range(4)), unread=((1, 2),))
    wanted = packed([7, 7, 7, 7])
    there = as_units(queue.there(0, wanted))["physical_offset"] // SIZE
    assert [0, 7, 2, 3] == there.tolist()
    queue = WalkedQueue(Held([], is_readable=False), unread=((2, 1 << 62),))
    assert wanted == queue.there(2, wanted)
    with pytest.raises(UnreadablePath):
        queue.there(1, wanted)
