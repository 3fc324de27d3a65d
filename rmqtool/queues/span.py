"""How far a queue in files reaches: its first and last unit, found with a few reads.

Files of a queue are made ahead of need like those of the commitlog: the first unit of zeros ends
it. A file that was cut or copied without its holes is bisected.
Source: ConsumeQueue#correctMinOffset, #fillPreBlank, BatchConsumeQueue#recover, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cache, cached_property
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.broker.names import name_in_files
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.queues.kinds import UnitKind, batch_kind_of, kind_of
from rmqtool.queues.units import QueueSpan, Unit
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.used import BLOCK, last_used

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.formats.layout import Layout
    from rmqtool.queues.short import ShortQueues
    from rmqtool.queues.units import QueueUnits
    from rmqtool.store.place import OpenFile

SIZE: Final = CQ_UNIT["size"]


def span_of(queue: QueueUnits, log_start: int) -> QueueSpan:
    """Find out how far a queue reaches.

    Args:
        queue: in files.
        log_start: first byte of the commitlog that is there; units before it are expired.

    Raises:
        UnreadablePath: a file or the directory may not be read.
    """
    files, layout = queue.files, queue.layout
    first: Unit | None = None
    tail: _Tail | None = None
    for segment in reversed(files.segments):
        number = segment.start // layout.size
        with segment.open() as file:
            tail = _tail_of(layout, file, number)
            if tail and segment is files.segments[0]:
                is_all = tail.first.number == number
                first = tail.first if is_all else _first_of(layout, file, number)
        if tail:
            break
    last = tail.last if tail else None
    first, skipped = _first_alive(queue, log_start, first, last)
    mean_size, is_exact = tail.mean_size(first) if tail and first else (0.0, True)
    return QueueSpan(
        topic=queue.topic,
        queue_id=queue.queue_id,
        kind=queue.kind,
        first=first,
        last=last,
        expired=skipped,
        mean_size=mean_size,
        is_exact=is_exact,
        files=len(files),
        size=files.size,
        allocated=files.allocated,
        oddities=files.oddities,
    )


class ShortSpans:
    """How far short queues reach that are plain, by name; those with other units are not in it.

    Args:
        short: read before.
        log_start: see `span_of`.
    """

    def __init__(self, short: ShortQueues, log_start: int) -> None:
        import numpy as np

        units = short.units.view(CQ_UNIT.dtype)[:, 0]
        self._short = short
        self._offsets, self._sizes = units["physical_offset"].astype(np.int64), units["size"]
        counts, self._begins = short.end - short.first, short.position
        chosen = short.are_plain & (counts <= BLOCK // CQ_UNIT.size)
        chosen[chosen] &= self._offsets[self._begins[chosen]] >= log_start
        self._chosen, self._ends = chosen, self._begins + counts
        self._sums = np.zeros(len(units) + 1, np.int64)
        np.cumsum(self._sizes, out=self._sums[1:])

    def numbers_of(self, topic: str) -> list[int]:
        """Give the numbers of those of one topic."""
        return [queue_id for queue_id, row in self._rows_in(topic) if self._is_chosen[row]]

    def of_topic(self, topic: str) -> dict[int, QueueSpan]:
        """Give those of one topic, by number."""
        return {
            queue_id: self._span(topic, queue_id, row)
            for queue_id, row in self._rows_in(topic)
            if self._is_chosen[row]
        }

    def _rows_in(self, topic: str) -> Iterator[tuple[int, int]]:
        rows, raw = self._short.rows, name_in_files(topic)
        within = rows.names.rows_in(raw)
        return zip(rows.names.numbers_of(raw), rows.of_rows(within.start, within.stop), strict=True)

    def newest(self) -> QueueSpan | None:
        """Give the queue whose last unit lies highest in the log; None without any."""
        rows = self._chosen.nonzero()[0]
        if not len(rows):
            return None
        last = self._ends[rows] - 1
        row = int(rows[(self._offsets[last] + self._sizes[last]).argmax()])
        topic, queue_id = self._short.rows.name(row)
        return self._span(topic.decode(), queue_id, row)

    def _span(self, topic: str, queue_id: int, row: int) -> QueueSpan:
        files = self._short.files
        first, end, first_place, first_size, last_place, last_size, size = self._columns[row]
        return QueueSpan(
            topic=topic,
            queue_id=queue_id,
            kind=ArtefactKind.CONSUME_QUEUE,
            first=Unit(first, first, 1, first_place, first_size),
            last=Unit(end - 1, end - 1, 1, last_place, last_size),
            expired=0,
            mean_size=size / (end - first),
            is_exact=True,
            files=1,
            size=files.file_length if files else 0,
            allocated=int(files.stored[row]) if files else 0,
        )

    @cached_property
    def _is_chosen(self) -> list[bool]:
        """A number of numpy takes longer to read than all that is done with it."""
        chosen: list[bool] = self._chosen.tolist()
        return chosen

    @cached_property
    def _columns(self) -> list[tuple[int, ...]]:
        """Of each short queue: first unit, end, place and size of the first and last, all sizes."""
        begins, last = self._begins, self._ends - 1
        if not len(self._offsets):
            return []
        begins, last = begins.clip(max=len(self._offsets) - 1), last.clip(min=0)
        columns = (
            *(self._short.first, self._short.end),
            *(column[rows] for rows in (begins, last) for column in (self._offsets, self._sizes)),
            self._sums[self._ends] - self._sums[self._begins],
        )
        return [*zip(*(column.tolist() for column in columns), strict=True)]


class _Tail(NamedTuple):
    """The last real units of a queue: an object for each would take ten times as long."""

    first: Unit  # the first of these
    last: Unit  # unit of the queue
    numbers: Sequence[int]  # of each
    messages: Sequence[int]  # how many each stands for
    sizes: Sequence[int]  # bytes of the record of each

    def mean_size(self, first: Unit) -> tuple[float, bool]:
        """Give the bytes of a message from a unit on, and whether the unit is one of these."""
        row = bisect_left(self.numbers, first.number)
        mean = sum(self.sizes[row:]) / sum(self.messages[row:])
        return mean, self.numbers[row] == first.number


def _tail_of(layout: Layout, file: OpenFile, number: int) -> _Tail | None:
    """Read the last units of a file that begins with a unit; None where none is real."""
    end, block, raw = last_used(file, layout.size)
    begin = max(end - BLOCK // layout.size * layout.size, 0)
    if begin >= block:
        units = raw[begin - block :].ljust(end - begin, b"\0")
    else:
        units = file.read_at(begin, end - begin)
    return _tail(layout, units, number + begin // layout.size)


def _first_of(layout: Layout, file: OpenFile, number: int) -> Unit | None:
    return next(real_units(layout, file.read_at(0, layout.size), number), None)


def _first_alive(
    queue: QueueUnits, log_start: int, first: Unit | None, last: Unit | None
) -> tuple[Unit | None, int]:
    """Give the first unit whose record is there, and the number of units that expired before it."""
    if last is None:
        return None, 0
    begin = queue.files.start // queue.layout.size
    if first is None:
        first = _unit_at(queue, begin)
    if first is not None and first.physical_offset >= log_start:
        return first, 0
    real = _bisect(queue, 0, begin, last)
    alive = _bisect(queue, log_start, real.number, last)
    skipped = alive.number - real.number
    if alive.physical_offset < log_start:  # all of them
        return None, skipped + 1
    return alive, skipped


def _bisect(queue: QueueUnits, physical_offset: int, number: int, last: Unit) -> Unit:
    """Give the first real unit that points to a physical offset or past it.

    The last unit where none does. Offsets grow along a queue, pre-blanks come first.
    """
    low, high, nearest = number, last.number, last
    while low < high:
        middle = (low + high) // 2
        unit = _unit_at(queue, middle)
        if unit is not None and unit.physical_offset >= physical_offset:
            high, nearest = middle, unit
        else:
            low = middle + 1
    return nearest


def _unit_at(queue: QueueUnits, number: int) -> Unit | None:
    unit = queue.look_up(number)
    return unit.unit if unit else None


def _tail(layout: Layout, raw: bytes, number: int) -> _Tail | None:
    """Read whole units; leave out what is not real."""
    count = len(raw) // CQ_UNIT.size
    if layout is CQ_UNIT and count:
        end, zeros = count * CQ_UNIT.size, bytes(count)
        # Nearly always: what is not negative, nor the size of a pre-blank, begins with a zero.
        if raw[0 : end : CQ_UNIT.size] == zeros == raw[SIZE.position : end : CQ_UNIT.size]:
            sizes = _sizes(count).unpack_from(raw)
            if 0 not in sizes:
                ends = (0, count - 1)
                first, last = (_unit(raw[row * CQ_UNIT.size :], number + row) for row in ends)
                return _Tail(first, last, range(number, number + count), (1,) * count, sizes)
    units = list(real_units(layout, raw, number))
    if not units:
        return None
    numbers, _, messages, _, sizes, _ = zip(*units, strict=True)
    return _Tail(units[0], units[-1], numbers, messages, sizes)


@cache
def _sizes(count: int) -> Struct:
    """Give what unpacks the sizes of so many units."""
    return Struct(">" + f"{SIZE.position}x{SIZE.struct_code}{CQ_UNIT.size - SIZE.end}x" * count)


def _unit(raw: bytes, number: int) -> Unit:
    physical_offset, size, _ = CQ_UNIT.packer.unpack_from(raw)
    return Unit(number, number, 1, physical_offset, size)


def real_units(layout: Layout, raw: bytes, number: int) -> Iterator[Unit]:
    """Read whole units, one by one; leave out what is not real.

    Args:
        layout: of the units.
        raw: their bytes.
        number: of the first.
    """
    rows = layout.packer.iter_unpack(raw[: len(raw) // layout.size * layout.size])
    return (_batch_units if layout is BATCH_CQ_UNIT else _plain_units)(rows, number)


def _plain_units(rows: Iterator[tuple[int, ...]], first: int) -> Iterator[Unit]:
    for number, (physical_offset, size, tags_code) in enumerate(rows, first):
        if kind_of(physical_offset, size, tags_code) == UnitKind.REAL:
            yield Unit(number, number, 1, physical_offset, size)


def _batch_units(rows: Iterator[tuple[int, ...]], first: int) -> Iterator[Unit]:
    for number, (physical_offset, size, _, time, base, messages, _, _) in enumerate(rows, first):
        if batch_kind_of(physical_offset, size, time, base, messages) == UnitKind.REAL:
            yield Unit(number, base, messages, physical_offset, size, time)
