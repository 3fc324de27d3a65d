"""How far a queue reaches: its first and last unit, found with a few reads.

Files of a queue are made ahead of need like those of the commitlog: the first unit of zeros ends
it. A file that was cut or copied without its holes is bisected.
Source: ConsumeQueue#correctMinOffset, #fillPreBlank, BatchConsumeQueue#recover, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cache
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.consume_queue import CQ_UNIT, is_pre_blank
from rmqtool.store.branch import BranchKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.formats.layout import Layout
    from rmqtool.store.place import OpenFile
    from rmqtool.store.queues import QueueFiles
    from rmqtool.store.segment import MappedFiles, Oddity

SIZE_AT: Final = CQ_UNIT.positions["size"]
BLOCK = 4096  # 204 units; also the page in which a sparse file keeps its data
EXTENTS = 64  # of a sparse file that are followed; a queue file has one
ZEROS = tuple(bytes(BLOCK >> shift) for shift in range(1, 8))
LAYOUTS = {BranchKind.CONSUME_QUEUE: CQ_UNIT, BranchKind.BATCH_QUEUE: BATCH_CQ_UNIT}


class Unit(NamedTuple):
    """One unit of a queue, of either kind.

    Attributes:
        start: its first byte in the queue's byte space.
        queue_offset: of its first message.
        messages: how many it stands for.
        physical_offset: of its record.
        size: bytes of the record.
    """

    start: int
    queue_offset: int
    messages: int
    physical_offset: int
    size: int

    @property
    def end(self) -> int:
        """Physical offset behind the record."""
        return self.physical_offset + self.size


class QueueRange(NamedTuple):
    """How far a queue reaches.

    Attributes:
        topic: of the queue.
        queue_id: of the queue.
        kind: plain or batch.
        first: first unit whose record the commitlog still has; None when there is none.
        last: last unit; None when there is none.
        expired: units in front of `first`, without fillers.
        files: number of files.
        size: bytes of the files.
        allocated: bytes that the disk really holds.
        mean_size: bytes of a message of this queue, from the last units; 0 when there is none.
        is_exact: `mean_size` is over all units.
        oddities: of the directory.
    """

    topic: str
    queue_id: int
    kind: BranchKind
    first: Unit | None
    last: Unit | None
    expired: int
    files: int
    size: int
    allocated: int
    mean_size: float
    is_exact: bool
    oddities: tuple[Oddity, ...] = ()

    @property
    def min_offset(self) -> int:
        """Queue offset of the first message; the end of the queue when it has none."""
        return self.first.queue_offset if self.first else self.max_offset

    @property
    def max_offset(self) -> int:
        """Queue offset of the next message."""
        return self.last.queue_offset + self.last.messages if self.last else 0

    @property
    def messages(self) -> int:
        """Number of messages that the commitlog still has."""
        return self.max_offset - self.min_offset


def read_range(
    queue: QueueFiles, kind: BranchKind = BranchKind.CONSUME_QUEUE, log_start: int = 0
) -> QueueRange:
    """Find out how far a queue reaches.

    Args:
        queue: its files.
        kind: of its units.
        log_start: first byte of the commitlog that is there; units in front of it are expired.

    Raises:
        UnreadablePath: a file or the directory may not be read.
    """
    files, layout = queue.files, LAYOUTS[kind]
    first: Unit | None = None
    tail: _Tail | None = None
    for segment in reversed(files.segments):
        with segment.open() as file:
            tail = _tail_of(layout, file, segment.start)
            if tail and segment is files.segments[0]:
                is_all = tail.first.start == segment.start
                first = tail.first if is_all else _first_of(layout, file, files.start)
        if tail:
            break
    last = tail.last if tail else None
    first, skipped = _first_alive(files, layout, log_start, first, last)
    mean_size, is_exact = tail.mean_size(first) if tail and first else (0.0, True)
    return QueueRange(
        topic=queue.topic,
        queue_id=queue.queue_id,
        kind=kind,
        first=first,
        last=last,
        expired=skipped,
        files=len(files),
        size=files.size,
        allocated=files.allocated,
        mean_size=mean_size,
        is_exact=is_exact,
        oddities=files.oddities,
    )


class _Tail(NamedTuple):
    """The last units of a queue, without fillers: an object for each would take ten times as long.

    Attributes:
        first: the first of these.
        last: unit of the queue.
        starts: where each begins.
        messages: how many each stands for.
        sizes: bytes of the record of each.
    """

    first: Unit
    last: Unit
    starts: Sequence[int]
    messages: Sequence[int]
    sizes: Sequence[int]

    def mean_size(self, first: Unit) -> tuple[float, bool]:
        """Give the bytes of a message from a unit on, and whether the unit is one of these."""
        number = bisect_left(self.starts, first.start)
        mean = sum(self.sizes[number:]) / sum(self.messages[number:])
        return mean, self.starts[number] == first.start


def _tail_of(layout: Layout, file: OpenFile, start: int) -> _Tail | None:
    """Read the last units of a file that begins at a byte of the queue; None where none is."""
    end, block, raw = _used(file, layout.size)
    begin = max(end - BLOCK // layout.size * layout.size, 0)
    if begin >= block:
        units = raw[begin - block :].ljust(end - begin, b"\0")
    else:
        units = file.read_at(begin, end - begin)
    return _tail(layout, units, start + begin)


def used_bytes(file: OpenFile, unit_size: int) -> int:
    """Give where the zeros at the end of a file begin, rounded up to whole units.

    A run of zeros in front of data is bisected wrongly where it is longer than what lies behind
    it; a sparse file tells where its data ends, so this concerns copies that lost their holes.
    """
    end, _, _ = _used(file, unit_size)
    return end


def _used(file: OpenFile, unit_size: int) -> tuple[int, int, bytes]:
    """Give the same, the last block with data, and what it holds in front of the zeros."""
    bound = _end_of_data(file)
    block = max(bound - BLOCK, 0)
    raw = _without_zeros(file.read_at(block, BLOCK))
    if not raw and block:
        block = _last_used_block(file, block)
        raw = _without_zeros(file.read_at(block, BLOCK))
    used = -(-(block + len(raw)) // unit_size) * unit_size if raw else 0
    return min(used, file.size // unit_size * unit_size), block, raw


def _without_zeros(raw: bytes) -> bytes:
    """Cut zeros off, many at a time."""
    for zeros in ZEROS:
        raw = raw.removesuffix(zeros)
    return raw.rstrip(b"\0")


def _end_of_data(file: OpenFile) -> int:
    """Give where the last hole of a sparse file begins; its size where it has none."""
    hole = file.next_hole(0)
    for _ in range(EXTENTS):
        data = file.next_data(hole) if hole < file.size else None
        if data is None:
            return hole
        hole = file.next_hole(data)
    return file.size


def _last_used_block(file: OpenFile, end: int) -> int:
    """Bisect for the last block that is not zeros; 0 where none is."""
    low, high = 0, -(-end // BLOCK)
    while high - low > 1:
        middle = (low + high) // 2
        if any(file.read_at(middle * BLOCK, BLOCK)):
            low = middle
        else:
            high = middle
    return low * BLOCK


def _first_of(layout: Layout, file: OpenFile, start: int) -> Unit | None:
    return next(_units(layout, file.read_at(0, layout.size), start), None)


def _first_alive(
    files: MappedFiles, layout: Layout, log_start: int, first: Unit | None, last: Unit | None
) -> tuple[Unit | None, int]:
    """Give the first unit whose record is there, and the number of units that expired before it."""
    if last is None:
        return None, 0
    if first is None:
        first = _unit_at(files, layout, files.start)
    if first is not None and first.physical_offset >= log_start:
        return first, 0
    real = _bisect(files, layout, 0, files.start, last)
    alive = _bisect(files, layout, log_start, real.start, last)
    skipped = (alive.start - real.start) // layout.size
    if alive.physical_offset < log_start:  # all of them
        return None, skipped + 1
    return alive, skipped


def _bisect(
    files: MappedFiles, layout: Layout, physical_offset: int, start: int, last: Unit
) -> Unit:
    """Give the first unit that is no filler and lies at or behind a physical offset.

    The last unit where none does. Offsets grow along a queue, fillers stand in front.
    """
    low, high, found = start // layout.size, last.start // layout.size, last
    while low < high:
        middle = (low + high) // 2
        unit = _unit_at(files, layout, middle * layout.size)
        if unit is not None and unit.physical_offset >= physical_offset:
            high, found = middle, unit
        else:
            low = middle + 1
    return found


def _unit_at(files: MappedFiles, layout: Layout, start: int) -> Unit | None:
    """Read one unit; None for a filler, and where no unit is."""
    return next(_units(layout, files.read_at(start, layout.size), start), None)


def _tail(layout: Layout, raw: bytes, start: int) -> _Tail | None:
    """Read whole units; leave out fillers, and what can be none."""
    count = len(raw) // CQ_UNIT.size
    if layout is CQ_UNIT and count:
        end, zeros = count * CQ_UNIT.size, bytes(count)
        # Nearly always: what is not negative, nor the size of a filler, begins with a zero.
        if raw[0 : end : CQ_UNIT.size] == zeros == raw[SIZE_AT : end : CQ_UNIT.size]:
            sizes = _sizes(count).unpack_from(raw)
            if 0 not in sizes:
                first, last = (_plain_unit(raw, start, number) for number in (0, count - 1))
                return _Tail(
                    first, last, range(start, start + end, CQ_UNIT.size), (1,) * count, sizes
                )
    units = list(_units(layout, raw, start))
    if not units:
        return None
    starts, _, messages, _, sizes = zip(*units, strict=True)
    return _Tail(units[0], units[-1], starts, messages, sizes)


@cache
def _sizes(count: int) -> Struct:
    """Give what unpacks the sizes of so many units."""
    return Struct(">" + f"{SIZE_AT}xi{CQ_UNIT.size - SIZE_AT - 4}x" * count)


def _plain_unit(raw: bytes, start: int, number: int) -> Unit:
    physical_offset, size, _ = CQ_UNIT.packer.unpack_from(raw, number * CQ_UNIT.size)
    start += number * CQ_UNIT.size
    return Unit(start, start // CQ_UNIT.size, 1, physical_offset, size)


def _units(layout: Layout, raw: bytes, start: int) -> Iterator[Unit]:
    """Read whole units, one by one; leave out fillers, and what can be none."""
    rows = layout.packer.iter_unpack(raw[: len(raw) // layout.size * layout.size])
    return (_batch_units if layout is BATCH_CQ_UNIT else _plain_units)(rows, start)


def _plain_units(rows: Iterator[tuple[int, ...]], start: int) -> Iterator[Unit]:
    for number, (physical_offset, size, _) in enumerate(rows, start // CQ_UNIT.size):
        if physical_offset >= 0 and size > 0 and not is_pre_blank(physical_offset, size):
            yield Unit(number * CQ_UNIT.size, number, 1, physical_offset, size)


def _batch_units(rows: Iterator[tuple[int, ...]], start: int) -> Iterator[Unit]:
    for number, (physical_offset, size, _, _, base, messages, _, _) in enumerate(rows):
        if physical_offset >= 0 and size > 0 and base >= 0 and messages > 0:
            unit_start = start + number * BATCH_CQ_UNIT.size
            yield Unit(unit_start, base, messages, physical_offset, size)
