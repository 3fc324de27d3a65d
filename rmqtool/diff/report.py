"""A comparison as rows: the verdict, the first difference, what one side has alone, the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.diff.log_difference import AFTER, BEFORE, SHARED
from rmqtool.diff.side import Part
from rmqtool.plural import counted
from rmqtool.query.log import NoRecord
from rmqtool.query.rows import message_row
from rmqtool.table import Column, Table, Type
from rmqtool.tables.record_tables import MESSAGES as MESSAGE
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.diff.difference import StoreDifference
    from rmqtool.diff.log_difference import LogDifference
    from rmqtool.query.log import LogRecord
    from rmqtool.rows import Row, Rows


_SIDE: Final = Column("side", Type.TEXT, "A or B, the store that has it")
_TOPIC: Final = Column("topic", Type.TEXT, "name of the topic")
_QUEUE: Final = Column("queue_id", Type.INT64, "number of the queue")

VERDICT: Final = Table(
    "verdict",
    "how two stores differ as a whole",
    (
        Column("is_same", Type.BOOLEAN, "nothing differs; null where not everything could be read"),
        Column("is_complete", Type.BOOLEAN, "everything could be read and compared"),
        Column("verdict", Type.TEXT, "the same in a sentence"),
        Column("path_a", Type.TEXT, "the store A"),
        Column("path_b", Type.TEXT, "the store B"),
        Column("begin_a", Type.INT64, "first physical offset of the log of A", "bytes"),
        Column("end_a", Type.INT64, "physical offset where the log of A ends", "bytes"),
        Column("begin_b", Type.INT64, "first physical offset of the log of B", "bytes"),
        Column("end_b", Type.INT64, "physical offset where the log of B ends", "bytes"),
        Column("common_begin", Type.INT64, "first physical offset that both logs hold", "bytes"),
        Column("common_end", Type.INT64, "end of the range that both logs hold", "bytes"),
        Column(
            "first_difference",
            Type.INT64,
            "physical offset where the logs differ first, or where the shorter log ends",
            "bytes",
        ),
        Column(
            "same_until", Type.TIME, "when the last message before the first difference was stored"
        ),
        Column("messages_only_a", Type.INT64, "messages that only A has", "messages"),
        Column("messages_only_b", Type.INT64, "messages that only B has", "messages"),
        Column("bytes_compared", Type.INT64, "bytes that both logs hold and were read", "bytes"),
        Column("bytes_unread", Type.INT64, "bytes of the logs that could not be read", "bytes"),
    ),
    shown=(
        *("is_same", "first_difference", "messages_only_a", "messages_only_b", "end_a", "end_b"),
        *("common_begin", "common_end", "same_until", "verdict"),
    ),
    below=("verdict",),
)
RECORDS: Final = Table(
    "records",
    "content at the first difference in one store",
    (
        _SIDE,
        *MESSAGE.columns,
        Column("note", Type.TEXT, "why there is no record", is_optional=True),
    ),
    shown=(
        *("side", "physical_offset", "topic", "queue_id", "queue_offset", "store_time", "size"),
        *("code", "note", "unique_key", "tags", "keys"),
    ),
    below=("note",),
)
MESSAGES: Final = Table(
    "messages",
    "messages of one queue that only one store has",
    (
        _SIDE,
        Column("range", Type.TEXT, "before, shared or after: where both logs hold bytes, or past"),
        _TOPIC,
        _QUEUE,
        Column("messages", Type.INT64, "how many", "messages"),
        Column("size", Type.INT64, "bytes of their records", "bytes"),
        Column("first_store_time", Type.TIME, "when the oldest of them was stored"),
        Column("last_store_time", Type.TIME, "when the newest of them was stored"),
        Column("first_queue_offset", Type.INT64, "lowest queue offset of them"),
        Column("last_queue_offset", Type.INT64, "highest queue offset of them"),
        Column("first_physical_offset", Type.INT64, "where the first of them lies", "bytes"),
        Column("last_physical_offset", Type.INT64, "where the last of them lies", "bytes"),
    ),
    shown=(
        *("side", "messages", "topic", "queue_id", "first_store_time", "last_store_time"),
        *("first_queue_offset", "last_queue_offset", "range", "size"),
        *("first_physical_offset", "last_physical_offset"),
    ),
)
QUEUES: Final = Table(
    "queues",
    "a queue that does not reach equally far",
    (
        _TOPIC,
        _QUEUE,
        Column("queue_kind", Type.TEXT, "plain or batch queues"),
        Column("min_queue_offset_a", Type.INT64, "queue offset of the first message in A"),
        Column("min_queue_offset_b", Type.INT64, "queue offset of the first message in B"),
        Column("max_queue_offset_a", Type.INT64, "queue offset of the next message in A"),
        Column("max_queue_offset_b", Type.INT64, "queue offset of the next message in B"),
    ),
    shown=(
        *("topic", "queue_id", "max_queue_offset_a", "max_queue_offset_b"),
        *("min_queue_offset_a", "min_queue_offset_b", "queue_kind"),
    ),
)
OFFSETS: Final = Table(
    "offsets",
    "a consumer offset that differs",
    (
        Column("group", Type.TEXT, "consumer group"),
        _TOPIC,
        _QUEUE,
        Column("queue_offset_a", Type.INT64, "next message to be consumed, as A says"),
        Column("queue_offset_b", Type.INT64, "next message to be consumed, as B says"),
        Column("newer", Type.TEXT, "A or B, the store with the higher offset"),
    ),
)
EPOCHS: Final = Table(
    "epochs",
    "a master epoch that differs",
    (
        Column("epoch", Type.INT64, "number of the epoch"),
        Column("start_offset_a", Type.INT64, "physical offset where it begins in A", "bytes"),
        Column("start_offset_b", Type.INT64, "physical offset where it begins in B", "bytes"),
    ),
)
SETTINGS: Final = Table(
    "settings",
    "a field of topics, groups or delay offsets that differs",
    (
        Column("file", Type.TEXT, "file of the directory config, such as topics.json"),
        Column("entry", Type.TEXT, "topic, group or delay level"),
        Column("field", Type.TEXT, "field of the entry"),
        Column("value_a", Type.TEXT, "value in A as JSON; null where A has none"),
        Column("value_b", Type.TEXT, "value in B as JSON; null where B has none"),
    ),
)
PROBLEMS: Final = Table(
    "problems",
    "something that could not be read, or is damaged",
    (
        _SIDE,
        Column("path", Type.TEXT, "file or directory"),
        Column("physical_offset", Type.INT64, "place in the commitlog", "bytes"),
        Column("length", Type.INT64, "bytes of the commitlog", "bytes"),
        Column("code", Type.TEXT, "code of the finding"),
        Column("is_unread", Type.BOOLEAN, "it could not be read, so it was not compared"),
        Column("problem", Type.TEXT, "the problem"),
    ),
    shown=("side", "problem", "path", "physical_offset", "length", "code"),
    below=("problem",),
)
TABLES: Final = (VERDICT, RECORDS, MESSAGES, QUEUES, OFFSETS, EPOCHS, SETTINGS, PROBLEMS)
SECTIONS: Final = tuple(table.name for table in TABLES)


def report(compared: StoreDifference) -> list[Rows]:
    """Give the sections, the verdict first."""
    makers = (_verdict, _records, _messages, _queues, _offsets, _epochs, _settings, _problems)
    return [
        table.rows([list(make(compared))], label="section")
        for table, make in zip(TABLES, makers, strict=True)
    ]


def _verdict(compared: StoreDifference) -> Iterator[Row]:
    log, shared = compared.log, compared.log.shared
    path_a, path_b = compared.paths
    only_a, only_b = (own.messages(BEFORE, SHARED, AFTER) for own in log.own)
    yield VERDICT.row(
        compared,
        verdict=verdict(compared),
        path_a=path_a,
        path_b=path_b,
        begin_a=log.a.begin,
        end_a=log.a.end,
        begin_b=log.b.begin,
        end_b=log.b.end,
        common_begin=shared.begin if shared.length else None,
        common_end=shared.end if shared.length else None,
        first_difference=compared.parts_at,
        messages_only_a=only_a,
        messages_only_b=only_b,
        bytes_compared=log.compared,
        bytes_unread=log.unread,
    )


def _records(compared: StoreDifference) -> Iterator[Row]:
    for name, record in zip(NAMES, compared.records, strict=True):
        if record is not None:
            yield {"side": name, **_record(record)}


def _record(record: LogRecord | NoRecord) -> Row:
    if isinstance(record, NoRecord):
        return {"physical_offset": record.physical_offset, "note": record.reason}
    return message_row(record)


def _messages(compared: StoreDifference) -> Iterator[Row]:
    for name, own in zip(NAMES, compared.log.own, strict=True):
        for key, tally in sorted(own.tallies.items()):
            yield MESSAGES.row(key, tally, side=name)


def _queues(compared: StoreDifference) -> Iterator[Row]:
    for (topic, queue_id, kind), (a, b) in compared.state.queues.items():
        yield {
            "topic": topic,
            "queue_id": queue_id,
            "queue_kind": kind,
            "min_queue_offset_a": a and a.first,
            "min_queue_offset_b": b and b.first,
            "max_queue_offset_a": a and a.next,
            "max_queue_offset_b": b and b.next,
        }


def _offsets(compared: StoreDifference) -> Iterator[Row]:
    for key, (a, b) in compared.state.offsets.items():
        is_a = b is None or (a is not None and a > b)
        yield {
            **key._asdict(),
            "queue_offset_a": a,
            "queue_offset_b": b,
            "newer": NAMES[0] if is_a else NAMES[1],
        }


def _epochs(compared: StoreDifference) -> Iterator[Row]:
    for number, (a, b) in compared.state.epochs.items():
        yield {"epoch": number, "start_offset_a": a, "start_offset_b": b}


def _settings(compared: StoreDifference) -> Iterator[Row]:
    for key, (a, b) in compared.state.settings.items():
        yield {**key._asdict(), "value_a": a, "value_b": b}


def _problems(compared: StoreDifference) -> Iterator[Row]:
    for name, troubles in zip(NAMES, compared.troubles, strict=True):
        for trouble in troubles:
            yield {"side": name, **trouble._asdict()}


# The answer in one sentence.


NAMES = ("A", "B")


def verdict(compared: StoreDifference) -> str:
    """Say in one sentence how B is to A."""
    parts = [*(_log(compared) if Part.LOG in compared.parts else ()), *_state(compared)]
    if not compared.is_complete:
        parts.append("some input could not be read")
    if compared.is_same is not False:
        what = "no difference was seen"
        if compared.is_same:
            whole = len(compared.parts) == len(Part)
            what = f"the {'stores' if whole else ' and '.join(sorted(compared.parts))} are the same"
        rest = parts[1:] if compared.log.shared.length else parts
        return "; ".join([what, *rest])
    return "; ".join(parts)


def _log(compared: StoreDifference) -> Iterator[str]:
    log = compared.log
    if not log.shared.length:
        yield _apart(log)
        return
    if strangers := _strangers(compared):
        yield strangers
    yield from _shared(compared)
    for name, own in zip(NAMES, log.own, strict=True):
        if older := own.messages(BEFORE):
            yield f"{name} has {older:,} older {_message_word(older)}"
    if log.unread:
        yield f"{log.unread:,} bytes of the log could not be compared"


def _strangers(compared: StoreDifference) -> str:
    """Say that two stores were never replicas of each other; empty where they may have been.

    Of replicas the oldest record that both hold is the same: brokers stored it at one time.
    """
    log, records = compared.log, compared.records
    if log.first != log.shared.begin or log.goes_on:
        return ""
    a, b = (
        None if isinstance(record, NoRecord) or record is None else record.message
        for record in records
    )
    if a is None or b is None or a.crc_matches is False or b.crc_matches is False:
        return ""
    if (a.store_timestamp, a.unique_key) == (b.store_timestamp, b.unique_key):
        return ""
    first, second = (
        f"{iso_time(message.store_timestamp)} by {message.store_host}" for message in (a, b)
    )
    return (
        f"they were never replicas of each other: the record at {log.first} was stored at {first} "
        f"in A, at {second} in B"
    )


def _apart(log: LogDifference) -> str:
    if not log.a.length and not log.b.length:
        return "neither has a commitlog"
    for name, span in zip(NAMES, (log.a, log.b), strict=True):
        if not span.length:
            return f"{name} has no message in a commitlog"
    return (
        f"the logs have no offset in common: A holds [{log.a.begin}, {log.a.end}), "
        f"B holds [{log.b.begin}, {log.b.end})"
    )


def _shared(compared: StoreDifference) -> Iterator[str]:
    log = compared.log
    more = [own.messages(SHARED, AFTER) for own in log.own]
    if log.first is None:
        yield _longer(compared, more)
        return
    if not log.goes_on:
        parts = " and ".join(
            f"{name} has {count:,} {_message_word(count)}"
            for name, count in zip(NAMES, more, strict=True)
        )
        yield f"they part at {log.first}: from there {parts} of its own"
    else:
        inner = [own.messages(SHARED) for own in log.own]
        parts = (
            f"{inner[0]:,} {_message_word(inner[0])} of A and {inner[1]:,} of B are not the same"
        )
        yield f"they differ first at {log.first}: {parts}"
        for name, own in zip(NAMES, log.own, strict=True):
            if count := own.messages(AFTER):
                yield f"{name} has {count:,} {_message_word(count)} more at its end"
    for name, own in zip(NAMES, log.own, strict=True):
        if count := len(own.own_damage):
            yield f"{name} is damaged in {count:,} {'place' if count == 1 else 'places'}"
        if count := len(own.own_bridges):
            yield f"{name} has {counted(count, 'bridge')} of a repair in place of lost messages"


def lender(compared: StoreDifference) -> int | None:
    """Say which of two stores can lend the other one records; None for neither, or for both.

    Returns:
        0 for A, 1 for B: only the other one is damaged, and after that they are the same again.
    """
    damaged = [bool(own.own_damage or own.own_bridges) for own in compared.log.own]
    if not compared.log.goes_on or damaged[0] == damaged[1]:
        return None
    return damaged.index(False)


def _longer(compared: StoreDifference, more: list[int]) -> str:
    log = compared.log
    if log.a.end == log.b.end:
        return "their logs are the same" if log.a == log.b else "their logs end alike"
    long = 0 if log.a.end > log.b.end else 1
    count = more[long]
    time = (
        f"{iso_time(compared.same_until)}" if compared.same_until is not None else "its beginning"
    )
    extra = f"{count:,} {_message_word(count)} more"
    if not count:
        extra = f"{abs(log.a.end - log.b.end):,} bytes more, and no message in them"
    short_name, long_name = NAMES[1 - long], NAMES[long]
    return (
        f"{short_name} is {long_name}'s log up to {time} (physical offset {log.shared.end}); "
        f"{long_name} has {extra}"
    )


def _state(compared: StoreDifference) -> Iterator[str]:
    state = compared.state
    for number, name in enumerate(NAMES):
        if groups := state.newer(number):
            count = len(groups)
            what = "group" if count == 1 else "groups"
            yield f"the offsets of {count:,} {what} are newer in {name}"
    counts = {
        "queue": len(state.queues),
        "epoch": len(state.epochs),
        "setting": len(state.settings),
    }
    for word, count in counts.items():
        if count:
            yield f"{count:,} {word}{' differs' if count == 1 else 's differ'}"


def _message_word(count: int) -> str:
    return "message" if count == 1 else "messages"
