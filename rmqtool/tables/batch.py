"""An Arrow batch as rows of plain Python values, for tables and CSV."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from rmqtool.times import iso_time


def plain_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Give rows as dictionaries, with times as text: a damaged time has no `datetime`."""
    names = batch.schema.names
    columns = [_values(column) for column in batch.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pa.Array) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        raw = column.cast(pa.int64()).to_pylist()
        return [None if one is None else iso_time(one // 1000) for one in raw]
    if pa.types.is_map(kind):
        return [None if one is None else dict(one) for one in column.to_pylist()]
    values: list[Any] = column.to_pylist()
    return values
