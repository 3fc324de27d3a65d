"""The one way out for rows: as a table, one JSON document, JSON lines or CSV.

Rows are written while they are produced, so memory does not grow with their number and a reader
of a pipe sees them as they are found. The field order is fixed; nothing depends on locale or
clock. Nothing else writes to standard output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rmqtool.errors import UsageError
from rmqtool.render.look import Format
from rmqtool.render.table import TableWriter
from rmqtool.render.values import as_csv, dump_json, json_line
from rmqtool.rows import JsonLines, rows_of
from rmqtool.times import in_zone
from rmqtool.words import meant

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import tzinfo

    from rmqtool.render.look import Look
    from rmqtool.render.sink import Sink
    from rmqtool.rows import Chunk, Row, Rows


class _Writer(Protocol):
    """Writes rows of one kind in one format."""

    def write(self, chunk: Chunk) -> int:
        """Write more rows and say how many they were."""

    def close(self) -> None:
        """Write the end."""


def emit(rows: Rows, look: Look, sink: Sink) -> int:
    """Write rows of one kind; return how many there were.

    Raises:
        UsageError: a column that was asked for does not exist.
        OutputClosed: the reader went away.
    """
    return _emit_kind(rows, look, sink, kind=None)


def emit_all(kinds: Iterable[Rows], look: Look, sink: Sink, empty: str = "") -> int:
    """Write rows of several kinds, each under its name; return how many there were.

    A table has a title, a JSON line begins with the name under `Rows.label`, the JSON document
    has one list for each.

    Args:
        kinds: rows of each.
        look: how they are to look.
        sink: where they go.
        empty: what stands in a table below the title of a kind without rows.

    Raises:
        UsageError: CSV, which has one header only.
        OutputClosed: the reader went away.
    """
    if look.format is Format.CSV:
        reason = "csv holds rows of one kind, and here are several; choose one, or jsonl"
        raise UsageError(option="--format", reason=reason)
    count, is_first = 0, True
    for rows in kinds:
        if look.format is Format.TABLE:
            sink.write_lines(([] if is_first else [""]) + [f"{rows.name}:"])
        elif look.format is Format.JSON:
            sink.write((b"{" if is_first else b",\n") + dump_json(rows.name) + b": ")
        is_first = False
        found = _emit_kind(rows, look, sink, kind=rows.name)
        if look.format is Format.TABLE and empty and not found:
            sink.write_lines([empty])
        count += found
    if look.format is Format.JSON:
        sink.write(b"{}\n" if is_first else b"}\n")
        sink.flush()
    return count


def _emit_kind(rows: Rows, look: Look, sink: Sink, *, kind: str | None) -> int:
    """Write one kind's rows in the format that was asked for."""
    writer = _writer(rows, look, sink, kind)
    count = 0
    for chunk in rows:
        count += writer.write(chunk)
        sink.flush()
    writer.close()
    sink.flush()
    return count


def _writer(rows: Rows, look: Look, sink: Sink, kind: str | None) -> _Writer:
    """Choose the writer."""
    columns = chosen_columns(rows, look)
    if look.format is Format.TABLE:
        return _Table(sink, rows, columns, look)
    if look.format is Format.CSV:
        return _Csv(sink, columns)
    if look.format is Format.JSON:
        return _JsonArray(sink, columns, is_whole=kind is None)
    return _JsonLines(sink, columns, {} if kind is None else {rows.label: kind})


def chosen_columns(rows: Rows, look: Look) -> Sequence[str]:
    """Give the columns to write.

    Raises:
        UsageError: one of them is not of these rows'.
    """
    if look.columns is None:
        return rows.columns
    for name in look.columns:
        if name not in rows.columns:
            reason = f"no column {name}; {meant(name, rows.columns)}"
            raise UsageError(option="--columns", reason=reason)
    return look.columns


