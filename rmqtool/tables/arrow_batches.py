"""Rows of a view as plain Arrow batches, for whoever works on with columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.errors import UsageError
from rmqtool.scan.join import run_joined
from rmqtool.tables.inputs import file_parts, segment_parts, views_of
from rmqtool.tables.messages import PART_BYTES, MessagesOf
from rmqtool.tables.readers import READERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from rmqtool.store.tree import Store
    from rmqtool.tables.dump import DumpOptions


def batches(store: Store, options: DumpOptions) -> Iterator[pa.RecordBatch]:
    """Yield batches with the public schema of their view.

    Raises:
        UsageError: the view is one of a small file, which has rows only.
        UnreadablePath: a file cannot be read.
    """
    (view, *_) = views_of(store, options.word)
    if view.is_messages:
        parts = segment_parts(store, view, options.selection.offsets, PART_BYTES)
        read = MessagesOf(options.message_options(view))
        for part, result in run_joined(read, parts):
            if result.unread is not None:
                raise result.unread
            yield from result.chunks
            yield from read.rest(part, result)
        return
    if view.word not in READERS:
        raise UsageError(option="kind", reason=f"{view.word} has rows, not batches")
    for file in file_parts(store, view, options.selection):
        for batch in READERS[view.word](file, options.selection, fillers=options.fillers):
            yield batch.cast(view.table.arrow)
