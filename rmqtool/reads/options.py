"""Options of the data source `rocketmq`: texts, as Spark hands them over, to what is wanted."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from rmqtool.clock import Clock
from rmqtool.errors import UsageError
from rmqtool.plural import meant
from rmqtool.ranges import number_range, size
from rmqtool.store.address import is_pattern
from rmqtool.tables.bodies import BodyMode, BodyOptions
from rmqtool.tables.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Mapping

Word = TypeVar("Word", bound=enum.StrEnum)
TRUE: Final = frozenset({"true", "1", "yes", ""})
FALSE: Final = frozenset({"false", "0", "no"})
DEFAULT_SPLIT: Final = 1 << 30  # bytes: a segment as brokers make them is one partition
FAIL_ON_DATA_LOSS: Final = "failOnDataLoss"  # as with Spark's source for Kafka
BINARY: Final = "binary"  # bodies as bytes: what reads for a person has no use for them
DEFAULT_PACK: Final = 128 << 20  # bytes: the default of spark.sql.files.maxPartitionBytes
NAMES: Final = {
    "path": "a store root, a directory of it, or one file; or a pattern such as "
    "/backups/*/2026-11-2?/store: of several stores, each row has the columns store and broker",
    "paths": "several stores, or patterns, as a JSON list; load([...]) writes it",
    "stores_file": "a file with a store or pattern a line; after a tab, the name of the broker",
    "table": "messages, queue_units, index_entries, findings, segments, pending_timers, "
    "pop_in_flight, traces, topics, queues, groups, consumer_offsets, delay_offsets, "
    "checkpoint or lost_messages",
    "columns": "names, comma separated; others are not decoded",
    "topic": "topics, comma separated",
    "queue_id": "number of the queue",
    "tag": "the whole tag string",
    "key": "one of the keys, or the unique key",
    "from": "stored at or after: ISO 8601, UTC by default, or ms",
    "to": "stored before",
    "offsets": "physical offsets A:B, half open",
    "queue_offsets": "queue offsets A:B, half open",
    "body": "none, text, hex, base64, redacted, or binary: exact bytes, body is a BINARY column",
    "raw": "bodies as they are stored",
    "body_limit": "largest body that is shown",
    "fillers": "blank records and unused tails are rows, too",
    "limit": "rows that one task gives at most; reading stops there",
    "split": "bytes that one task reads at most, about; 0 is never less than a segment",
    "pack": "bytes of small segments that share one task, at most; 0 is a task each",
    "broker_conf": "the broker's configuration file",
    "scope": "of findings: store is all that `validate` finds, in one task; segment, only the "
    "defects inside each segment of the log, a task each. Of queue_units and index_entries: store "
    "compares them with the log, segment does not read it",
    "start": "of a stream: physical offset to begin at; earliest and latest are understood",
    "max_bytes": "of a stream: bytes of the log in one batch at most",
    FAIL_ON_DATA_LOSS: "of a stream: true (the default) stops where the log no longer has what "
    "the stream has read, or was to read next; false goes on with a row that says what is missing",
}


class TableName(enum.StrEnum):
    """The tables of a store."""

    MESSAGES = "messages"
    QUEUE_UNITS = "queue_units"
    INDEX_ENTRIES = "index_entries"
    FINDINGS = "findings"
    SEGMENTS = "segments"
    PENDING_TIMERS = "pending_timers"
    POP_IN_FLIGHT = "pop_in_flight"
    TRACES = "traces"
    TOPICS = "topics"
    QUEUES = "queues"
    GROUPS = "groups"
    CONSUMER_OFFSETS = "consumer_offsets"
    DELAY_OFFSETS = "delay_offsets"
    CHECKPOINT = "checkpoint"
    LOST_MESSAGES = "lost_messages"


class Scope(enum.StrEnum):
    """Which findings."""

    STORE = "store"
    SEGMENT = "segment"


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a read was asked. Picklable."""

    path: str  # the store; empty where there are several
    table: TableName = TableName.MESSAGES  # which rows
    columns: tuple[str, ...] | None = None  # names in order; None is all
    selection: Selection = field(default_factory=Selection)  # limits
    body: BodyOptions = field(default_factory=BodyOptions)  # how bodies are shown
    is_binary: bool = False  # the column body has exact bytes; they are read as base64
    fillers: bool = False  # whether what stands for nothing is a row, too
    limit: int | None = None  # rows of a partition at most; None is all
    split: int = DEFAULT_SPLIT  # bytes of a partition; 0 is a whole segment
    pack: int = DEFAULT_PACK  # bytes of segments that share a partition
    broker_conf: str | None = None  # the broker's configuration file
    scope: Scope = Scope.STORE  # of findings
    start: str = "earliest"  # where a stream begins
    max_bytes: int = 0  # of the log that one batch of a stream has; 0 is all there is
    # whether a stream stops where the log no longer has what it is to have
    fail_on_data_loss: bool = True
    paths: tuple[str, ...] = ()  # several stores, or patterns of them
    stores_file: str | None = None  # names stores, too

    @property
    def is_fleet(self) -> bool:
        """Whether several stores are read: each row says which one it is of."""
        return bool(self.paths) or self.stores_file is not None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> SourceOptions:
        """Read options as Spark hands them over.

        Raises:
            UsageError: one is not known, or cannot be meant.
        """
        texts = {name.lower(): text for name, text in given.items()}
        if unknown := texts.keys() - {name.lower() for name in NAMES}:
            reason = f"no such option; {meant(min(unknown), NAMES)}"
            raise UsageError(option=min(unknown), reason=reason)
        paths, stores_file = _paths(texts), texts.get("stores_file")
        is_fleet = len(paths) > 1 or stores_file is not None or any(map(is_pattern, paths))
        if not paths and stores_file is None:
            raise UsageError(option="path", reason="is missing: which store?")
        return cls(
            path="" if is_fleet else paths[0],
            paths=paths if is_fleet else (),
            stores_file=stores_file,
            table=_word(TableName, "table", texts.get("table", TableName.MESSAGES)),
            columns=_names(texts.get("columns")),
            selection=_selection(texts),
            body=_body(texts),
            is_binary=_is_binary(texts),
            fillers=_flag("fillers", texts.get("fillers", "false")),
            limit=_number("limit", texts.get("limit")),
            split=size("split", texts["split"]) if "split" in texts else DEFAULT_SPLIT,
            pack=size("pack", texts["pack"]) if "pack" in texts else DEFAULT_PACK,
            broker_conf=texts.get("broker_conf"),
            scope=_word(Scope, "scope", texts.get("scope", Scope.STORE)),
            start=texts.get("start", "earliest"),
            max_bytes=size("max_bytes", texts.get("max_bytes", "0")),
            fail_on_data_loss=_flag(
                FAIL_ON_DATA_LOSS, texts.get(FAIL_ON_DATA_LOSS.lower(), "true")
            ),
        )


