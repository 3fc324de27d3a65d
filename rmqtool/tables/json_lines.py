"""An Arrow batch as JSON lines, by kernels.

1. Each column becomes pieces of JSON text (`_pieces`): numbers stay numbers, texts, times, lists
   and maps are written by kernels; what has few different values is written once (dictionaries).
2. What is the same in all rows becomes part of the name of the next field (`_constant`).
3. One kernel writes line after line: names, pieces, numbers.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from rmqtool.rows import JsonLines
from rmqtool.tables import json_kernels as kernels
from rmqtool.tables import json_line_kernels as line_kernels
from rmqtool.tables.json_line_kernels import NULL, NUMBER, SLACK
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Sequence

Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"
Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
_LIST: Final = ord("[") + 256 * ord("]")
_OBJECT: Final = ord("{") + 256 * ord("}")
_PIECE_BYTES: Final = 8  # comma, colon and two pairs of quotes beside a name and its value
_NO_BYTES: Final = np.zeros(SLACK, np.uint8)
_NO_PIECES: Final = np.empty(0, np.int64)
_NUMBERS: Final = np.array([NUMBER])


class Pieces(NamedTuple):
    """JSON texts of one column."""

    text: Bytes  # the bytes of all of them, and SLACK
    # where each row's piece begins; NULL or NUMBER for a row that has none. One for all, where all
    # are alike.
    starts: Integers
    ends: Integers  # where it ends; the number
    quoted: bool = False  # whether the pieces are to be put in quotes

    @classmethod
    def of(cls, text: Bytes, offsets: Integers, *, quoted: bool = False) -> Pieces:
        """Give pieces that stand after each other."""
        return cls(text, offsets[:-1], offsets[1:], quoted)

    @property
    def size(self) -> int:
        """Bytes of all pieces; only where each row has one."""
        return int((self.ends - self.starts).sum())

    def contiguous(self) -> tuple[Bytes, Integers, Integers]:
        """Give the same as kernels take it."""
        return self.text, np.ascontiguousarray(self.starts), np.ascontiguousarray(self.ends)


def json_lines(batch: pa.RecordBatch, columns: Sequence[str]) -> JsonLines:
    """Write a batch as JSON lines; a field is there whether or not it is null.

    Args:
        batch: any columns; those of integers, times, strings, lists and maps of strings, and
            dictionaries of them by kernels.
        columns: names of the fields, in the order in which they are written.
    """
    rows = batch.num_rows
    arrays = [batch.column(name) for name in columns]
    # What is the same in all rows costs no step of its own; something has to end a line.
    fixed = (*map(_constant, arrays[:-1]), None)
    text, facts = _named(tuple(columns), fixed)
    facts = facts.copy()
    varied = [column for column, constant in zip(arrays, fixed, strict=True) if constant is None]
    starts, ends = np.empty((2, len(varied), rows), np.int64)
    texts = []  # kept until the lines are written
    for field, column in enumerate(varied):
        pieces = _with_nulls(column)
        starts[field], ends[field] = pieces.starts, pieces.ends
        facts[line_kernels.QUOTES, field] = pieces.quoted
        facts[line_kernels.ADDRESS, field] = pieces.text.ctypes.data
        texts.append(pieces.text)
    lines = (text, facts), (starts, ends)
    out = np.empty(line_kernels.room_for_lines(*lines), np.uint8)
    size = line_kernels.write_lines(*lines, out)
    coded = rows - batch["code"].null_count if "code" in batch.schema.names else 0
    return JsonLines(rows, out[:size].data, coded)


def _constant(column: pa.Array) -> bytes | None:
    """Give the JSON text of a column whose rows are easily seen to be all the same."""
    if column.null_count == len(column):
        return b"null"
    kind = column.type
    if column.null_count:
        return None
    if pa.types.is_integer(kind):
        values = column.to_numpy()
        return b"%d" % values[0] if (values == values[0]).all() else None
    if not pa.types.is_dictionary(kind) or len(column.dictionary) > 1:
        return None
    text, starts, ends, is_quoted = _pieces(column.dictionary)
    quote = b'"' if is_quoted else b""
    return quote + text[starts[0] : ends[0]].tobytes() + quote


@lru_cache(maxsize=64)
def _named(columns: tuple[str, ...], fixed: tuple[bytes | None, ...]) -> tuple[Bytes, Integers]:
    """Give names as they stand in a line, each with the constants before it, and their bounds."""
    words = [b""]
    for column, constant in zip(columns, fixed, strict=True):
        words[-1] += b"," + orjson.dumps(column) + b":"
        if constant is None:
            words.append(b"")
        else:
            words[-1] += constant
    words.pop()
    facts = np.zeros((line_kernels.FIELD_ROWS, len(words)), np.int64)
    facts[line_kernels.NAME_TO] = np.cumsum([len(word) for word in words])
    facts[line_kernels.NAME_FROM, 1:] = facts[line_kernels.NAME_TO, :-1]
    return np.frombuffer(b"".join([*words, bytes(SLACK)]), np.uint8).copy(), facts


def _offsets(lengths: Integers) -> Integers:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _with_nulls(column: pa.Array) -> Pieces:
    """Give a column's pieces, `null` for its nulls."""
    if column.null_count == len(column):
        return Pieces(_NO_BYTES, np.array([NULL]), np.zeros(1, np.int64))
    pieces = _pieces(column)
    if not column.null_count:
        return pieces
    is_null = pc.is_null(column).to_numpy(zero_copy_only=False)
    return pieces._replace(starts=np.where(is_null, NULL, pieces.starts))


