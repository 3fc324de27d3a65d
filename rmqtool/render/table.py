"""Tables of text: aligned columns, written while the rows come in.

The widths come from the first rows and then stay. In a pipe a longer cell moves the rest of its
line and nothing is ever cut; on a terminal it ends in an ellipsis, and columns that do not fit
are left out, which the caller is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.render.values import as_text, escape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.render.sink import Sink
    from rmqtool.rows import Row

ROWS_MEASURED: Final = 200
_WIDEST: Final = 48  # of one column on a terminal, so that one long key does not hide the rest
_GAP: Final = "  "
_BOLD, _RED, _YELLOW, _PLAIN = "\x1b[1m", "\x1b[31m", "\x1b[33m", "\x1b[0m"


class TableWriter:
    """Writes rows as one table.

    Attributes:
        left_out: columns that the terminal had no room for, known after the first rows.
    """

    def __init__(self, sink: Sink, columns: Sequence[str], *, color: bool) -> None:
        self._sink, self._columns, self._color = sink, list(columns), color
        self._waiting: list[Row] = []
        self._widths: list[int] = []
        self._is_number: list[bool] = []
        self.left_out: list[str] = []

    def write(self, rows: Sequence[Row]) -> None:
        """Take more rows."""
        if self._widths:
            self._sink.write_lines([self._line(row) for row in rows])
            return
        self._waiting.extend(rows)
        if len(self._waiting) >= ROWS_MEASURED:
            self._begin()

    def close(self) -> None:
        """Write what is still waiting; a table without rows writes nothing."""
        if self._waiting and not self._widths:
            self._begin()

    def _begin(self) -> None:
        """Fix the widths and write the header and the rows seen so far."""
        self._measure()
        header = self._join([escape(name) for name in self._columns])
        lines = [f"{_BOLD}{header}{_PLAIN}" if self._color else header]
        lines += [self._line(row) for row in self._waiting]
        self._waiting.clear()
        self._sink.write_lines(lines)

    def _measure(self) -> None:
        """Choose columns and widths from the rows that wait."""
        for name in self._columns:
            values = [row.get(name) for row in self._waiting]
            width = max([cell_length(as_text(value)) for value in values] + [len(name)])
            self._widths.append(width)
            self._is_number.append(
                all(isinstance(v, int | float | None) and not isinstance(v, bool) for v in values)
            )
        if self._sink.width is not None:
            self._fit(self._sink.width)

    def _fit(self, room: int) -> None:
        """Leave out columns from the right until the line fits, then narrow the last one."""
        self._widths = [
            min(width, max(_WIDEST, len(name)))
            for width, name in zip(self._widths, self._columns, strict=True)
        ]
        total = sum(self._widths) + len(_GAP) * (len(self._widths) - 1)
        while total > room and len(self._widths) > 1:
            name, width = self._columns[-1], self._widths[-1]
            if total - width + len(name) <= room and not self._is_number[-1]:
                break  # a text that is cut says more than a column that is missing
            total -= self._widths.pop() + len(_GAP)
            self._is_number.pop()
            self.left_out.insert(0, self._columns.pop())
        if total > room:
            self._widths[-1] = max(1, self._widths[-1] - (total - room))

    def _line(self, row: Row) -> str:
        line = self._join([as_text(row.get(name)) for name in self._columns])
        if self._color and (start := _row_color(row)):
            return f"{start}{line}{_PLAIN}"
        return line

    def _join(self, cells: list[str]) -> str:
        is_cut = self._sink.width is not None
        aligned = [
            align(cell, width, right=number, cut=is_cut)
            for cell, width, number in zip(cells, self._widths, self._is_number, strict=True)
        ]
        return _GAP.join(aligned).rstrip()


def _row_color(row: Row) -> str:
    """Colour what is wrong; the words `damage` and the finding's code say the same."""
    severity = row.get("severity")
    if severity == "damage" or (severity is None and row.get("code")):
        return _RED
    return _YELLOW if severity == "warning" else ""


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