class _Table:
    """Aligned text."""

    def __init__(self, sink: Sink, rows: Rows, columns: Sequence[str], look: Look) -> None:
        shown, optional = rows.shown or columns, rows.optional
        if look.columns is not None:  # who names a column wants to see it, empty or not
            shown, optional = columns, ()
        self._table = TableWriter(
            sink, shown, optional, color=look.color, below=rows.below, whole=rows.whole
        )
        self._note, self._zone = look.note, look.zone

    def write(self, chunk: Chunk) -> int:
        rows = rows_of(chunk)
        self._table.write([_in_zone(row, self._zone) for row in rows] if self._zone else rows)
        return len(rows)

    def close(self) -> None:
        self._table.close()
        if self._table.left_out:
            names = ", ".join(self._table.left_out)
            count = len(self._table.left_out)
            hidden = f"{count} column{'' if count == 1 else 's'} hidden: {names}"
            self._note(f"{hidden} (shown with --columns, --format jsonl or a wider terminal)")


def _in_zone(row: Row, zone: tzinfo) -> Row:
    """Give a row with its times as clocks of a place show them.

    Fields are told by their names: what a stranger wrote into a key is left alone. A row may be
    about one field, too.
    """
    return {
        name: in_zone(value, zone)
        if name.endswith("time") or (name == "value" and str(row.get("field")).endswith("time"))
        else value
        for name, value in row.items()
    }


class _JsonLines:
    """One JSON object a line; nothing at all when there is nothing."""

    def __init__(self, sink: Sink, columns: Sequence[str], tag: dict[str, str]) -> None:
        self._sink, self._columns, self._tag = sink, columns, tag
        self._all = (*tag, *columns)

    def write(self, chunk: Chunk) -> int:
        if isinstance(chunk, JsonLines) and not self._tag:
            self._sink.write(chunk.text)
            return chunk.count
        rows = rows_of(chunk)
        self._sink.write(b"".join([self._line(row) for row in rows]))
        return len(rows)

    def _line(self, row: Row) -> bytes:
        if not self._tag:
            return json_line(row, self._columns)
        return json_line({**self._tag, **row}, self._all)

    def close(self) -> None:
        """Nothing is open."""


class _JsonArray:
    """One JSON document: a list of objects, a row a line."""

    def __init__(self, sink: Sink, columns: Sequence[str], *, is_whole: bool) -> None:
        self._sink, self._columns, self._is_whole = sink, columns, is_whole
        self._before = b"["

    def write(self, chunk: Chunk) -> int:
        count, lines = self._lines(chunk)
        if count:
            self._sink.write(self._before + b"\n")
            # One line may be long: no copy of it is made.
            text = memoryview(lines)[:-1] if count == 1 else lines[:-1].replace(b"\n", b",\n")
            self._sink.write(text)
            self._before = b","
        return count

    def _lines(self, chunk: Chunk) -> tuple[int, bytes]:
        """Give a chunk's rows, each with a line feed after it; there is not one inside a row."""
        if isinstance(chunk, JsonLines):
            return chunk.count, bytes(chunk.text)
        rows = rows_of(chunk)
        return len(rows), b"".join([json_line(row, self._columns) for row in rows])

    def close(self) -> None:
        """End the list."""
        self._sink.write(b"[]" if self._before == b"[" else b"\n]")
        if self._is_whole:
            self._sink.write(b"\n")


class _Csv:
    """RFC 4180 with line feeds as ends: a header, then a line a row, harmless for a spreadsheet."""

    def __init__(self, sink: Sink, columns: Sequence[str]) -> None:
        self._sink, self._columns = sink, columns
        self._header = [_csv_line(columns)]

    def write(self, chunk: Chunk) -> int:
        rows = rows_of(chunk)
        lines = (_csv_line([as_csv(row.get(name)) for name in self._columns]) for row in rows)
        self._sink.write_lines([*self._header, *lines])
        self._header.clear()
        return len(rows)

    def close(self) -> None:
        """Write the header when there were no rows."""
        self._sink.write_lines(self._header)


def _csv_line(cells: Sequence[str]) -> str:
    """Give a line; no cell has a line end, as what does not print is escaped."""
    # Python's own writer has four bytes for each character of a line.
    return ",".join([_quoted(cell) for cell in cells]) or '""'


def _quoted(cell: str) -> str:
    if "," not in cell and '"' not in cell:
        return cell
    return '"' + cell.replace('"', '""') + '"'
