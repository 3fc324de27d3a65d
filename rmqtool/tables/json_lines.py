"""An Arrow batch as JSON lines, by kernels.

1. Each column becomes pieces of JSON text (`_pieces`): numbers by Arrow, texts, times, lists and
   maps by kernels; what has few different values is written once (dictionary columns).
2. Names and pieces are put together, column by column, into one buffer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from rmqtool.rows import JsonLines
from rmqtool.tables import json_kernels as kernels
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"
Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
_NULL = np.frombuffer(b"null", np.uint8).copy()
_LIST = ord("[") + 256 * ord("]")
_OBJECT = ord("{") + 256 * ord("}")
_END = np.frombuffer(b"}\n", np.uint8).copy()


class Pieces(NamedTuple):
    """JSON texts of one column.

    Attributes:
        text: the bytes of all of them.
        starts: where each row's piece begins; negative for a row that has none.
        ends: where it ends.
    """

    text: Bytes
    starts: Integers
    ends: Integers

    @classmethod
    def of(cls, text: Bytes, offsets: Integers) -> Pieces:
        """Give pieces that stand behind each other."""
        return cls(text, offsets[:-1], offsets[1:])

    @classmethod
    def empty(cls, count: int) -> Pieces:
        """Give pieces without bytes."""
        return cls(_NULL[:0], np.zeros(count, np.int64), np.zeros(count, np.int64))

    def contiguous(self) -> tuple[Bytes, Integers, Integers]:
        """Give the same as kernels take it."""
        return self.text, np.ascontiguousarray(self.starts), np.ascontiguousarray(self.ends)


def json_lines(
    batch: pa.RecordBatch, columns: Sequence[str], optional: Collection[str] = ()
) -> JsonLines:
    """Write a batch as JSON lines.

    Args:
        batch: columns of integers, times, strings, lists or maps of strings, dictionaries of them.
        columns: names of the fields, in the order in which they are written.
        optional: fields that are left out where they are null.
    """
    rows = batch.num_rows
    fields = [
        (name, _with_nulls(batch.column(name), is_optional=name in optional)) for name in columns
    ]
    offsets = _offsets(_lengths(rows, fields))
    out, begins = np.empty(int(offsets[-1]), np.uint8), offsets[:-1]
    cursors = begins.copy()
    for name, pieces in fields:
        kernels.put_pieces(_prefix(name), pieces.contiguous(), cursors, out)
    cursors = np.maximum(cursors, begins + 1)
    kernels.put_pieces(_END, Pieces.empty(rows).contiguous(), cursors, out)
    out[begins] = ord("{")  # in place of the first field's comma
    damaged = rows - batch["code"].null_count if "code" in batch.schema.names else 0
    return JsonLines(rows, out.data, damaged)


def _prefix(name: str) -> Bytes:
    return np.frombuffer(b"," + orjson.dumps(name) + b":", np.uint8).copy()


def _lengths(rows: int, fields: Sequence[tuple[str, Pieces]]) -> Integers:
    """Give the bytes of each line."""
    lengths = np.zeros(rows, np.int64)
    for name, pieces in fields:
        written = pieces.ends - pieces.starts + len(_prefix(name))
        lengths += np.where(pieces.starts < 0, 0, written)
    return np.maximum(lengths, 1) + len(_END)


def _offsets(lengths: Integers) -> Integers:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _with_nulls(column: pa.Array, *, is_optional: bool) -> Pieces:
    """Give a column's pieces, `null` or nothing for its nulls."""
    is_all_null = column.null_count == len(column)
    pieces = Pieces.empty(len(column)) if is_all_null else _pieces(column)
    if not column.null_count:
        return pieces
    is_null = pc.is_null(column).to_numpy(zero_copy_only=False)
    if is_optional:
        return pieces._replace(starts=np.where(is_null, -1, pieces.starts))
    text = np.concatenate([pieces.text, _NULL])
    starts = np.where(is_null, len(pieces.text), pieces.starts)
    return Pieces(text, starts, np.where(is_null, len(text), pieces.ends))