def _pieces(column: pa.Array) -> Pieces:
    """Give the pieces of a column; those of nulls may be anything."""
    kind = column.type
    if pa.types.is_integer(kind):
        return Pieces(_NO_BYTES, _NUMBERS, _no_nulls(column).to_numpy())
    if pa.types.is_dictionary(kind):
        text, starts, ends, quoted = _pieces(column.dictionary)
        indices = _no_nulls(column.indices).to_numpy()
        return Pieces(text, starts[indices], ends[indices], quoted)
    if pa.types.is_string(kind):
        return _strings(*_texts(column))
    if pa.types.is_timestamp(kind):
        return _times(column)
    if pa.types.is_map(kind):
        return _groups(column.offsets, column.keys, column.items)
    is_texts = pa.types.is_list(kind) and pa.types.is_string(kind.value_type)
    return _groups(column.offsets, None, column.values) if is_texts else _one_by_one(column)


def _no_nulls(column: pa.Array) -> pa.Array:
    """Give an array of integers with anything instead of nulls."""
    return column.fill_null(0) if column.null_count else column


def _texts(column: pa.Array) -> tuple[Bytes, Integers]:
    """Give the bytes of a string column, with SLACK, and where each string begins and ends."""
    _, offsets, text = column.buffers()
    rows = len(column)
    raw = np.frombuffer(offsets, np.int32, rows + 1, 4 * column.offset).astype(np.int64)
    # Kernels take writable arrays only, and an Arrow buffer is not: copying is cheap.
    size = int(raw[-1])
    data = np.empty(size + SLACK, np.uint8)
    if text is not None:
        data[:size] = np.frombuffer(text, np.uint8, size)
    return data, raw


def _strings(text: Bytes, offsets: Integers) -> Pieces:
    """Give strings, escaped where need be."""
    if kernels.is_plain(text, int(offsets[-1])):
        return Pieces.of(text, offsets, quoted=True)
    pieces = Pieces.of(text, offsets).contiguous()
    lengths = np.empty(len(offsets) - 1, np.int64)
    kernels.measure_texts(pieces, kernels.ESCAPES, lengths)
    written = _offsets(lengths)
    out = np.empty(int(written[-1]) + SLACK, np.uint8)
    kernels.write_texts(pieces, kernels.ESCAPES, written, out)
    return Pieces.of(out, written)


def _one_by_one(column: pa.Array) -> Pieces:
    """Give the pieces of a column for which there is no kernel, such as booleans."""
    words = [orjson.dumps(value) for value in column.to_pylist()]
    text = np.frombuffer(b"".join([*words, bytes(SLACK)]), np.uint8).copy()
    return Pieces.of(text, _offsets(np.array([len(word) for word in words], np.int64)))


def _times(column: pa.Array) -> Pieces:
    """Give times in quotes; those beyond four-digit years one by one."""
    times = _no_nulls(column.cast(pa.int64())).to_numpy() // 1000
    size = len(times) * kernels.TIME_BYTES
    out = np.empty(size + SLACK, np.uint8)
    kernels.write_times(times, out)
    offsets = np.arange(len(times) + 1, dtype=np.int64) * kernels.TIME_BYTES
    pieces = Pieces.of(out, offsets)
    unusual = np.flatnonzero((times < kernels.FIRST_TIME) | (times > kernels.LAST_TIME))
    if not unusual.size:
        return pieces
    words = [f'"{iso_time(int(time))}"'.encode() for time in times[unusual]]
    ends = offsets[1:].copy()
    starts = offsets[:-1].copy()
    ends[unusual] = size + np.cumsum([len(word) for word in words])
    starts[unusual] = ends[unusual] - [len(word) for word in words]
    more = np.frombuffer(b"".join([*words, bytes(SLACK)]), np.uint8)
    return Pieces(np.concatenate([out[:size], more]), starts, ends)


def _groups(offsets: pa.Array, names: pa.Array | None, values: pa.Array) -> Pieces:
    """Give lists of strings, or objects when there are names."""
    groups = offsets.cast(pa.int64()).to_numpy().copy()
    inner = _pieces(values)
    outer = Pieces(_NO_BYTES, _NO_PIECES, _NO_PIECES) if names is None else _pieces(names)
    brackets = _LIST if names is None else _OBJECT
    room = outer.size + inner.size + _PIECE_BYTES * len(values) + 2 * len(groups)
    out, written = np.empty(room + SLACK, np.uint8), np.empty(len(groups), np.int64)
    line_kernels.write_groups(
        groups,
        outer.contiguous(),
        inner.contiguous(),
        (brackets, outer.quoted, inner.quoted),
        written,
        out,
    )
    return Pieces.of(out, written)
