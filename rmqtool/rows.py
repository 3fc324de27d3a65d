"""Rows: what every command gives to be written, of one kind, produced while they are read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

Row: TypeAlias = Mapping[str, object]
ROWS_A_CHUNK: Final = 1000
TEXT_A_CHUNK: Final = 8 << 20  # characters
TURNED: Final = ("field", "value")  # the columns of rows that are turned round


@runtime_checkable
class Columns(Protocol):
    """A batch of columns, which is how bulk rows come: a `pyarrow.RecordBatch`."""

    def to_pylist(self) -> list[dict[str, Any]]:
        """Give the same as dictionaries."""


@dataclass(frozen=True, eq=False, slots=True)
class JsonLines:
    """Rows that a worker has written as JSON lines already: writing takes longer than reading."""

    count: int  # how many rows
    text: bytes | memoryview  # UTF-8, a line feed after each row and nowhere else
    coded: int = 0  # how many of them have the code of a finding

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as bytes: a view of memory does not."""
        return JsonLines, (self.count, bytes(self.text), self.coded)


Chunk: TypeAlias = Sequence[Row] | Columns | JsonLines


@dataclass(frozen=True, eq=False, slots=True)
class Rows:
    """Rows of one kind, in chunks.

    Attributes:
        whole: fields that are of no use when they are cut: they go there, too, rather than that. Of
            rows that are turned round, both name fields by their line: with the column `value` in
            `below` a sentence is broken beside its field, and one of `whole` is not.
    """

    columns: Sequence[str]  # names of all fields, in the order that is promised
    # rows as dictionaries or as Arrow batches; a missing field is null
    chunks: Iterable[Chunk] = field(repr=False)
    # fields of a table when nobody asked for others, the most important first; a narrow terminal
    # shows as many of them as fit. Empty: all.
    shown: Sequence[str] = ()
    name: str = ""  # what the rows are, where several kinds come together
    optional: Collection[str] = ()  # fields that a table shows only where they are not null
    # the field of a JSON line that holds the name, where several kinds come together
    label: str = "kind"
    # fields that are sentences: where a terminal has no room for them beside the others, they stand
    # whole on lines of their own below the row
    below: Collection[str] = ()
    whole: Collection[str] = ()
    # gives the JSON schema of a row of all fields; None where only the rows tell
    schema: Callable[[], Mapping[str, Any]] | None = field(default=None, repr=False)

    def __iter__(self) -> Iterator[Chunk]:
        """Yield the chunks, once."""
        return iter(self.chunks)


def rows_of(chunk: Chunk) -> Sequence[Row]:
    """Give a chunk as dictionaries."""
    if isinstance(chunk, JsonLines):
        from orjson import loads

        return [loads(line) for line in bytes(chunk.text).splitlines()]
    return chunk.to_pylist() if isinstance(chunk, Columns) else chunk


def count_of(chunk: Chunk) -> int:
    """Give the number of rows in a chunk."""
    return chunk.count if isinstance(chunk, JsonLines) else len(rows_of(chunk))


def gap_row(code: object, reason: str | None, **where: object) -> dict[str, object]:
    """Give the row of what cannot be read: where it is, what is wrong with it, and why."""
    return {**where, "extent": "gap", "code": code, "reason": reason}


def in_chunks(rows: Iterable[Row]) -> Iterator[Chunk]:
    """Give rows in chunks, fewer in one where texts are long."""
    chunk: list[Row] = []
    length = 0
    for row in rows:
        chunk.append(row)
        length += text_length(row)
        if len(chunk) == ROWS_A_CHUNK or length > TEXT_A_CHUNK:
            yield chunk
            chunk, length = [], 0
    if chunk:
        yield chunk


def text_length(row: Row) -> int:
    """Give the characters of a row's texts."""
    return sum([len(value) for value in row.values() if isinstance(value, str)])


def part_of(chunk: Chunk, start: int, end: int) -> Chunk:
    """Give the rows [start, end) of a chunk."""
    if not isinstance(chunk, JsonLines):
        return rows_of(chunk)[start:end]
    lines = bytes(chunk.text).splitlines(keepends=True)[start:end]
    some = JsonLines(len(lines), b"".join(lines))
    coded = sum(1 for row in rows_of(some) if row.get("code"))
    return JsonLines(some.count, some.text, coded)


def rows_after(passed: int, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Give the rows past some."""
    for chunk in chunks:
        count = count_of(chunk)
        yield part_of(chunk, passed, count) if passed > 0 else chunk
        passed -= min(passed, count)


def sentences(lines: Iterable[tuple[str, str]], name: str, whole: Collection[str]) -> Rows:
    """Give fields with sentences as rows that are turned round; a long one takes several lines.

    Args:
        lines: fields with their values, in order.
        name: what they say together.
        whole: fields whose values are never broken.
    """
    chunk = [dict(zip(TURNED, line, strict=True)) for line in lines]
    return Rows(TURNED, [chunk], (), name, below=TURNED[1:], whole=whole)


def turned(rows: Rows) -> Rows:
    """Turn rows round: one line a field, for a person who looks at a row or two."""

    def lines() -> Iterator[list[dict[str, object]]]:
        number = 0
        for chunk in rows:
            for row in rows_of(chunk):
                filled = [
                    {"field": name, "value": row.get(name)}
                    for name in rows.columns
                    if row.get(name) not in (None, [], {})
                ]
                yield [{"field": "-", "value": "-"}, *filled] if number else filled
                number += 1

    return Rows(TURNED, lines(), (), rows.name)


def last_of(chunks: Iterable[Chunk], wanted: int | None) -> Iterator[Chunk]:
    """Yield the last rows only, in chunks; all of them if `wanted` is None."""
    if wanted is None:
        yield from chunks
        return
    kept: deque[Chunk] = deque()
    count = 0
    for chunk in chunks:
        kept.append(chunk)
        count += count_of(chunk)
        while kept and count - count_of(kept[0]) >= wanted:
            count -= count_of(kept.popleft())
    if kept and count > wanted:
        first = kept.popleft()
        yield part_of(first, count - wanted, count_of(first))
    yield from kept
