"""The one way out for rows: as a table, one JSON document, JSON lines or CSV.

Rows are written while they are produced, so memory does not grow with their number and a reader
of a pipe sees them as they are found. The field order is fixed; nothing depends on locale or
clock. Nothing else writes to standard output.
"""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from rmqtool.errors import UsageError
from rmqtool.plural import meant
from rmqtool.render.look import Format
from rmqtool.render.values import as_csv, as_text, dump_json, escape, json_lines
from rmqtool.rows import TEXT_A_CHUNK, TURNED, JsonLines, rows_of, text_length
from rmqtool.times import in_zone

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
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
        shown = _emit_kind(rows, look, sink, kind=rows.name)
        if look.format is Format.TABLE and empty and not shown:
            sink.write_lines([empty])
        count += shown
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
    """Give the columns to write. Raises UsageError: one of them is not of these rows'."""
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
        self._sink, self._tag = sink, tag
        self._all = (*tag, *columns)

    def write(self, chunk: Chunk) -> int:
        if isinstance(chunk, JsonLines) and not self._tag:
            self._sink.write(chunk.text)
            return chunk.count
        rows = rows_of(chunk)
        tagged = [{**self._tag, **row} for row in rows] if self._tag else rows
        self._sink.write(json_lines(tagged, self._all))
        return len(rows)

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
        return len(rows), json_lines(rows, self._columns)

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


# Tables of text: aligned columns, written while the rows come in.
#
# The widths come from the first rows and then stay. In a pipe a longer cell moves the rest of its
# line and nothing is ever cut; on a terminal it ends in an ellipsis, IDs, keys and times never, and
# columns that do not fit
# are left out, which the caller is told. Sentences are never cut: where they do not fit beside the
# rest they stand below it. A column that is there for exceptions only, such as the
# code of a damage, takes no room before there is one; a later one stands after its line.


ROWS_MEASURED: Final = 200
# Columns that are never cut, by the ends of their names, or by their names, like the values of rows
# that are turned round. A terminal breaks a line that is too long, and nothing is missing.
WHOLE: Final = ("time", "_id", "_key", "host", "hex")
UNCUT: Final = frozenset({"id", "key", "keys", "asked"})
WIDEST: Final = 4096  # a longer cell moves the rest of its line: no row is padded to megabytes
NARROWEST: Final = 12  # columns that a text needs to say something
GAP: Final = "  "
_INDENT: Final = "    "
# A word with the punctuation and the spaces after it; an ideograph is a word. It takes 3 ms to
# compile, and few outputs are wrapped.
_PIECE: Final = r"(?:[\u2e80-\uffef]|[^\s\u2e80-\uffef]+)[\u3000-\u303f\uff00-\uffef]*\s*"
_BEFORE_COMMAND: Final = re.compile(r"; (?=rmqtool )")  # a line of its own, to be copied
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"
_COLORS: Final = {"damage": "\x1b[31m", "warning": "\x1b[33m"}


class MeasuredColumn(NamedTuple):
    """What the first rows say of a column."""

    width: int  # of its widest cell or of its name
    least: int  # what it can be narrowed to on a terminal
    is_number: bool  # all its cells are numbers, and stand to the right
    is_whole: bool  # its cells are never cut

    @classmethod
    def of(cls, name: str, values: Sequence[object], *, is_whole: bool = False) -> MeasuredColumn:
        """Measure the cells of a column."""
        lengths = [cell_length(as_text(value)) for value in values if value is not None]
        width = min(max([*lengths, len(name)]), WIDEST)
        is_number = all(
            isinstance(value, int | float | None) and not isinstance(value, bool)
            for value in values
        )
        # A time or an ID that is cut says nothing; a topic still does.
        is_rigid = is_number or name.endswith(WHOLE)
        least = width if is_rigid else max(min(width, NARROWEST), len(name))
        return cls(width, least, is_number, is_whole or is_rigid or name in UNCUT)


