"""How far a queue in files reaches: its first and last unit, found with a few reads.

Files of a queue are made ahead of need like those of the commitlog: the first unit of zeros ends
it. A file that was cut or copied without its holes is bisected.
Source: ConsumeQueue#correctMinOffset, #fillPreBlank, BatchConsumeQueue#recover, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cache
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.queues.kinds import UnitKind, batch_kind_of, kind_of
from rmqtool.queues.units import QueueSpan, Unit
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.used import BLOCK, last_used

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from rmqtool.formats.layout import Layout
    from rmqtool.queues.short import ShortQueues
    from rmqtool.queues.units import QueueUnits
    from rmqtool.store.place import OpenFile
    from rmqtool.store.segment import Segment

    Int64s = NDArray[np.int64]

SIZE: Final = CQ_UNIT["size"]
NO_PLACE: Final = -1  # in the log


def span_of(
    queue: QueueUnits, open_file: Callable[[Segment], OpenFile], log_start: int
) -> QueueSpan:
    """Find out how far a queue reaches.

    Args:
        queue: in files.
        open_file: gives one of them, which stays open.
        log_start: first byte of the commitlog that is there; units before it are expired.

    Raises:
        UnreadablePath: a file or the directory may not be read.
    """
    files, layout = queue.files, queue.layout
    first: Unit | None = None
    tail: _Tail | None = None
    for segment in reversed(files.segments):
        number = segment.start // layout.size
        file = open_file(segment)
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


class SpanColumns(NamedTuple):
    """How far queues reach: lists of one length, an item a queue. There may be a million queues.

    See `QueueSpan` for what is not described.
    """

    topics: list[str]
    queue_ids: list[int]
    kinds: list[ArtefactKind]
    min_offsets: list[int]
    max_offsets: list[int]
    message_bytes: list[int]  # of the messages from the minimum to the maximum, in the log
    are_exact: list[bool]
    first: list[int]  # physical offset of the first record; NO_PLACE without one
    last: list[int]  # of the last one
    ends: list[int]  # past the last one
    expired: list[int]
    files: list[int]
    sizes: list[int]
    allocated: list[int]

    @classmethod
    def new(cls) -> Self:
        """Begin with none."""
        return cls(*([] for _ in cls._fields))

    def add(self, span: QueueSpan) -> None:
        """Add a queue."""
        first, last = span.first, span.last
        max_offset = last.queue_offset + last.messages if last else 0
        min_offset = first.queue_offset if first else max_offset
        values = (
            *(span.topic, span.queue_id, span.kind, min_offset, max_offset),
            *(round(span.mean_size * (max_offset - min_offset)), span.is_exact),
            *(first.physical_offset if first else NO_PLACE,),
            *((last.physical_offset, last.end) if last else (NO_PLACE, NO_PLACE)),
            *(span.expired, span.files, span.size, span.allocated),
        )
        own: Sequence[list[Any]] = self
        for column, value in zip(own, values, strict=True):
            column.append(value)

    def extend(self, columns: Iterable[Sequence[Any]]) -> None:
        """Add queues, given as columns in this order."""
        own: Sequence[list[Any]] = self
        for column, more in zip(own, columns, strict=True):
            column.extend(more)

    def sort_from(self, start: int) -> None:
        """Sort the queues of one topic, which come last, by number."""
        order = sorted(range(start, len(self.queue_ids)), key=self.queue_ids.__getitem__)
        own: Sequence[list[Any]] = self
        for column in own:
            column[start:] = [column[row] for row in order]


class ShortSpans:
    """How far short queues reach that are plain, by topic; those with other units are not in it.

    Args:
        short: read before, in files or in a database.
        log_start: see `span_of`.
        next_offsets: of the names of the queues in a database, after the last unit: int64, shape
            (names,); None for queues in files.
    """

    def __init__(
        self, short: ShortQueues, log_start: int, next_offsets: Int64s | None = None
    ) -> None:
        import numpy as np

        units = short.fields
        offsets, sizes = units["physical_offset"].astype(np.int64), units["size"].astype(np.int64)
        counts, files, names = short.end - short.first, short.files, short.rows.names
        chosen = short.are_plain & (counts <= BLOCK // units.itemsize)
        chosen[chosen] &= offsets[short.position[chosen]] >= log_start
        if next_offsets is not None:
            chosen &= next_offsets[short.rows.of_names] == short.end
        rows = short.rows.of_rows(0, len(names)).astype(np.int64)  # by name
        is_chosen = rows >= 0
        is_chosen[is_chosen] = chosen[rows[is_chosen]]
        self._starts = np.append(0, np.cumsum(is_chosen)).tolist()  # among the chosen, by name
        rows = rows[is_chosen]
        first, last = short.position[rows], short.position[rows] + counts[rows] - 1
        sums = np.append(0, np.cumsum(sizes))
        self._names = names
        self._kind = ArtefactKind.CONSUME_QUEUE if files else ArtefactKind.ROCKSDB
        self._file_length = files.file_length if files else 0
        self._stored: list[int] | None = files.stored[rows].tolist() if files else None
        columns = (
            *(names.queue_ids[is_chosen], short.first[rows], short.end[rows]),
            *(sums[last + 1] - sums[first], offsets[first], offsets[last]),
            offsets[last] + sizes[last],
        )
        self._columns: list[list[int]] = [column.tolist() for column in columns]

    def numbers_of(self, topic: bytes) -> list[int]:
        """Give the numbers of those of one topic, as it is stored, sorted."""
        return self._columns[0][self._of(topic)]

    def of_topic(self, topic: bytes, name: str) -> list[Sequence[Any]]:
        """Give those of one topic as `SpanColumns` has them.

        Args:
            topic: as it is stored.
            name: as it is shown.
        """
        within = self._of(topic)
        numbers, first, end, sizes, *places = [column[within] for column in self._columns]
        count = len(numbers)
        stored = [0] * count if self._stored is None else self._stored[within]
        return [
            *([name] * count, numbers, [self._kind] * count, first, end, sizes, [True] * count),
            *(*places, [0] * count, [int(self._stored is not None)] * count),
            *([self._file_length] * count, stored),
        ]

    def _of(self, topic: bytes) -> slice:
        within = self._names.rows_in(topic)
        return slice(self._starts[within.start], self._starts[within.stop])


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
