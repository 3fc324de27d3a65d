"""A table of any number of rows: it asks for those that are seen, and for no others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.style import Style

from rmqtool.browse.sources import Harmless, RowSource
from rmqtool.render.emit import GAP, MeasuredColumn, align, fitted
from rmqtool.render.values import as_text
from rmqtool.rows import TURNED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual import events

    from rmqtool.rows import Row

# Keys that count before those typed after them, in one go, reach what has the focus.
AT_ONCE: Final = {"ctrl+c", "slash", "ampersand"}
HEADER: Final = 1  # lines above the rows
MARK: Final = "* "
NO_MARK: Final = "  "
UNREAD: Final = "…"
COLORS: Final = ("ansi_cyan", "ansi_green", "ansi_magenta", "ansi_blue")
PLAIN: Final = Style()
STYLES: Final = {
    "damage": Style.parse("bold ansi_red"),
    "warning": Style.parse("ansi_yellow"),
    "header": Style.parse("bold underline"),
    "faint": Style.parse("dim"),
    **{color: Style.parse(color) for color in COLORS},
}
CURSOR: Final = Style.parse("reverse")


def bindings(keys: Iterable[tuple[str, str]]) -> list[BindingType]:
    """Give what keys do."""
    return [Binding(key, action, priority=key in AT_ONCE) for key, action in keys]


class RowTable(ScrollView, can_focus=True):
    """Draws rows of a source, with a cursor."""

    BINDINGS: ClassVar[list[BindingType]] = bindings((
        ("down,j", "move(1)"), ("up,k", "move(-1)"), ("pagedown,ctrl+f", "page(1)"),
        ("pageup,ctrl+b", "page(-1)"), ("ctrl+d", "page(0.5)"), ("ctrl+u", "page(-0.5)"),
        ("g,home", "first"), ("G,end", "last"), ("enter", "open"),
    ))  # fmt: skip

    @dataclass
    class RowChosen(Message):
        """A row was chosen."""

        row: Row

    @dataclass
    class Edge(Message):
        """Somebody went above the first row, or to an end."""

        key: str  # k, g or G

    class Looked(Message):
        """There is more to see."""

    def __init__(self, source: RowSource) -> None:
        super().__init__()
        self.source = source
        self.cursor = 0
        self.marked: set[str] = set()  # keys of rows, see `key_of`
        self._shapes: dict[str, MeasuredColumn] = {}
        self._columns: list[tuple[str, MeasuredColumn, int]] = []  # name, shape, width

    def on_mount(self) -> None:
        """Begin to look."""
        self.source.changed = self.look
        self.look()

    def on_resize(self) -> None:
        """Lay the columns out again."""
        self.look()

    def on_unmount(self) -> None:
        """Look no more."""
        self.source.close()

    def look(self) -> None:
        """Show what there is now, as soon as there is room for it."""
        if self.size.height <= HEADER:
            return
        self.source.fit(self.width)
        self.cursor = min(self.cursor, max(self.source.count - 1, 0))
        self.virtual_size = Size(self.width, self.source.count + HEADER)
        self._measure()
        self.refresh()
        self.post_message(self.Looked())

    @property
    def row(self) -> Row | None:
        """The row below the cursor; None where there is none, or it is not read yet."""
        rows = self.source.rows(self.cursor, 1) if self.cursor < self.source.count else []
        return rows[0] if rows else None

    @property
    def width(self) -> int:
        """Columns beside the scroll bar."""
        return self.scrollable_content_region.width

    @property
    def page_rows(self) -> int:
        """How many rows are seen."""
        return max(self.size.height - HEADER, 1)

    def go(self, number: int) -> None:
        """Put the cursor on a row."""
        self.cursor = min(max(number, 0), max(self.source.count - 1, 0))
        region = Region(0, self.cursor, 1, 1 + HEADER)  # the header hides the line at the top
        self.scroll_to_region(region, animate=False, force=True)
        self.refresh()

    def _action_move(self, rows: int) -> None:
        if self.cursor + rows < 0:
            self.post_message(self.Edge("k"))
        self.go(self.cursor + rows)

    def _action_page(self, pages: float) -> None:
        self.go(self.cursor + round(pages * self.page_rows))

    def _action_first(self) -> None:
        self.go(0)
        self.post_message(self.Edge("g"))

    def _action_last(self) -> None:
        self.go(self.source.count - 1)
        self.post_message(self.Edge("G"))

    def _action_open(self) -> None:
        if (row := self.row) is not None:
            self.post_message(self.RowChosen(row))

    def on_click(self, event: events.Click) -> None:
        """Go to a row; choose the one that the cursor is on."""
        number = self.scroll_offset.y + event.y - HEADER
        if event.y < HEADER or number >= self.source.count:
            return
        if number == self.cursor:
            self._action_open()
        self.go(number)

    # drawing

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        width = self.width
        if y < HEADER:
            text = NO_MARK + self._join([name for name, _, _ in self._columns])
            return self._strip(text, STYLES["header"], width)
        number = self.scroll_offset.y + y - HEADER
        if number >= self.source.count:
            return Strip.blank(width)
        (row,) = self.source.rows(number, 1)
        if row is None:
            return self._strip(NO_MARK + UNREAD, STYLES["faint"], width)
        cells = [cell(row.get(name)) for name, _, _ in self._columns]
        mark = MARK if key_of(row) in self.marked else NO_MARK
        style = STYLES.get(self.source.style(row), PLAIN)
        if number == self.cursor:
            style += CURSOR
        return self._strip(mark + self._join(cells), style, width)

    @staticmethod
    def _strip(text: str, style: Style, width: int) -> Strip:
        strip = Strip(Content(text).render_segments(style))
        return strip.adjust_cell_length(width).apply_style(style.rich_style)

    def _join(self, cells: Sequence[str]) -> str:
        aligned = [
            align(text, width, right=shape.is_number, cut=not shape.is_whole)
            for text, (_, shape, width) in zip(cells, self._columns, strict=True)
        ]
        return GAP.join(aligned)

    def _measure(self) -> None:
        """Widen the columns for what is seen; they never become narrower."""
        first = max(self.scroll_offset.y, 0)
        rows = [row for row in self.source.rows(first, self.page_rows) if row is not None]
        is_turned = self.source.shown == TURNED
        for name in self.source.shown:
            values = [row.get(name) for row in rows]
            if all(value is None for value in values) and name not in self._shapes and rows:
                continue
            shape = MeasuredColumn.of(name, values, is_whole=is_turned)
            before = self._shapes.get(name, shape)
            self._shapes[name] = shape._replace(
                width=max(shape.width, before.width), least=max(shape.least, before.least)
            )
        shapes = [(name, self._shapes[name]) for name in self.source.shown if name in self._shapes]
        widths = fitted([shape for _, shape in shapes], self.width - len(NO_MARK))
        self._columns = [
            (name, shape, width) for (name, shape), width in zip(shapes, widths, strict=False)
        ]


def cell(value: object) -> str:
    """Give a value as text that is harmless."""
    return str(value) if isinstance(value, Harmless) else as_text(value)


def key_of(row: Row) -> str:
    """Say what a row is about, in a word that no other row of its list has."""
    names = ("physical_offset", "topic", "queue_id", "queue_offset", "path", "group", "view")
    return " ".join(str(row[name]) for name in names if row.get(name) is not None)