def fitted(columns: Sequence[MeasuredColumn], room: int) -> list[int]:
    """Give the widths of as many columns as fit, the first one in any case."""
    widths: list[int] = []
    for column in columns:
        used = sum(widths) + len(GAP) * len(widths)
        if widths and used + column.least > room:
            break
        widths.append(min(column.least, room))
    left = room - sum(widths) - len(GAP) * (len(widths) - 1)
    for number, column in enumerate(columns[: len(widths)]):
        more = max(min(column.width - widths[number], left), 0)
        widths[number] += more
        left -= more
    return widths


class TableWriter:
    """Writes rows as one table.

    Attributes:
        left_out: columns that the terminal had no room for, known after the first rows.
    """

    def __init__(
        self,
        sink: Sink,
        columns: Sequence[str],
        optional: Collection[str],
        *,
        color: bool,
        below: Collection[str] = (),
        whole: Collection[str] = (),
    ) -> None:
        self._sink, self._columns, self._color = sink, list(columns), color
        self._optional, self._sentences, self._whole = optional, frozenset(below), frozenset(whole)
        self._below: list[str] = []
        self._at_the_end: list[str] = []
        self._waiting: list[Row] = []
        self._text = 0
        self._widths: list[int] = []
        self._fixed: list[MeasuredColumn] = []
        self._hangs = False
        self.left_out: list[str] = []

    def write(self, rows: Sequence[Row]) -> None:
        """Take more rows."""
        if self._widths:
            self._write(rows)
            return
        self._waiting.extend(rows)
        self._text += sum(map(text_length, rows))
        if len(self._waiting) >= ROWS_MEASURED or self._text > TEXT_A_CHUNK:
            self._begin()

    def close(self) -> None:
        """Write what is still waiting; a table without rows writes nothing."""
        if self._waiting and not self._widths:
            self._begin()

    def _begin(self) -> None:
        """Fix the widths and write the header and the rows seen so far."""
        self._measure()
        header = self._join([escape(name) for name in self._columns])
        self._sink.write_lines([f"{_BOLD}{header}{_PLAIN}" if self._color else header])
        waiting, self._waiting = self._waiting, []
        self._write(waiting)

    def _write(self, rows: Sequence[Row]) -> None:
        """Write rows whose columns have widths; one with a long text alone."""
        lines: list[str] = []
        for row in rows:
            lines += self._lines(row)
            if len(lines[-1]) > WIDEST:
                self._sink.write_lines(lines)
                lines.clear()
        self._sink.write_lines(lines)

    def _measure(self) -> None:
        """Choose columns and widths from the rows that wait."""
        rows = self._waiting
        self._at_the_end = [
            name
            for name in self._columns
            if name in self._optional and all(row.get(name) is None for row in rows)
        ]
        self._columns = [name for name in self._columns if name not in self._at_the_end]
        is_turned = self._columns == [*TURNED]
        self._hangs = is_turned and TURNED[1] in self._sentences and self._sink.width is not None
        for names in () if self._hangs else (self._sentences, self._whole):
            if not names.isdisjoint(self._columns) and self._is_too_wide(rows):
                self._below = [name for name in self._columns if name in names] + self._below
                self._columns = [name for name in self._columns if name not in self._below]
        columns = [
            MeasuredColumn.of(name, [row.get(name) for row in rows], is_whole=is_turned)
            for name in self._columns
        ]
        if self._sink.width is None:
            self._widths = [column.width for column in columns]
        else:
            self._widths = fitted(columns, self._sink.width)
        count = len(self._widths)
        # What is there for exceptions only is never left out: colour alone says nothing.
        self._at_the_end += [name for name in self._columns[count:] if name in self._optional]
        self.left_out = [name for name in self._columns[count:] if name not in self._optional]
        self._columns = self._columns[:count]
        self._fixed = columns[:count]

    def _is_too_wide(self, rows: Sequence[Row]) -> bool:
        """Tell whether the terminal has no room for all columns."""
        if self._sink.width is None:
            return False
        widths = [
            MeasuredColumn.of(name, [row.get(name) for row in rows]).width for name in self._columns
        ]
        return sum(widths) + len(GAP) * (len(widths) - 1) > self._sink.width

    def _lines(self, row: Row) -> list[str]:
        """Give a row: one line, and below it the sentences that have no room in it."""
        if self._hangs:
            return self._hanging(row)
        lines = [self._line(row)]
        width = max((self._sink.width or 0) - 1, len(_INDENT) + NARROWEST)
        for number, name in enumerate(self._below):
            text = as_text(row.get(name))
            sentence = f"{name}: {text}" if number and text else text
            is_wide = cell_length(sentence) > len(sentence)  # ideographs take two columns each
            for part in _BEFORE_COMMAND.split(sentence):
                if part.startswith("rmqtool "):  # whole, as a terminal joins what it breaks itself
                    lines.append(f"{_INDENT}{part}")
                    continue
                lines += textwrap.wrap(
                    part,
                    width // 2 if is_wide else width,
                    initial_indent=_INDENT,
                    subsequent_indent=_INDENT,
                    break_on_hyphens=False,  # they belong to options and codes
                )
        return lines

    def _hanging(self, row: Row) -> list[str]:
        """Give a field with its sentence beside it, on several lines where it is too long."""
        name, value = (as_text(row.get(column)) for column in TURNED)
        first = align(name, self._widths[0], right=False, cut=False) + GAP
        if name in self._whole:
            return [f"{first}{value}"]
        if cell_length(value) > len(value):
            indent = " " * cell_length(first)
            room = max((self._sink.width or 0) - 1 - len(indent), NARROWEST)
            parts = wrapped_wide(value, room)
            return [f"{indent if number else first}{part}" for number, part in enumerate(parts)]
        return textwrap.wrap(
            value,
            max((self._sink.width or 0) - 1, len(first) + NARROWEST),
            initial_indent=first,
            subsequent_indent=" " * cell_length(first),
            break_on_hyphens=False,
            break_long_words=False,
        )

    def _line(self, row: Row) -> str:
        line = self._join([as_text(row.get(name)) for name in self._columns])
        for name in self._at_the_end:
            if (value := row.get(name)) is not None:
                line += f"{GAP}{name}={as_text(value)}"
        if self._color and (severity := row_severity(row)):
            return f"{_COLORS[severity]}{line}{_PLAIN}"
        return line

    def _join(self, cells: list[str]) -> str:
        is_cut = self._sink.width is not None
        aligned = [
            align(cell, width, right=column.is_number, cut=is_cut and not column.is_whole)
            for cell, width, column in zip(cells, self._widths, self._fixed, strict=True)
        ]
        return GAP.join(aligned).rstrip()


