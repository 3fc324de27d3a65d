"""Records of a commitlog file one after the other, in blocks: by kernels where it is worth it.

The kernels pass over what is plainly sound at the speed of memory; whatever they stop at, or find
odd, the record check judges, byte for byte as the broker does. On small files the check does all,
as compiling and warming up would take longer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rmqtool.formats.java import text
from rmqtool.formats.message import MESSAGE_MAGIC_CODE
from rmqtool.startup.records import Checked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from rmqtool.scan.batch import Batch
    from rmqtool.startup.files import ModelFile, ModelReader
    from rmqtool.startup.records import DispatchRequest, RecordCheck
    from rmqtool.store.segment import SegmentPart

    Int64s = NDArray[np.int64]

KERNELS_FROM: Final = 8 << 20  # bytes of a file; below that the check alone is quicker
_LARGEST_SHORT: Final = 2**15 - 1
_GATHERED: Final = 1 << 16  # records of a block
_ARRAYS: Final = (
    "positions",
    "sizes",
    "physical_offsets",
    "queue_ids",
    "queue_offsets",
    "sys_flags",
    "store_timestamps",
    "key_counts",
    "topics",
)


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

    def copied(self) -> Block:
        """Give a block that lasts."""
        arrays: dict[str, Any] = {name: getattr(self, name).copy() for name in _ARRAYS}
        return replace(self, **arrays)

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
        limit = file.wrote_position
        while True:
            if self.uses_kernels(file):
                for block in _gathered(self._blocks(file, reader, position, reads_body=reads_body)):
                    yield block
                    position = block.end
            checked = self.check.check(reader, position, limit, reads_body=reads_body)
            yield checked
            if checked.record is None:
                return
            position += checked.size

    def uses_kernels(self, file: ModelFile) -> bool:
        """Tell whether a file is read by kernels."""
        if self.by_kernels is None:
            return file.place is not None and file.length >= KERNELS_FROM
        return self.by_kernels and file.place is not None

    def _blocks(
        self, file: ModelFile, reader: ModelReader, position: int, *, reads_body: bool
    ) -> Iterator[Block]:
        """Yield the sound records from a position on; end before the first that is not."""
        from rmqtool.scan import columns as row
        from rmqtool.scan.batch import Extent, ScanOptions
        from rmqtool.scan.message import scan

        checks_body = reads_body and self.check.checks_body_crc
        options = ScanOptions(
            body_crc=checks_body,
            keys=self.counts_keys,
            tag_keys=self.check.rules.indexes_tags,
        )
        names: list[str] = []
        limit = file.wrote_position

        def again(begin: int) -> DispatchRequest:
            record = self.check.check(reader, begin, limit, reads_body=False).record
            assert record is not None  # noqa: S101 - the kernels are stricter than the check
            return record

        for batch in scan(segment_of(file), options, start=position):
            if batch.kind is not Extent.RECORD or batch.position != position:
                return
            count = self._sound(batch, limit, checks_body=checks_body)
            if count:
                columns = batch.columns[:, :count]
                end = int(columns[row.POSITION, -1] + columns[row.SIZE, -1])
                names += (text(batch.topics[n]) for n in range(len(names), len(batch.topics)))
                yield _block(columns, position, end, names, again)
                position = end
            if count < batch.count:
                return

    def _sound(self, batch: Batch, limit: int, *, checks_body: bool) -> int:
        """Count the records of a batch that the check would pass without a closer look."""
        from rmqtool.scan import columns as row

        odd = in_doubt(self.check, batch.columns, checks_body=checks_body)
        odd |= batch.columns[row.POSITION] + batch.columns[row.SIZE] > limit
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


def segment_of(file: ModelFile) -> SegmentPart:
    """Give a file as what a scan takes."""
    from rmqtool.store.segment import Segment, SegmentPart

    assert file.place is not None  # noqa: S101 - one that would be created has no records
    segment = Segment(file.place, file.path, file.start, file.length)
    return SegmentPart(segment, 0, file.length)


def _gathered(blocks: Iterator[Block]) -> Iterator[Block]:
    """Join blocks: what is done with each costs the same for few records and for many."""
    waiting: list[Block] = []
    count = 0
    for block in blocks:
        waiting.append(block.copied())
        count += len(block.positions)
        if count >= _GATHERED:
            yield _joined(waiting)
            waiting, count = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(blocks: list[Block]) -> Block:
    import numpy as np

    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(block, name) for block in blocks]) for name in _ARRAYS
    }
    return replace(blocks[0], end=blocks[-1].end, **arrays)


def _block(
    columns: Int64s,
    position: int,
    end: int,
    names: list[str],
    again: Callable[[int], DispatchRequest],
) -> Block:
    """Copy nothing yet: the columns last until the next batch."""
    from rmqtool.scan import columns as row

    return Block(
        position=position,
        end=end,
        positions=columns[row.POSITION],
        sizes=columns[row.SIZE],
        physical_offsets=columns[row.PHYSICAL_OFFSET_FIELD],
        queue_ids=columns[row.QUEUE_ID],
        queue_offsets=columns[row.QUEUE_OFFSET],
        sys_flags=columns[row.SYS_FLAG],
        store_timestamps=columns[row.STORE_TIMESTAMP],
        key_counts=columns[row.KEY_COUNT],
        topics=columns[row.TOPIC_NUMBER],
        names=names,
        again=again,
    )
