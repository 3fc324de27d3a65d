"""Rows of an overview: one class a section, fields in the order they are shown.

The annotations are the public declaration; a time is in ms since 1970 here and a text in its
column. None is "not known" or "there is not one".
Named tuples, as sixteen dataclasses would take a tenth of the whole command to declare.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from operator import not_
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeAlias, overload

from rmqtool.rows import ROWS_A_CHUNK, TEXT_A_CHUNK, Chunk, Rows, in_chunks
from rmqtool.table import Says, Table, Type, columns_of

if TYPE_CHECKING:
    from rmqtool.queues.span import SpanColumns

Path: TypeAlias = Annotated[str, Says("file or directory, relative to the store root")]
Topic: TypeAlias = Annotated[str, Says("name of the topic")]
Size: TypeAlias = Annotated[int, Says("length of the files", "bytes")]
Files: TypeAlias = Annotated[int, Says("number of files", "files")]
Allocated: TypeAlias = Annotated[int, Says("bytes that the disk really holds", "bytes")]
First: TypeAlias = Annotated[
    int | None,
    Says("when the oldest message was stored", type=Type.TIME, name="first_store_time"),
]
Last: TypeAlias = Annotated[
    int | None,
    Says("when the newest message was stored", type=Type.TIME, name="last_store_time"),
]
AtLeast: TypeAlias = Annotated[str, Says("oldest release that can have written it")]
Below: TypeAlias = Annotated[str, Says("first release that cannot have written it")]
QueueKind: TypeAlias = Annotated[str, Says("plain or batch queues")]
Messages: TypeAlias = Annotated[
    int, Says("from minOffset to maxOffset of queues; lost messages count, too", "messages")
]
MessageBytes: TypeAlias = Annotated[int, Says("bytes of these in the commitlog", "bytes")]
IsEstimate: TypeAlias = Annotated[
    bool, Says("message_bytes is extrapolated from the newest units of each queue")
]
Expired: TypeAlias = Annotated[int, Says("messages that only the queues still name", "messages")]


class StoreRow(NamedTuple):
    """The store as a whole."""

    path: Annotated[str, Says("the store root, or the given path")]
    recognised_as: Annotated[str, Says("its kind")]
    recognised_by: Annotated[str, Says("evidence: place or content")]
    release: Annotated[str, Says("which releases may have written it last")]
    at_least: AtLeast
    below: Below
    rules_of: Annotated[str, Says("release whose rules commands use, unless told another")]
    stopped: Annotated[str, Says("how the broker stopped")]
    lock_held: Annotated[
        bool | None, Says("a process holds the lock, on this machine or on another")
    ]
    commitlog: Annotated[str, Says("plain or dledger")]


class EvidenceRow(NamedTuple):
    """One trace of the release that wrote the store; `at_least` or `below` is empty."""

    path: Path
    says: Annotated[str, Says("as the file shows")]
    at_least: AtLeast
    below: Below


class LengthRow(NamedTuple):
    """One length of the geometry."""

    name: Annotated[str, Says("which length")]
    value: Annotated[int, Says("bytes, or items for the index")]
    source: Annotated[str, Says("where the length is known from")]


class SegmentRow(NamedTuple):
    """One commitlog file."""

    path: Path
    state: Annotated[str, Says("full, last or unused")]
    start: Annotated[int, Says("first physical offset, from the name", "bytes")]
    end: Annotated[int, Says("physical offset past the file", "bytes")]
    size: Annotated[int, Says("length of the file", "bytes")]
    allocated: Allocated
    first_store_timestamp: First
    last_store_timestamp: Last


class OddityRow(NamedTuple):
    """Something about names, lengths or kinds of files that a broker does not leave."""

    oddity: Annotated[str, Says("the oddity")]
    path: Path
    expected: Annotated[str, Says("expected: a broker leaves it so")]
    actual: Annotated[str, Says("the actual value")]
    start: Annotated[int | None, Says("where it begins in the commitlog or queue", "bytes")]
    length: Annotated[int | None, Says("how much is concerned", "bytes")]


class EndRow(NamedTuple):
    """The real end of data."""

    physical_offset: Annotated[int, Says("first byte past the last record", "bytes")]
    path: Annotated[str, Says("file that holds the end; empty where it lies past all files")]
    position: Annotated[int | None, Says("first byte past the last record in the file", "bytes")]
    last_store_timestamp: Annotated[
        int | None, Says("when the last record was stored", type=Type.TIME, name="last_store_time")
    ]
    found_by: Annotated[str, Says("how the end was found")]
    stopped_at: Annotated[str, Says("the content there")]
    data_beyond: Annotated[
        int | None, Says("physical offset of data past the end; null where none was seen", "bytes")
    ]


class DispatchRow(NamedTuple):
    """How far the queues follow the commitlog."""

    dispatched_to: Annotated[
        int | None, Says("physical offset past the last record that a queue names", "bytes")
    ]
    end: Annotated[int, Says("physical offset past the last record", "bytes")]
    lag_bytes: Annotated[
        int | None,
        Says("bytes that no queue names yet; negative where queues are ahead", "bytes"),
    ]
    lag_records: Annotated[
        int | None, Says("records in these bytes; null where they are too many to count", "records")
    ]


class TopicRow(NamedTuple):
    """One topic."""

    topic: Topic
    queue_kind: QueueKind
    queues: Annotated[int, Says("queues of the topic", "queues")]
    messages: Messages
    message_bytes: MessageBytes
    is_estimate: IsEstimate
    first_store_timestamp: First
    last_store_timestamp: Last
    expired: Expired
    files: Files
    size: Size
    allocated: Allocated


class QueueRow(NamedTuple):
    """One queue; fields as for a topic."""

    topic: Topic
    queue_id: Annotated[int, Says("number of the queue")]
    queue_kind: QueueKind
    min_queue_offset: Annotated[
        int, Says("queue offset of the first message that is still there", aliases=("minOffset",))
    ]
    max_queue_offset: Annotated[
        int, Says("queue offset of the next message", aliases=("maxOffset",))
    ]
    messages: Messages
    message_bytes: MessageBytes
    is_estimate: IsEstimate
    first_store_timestamp: First
    last_store_timestamp: Last
    expired: Expired
    files: Files
    size: Size
    allocated: Allocated


class QueueOverview(Sequence[QueueRow]):
    """Rows of queues: a store may have a million, of whom most are only written.

    Args:
        spans: how far the queues reach.
        first: store time of the first message of each, ms since 1970; None without one.
        last: of the last one.
    """

    def __init__(
        self, spans: "SpanColumns", first: list[int | None], last: list[int | None]
    ) -> None:
        offsets = zip(spans.min_offsets, spans.max_offsets, strict=True)
        columns: tuple[Sequence[Any], ...] = (
            *(spans.topics, spans.queue_ids, [*map(str, spans.kinds)]),
            *(spans.min_offsets, spans.max_offsets, [end - begin for begin, end in offsets]),
            *(spans.message_bytes, [*map(not_, spans.are_exact)], first, last),
            *(spans.expired, spans.files, spans.sizes, spans.allocated),
        )
        self._columns = dict(zip(QueueRow._fields, columns, strict=True))

    def __len__(self) -> int:
        return len(self._columns["topic"])

    @overload
    def __getitem__(self, row: int) -> QueueRow: ...

    @overload
    def __getitem__(self, row: slice) -> list[QueueRow]: ...

    def __getitem__(self, row: int | slice) -> QueueRow | list[QueueRow]:
        columns = self._columns.values()
        if isinstance(row, slice):
            return [*map(QueueRow._make, zip(*(column[row] for column in columns), strict=True))]
        return QueueRow._make(column[row] for column in columns)

    def topics(self) -> list[TopicRow]:
        """Give the topics, sorted, each with the sums of its queues."""
        rows: dict[tuple[str, str], list[slice]] = defaultdict(list)
        start = 0
        names = zip(self._columns["topic"], self._columns["queue_kind"], strict=True)
        for name, of_topic in groupby(names):
            end = start + sum(1 for _ in of_topic)
            rows[name].append(slice(start, end))
            start = end
        return [self._topic(name, rows[name]) for name in sorted(rows)]

    def _topic(self, name: tuple[str, str], rows: Sequence[slice]) -> TopicRow:
        of_topic = {
            column: [value for some in rows for value in values[some]]
            for column, values in self._columns.items()
        }
        first = [time for time in of_topic["first_store_timestamp"] if time is not None]
        last = [time for time in of_topic["last_store_timestamp"] if time is not None]
        return TopicRow(
            topic=name[0],
            queue_kind=name[1],
            queues=len(of_topic["topic"]),
            messages=sum(of_topic["messages"]),
            message_bytes=sum(of_topic["message_bytes"]),
            is_estimate=any(of_topic["is_estimate"]),
            first_store_timestamp=min(first, default=None),
            last_store_timestamp=max(last, default=None),
            expired=sum(of_topic["expired"]),
            files=sum(of_topic["files"]),
            size=sum(of_topic["size"]),
            allocated=sum(of_topic["allocated"]),
        )

    def chunks(self) -> Iterator[Chunk]:
        """Give the rows as they are written."""
        own = table("queues")
        for start in range(0, len(self), ROWS_A_CHUNK):
            columns = [column[start : start + ROWS_A_CHUNK] for column in self._columns.values()]
            rows = [*own.of_columns(columns)]
            is_short = sum(map(len, columns[0])) < TEXT_A_CHUNK  # the topics are its only texts
            yield from [rows] if is_short else in_chunks(rows)


class IndexRow(NamedTuple):
    """One key index file."""

    path: Path
    keys: Annotated[int, Says("entries in use", "entries", aliases=("indexCount",))]
    capacity: Annotated[
        int, Says("entries that the file has room for; 0 where it is not known", "entries")
    ]
    fill_percent: Annotated[float | None, Says("share of the capacity that is in use", "percent")]
    slots: Annotated[int, Says("hash slots; 0 where it is not known", "slots")]
    used_slots: Annotated[int, Says("hash slots that are not empty", "slots")]
    first_store_timestamp: First
    last_store_timestamp: Last
    first_physical_offset: Annotated[
        int | None, Says("physical offset of the first entry", "bytes")
    ]
    last_physical_offset: Annotated[
        int | None, Says("physical offset of the newest entry", "bytes")
    ]
    size: Annotated[int, Says("length of the file", "bytes")]
    allocated: Allocated


class CheckpointRow(NamedTuple):
    """One field of the checkpoint beside what the files show."""

    field: Annotated[str, Says("name of the field")]
    stored: Annotated[int, Says("value in the checkpoint: ms, or a physical offset")]
    actual: Annotated[int | None, Says("as the files show; null where they do not")]
    difference: Annotated[
        int | None, Says("actual minus stored; positive where the checkpoint lags")
    ]
    unit: Annotated[str, Says("unit of the three: ms or bytes")]
    stored_timestamp: Annotated[
        int | None, Says("stored as a time, where it is one", type=Type.TIME, name="stored_time")
    ]
    actual_timestamp: Annotated[
        int | None, Says("actual as a time, where it is one", type=Type.TIME, name="actual_time")
    ]


class GroupRow(NamedTuple):
    """One consumer group on one topic."""

    group: Annotated[str, Says("name of the consumer group", aliases=("consumerGroup",))]
    topic: Annotated[str, Says("topic that it consumes")]
    queues: Annotated[int, Says("queues where the group has stored an offset", "queues")]
    queues_without_offset: Annotated[
        int,
        Says("queues of the topic without an offset of the group; not part of the lag", "queues"),
    ]
    lag: Annotated[int, Says("messages that the group has not consumed", "messages")]
    expired: Annotated[int, Says("messages that it never consumed and that are gone", "messages")]
    ahead: Annotated[
        int, Says("sum of offsets past the ends of queues: these were cut, or lost", "messages")
    ]
    dead_letters: Annotated[
        int, Says("messages in the group's dead letter topic, whatever their topic was", "messages")
    ]
    retries: Annotated[
        int, Says("messages in the group's retry topic, consumed or not", "messages")
    ]


class DatabaseRow(NamedTuple):
    """One RocksDB database: recognised, not read."""

    path: Path
    holds: Annotated[str, Says("its content")]
    since: Annotated[str, Says("release that wrote it first")]
    is_empty: Annotated[bool, Says("no data was ever written to it")]
    table_files: Annotated[int, Says("its table files", "files")]
    size: Size
    allocated: Allocated


class DiskRow(NamedTuple):
    """Disk use of one name in the store root."""

    name: Annotated[str, Says("name in the store root")]
    files: Files
    size: Size
    allocated: Allocated


class ProblemRow(NamedTuple):
    """Something that could not be read, and is missing in the other sections."""

    path: Path
    reason: Annotated[str, Says("why it could not be read")]


class Public(NamedTuple):
    """What is public of a section beside its columns."""

    row: type[NamedTuple]  # the class of its rows
    meaning: str  # what one of them is
    # columns that a narrow terminal shows first; empty for all, in order
    shown: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()  # columns that say nothing when they are cut


_TOPIC_SHOWN: Final = (
    "messages", "message_bytes", "first_store_time", "last_store_time", "expired", "is_estimate",
    "files", "size", "allocated", "queue_kind",
)  # fmt: skip
_PUBLIC: Final = {
    "store": Public(StoreRow, "the store as a whole"),
    "release": Public(EvidenceRow, "a trace of the release that wrote the store"),
    "geometry": Public(LengthRow, "a length that files of the store have"),
    "segments": Public(
        SegmentRow,
        "a file of the commitlog",
        (
            *("start", "state", "first_store_time", "last_store_time", "size", "path", "end"),
            "allocated",
        ),
    ),
    "oddities": Public(
        OddityRow,
        "something that a broker does not leave",
        whole=("path", "expected", "actual"),
    ),
    "end": Public(EndRow, "the end of data"),
    "dispatch": Public(DispatchRow, "how far the queues follow the commitlog"),
    "topics": Public(TopicRow, "a topic", ("topic", "queues", *_TOPIC_SHOWN)),
    "queues": Public(
        QueueRow,
        "a queue",
        ("topic", "queue_id", "min_queue_offset", "max_queue_offset", *_TOPIC_SHOWN),
    ),
    "index": Public(
        IndexRow,
        "a key index file",
        (
            *("path", "keys", "fill_percent", "first_store_time", "last_store_time", "capacity"),
            *("used_slots", "slots", "first_physical_offset", "last_physical_offset", "size"),
            "allocated",
        ),
    ),
    "checkpoint": Public(
        CheckpointRow,
        "a field of the checkpoint beside what the files show",
        ("field", "stored", "actual", "difference", "unit", "stored_time", "actual_time"),
    ),
    "groups": Public(GroupRow, "a consumer group on one topic"),
    "databases": Public(DatabaseRow, "a RocksDB database"),
    "disk": Public(DiskRow, "disk use of a name in the store root"),
    "problems": Public(ProblemRow, "something that could not be read"),
}
NAMES: Final = tuple(_PUBLIC)


@cache
def table(name: str) -> Table:
    """Give the table of a section; made when it is first asked for, as each takes its time."""
    section = _PUBLIC[name]
    return Table(name, section.meaning, columns_of(section.row), section.shown, whole=section.whole)


def section_rows(name: str, sections: Iterable[NamedTuple]) -> Rows:
    """Give a section as rows to be written: times as text, and the columns even without a row.

    Args:
        name: of the section.
        sections: what `overview.SECTIONS` gives for it.
    """
    own = table(name)
    if isinstance(sections, QueueOverview):
        return own.rows(sections.chunks(), label="section")
    return own.rows(in_chunks(map(own.row, sections)), label="section")
