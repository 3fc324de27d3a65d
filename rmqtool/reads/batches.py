"""Batches of rows on their way to an engine: joined, cut, named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ROWS_TOGETHER: Final = 8192
BYTES_TOGETHER: Final = 1 << 20


def together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give the rows of small batches in fewer: each costs Java some, and small segments have many.

    Args:
        batches: of one schema.
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= ROWS_TOGETHER or size >= BYTES_TOGETHER:
            yield from _joined(waiting)
            waiting, rows, size = [], 0, 0
    yield from _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(batches) == 1:
        yield from batches
    elif batches:
        yield from pa.Table.from_batches(batches).combine_chunks().to_batches()


def first_rows(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """Pass so many rows on, and ask for no more."""
    left = limit
    for batch in batches if left > 0 else ():
        yield batch.slice(0, left)
        left -= batch.num_rows
        if left <= 0:
            return


def labelled(batches: Iterable[pa.RecordBatch], labels: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Give columns the names that a query has for them, in whatever case."""
    for batch in batches:
        yield batch.rename_columns([*labels])
