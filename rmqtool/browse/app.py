"""The screens and their keys."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, cast

from textual.app import App
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, Static

from rmqtool.browse.commands import Commander, Diagnosis
from rmqtool.browse.pages import NEXT_BODY, Pages, Sheet, extract_lines
from rmqtool.browse.records import LogRecords, QueueMessages
from rmqtool.browse.sources import READING, StoreReader, TurnedRows
from rmqtool.browse.table import RowTable, bindings, cell, key_of
from rmqtool.clock import Clock
from rmqtool.errors import UsageError
from rmqtool.plural import counted
from rmqtool.query.glance import FirstLook, glance
from rmqtool.query.lookup import Lookup
from rmqtool.query.requests import ByOffset, ByQueueOffset, ByTime, pasted
from rmqtool.render.picture import LEGEND, traffic
from rmqtool.render.values import escape
from rmqtool.store.tree import open_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from rmqtool.query.answer import Answer
    from rmqtool.query.requests import Request
    from rmqtool.rows import Row

AT_ONCE: Final = 1 << 30  # bytes of a log that is diagnosed without being asked: some seconds
TICK: Final = 0.5  # seconds between two looks at how long a diagnosis takes
IDS: Final = ("unique_key", "message_id", "group", "topic", "code", "view", "path", "value")
KEYS: Final = "Enter open  / go to  n damage  x bytes  e extract  Esc back  ? keys  q leave"
HELP: Final = (
    ("o", "overview: the log as a map, its traffic, the diagnosis in short"),
    ("t", "topics; Enter: queues; Enter: messages; a: all messages of a topic"),
    ("c", "consumer groups: lag, retries, dead letters; Enter: each queue"),
    ("l", "the log, record by record; Enter: a message and what points to it"),
    ("d", "diagnosis: reads the whole store, in a process of its own"),
    ("f", "findings, the worst first; Enter: what repair would do; x: the bytes"),
    ("L", "lost messages with the evidence for each"),
    ("i", "other files: index, checkpoint, timers, configuration, RocksDB"),
    ("/", "go to an ID, a key, a time, a physical offset, or TOPIC QUEUE OFFSET; find a name"),
    ("", "14:32 is of the day of the newest message; in a queue a number is a queue offset"),
    ("n N", "next and previous: name that was searched for; in messages: damage"),
    ("m M", "next and previous lost message"),
    ("&", "only messages with a tag, or with NAME=VALUE"),
    ("x v", "bytes with their fields; the body as text, hex, base64 or digest"),
    ("T", "the life of a message across topics"),
    ("Space e", "mark; leave, and print the command that extracts what is marked"),
    ("y Y", "copy the ID; copy the command"),
    ("r", "read again"),
    ("j k g G", "down, up, first, last; also arrows, PgUp, PgDn, Ctrl-D, Ctrl-U, mouse"),
    ("Esc q", "back; leave, as Ctrl-C does"),
)


class Ending(NamedTuple):
    """How somebody left."""

    code: int  # exit code
    lines: Sequence[str] = ()  # to print


class SheetScreen(Screen[None]):
    """One sheet: heading, command line, rows, keys."""

    parts: ClassVar[Sequence[str]] = ()  # between heading and rows
    BINDINGS: ClassVar[list[BindingType]] = bindings((
        ("slash", "ask('/')"), ("ampersand", "ask('&')"), ("n", "next(1)"), ("N", "next(-1)"),
        ("m", "lost(1)"), ("M", "lost(-1)"), ("x", "bytes"), ("v", "body"), ("T", "trace"),
        ("a", "all"), ("y", "copy_id"), ("Y", "copy_line"), ("space", "mark"),
    ))  # fmt: skip

    def __init__(self, browser: Browser, sheet: Sheet) -> None:
        super().__init__()
        self.browser, self.sheet = browser, sheet
        self._asked = ""  # key of the question in the prompt
        self._wanted = ""  # name that is searched for
        self._has_begun = False
        self._written: dict[str, str] = {}  # by the names of parts

    def compose(self) -> ComposeResult:
        """Give the parts."""
        yield Static(id="title")
        yield Static(id="line")
        yield from (Static(id=name) for name in self.parts)
        yield RowTable(self.sheet.source)
        yield Static(id="remark")
        yield Input(id="prompt")

    @property
    def table(self) -> RowTable:
        """The rows."""
        return self.query_one(RowTable)

    @property
    def row(self) -> Row:
        """The row below the cursor; empty where there is none."""
        return self.table.row or {}

    def on_mount(self) -> None:
        """Show the sheet."""
        self.query_one("#prompt").display = False
        self.table.focus()
        self.remark("")
        self.show()

    def on_screen_resume(self) -> None:
        """Show what has changed since."""
        self.table.marked = set(self.browser.marked)
        self.show()

    def show(self) -> None:
        """Draw the heading."""
        source = self.sheet.source
        count = "" if isinstance(source, TurnedRows) else counted(source.count, "row")
        self.write("title", " · ".join(filter(None, [self.sheet.title, count, source.state])))
        if source.state and not source.count and not source.state.startswith(READING):
            self.remark(source.state)  # why there is nothing
        self.write("line", f"$ {self.sheet.line}" if self.sheet.line else "")

    def tick(self) -> None:
        """Follow the diagnosis; what is about it is made again when it is there."""
        state = self.browser.diagnosis.state
        self.show()
        if self.sheet.again is None or self.sheet.source.state == state:
            return
        if self.browser.diagnosis.document is None:
            self.sheet.source.end(state)
        else:
            self.browser.show_instead(self.sheet.again())

    def remark(self, text: str) -> None:
        """Say something in the last line; nothing brings the keys back."""
        self.write("remark", text or KEYS)

    def write(self, part: str, *lines: str) -> None:
        """Write harmless lines into a part; a screen that is not composed yet has none."""
        text, places = "\n".join(map(escape, lines)), self.query(f"#{part}")
        if places and self._written.get(part) != text:  # over a slow line, nothing is drawn twice
            self._written[part] = text
            places.first(Static).update(Content(text))

    def on_row_table_looked(self) -> None:
        """Go where the sheet begins, as soon as that is known."""
        if self.sheet.source.count and not self._has_begun:
            self._has_begun = True
            self.table.go(self.sheet.begins())
        self.show()

    def on_row_table_row_chosen(self, event: RowTable.RowChosen) -> None:
        """Open a row."""
        self.browser.show_sheet(self.sheet.opens(event.row))

    def on_row_table_edge(self, event: RowTable.Edge) -> None:
        """Read the log from somewhere else: its rows are those around one place."""
        source = self.sheet.source
        if isinstance(source, LogRecords) and source.count:
            at = {"k": max(source.start - 1, 0), "g": 0, "G": None}[event.key]
            self.browser.show_instead(self.browser.pages.log(at))

    # keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let the prompt have its keys."""
        is_typed = action == "ask" and self.query_one("#prompt").display
        return False if is_typed else super().check_action(action, parameters)

    def _action_ask(self, asked: str) -> None:
        self._asked = asked
        prompt = self.query_one("#prompt", Input)
        prompt.display, prompt.value = True, ""
        prompt.placeholder = {"/": "go to, or find", "&": "tag, or NAME=VALUE"}[asked]
        self.set_focus(prompt)  # at once: what is typed next goes there

    def leave_prompt(self) -> bool:
        """Take the prompt away; tell whether it was there."""
        prompt = self.query_one("#prompt", Input)
        was_there, prompt.display = prompt.display, False
        self.set_focus(self.table)
        return bool(was_there)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Do what was asked for."""
        event.stop()
        self.leave_prompt()
        if not (text := event.value.strip()):
            return
        if self._asked == "&":
            self.browser.show_sheet(self.browser.pages.filtered(self.sheet.source, text))
        elif self.sheet.has_names:
            self._wanted = text.casefold()
            self._find(1)
        else:
            self.browser.go_to(text, self)

    def _action_next(self, step: int) -> None:
        if self._wanted:
            self._find(step)
        else:
            self._step(step, "findings", "damage")

    def _action_lost(self, step: int) -> None:
        self._step(step, "lost_messages", "lost message")

    def _find(self, step: int) -> None:
        """Go to the next row with the name that was searched for."""
        source, here = self.sheet.source, self.table.cursor
        for number in range(here + step, source.count if step > 0 else -1, step):
            row = source.rows(number, 1)[0] or {}
            if any(self._wanted in cell(row.get(name)).casefold() for name in source.shown):
                self.table.go(number)
                return
        self.remark("no other row has it")

    def _step(self, step: int, table: str, what: str) -> None:
        """Go to the next place of the log that a table of the diagnosis names."""
        diagnosis = self.browser.diagnosis
        if diagnosis.document is None:
            diagnosis.start()
            self.remark(f"the diagnosis knows each {what}: {diagnosis.state}")
            return
        at = self.row.get("physical_offset", self.sheet.at)
        here = at if isinstance(at, int) else -step
        places = [place for place in diagnosis.places(table) if (place - here) * step > 0]
        if not places:
            self.remark(f"no other {what}")
            return
        is_log = isinstance(self.sheet.source, LogRecords)
        show = self.browser.show_instead if is_log else self.browser.show_sheet
        show(self.browser.pages.log(places[0] if step > 0 else places[-1]))

    def _action_bytes(self) -> None:
        if self.row:
            self.browser.show_sheet(self.sheet.bytes_of(self.row))

    def _action_body(self) -> None:
        if self.sheet.body is not None and self.sheet.at is not None:
            sheet = self.browser.pages.message(self.sheet.at, NEXT_BODY[self.sheet.body])
            self.browser.show_instead(sheet)

    def _action_trace(self) -> None:
        at = self.row.get("physical_offset", self.sheet.at)
        if isinstance(at, int):
            self.browser.show_sheet(self.browser.pages.trace(at))

    def _action_all(self) -> None:
        if topic := self.row.get("topic"):
            self.browser.show_sheet(self.browser.pages.messages(str(topic)))

    def _action_copy_id(self) -> None:
        name = next((name for name in IDS if self.row.get(name)), "")
        self._copy(cell(self.row.get(name)))

    def _action_copy_line(self) -> None:
        self._copy(escape(self.sheet.line_of(self.row) or self.sheet.line))

    def _copy(self, text: str) -> None:
        self.app.copy_to_clipboard(text)
        self.remark(f"copied: {text}")

    def _action_mark(self) -> None:
        if self.row and (words := self.sheet.marks(self.row)):
            key = key_of(self.row)
            if self.browser.marked.pop(key, None) is None:
                self.browser.marked[key] = words
            self.table.marked = set(self.browser.marked)
            self.table.go(self.table.cursor + 1)


class OverviewScreen(SheetScreen):
    """What the store is, its log as a map, its traffic, the diagnosis in short."""

    parts: ClassVar[Sequence[str]] = ("facts", "traffic")

    def __init__(self, browser: Browser, sheet: Sheet) -> None:
        super().__init__(browser, sheet)
        self._glance = FirstLook([], 0, None, [])

    def on_mount(self) -> None:
        """Read what is cheap first."""
        self.browser.reader.ask(glance, self._take, self.remark)

    def _take(self, seen: FirstLook) -> None:
        self._glance, self.browser.newest = seen, seen.newest
        if seen.size <= AT_ONCE:
            self.browser.diagnosis.start()
        self.show()

    def show(self) -> None:
        """See `SheetScreen`."""
        super().show()
        lines = [*self._glance.lines, *self.browser.diagnosis.lines]
        self.write("facts", *(f"{name:11} {text}" for name, text in lines if text))
        bars = traffic(self._glance.samples, max(self.size.width - 2, 1))
        self.write("traffic", *bars, LEGEND)


class Browser(App[Ending]):
    """Shows a store.

    Args:
        program: what starts rmqtool, for commands in processes of their own.
        store: path of the store.
        broker_conf: path of the broker's configuration.
    """

    CSS = """
    Screen, RowTable, Input, Input:focus { background: ansi_default; color: ansi_default; }
    #title { height: 1; text-style: bold reverse; text-wrap: nowrap; text-overflow: ellipsis; }
    #line { height: auto; max-height: 3; text-style: dim; }
    #facts, #traffic { height: auto; }
    #remark { height: auto; max-height: 4; text-style: dim; }
    RowTable { height: 1fr; overflow-x: hidden; }
    Input, Input:focus { height: 1; border: none; padding: 0; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = bindings((
        ("q", "leave(0)"), ("ctrl+c", "leave(130)"), ("escape", "go_back"), ("o", "home"),
        ("question_mark", "show('help')"), ("t", "show('topics')"), ("c", "show('groups')"),
        ("l", "show('log')"), ("d", "show('diagnosed')"), ("f", "show('findings')"),
        ("L", "show('lost')"), ("i", "show('files')"), ("r", "reread"), ("e", "extract"),
        ("ctrl+z", "suspend_process"),
    ))  # fmt: skip

    def __init__(self, program: Sequence[str], store: str, broker_conf: str | None = None) -> None:
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        options = [] if broker_conf is None else ["--broker-conf", broker_conf]
        self.commander = Commander(program, store, options, self.call_later)
        self.reader = StoreReader(lambda: Lookup(open_store(store, broker_conf)), self.call_later)
        self.diagnosis = Diagnosis(self.commander)
        self.pages = Pages(self.commander, self.reader, self.diagnosis)
        self.marked: dict[str, Sequence[str]] = {}  # words for extract, by `key_of`
        self.newest: int | None = None  # store time of the newest record
        self.bug: Exception | None = None
        self._searches = 0
        self._is_searching = False

    def on_mount(self) -> None:
        """Show the overview."""
        self.set_interval(TICK, self._tick)
        self.push_screen(OverviewScreen(self, self.pages.overview()))

    def _handle_exception(self, error: Exception) -> None:
        """Leave with a bug, which main reports as every other one."""
        self.bug = self.bug or error
        self.exit(Ending(0))

    def _tick(self) -> None:  # on a busy machine there is no screen yet, or none any more
        if isinstance(screen := next(reversed(self.screen_stack), None), SheetScreen):
            screen.tick()

    @property
    def here(self) -> SheetScreen:
        """What is seen."""
        return cast("SheetScreen", self.screen)

    def show_sheet(self, sheet: Sheet | None) -> None:
        """Show a sheet above this one."""
        if sheet is not None:
            sheet.line = sheet.line or self.here.sheet.line  # of a row, that of its list
            self.push_screen(SheetScreen(self, sheet))

    def show_instead(self, sheet: Sheet) -> None:
        """Show a sheet in place of this one."""
        self.switch_screen(SheetScreen(self, sheet))

    # keys

    def action_leave(self, code: int) -> None:  # noqa: D102 - see `HELP`
        self.exit(Ending(code))

    def _action_extract(self) -> None:
        marked = list(self.marked.values())
        if not marked and self.here.row:
            marked = [self.here.sheet.marks(self.here.row)]
        if lines := extract_lines(self.commander, marked):
            self.exit(Ending(0, lines))
        else:
            self.here.remark("nothing here can be extracted: mark messages, queues or topics")

    def _action_go_back(self) -> None:
        """Leave a question, a search, or the sheet."""
        if self.here.leave_prompt():
            return
        if self._is_searching:
            self._searches += 1
            self._is_searching = False
            self.reader.start_over()
            self.here.remark("the search was left")
        elif not isinstance(self.screen, OverviewScreen):
            self.pop_screen()

    def _action_home(self) -> None:
        while not isinstance(self.screen, OverviewScreen):
            self.pop_screen()

    def _action_show(self, name: str) -> None:
        if name in {"diagnosed", "findings", "lost"}:
            self.diagnosis.start()
        sheet = Sheet("keys", "rmqtool help browse", TurnedRows(HELP)) if name == "help" else None
        self.show_sheet(sheet or getattr(self.pages, name)())

    def _action_reread(self) -> None:
        """Open the store again, and show what it has now."""
        self.reader.start_over()
        self.diagnosis.forget()
        self._action_home()
        self.switch_screen(OverviewScreen(self, self.pages.overview()))

    # going to a place

    def go_to(self, text: str, screen: SheetScreen) -> None:
        """Go to what a person typed or pasted."""
        source = screen.sheet.source
        if isinstance(source, QueueMessages) and text.isdecimal():
            screen.table.go(source.number_of(source.queue_id, int(text)) or 0)
            return
        try:
            request = pasted(text, Clock(now_ms=self.newest))
        except UsageError as error:
            screen.remark(str(error))
            return
        if isinstance(request, ByTime) and isinstance(source, QueueMessages):
            request = request._replace(topic=source.topic, queue_id=source.queue_id)
        if isinstance(request, ByOffset):
            self.show_sheet(self.pages.log(request.physical_offset))
        elif isinstance(request, ByQueueOffset):
            self.show_sheet(self.pages.messages(*request))
        else:
            self._search(request, screen)

    def _search(self, request: Request, screen: SheetScreen) -> None:
        """Ask for something that may have to be searched for; Esc leaves it."""
        self._searches += 1
        self._is_searching = True
        search = self._searches
        screen.remark("searching …  Esc leaves it")

        def done(answer: Answer) -> None:
            if search == self._searches:
                self._is_searching = False
                screen.remark("" if answer.is_found else answer.summary)
                self._show_answer(request, answer, screen)

        def failed(reason: str) -> None:
            self._is_searching = False
            screen.remark(reason)

        self.reader.ask(lambda lookup: lookup.find(request), done, failed)

    def _show_answer(self, request: Request, answer: Answer, screen: SheetScreen) -> None:
        source = screen.sheet.source
        if answer.rows and isinstance(source, QueueMessages):
            queue_id, queue_offset = (answer.rows[0][name] for name in ("queue_id", "queue_offset"))
            screen.table.go(source.number_of(int(str(queue_id)), int(str(queue_offset))) or 0)
        elif answer.hits:
            at = answer.hits[0].record.physical_offset
            if isinstance(request, ByTime):
                self.show_sheet(self.pages.log(at))
            elif len(answer.hits) == 1:
                self.show_sheet(self.pages.message(at))
            else:
                self.show_sheet(self.pages.hits(request, answer))


def browse(browser: Browser) -> Ending:
    """Show a store until somebody leaves.

    Raises:
        Exception: there is a bug.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):  # whoever runs this puts the others back
        signal.signal(number, lambda number, _: browser.action_leave(128 + number))
    left = browser.run()
    browser.diagnosis.forget()
    browser.reader.leave()
    if browser.bug is not None:
        raise browser.bug
    return left or Ending(0)