def _paths(texts: Mapping[str, str]) -> tuple[str, ...]:
    """Give the stores that were named; Spark writes those of `load([...])` as JSON."""
    path = texts.get("path")
    listed = texts.get("paths")
    try:
        paths = [] if listed is None else json.loads(listed)
    except json.JSONDecodeError:
        paths = None
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise UsageError(option="paths", reason="is not a JSON list of paths")
    return tuple(filter(None, [path, *paths]))


def _selection(texts: Mapping[str, str]) -> Selection:
    selection = Selection(
        topics=_names(texts.get("topic")) or (),
        queue_id=_number("queue_id", texts.get("queue_id")),
        tag=texts.get("tag"),
        key=texts.get("key"),
        store_time=(_time("from", texts), _time("to", texts)),
        offsets=number_range("offsets", texts.get("offsets")),
        queue_offsets=number_range("queue_offsets", texts.get("queue_offsets")),
    )
    selection.refuse_impossible()
    return selection


def _number(option: str, text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError as error:
        raise UsageError(option=option, reason=f"{text!r} is not a number") from error


def _time(name: str, texts: Mapping[str, str]) -> int | None:
    """Read a time; without an offset it is UTC, as executors may be in many time zones."""
    return Clock("UTC").ms(name, texts[name]) if name in texts else None


def _body(texts: Mapping[str, str]) -> BodyOptions:
    usual = BodyOptions()
    word = BodyMode.BASE64 if _is_binary(texts) else texts.get("body", usual.mode)
    return BodyOptions(
        mode=_word(BodyMode, "body", word),
        raw=_flag("raw", texts.get("raw", "false")),
        ceiling=size("body_limit", texts.get("body_limit", str(usual.ceiling))),
    )


def _is_binary(texts: Mapping[str, str]) -> bool:
    return texts.get("body", "").lower() == BINARY


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(filter(None, (name.strip() for name in text.split(","))))


def _flag(option: str, text: str) -> bool:
    if text.lower() in TRUE:
        return True
    if text.lower() in FALSE:
        return False
    raise UsageError(option=option, reason=f"{text!r} is neither true nor false")


def _word(kind: type[Word], option: str, text: str) -> Word:
    try:
        return kind(text.lower())
    except ValueError as error:
        reason = f"{text!r} is not one of: {' '.join(kind)}"
        raise UsageError(option=option, reason=reason) from error
