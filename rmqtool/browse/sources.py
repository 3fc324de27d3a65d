"""Where the rows of a list come from: how many there are, and those that are seen."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from functools import cached_property, partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from textual.content import Content

from rmqtool.errors import RmqtoolError
from rmqtool.render.emit import cell_length, row_severity
from rmqtool.render.values import as_text
from rmqtool.rows import TURNED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rmqtool.query.lookup import Lookup
    from rmqtool.rows import Row

T = TypeVar("T")
Some: TypeAlias = "list[Row | None]"
# Takes what is to be done by the thread that draws.
Post: TypeAlias = "Callable[[Callable[[], None]], object]"
READING: Final = "reading …"
PAGE: Final = 64  # rows that are read at a time
PAGES_KEPT: Final = 64  # 4,096 rows of some 2 KB
BESIDE: Final = 6  # columns of mark, gap and scroll bar
NARROWEST: Final = 20  # columns that a value has at least
MOST_CHARACTERS: Final = 1 << 20  # of one value that is shown


class Lane:
    """A thread with a store of its own, as open files belong to one thread."""

    def __init__(self, opens: Callable[[], Lookup], post: Post) -> None:
        self._opens, self._post = opens, post
        self.questions: SimpleQueue[Callable[[Lane], None] | None] = SimpleQueue()
        self.is_left = False
        # Who leaves does not wait for a disk: a daemon ends with the process.
        Thread(target=self._work, name="rmqtool-browse", daemon=True).start()

    @cached_property
    def lookup(self) -> Lookup:
        """The store, which is opened for the first question."""
        return self._opens()

    def leave(self) -> None:
        """Ask no more; what is read at the moment is dropped."""
        self.is_left = True
        self.questions.put(None)

    def tell(self, result: Callable[[], None]) -> None:
        """Hand an answer over, unless nobody waits for it any more."""
        with suppress(RuntimeError):  # the screens have ended in this moment
            if not self.is_left:
                self._post(result)

    def _work(self) -> None:
        while not self.is_left and (question := self.questions.get()) is not None:
            question(self)
        if "lookup" in vars(self):
            self.lookup.__exit__()


class StoreReader:
    """One thread that reads records and queues, so that no key waits for a disk or a bucket.

    Args:
        opens: opens the store; called by the thread that reads.
        post: takes answers to the thread that draws.
    """

    def __init__(self, opens: Callable[[], Lookup], post: Post) -> None:
        self._opens, self._post = opens, post
        self._lane = Lane(opens, post)

    def ask(
        self, read: Callable[[Lookup], T], done: Callable[[T], None], failed: Callable[[str], None]
    ) -> None:
        """Let the thread read; one of the other two is called where screens are drawn.

        Args:
            read: asks the store.
            done: takes the answer.
            failed: takes the reason why there is none.
        """

        def work(lane: Lane) -> None:
            try:
                answer = read(lane.lookup)
            except RmqtoolError as error:
                lane.tell(partial(failed, str(error)))
            except Exception as error:  # noqa: BLE001 - a bug is reported where all are: in main
                lane.tell(partial(_raise, error))
            else:
                lane.tell(partial(done, answer))

        self._lane.questions.put(work)

    def start_over(self) -> None:
        """Leave the question that is being answered, and open the store again for the others."""
        before, self._lane = self._lane, Lane(self._opens, self._post)
        before.is_left = True
        try:
            while (question := before.questions.get_nowait()) is not None:
                self._lane.questions.put(question)
        except Empty:
            before.leave()

    def leave(self) -> None:
        """Ask no more."""
        self._lane.leave()


def _raise(bug: Exception) -> None:
    raise bug


class RowSource:
    """Rows by their numbers. All is asked by the thread that draws.

    Attributes:
        shown: columns, the most important first.
        count: how many rows are known.
        state: what a heading says about them; empty where there is nothing to say.
        changed: called when there is more to see.
    """

    def __init__(self, shown: Sequence[str]) -> None:
        self.shown = tuple(shown)
        self.count = 0
        self.state = ""
        self.changed: Callable[[], None] = lambda: None

    def rows(self, first: int, count: int) -> Some:
        """Give rows; None stands for one that is not read yet, and is asked for herewith."""
        raise NotImplementedError

    def fit(self, width: int) -> None:
        """Take note of how many columns the terminal has."""

    def style(self, row: Row) -> str:
        """Say what a row looks like: damage, a warning, or the name of a colour."""
        return row_severity(row)

    def end(self, state: str) -> None:
        """Say that there is no more, and why."""
        self.state = state
        self.changed()

    def close(self) -> None:
        """Read no more."""


class ListRows(RowSource):
    """Rows that are all known."""

    def __init__(self, shown: Sequence[str], known: Iterable[Row] = ()) -> None:
        super().__init__(shown)
        self.take(known)

    def take(self, known: Iterable[Row], state: str = "") -> None:
        """Show rows."""
        self._known = list(known)
        self.count = len(self._known)
        self.end(state)

    def rows(self, first: int, count: int) -> Some:
        """See `RowSource`."""
        return [*self._known[first : first + count]]


class Harmless(str):
    """A text that is escaped already."""

    __slots__ = ()


class TurnedRows(RowSource):
    """One thing, a field a line; a long value takes several lines, so that nothing is cut."""

    def __init__(self, fields: Iterable[tuple[str, object]] = ()) -> None:
        super().__init__(TURNED)
        self._fields: list[tuple[str, object]] = []
        self._lines: list[Row] = []
        self._width = 80
        self.add(fields)

    def add(self, fields: Iterable[tuple[str, object]]) -> None:
        """Add fields; those without a value are left out."""
        self._fields += [(name, value) for name, value in fields if value not in (None, "", [], {})]
        self.fit(self._width)
        self.changed()

    def fit(self, width: int) -> None:
        """See `RowSource`."""
        self._width = width
        names = max((cell_length(as_text(name)) for name, _ in self._fields), default=0)
        room = max(width - names - BESIDE, NARROWEST)
        self._lines = [
            dict(zip(TURNED, ("" if number else name, Harmless(piece.plain)), strict=True))
            for name, value in self._fields
            for number, piece in enumerate(Content(_short(as_text(value))).wrap(room))
        ]
        self.count = len(self._lines)

    def rows(self, first: int, count: int) -> Some:
        """See `RowSource`."""
        return [*self._lines[first : first + count]]

    def style(self, row: Row) -> str:
        """See `RowSource`: codes of findings are the only fields that tell of damage."""
        return "damage" if row["field"] == "code" else ""


def _short(text: str) -> str:
    over = len(text) - MOST_CHARACTERS
    return text if over <= 0 else f"{text[:MOST_CHARACTERS]} … {over:,} more characters"


class PagedRows(RowSource):
    """Rows that the reader reads, a page at a time, when they are seen."""

    def __init__(self, shown: Sequence[str], reader: StoreReader) -> None:
        super().__init__(shown)
        self.state = READING
        self._reader = reader
        self._pages: OrderedDict[int, list[Row]] = OrderedDict()
        self._asked: set[int] = set()
        self._is_closed = False

    def rows(self, first: int, count: int) -> Some:
        """See `RowSource`."""
        end = min(first + count, self.count)
        for number in range(first // PAGE, -(-end // PAGE)):
            if number not in self._pages and number not in self._asked:
                self._ask(number)
        return [self._row(number) for number in range(first, end)]

    def read(self, lookup: Lookup, first: int, count: int) -> list[Row]:
        """Read rows; called by the thread that reads.

        Raises:
            UnreadablePath: a file may not be read.
        """
        raise NotImplementedError

    def close(self) -> None:
        """See `RowSource`."""
        self._is_closed = True

    def _row(self, number: int) -> Row | None:
        page, place = self._pages.get(number // PAGE, ()), number % PAGE
        return page[place] if place < len(page) else None

    def _ask(self, number: int) -> None:
        self._asked.add(number)
        first = number * PAGE
        count = min(PAGE, self.count - first)

        def done(page: list[Row]) -> None:
            self._asked.discard(number)
            self._pages[number] = page
            while len(self._pages) > PAGES_KEPT:
                self._pages.popitem(last=False)
            self.changed()

        self._reader.ask(
            lambda lookup: [] if self._is_closed else self.read(lookup, first, count),
            done,
            lambda reason: done([{"note": reason, "severity": "damage"}] * count),
        )
