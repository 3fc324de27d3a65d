"""What each screen shows: rows of the rooms below, and the command line that gives the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rmqtool.browse.commands import Commander, CommandRows, Diagnosis
from rmqtool.browse.records import LogRecords, QueueList, QueueMessages, SegmentMap
from rmqtool.browse.sources import ListRows, RowSource, TurnedRows
from rmqtool.browse.table import COLORS
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import LOGS
from rmqtool.query import groups
from rmqtool.query.rows import HITS, TRACE, hit_row
from rmqtool.query.whole_message import hex_lines, message_fields
from rmqtool.render.picture import marks_of, segment_cells
from rmqtool.tables.bodies import BodyMode
from rmqtool.tables.inputs import views_of
from rmqtool.tables.lost_messages import LOST_MESSAGES
from rmqtool.tables.views import EVERYTHING, OF_STORES, PARTS, VIEWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rmqtool.browse.sources import StoreReader
    from rmqtool.query.answer import Answer
    from rmqtool.query.lookup import Lookup
    from rmqtool.query.requests import Request
    from rmqtool.rows import Row

ALL: Final = 200_000  # rows of a list of names, which is searched
NEAR: Final = 64  # units before the one that a finding is about
SEVERITIES: Final = [*reversed(Severity)]
BODIES: Final = (BodyMode.TEXT, BodyMode.HEX, BodyMode.BASE64, BodyMode.REDACTED)
NEXT_BODY: Final = dict(zip(BODIES, (*BODIES[1:], BODIES[0]), strict=True))
IN_BYTES: Final = ("position", "hex", "field", "value", "code")
IN_TOPICS: Final = ("topic", "messages", "message_bytes", "size", "queues")
IN_GROUPS: Final = ("group", "lag", "topic", "queues", "expired", "ahead", "retries")
IN_FILES: Final = ("view", "meaning")
IN_FINDINGS: Final = ("severity", "code", "message", "path", "position")
IN_FILTERED: Final = (
    *("topic", "queue_id", "queue_offset", "store_time", "physical_offset", "tags", "keys"),
    *("size", "unique_key", "code"),
)


@dataclass
class Sheet:
    """One screen."""

    title: str
    line: str  # the command line that gives the same rows
    source: RowSource
    opens: Callable[[Row], Sheet | None] = lambda _: None  # what Enter shows
    bytes_of: Callable[[Row], Sheet | None] = lambda _: None  # what x shows
    line_of: Callable[[Row], str] = lambda _: ""  # the command line about one row
    marks: Callable[[Row], Sequence[str]] = lambda _: ()  # how extract chooses what a row is about
    at: int | None = None  # physical offset, of a sheet about one record
    body: BodyMode | None = None  # how it shows the body of a message
    has_names: bool = False  # a search looks for a name among its rows
    begins: Callable[[], int] = lambda: 0  # the row of the cursor, known when there are rows
    again: Callable[[], Sheet] | None = None  # makes it again when the diagnosis is there


class Pages:
    """Makes the sheets of one store.

    Args:
        commander: starts commands on it.
        reader: reads it.
        diagnosis: what doctor says of it.
    """

    def __init__(self, commander: Commander, reader: StoreReader, diagnosis: Diagnosis) -> None:
        self._commander, self._reader, self._diagnosis = commander, reader, diagnosis
        self._line = commander.line

    def _rows(self, title: str, shown: Sequence[str], *words: str, path: str = "") -> Sheet:
        """Give the rows of a command."""
        line = self._commander.words(*words, path=path)
        source = CommandRows(shown, self._commander, line, ALL)
        return Sheet(title, self._line(*words, path=path), source, opens=self.row)

    # messages

    def overview(self) -> Sheet:
        """Files of the log, each as a line of cells."""

        def draw(row: Row, used: int, width: int) -> str:
            rows = self._diagnosis.rows
            return segment_cells(row, used, marks_of(row, rows("findings"), rows("unread")), width)

        source = SegmentMap(self._reader, draw)
        sheet = Sheet("overview", self._line("info", "--section", "segments"), source)
        sheet.opens = lambda row: self.log(_number(row, "start"))
        return sheet

    def log(self, physical_offset: int | None = 0) -> Sheet:
        """Records of the log, around a place; None is its end."""
        at_end = ("--tail", "256")
        words = at_end if physical_offset is None else ("--offsets", f"{physical_offset}:")
        source = LogRecords(self._reader, physical_offset)
        sheet = self._messages(Sheet("log", self._line("dump", *words), source))
        sheet.begins = lambda: source.first_row
        return sheet

    def _messages(self, sheet: Sheet) -> Sheet:
        """Give a list of messages its keys."""
        sheet.opens, sheet.bytes_of, sheet.marks = self._message_of, self._bytes_of, _record_marks
        sheet.line_of = lambda row: self._line("query", "--at", str(row.get("physical_offset")))
        return sheet

    def _message_of(self, row: Row) -> Sheet | None:
        """One message; of bytes that are no record, the bytes."""
        at = row.get("physical_offset")
        if not isinstance(at, int):
            return self.row(row)
        return self._bytes_of(row) if row.get("severity") == "damage" else self.message(at)

    def message(self, at: int, body: BodyMode = BodyMode.TEXT) -> Sheet:
        """All of one message, and what points to it."""
        source = TurnedRows()
        self._reader.ask(
            lambda lookup: list(message_fields(lookup, at, body)), source.add, source.end
        )
        line = self._line("query", "--at", str(at), "--body", str(body))
        sheet = self._messages(Sheet(f"message at {at}", line, source, at=at, body=body))
        sheet.opens, sheet.bytes_of = lambda _: None, lambda _: self.hex(at)
        sheet.line_of = lambda _: line
        sheet.marks = lambda _: _record_marks({"physical_offset": at})
        return sheet

    def trace(self, at: int) -> Sheet:
        """The life of a message."""
        words = ("query", "--at", str(at), "--trace")
        return self._messages(self._rows(f"trace of {at}", TRACE.shown, *words))

    def hex(self, at: int) -> Sheet:
        """The bytes of a record, each field in its colour."""
        source = HexRows(IN_BYTES[:-1])
        self._reader.ask(lambda lookup: list(hex_lines(lookup, at)), source.take, source.end)
        return Sheet(f"bytes at {at}", self._line("query", "--at", str(at), "--hex"), source, at=at)

    def _bytes_of(self, row: Row) -> Sheet | None:
        at = row.get("physical_offset")
        if not isinstance(at, int):
            return None
        if row.get("severity") != "damage":
            return self.hex(at)
        words = ("--hex", "--fillers", "--offsets", f"{at}:{at + max(_number(row, 'size'), 1)}")
        return self._rows(f"bytes from {at}", IN_BYTES, "dump", *words)

    def hits(self, request: Request, answer: Answer) -> Sheet:
        """Messages that were found."""
        line = self._line("query", *str(request).split(" "))
        source = ListRows(HITS.shown, map(hit_row, answer.hits))
        return self._messages(Sheet(str(request), line, source))

    def row(self, row: Row) -> Sheet:
        """All fields of a row."""
        return Sheet("row", "", TurnedRows(row.items()))

    # topics, queues, groups

    def topics(self) -> Sheet:
        """Topics with the sums of their queues."""
        sheet = self._rows("topics", IN_TOPICS, "info", "--section", "topics")
        self._name(sheet, lambda lookup: [{"topic": topic} for topic in lookup.queue_topics])
        sheet.opens = lambda row: self.queues(str(row["topic"]))
        sheet.line_of = lambda row: self._line("dump", *_queue_marks(row))
        sheet.marks = _queue_marks
        return sheet

    def _name(self, sheet: Sheet, names: Callable[[Lookup], list[Row]]) -> None:
        """Show names until the command has rows; what stands in the way, the command says."""
        sheet.has_names = True
        if isinstance(sheet.source, CommandRows):
            self._reader.ask(names, sheet.source.begin_with, lambda _: None)

    def queues(self, topic: str) -> Sheet:
        """The queues of a topic."""
        line, source = self._line("info", "--section", "queues"), QueueList(self._reader, topic)
        sheet = Sheet(f"queues of {topic}", line, source, has_names=True, marks=_queue_marks)
        sheet.opens = lambda row: self.messages(topic, _number(row, "queue_id"))
        sheet.line_of = lambda row: self._line("dump", *_queue_marks(row))
        return sheet

    def messages(self, topic: str, queue_id: int | None = None, queue_offset: int = 0) -> Sheet:
        """The messages of a queue, from a place on, or of all queues of a topic."""
        chosen = _of_queue(topic, queue_id)
        title = f"messages of {topic}" + ("" if queue_id is None else f", queue {queue_id}")
        source = QueueMessages(self._reader, topic, queue_id)
        sheet = self._messages(Sheet(title, self._line("dump", *chosen), source))
        sheet.begins = lambda: source.number_of(queue_id, queue_offset) or 0
        return sheet

    def filtered(self, source: RowSource, text: str) -> Sheet:
        """Messages of a queue, or of all, with a tag or with NAME=VALUE among their properties."""
        chosen: Sequence[str] = ()
        if isinstance(source, QueueMessages):
            chosen = _of_queue(source.topic, source.queue_id)
        words = (*chosen, "--where-property" if "=" in text else "--tag", text)
        return self._messages(self._rows(f"messages with {text}", IN_FILTERED, "dump", *words))

    def groups(self) -> Sheet:
        """Consumer groups with their lag."""
        sheet = self._rows(
            "consumer groups", (*IN_GROUPS, "dead_letters"), "info", "--section", "groups"
        )
        self._name(
            sheet,
            lambda lookup: [{"group": name} for name in groups.known_groups(lookup.store)],
        )
        sheet.opens = lambda row: self.group(str(row["group"]))
        sheet.line_of = lambda row: self._line("query", "--group", str(row["group"]))
        sheet.marks = lambda row: ("--unconsumed-by", str(row["group"]))
        return sheet

    def group(self, name: str) -> Sheet:
        """How far a group has consumed each queue."""
        shown = groups.GROUP_QUEUES.names[1:]
        sheet = self._rows(f"group {name}", shown, "query", "--group", name)
        sheet.opens = lambda row: self.messages(
            str(row["topic"]), _number(row, "queue_id"), _number(row, "committed_offset")
        )
        sheet.marks = _queue_marks
        return sheet

    # what doctor says

    def diagnosed(self) -> Sheet:
        """The diagnosis, and what to do."""
        source = TurnedRows()
        for row in self._diagnosis.rows("diagnosis") + self._diagnosis.rows("steps"):
            source.add([("-", "-"), *row.items()])
        return self._diagnosed("diagnosis", source, self.diagnosed)

    def findings(self) -> Sheet:
        """What is wrong, the worst first."""
        rows = self._diagnosis.rows("findings")
        rows = sorted(rows, key=lambda row: SEVERITIES.index(row["severity"]))
        sheet = self._diagnosed("findings", ListRows(IN_FINDINGS, rows), self.findings)
        sheet.opens, sheet.bytes_of, sheet.has_names = self.finding, self._bytes_of_finding, True
        sheet.line_of = lambda row: self._line("validate", "--only", str(row["code"]))
        return sheet

    def _diagnosed(self, title: str, source: RowSource, again: Callable[[], Sheet]) -> Sheet:
        source.state = self._diagnosis.state
        return Sheet(title, self._diagnosis.line, source, opens=self.row, again=again)

    def finding(self, row: Row) -> Sheet:
        """A finding, what repair would do about it, and what is lost by it."""
        source = TurnedRows(row.items())
        edits, lost = self._diagnosis.rows("edits"), self._diagnosis.rows("lost_messages")
        source.add(
            ("repair would", _words(edit))
            for edit in edits
            if str(edit.get("path")).startswith(str(row["path"]))
        )
        source.add((item["fate"], _words(item)) for item in lost if item["code"] == row["code"])
        sheet = Sheet(f"finding {row['code']}", self._diagnosis.line, source)
        sheet.bytes_of = lambda _: self._bytes_of_finding(row)
        return sheet

    def _bytes_of_finding(self, row: Row) -> Sheet | None:
        path = str(row["path"])
        if isinstance(row["physical_offset"], int) and path.startswith(LOGS):
            return self._bytes_of({**row, "size": row["length"], "severity": "damage"})
        near: tuple[str, ...] = ()
        if "queue" in path and isinstance(row["queue_offset"], int):
            near = ("--queue-offsets", f"{max(row['queue_offset'] - NEAR, 0)}:")
        place = f"{self._commander.store}/{path}"
        return self._rows(f"bytes of {path}", IN_BYTES, "dump", "--hex", *near, path=place)

    def lost(self) -> Sheet:
        """Messages that are lost, with the evidence for each."""
        source = ListRows(LOST_MESSAGES.shown, self._diagnosis.rows("lost_messages"))
        sheet = self._diagnosed("lost messages", source, self.lost)
        return replace(sheet, bytes_of=lambda row: self._bytes_of({**row, "severity": "damage"}))

    # other files

    def files(self) -> Sheet:
        """What else there is, as `dump` shows it."""

        def look(lookup: Lookup) -> list[Row]:
            words = [view.word for view in views_of(lookup.store, EVERYTHING)]
            kinds = {VIEWS[word].branch for word in words}
            words += [word for word in (*sorted(PARTS), *OF_STORES) if VIEWS[word].branch in kinds]
            rows = ((word, VIEWS[word].table.meaning) for word in dict.fromkeys(words))
            return [dict(zip(IN_FILES, row, strict=True)) for row in rows]

        source = ListRows(IN_FILES)
        self._reader.ask(look, source.take, source.end)
        sheet = Sheet("files", self._line("dump", "--as", "all"), source, has_names=True)
        sheet.opens = lambda row: self._dumped(str(row["view"]))
        return sheet

    def _dumped(self, view: str) -> Sheet:
        table = VIEWS[view].table
        return self._rows(view, table.shown or table.names, "dump", "--as", view)


class HexRows(ListRows):
    """Bytes of a record: each field has a colour, and the next one another."""

    def style(self, row: Row) -> str:
        """See `RowSource`."""
        return COLORS[_number(row, "number") % len(COLORS)]


def _number(row: Row, name: str) -> int:
    value = row.get(name)
    return value if isinstance(value, int) else 0


def _words(row: Row) -> str:
    texts = {name: " ".join(map(str, v)) if isinstance(v, list) else v for name, v in row.items()}
    return ", ".join(f"{name} {text}" for name, text in texts.items() if text not in (None, ""))


def _record_marks(row: Row) -> Sequence[str]:
    at = row.get("physical_offset")
    end = f"{at + max(_number(row, 'size'), 1)}" if isinstance(at, int) else ""
    return ("--offsets", f"{at}:{end}") if end else ()


def _queue_marks(row: Row) -> Sequence[str]:
    return _of_queue(row["topic"], row.get("queue_id"))


def _of_queue(topic: object, queue_id: object) -> Sequence[str]:
    return ("--topic", str(topic), *([] if queue_id is None else ["--queue", str(queue_id)]))


def extract_lines(commander: Commander, marked: Iterable[Sequence[str]]) -> list[str]:
    """Give the command lines that extract what is marked: topics in one, all else one each."""
    chosen = list(dict.fromkeys(tuple(words) for words in marked if words))
    topics = [words for words in chosen if words[0] == "--topic" and "--queue" not in words]
    each = [words for words in chosen if words not in topics]
    lines = [tuple(word for words in topics for word in words)] if topics else []
    lines += each
    return [
        f"{commander.line('extract', *words)} --output "
        + ("extract.jsonl" if len(lines) == 1 else f"extract-{number}.jsonl")
        for number, words in enumerate(lines, 1)
    ]