def _pieces(column: pa.Array) -> Pieces:
    """Give the pieces of a column; those of nulls may be anything."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        words = _pieces(column.dictionary)
        indices = _no_nulls(column.indices).cast(pa.int64()).to_numpy()
        return Pieces(words.text, words.starts[indices], words.ends[indices])
    if pa.types.is_string(kind):
        return _strings(*_texts(column))
    if pa.types.is_timestamp(kind):
        return _times(column)
    if pa.types.is_map(kind):
        return _groups(column.offsets, column.keys, column.items)
    if pa.types.is_list(kind):
        return _groups(column.offsets, None, column.values)
    return Pieces.of(*_texts(column.cast(pa.string())))


def _no_nulls(column: pa.Array) -> pa.Array:
    """Give an array of integers with anything instead of nulls."""
    return column.fill_null(0) if column.null_count else column


def _texts(column: pa.Array) -> tuple[Bytes, Integers]:
    """Give the bytes of a string column and where each string begins and ends."""
    _, offsets, text = column.buffers()
    rows = len(column)
    raw = np.frombuffer(offsets, np.int32, rows + 1, 4 * column.offset).astype(np.int64)
    # Kernels take writable arrays only, and an Arrow buffer is not: copying is cheap.
    data = np.frombuffer(text, np.uint8, int(raw[-1])) if text is not None else _NULL[:0]
    return data.copy(), raw


def _strings(text: Bytes, offsets: Integers) -> Pieces:
    """Give strings in quotes, escaped."""
    pieces = Pieces.of(text, offsets).contiguous()
    lengths = np.empty(len(offsets) - 1, np.int64)
    kernels.measure_texts(pieces, kernels.ESCAPES, lengths)
    written = _offsets(lengths)
    out = np.empty(int(written[-1]), np.uint8)
    kernels.write_texts(pieces, kernels.ESCAPES, written, out)
    return Pieces.of(out, written)


def _times(column: pa.Array) -> Pieces:
    """Give times in quotes; those beyond four-digit years one by one."""
    times = _no_nulls(column.cast(pa.int64())).to_numpy() // 1000
    out = np.empty(len(times) * kernels.TIME_BYTES, np.uint8)
    kernels.write_times(times, out)
    offsets = np.arange(len(times) + 1, dtype=np.int64) * kernels.TIME_BYTES
    pieces = Pieces.of(out, offsets)
    unusual = np.flatnonzero((times < kernels.FIRST_TIME) | (times > kernels.LAST_TIME))
    if not unusual.size:
        return pieces
    words = [f'"{iso_time(int(time))}"'.encode() for time in times[unusual]]
    ends = len(out) + np.cumsum([len(word) for word in words])
    starts = pieces.starts.copy()
    starts[unusual] = ends - [len(word) for word in words]
    all_ends = pieces.ends.copy()
    all_ends[unusual] = ends
    more = np.frombuffer(b"".join(words), np.uint8)
    return Pieces(np.concatenate([out, more]), starts, all_ends)


def _groups(offsets: pa.Array, names: pa.Array | None, values: pa.Array) -> Pieces:
    """Give lists of strings, or objects when there are names."""
    groups = offsets.cast(pa.int64()).to_numpy().copy()
    inner = _pieces(values).contiguous()
    outer = (Pieces.empty(len(values)) if names is None else _pieces(names)).contiguous()
    lengths = np.empty(len(groups) - 1, np.int64)
    kernels.measure_groups(groups, outer, inner, lengths)
    written = _offsets(lengths)
    out = np.empty(int(written[-1]), np.uint8)
    brackets = _LIST if names is None else _OBJECT
    kernels.write_groups(groups, outer, inner, brackets, written, out)
    return Pieces.of(out, written)
