"""Records of a commitlog file one after the other, in blocks: by kernels where it is worth it.

The kernels pass over what is plainly sound at the speed of memory, on all processors; whatever they
stop at, or find odd, the record check judges, byte for byte as the broker does. On small files the
check does all, as compiling and warming up would take longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from rmqtool.broker.dispatch import QUEUED_TYPES, TRANSACTION
from rmqtool.formats.java import text
from rmqtool.formats.message import MESSAGE_MAGIC_CODE
from rmqtool.startup.records import Checked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from rmqtool.scan.batch import Batch
    from rmqtool.startup.files import ModelFile, ModelReader
    from rmqtool.startup.records import DispatchRequest, RecordCheck
    from rmqtool.store.segment import Segment, SegmentPart

    Int64s = NDArray[np.int64]

KERNELS_FROM: Final = 8 << 20  # bytes of a file; below that the check alone is quicker
PART_BYTES: Final = 16 << 20  # that one thread reads
_LARGEST_SHORT: Final = 2**15 - 1
_GATHERED: Final = 1 << 14  # records of a block, at least, where there are as many
_TOPICS: Final = 8  # which array of a block holds numbers of topics


@dataclass(frozen=True, slots=True)
class Block:
    """Records that the broker accepts, one after the other."""

    position: int  # of the first in its file
    end: int  # position after the last
    positions: Int64s  # int64, shape (n,); of the records in the file
    sizes: Int64s  # int64, shape (n,); bytes
    physical_offsets: Int64s  # int64, shape (n,); the field, not the place
    queue_ids: Int64s  # int64, shape (n,)
    queue_offsets: Int64s  # int64, shape (n,)
    sys_flags: Int64s  # int64, shape (n,)
    store_timestamps: Int64s  # int64, shape (n,); ms
    key_counts: Int64s  # int64, shape (n,); entries that each makes in the key index
    topics: Int64s  # int64, shape (n,); numbers into `names`
    names: list[str]  # topics by number; it grows with the walk
    again: Callable[[int], DispatchRequest]  # reads the record at a position

    @property
    def arrays(self) -> tuple[Int64s, ...]:
        """What is known of each record, array by array."""
        return (
            *(self.positions, self.sizes, self.physical_offsets, self.queue_ids),
            *(self.queue_offsets, self.sys_flags, self.store_timestamps, self.key_counts),
            self.topics,
        )

    @property
    def are_queued(self) -> NDArray[np.bool_]:
        """Which records queues have: bool, shape (n,)."""
        return are_queued(self.sys_flags)

    def records(self, chosen: NDArray[np.bool_]) -> Iterator[DispatchRequest]:
        """Yield the chosen records, each read anew with its properties."""
        for position in self.positions[chosen].tolist():
            yield self.again(position)


Step: TypeAlias = Block | Checked
"""A block; or one record, blank or failure, after the step before."""


@dataclass(slots=True)
class Walk:
    """Follows records."""

    check: RecordCheck  # the broker's check of one record
    by_kernels: bool | None = None  # None decides by the length of the file
    counts_keys: bool = True  # whether blocks say how many keys each record has

    def steps(
        self, file: ModelFile, reader: ModelReader, position: int, *, reads_body: bool = True
    ) -> Iterator[Step]:
        """Yield what lies from a position on, up to a blank or a failure, which is the last step.

        Args:
            file: the file.
            reader: the same, open.
            position: where a record begins.
            reads_body: whether bodies are checked, as recovery does and dispatch does not.

        Raises:
            UnreadablePath: the disk refused.
        """
        limit, met_odd = file.wrote_position, False
        while True:
            if self.uses_kernels(file):
                blocks = _Blocks(self, file, reader, reads_body=reads_body)
                for block in _gathered(blocks.after(position, reads_ahead=not met_odd)):
                    yield block
                    position = block.end
            checked = self.check.check(reader, position, limit, reads_body=reads_body)
            yield checked
            if checked.record is None:
                return
            position, met_odd = position + checked.size, True

    def uses_kernels(self, file: ModelFile) -> bool:
        """Tell whether a file is read by kernels."""
        if self.by_kernels is None:
            return file.place is not None and file.length >= KERNELS_FROM
        return self.by_kernels and file.place is not None


class _PartBlocks(NamedTuple):
    """What the kernels pass over in a part of a file, up to what they stop at."""

    first: int | None  # position of what lies first; None when nothing begins in the part
    end: int  # position after the last record
    columns: Int64s | None  # shape (9, n), the arrays of a block; None without a record
    names: list[str]  # topics by number
    is_whole: bool  # whether they stopped at nothing


class _Blocks:
    """Reads the records of one file."""

    def __init__(
        self, walk: Walk, file: ModelFile, reader: ModelReader, *, reads_body: bool
    ) -> None:
        self.walk, self.file, self.reader, self.reads_body = walk, file, reader, reads_body
        self.checks_body = reads_body and walk.check.checks_body_crc

    def after(self, position: int, *, reads_ahead: bool) -> Iterator[Block]:
        """Yield the sound records from a position on; end before the first that is not.

        Args:
            position: where a record begins.
            reads_ahead: whether other threads read on at once. After an odd record more of them
                may follow, and each would stop them all: then one thread tries a part first.

        Raises:
            UnreadablePath: the disk refused.
        """
        import numpy as np

        from rmqtool.engine import on_threads
        from rmqtool.scan.join import join
        from rmqtool.store.parts import parts
        from rmqtool.store.segment import SegmentPart

        segment = segment_of(self.file)

        def read(part: SegmentPart, *, start: int | None = None) -> _PartBlocks:
            return self._read(part, position if part.begin == position else start)

        def results() -> Iterator[tuple[SegmentPart, _PartBlocks]]:
            begin = position
            if not reads_ahead:
                alone = SegmentPart(segment, begin, min(begin + PART_BYTES, segment.size))
                yield alone, read(alone)
                begin = alone.end
            cut = [
                part._replace(begin=max(part.begin, begin))
                for part in parts([segment], PART_BYTES)
                if part.end > begin
            ]
            yield from zip(cut, on_threads(read, cut), strict=True)

        numbers: dict[str, int] = {}  # of topics, in all parts
        names: list[str] = []
        for _, result in join(results(), read):
            columns, begin = result.columns, result.first
            if columns is not None and begin is not None:
                of_part = [numbers.setdefault(name, len(numbers)) for name in result.names]
                names += [*numbers][len(names) :]
                columns[_TOPICS] = np.array(of_part)[columns[_TOPICS]]
                yield _block(begin, result.end, columns, names, self._again)
            if not result.is_whole:
                return

    def _read(self, part: SegmentPart, start: int | None) -> _PartBlocks:
        import numpy as np

        from rmqtool.scan import columns as row
        from rmqtool.scan.batch import Extent, ScanOptions
        from rmqtool.scan.message import scan

        options = ScanOptions(
            body_crc=self.checks_body,
            keys=self.walk.counts_keys,
            tag_keys=self.walk.check.rules.indexes_tags,
        )
        rows = [
            *(row.POSITION, row.SIZE, row.PHYSICAL_OFFSET_FIELD, row.QUEUE_ID, row.QUEUE_OFFSET),
            *(row.SYS_FLAG, row.STORE_TIMESTAMP, row.KEY_COUNT, row.TOPIC_NUMBER),
        ]
        first: int | None = None
        end, is_whole = part.begin if start is None else start, True
        names: list[str] = []
        read: list[Int64s] = []  # copies: those of a scan last until its next batch
        for batch in scan(part, options, start=start):
            if first is None:
                first = end = batch.position
            is_whole = batch.kind is Extent.RECORD and batch.position == end
            count = self._sound(batch) if is_whole else 0
            if count:
                columns = batch.columns[:, :count]
                end = int(columns[row.POSITION, -1] + columns[row.SIZE, -1])
                names += (text(batch.topics[n]) for n in range(len(names), len(batch.topics)))
                read.append(columns[rows])
            is_whole = is_whole and count == batch.count
            if not is_whole:
                break
        joined = read[0] if len(read) == 1 else np.concatenate(read, axis=1) if read else None
        return _PartBlocks(first, end, joined, names, is_whole)

    def _again(self, begin: int) -> DispatchRequest:
        limit = self.file.wrote_position
        record = self.walk.check.check(self.reader, begin, limit, reads_body=False).record
        assert record is not None  # noqa: S101 - the kernels are stricter than the check
        return record

    def _sound(self, batch: Batch) -> int:
        """Count the records of a batch that the check would pass without a closer look."""
        from rmqtool.scan import columns as row

        columns, limit = batch.columns, self.file.wrote_position
        odd = in_doubt(self.walk.check, columns, checks_body=self.checks_body)
        odd |= columns[row.POSITION] + columns[row.SIZE] > limit
        odd |= are_torn(batch)
        return int(odd.argmax()) if odd.any() else batch.count


def in_doubt(
    check: RecordCheck, columns: Int64s, *, checks_body: bool | None = None
) -> NDArray[np.bool_]:
    """Tell which records of a scan the check might refuse, or judges in ways kernels do not know.

    Args:
        check: the broker's check.
        columns: int64, shape (ROWS, n); columns of a scan that read texts.
        checks_body: whether the scan computed body CRCs; None is what the check wants.
    """
    import numpy as np

    from rmqtool.scan import columns as row

    odd = np.full(columns.shape[1], check.checks_property_crc)
    if check.checks_body_crc if checks_body is None else checks_body:
        odd |= (columns[row.BODY_LENGTH] > 0) & (
            columns[row.BODY_CRC] != columns[row.BODY_CRC_FOUND]
        )
    if not check.knows_v2:
        odd |= columns[row.MAGIC_CODE] != MESSAGE_MAGIC_CODE
    odd |= columns[row.DELAY_LEVEL] == row.UNPARSABLE
    for number in (row.INNER_NUM, row.INNER_BASE):
        is_usual = (columns[number] >= 0) & (columns[number] <= _LARGEST_SHORT)
        odd |= (columns[number] != row.ABSENT) & ~is_usual
    return odd


def are_queued(sys_flags: Int64s) -> NDArray[np.bool_]:
    """Tell which records queues have: see `broker.dispatch.is_queued`."""
    import numpy as np

    are_of_type = np.zeros(TRANSACTION + 1, np.bool_)
    are_of_type[[*QUEUED_TYPES]] = True
    queued: NDArray[np.bool_] = are_of_type[sys_flags & TRANSACTION]
    return queued


def are_torn(batch: Batch) -> NDArray[np.bool_]:
    """Tell which records end in a zero, as properties never do: a sector was zeroed, or is new."""
    import numpy as np

    from rmqtool.scan import columns as row

    columns = batch.columns
    is_read = (columns[row.PROPERTIES_LENGTH] > 0) & (columns[row.BODY_START] >= 0)
    lasts = np.where(is_read, columns[row.RECORD_START] + columns[row.SIZE] - 1, 0)
    torn: NDArray[np.bool_] = is_read & (batch.window[lasts] == 0)
    return torn


def segment_of(file: ModelFile) -> Segment:
    """Give a file as what a scan takes parts of."""
    from rmqtool.store.segment import Segment

    assert file.place is not None  # noqa: S101 - one that would be created has no records
    return Segment(file.place, file.path, file.start, file.length)


def _gathered(blocks: Iterator[Block]) -> Iterator[Block]:
    """Join small blocks: what is done with each costs the same for few records and for many."""
    waiting: list[Block] = []
    count = 0
    for block in blocks:
        waiting.append(block)
        count += len(block.positions)
        if count >= _GATHERED:
            yield _joined(waiting)
            waiting, count = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(blocks: list[Block]) -> Block:
    import numpy as np

    first, last = blocks[0], blocks[-1]
    if first is last:
        return first
    columns = [*map(np.concatenate, zip(*(block.arrays for block in blocks), strict=True))]
    return _block(first.position, last.end, columns, last.names, last.again)


def _block(
    position: int,
    end: int,
    columns: Sequence[Int64s] | Int64s,
    names: list[str],
    again: Callable[[int], DispatchRequest],
) -> Block:
    """Give a block of the arrays of `Block.arrays`."""
    return Block(
        position=position,
        end=end,
        positions=columns[0],
        sizes=columns[1],
        physical_offsets=columns[2],
        queue_ids=columns[3],
        queue_offsets=columns[4],
        sys_flags=columns[5],
        store_timestamps=columns[6],
        key_counts=columns[7],
        topics=columns[_TOPICS],
        names=names,
        again=again,
    )
