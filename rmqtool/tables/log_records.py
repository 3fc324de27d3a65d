"""Some columns of each record of a log, as Python's values, a record at a time.

For what few records are asked for: millions are better left in Arrow batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqtool.errors import UnreadablePath
from rmqtool.scan import columns as row
from rmqtool.scan.batch import Extent
from rmqtool.store.segment import SegmentPart
from rmqtool.tables.messages import MessageOptions, batches_of, message_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.scan.batch import Batch
    from rmqtool.store.tree import Store

Record = dict[str, Any]


def log_records(
    store: Store, columns: frozenset[str], refused: Callable[[str, UnreadablePath], None]
) -> Iterator[Record]:
    """Yield some columns of each record of the log, in order; see `records_of`.

    Args:
        store: whose log.
        columns: of `tables/messages.py`.
        refused: told of a segment that cannot be read.
    """
    options = MessageOptions()
    for log in (store.old_commitlog, store.commitlog):
        for segment in log:
            part = SegmentPart(segment, 0, segment.size)
            try:
                for batch in batches_of(part, options, start=None):
                    yield from records_of(batch, options, columns)
            except UnreadablePath as error:
                refused(segment.path, error)


def records_of(batch: Batch, options: MessageOptions, columns: frozenset[str]) -> Iterator[Record]:
    """Yield some columns of each record of a batch, and `store_timestamp`, in order.

    That is in ms since 1970, whatever was stored: not all of it is a time that a calendar has.

    Args:
        batch: of a scan.
        options: which select nothing.
        columns: of `tables/messages.py`.

    Raises:
        UnreadablePath: a body that is longer than the window cannot be read.
    """
    if batch.kind is not Extent.RECORD:
        return
    stored = iter(batch.columns[row.STORE_TIMESTAMP, : batch.count].tolist())
    for rows in message_rows(batch, options, columns):
        for record in rows.select(sorted(columns)).to_pylist():
            yield {**record, "store_timestamp": next(stored)}