def row_severity(row: Row) -> str:
    """Give how bad it is what a row tells: `damage`, `warning`, or nothing.

    Colour says the same as the words `damage` and the finding's code do.
    """
    severity = row.get("severity")
    if severity is None and (code := row.get("code")):
        from rmqtool.findings.in_rows import tells_of_damage  # few rows have a code

        return "damage" if tells_of_damage(str(code)) else "warning"
    if severity == "damage":
        return "damage"
    return "warning" if severity == "warning" else ""


def wrapped_wide(text: str, room: int) -> list[str]:
    """Break a text that has ideographs into lines: after each of them, or at a space.

    Args:
        text: to be broken.
        room: columns of a line; a longer word has a line of its own.
    """
    lines = [""]
    for piece in re.findall(_PIECE, text):
        if lines[-1] and cell_length(lines[-1] + piece.rstrip()) > room:
            lines[-1] = lines[-1].rstrip()
            lines.append("")
        lines[-1] += piece
    return lines


def cell_length(text: str) -> int:
    """Give the columns that a text takes; an ideograph takes two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def align(text: str, width: int, *, right: bool, cut: bool) -> str:
    """Give a text with blanks to its width; a longer one as it is, or cut with an ellipsis."""
    length = cell_length(text)
    if length > width:
        if not cut:
            return text
        from rich.cells import set_cell_size

        return set_cell_size(text, width - 1) + "…"
    blanks = " " * (width - length)
    return blanks + text if right else text + blanks
