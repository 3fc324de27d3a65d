"""Small makers of Arrow columns, and rows made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    import numpy.typing as npt

    Bools: TypeAlias = npt.NDArray[np.bool_]
    Int64s: TypeAlias = npt.NDArray[np.int64]

TIME: Final = pa.timestamp("us", "UTC")
TEXT: Final = pa.string()
_LARGEST_MS: Final = np.iinfo(np.int64).max // 1000


def times(milliseconds: Int64s, is_null: Bools | None = None) -> pa.Array:
    """Give times; null also for one that 64 bits of microseconds do not hold."""
    mask = (milliseconds > _LARGEST_MS) | (milliseconds < -_LARGEST_MS)
    if is_null is not None:
        mask |= is_null
    known = np.where(mask, 0, milliseconds) * 1000
    return pa.array(known, pa.int64(), mask=mask if mask.any() else None).cast(TIME)


def numbers(values: Int64s, kind: pa.DataType, is_null: Bools | None = None) -> pa.Array:
    """Give integers as a column of one of Arrow's signed types."""
    return pa.array(values.astype(kind.to_pandas_dtype()), kind, mask=is_null)


def words(choice: Int64s, texts: Sequence[str | None]) -> pa.DictionaryArray:
    """Give one of a few texts a row.

    Args:
        choice: int64, shape (n,); places in `texts`.
        texts: the few; None makes the row null.
    """
    return among(pa.array(choice.astype(np.int32)), texts)


def few_words(values: Int64s, word: Callable[[int], str | None]) -> pa.DictionaryArray:
    """Give a text a row that depends on a number; few numbers are there, and not in order."""
    words = pa.array(values).dictionary_encode()  # by hashes: to sort them takes ten times as long
    return among(words.indices, [word(value) for value in words.dictionary.to_pylist()])


def among(choice: pa.Array, texts: Sequence[str | None]) -> pa.DictionaryArray:
    """Give one of a few texts a row, each text once.

    Arrow's writer of Parquet makes room for each entry of a dictionary and fills it once a text:
    of one that is there twice, what lay in memory would get into the file.

    Args:
        choice: int32, places in `texts`.
        texts: the few; None makes the row null.
    """
    few = pa.array(texts, TEXT).dictionary_encode()
    is_as_given = len(few.dictionary) == len(texts)
    return pa.DictionaryArray.from_arrays(
        choice if is_as_given else few.indices.take(choice), few.dictionary
    )


def constant(text: str, rows: int) -> pa.DictionaryArray:
    """Give the same text for each row."""
    return words(np.zeros(rows, np.int64), [text])


def batch(
    schema: pa.Schema,
    columns: Mapping[str, pa.Array],
    rows: int,
    wanted: Collection[str] | None = None,
) -> pa.RecordBatch:
    """Put columns together; one that is missing is all null.

    Dictionary columns stay as they are; `cast(schema)` makes them plain.

    Args:
        schema: of all columns.
        columns: those that are not all null.
        rows: how many.
        wanted: names of the columns to put in; None is all of them.
    """
    names = [name for name in schema.names if wanted is None or name in wanted]
    arrays = [
        columns[name] if name in columns else pa.nulls(rows, schema.field(name).type)
        for name in names
    ]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def plain_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Give rows as dictionaries, with times as text: a damaged time has no `datetime`."""
    names = batch.schema.names
    columns = [_values(column) for column in batch.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pa.Array) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        raw = column.cast(pa.int64()).to_pylist()
        return [None if time is None else iso_time(time // 1000) for time in raw]
    if pa.types.is_map(kind):
        return [None if value is None else dict(value) for value in column.to_pylist()]
    values: list[Any] = column.to_pylist()
    return values
