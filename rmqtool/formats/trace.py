"""Bodies of message traces: what clients write to a trace topic when enableMsgTrace is on.

A body is text: events, each ended by 0x02, of fields with 0x01 between them. The first field names
the kind. Java leaves empty fields at the end out, and writes `null` for what it does not have.
Source: TraceDataEncoder, TraceContext, TraceBean, 4.4.0 to 5.5.0.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rmqtool.formats import java

if TYPE_CHECKING:
    from collections.abc import Iterator

FIELD_END: Final = "\x01"  # TraceConstants.CONTENT_SPLITOR
EVENT_END: Final = b"\x02"  # TraceConstants.FIELD_SPLITOR
NULL: Final = "null"
LONG_LIMIT: Final = 1 << 63
SHOWN: Final = 60  # characters of a field that a reason quotes
PUB, SUB_BEFORE, SUB_AFTER = "Pub", "SubBefore", "SubAfter"
END_TRANSACTION, RECALL = "EndTransaction", "Recall"
MESSAGE_TYPES: Final = (  # MessageType, by its ordinal
    *("Normal_Msg", "Trans_Msg_Half", "Trans_msg_Commit", "Delay_Msg", "Order_Msg"),
)
RETURN_TYPES: Final = ("SUCCESS", "TIME_OUT", "EXCEPTION", "RETURNNULL", "FAILED")
_HEAD: Final = ("event_timestamp", "region", "group")
_MESSAGE: Final = ("topic", "unique_key", "tags", "keys", "store_host")
# The fields of each kind after its name. Releases before 4.9 end an event earlier.
FIELDS: Final = {
    PUB: (
        *_HEAD,
        *_MESSAGE,
        *("body_size", "cost_ms", "message_type", "offset_message_id", "success", "client_host"),
    ),
    SUB_BEFORE: (*_HEAD, "request_id", "unique_key", "retry_times", "keys"),
    SUB_AFTER: (
        *("request_id", "unique_key", "cost_ms", "success", "keys"),
        *("return_type", "event_timestamp", "group"),
    ),
    END_TRANSACTION: (
        *_HEAD,
        *_MESSAGE,
        *("message_type", "transaction_id", "transaction_state", "from_check"),
    ),
    RECALL: (*_HEAD, "topic", "unique_key", "success"),
}
LEAST: Final = {PUB: 12, SUB_BEFORE: 6, SUB_AFTER: 4, END_TRANSACTION: 12, RECALL: 6}
"""Fields that an event has at least: keys at its end may be empty, and are left out then."""
KEYS, MESSAGE_TYPE, RETURN_TYPE = "keys", "message_type", "return_type"
_NUMBERS: Final = frozenset({"event_timestamp", "body_size", "cost_ms", "retry_times"})
_TRUTHS: Final = frozenset({"success", "from_check"})
WITHOUT_OFFSET_ID: Final = 12  # fields of a Pub of the first releases, which had no offset ID


class TraceEvent(NamedTuple):
    """One event of a body."""

    number: int  # of the event in the body, from 0 on
    kind: str  # `Pub`, `SubBefore`, `SubAfter`, `EndTransaction`, `Recall`; empty if unreadable
    values: dict[str, Any]  # by the names of `FIELDS`; what the client did not have is left out
    reason: str | None = None  # why the event cannot be read; None where it was


def events(body: bytes) -> Iterator[TraceEvent]:
    """Take a body apart, in order. What cannot be read is an event with a reason.

    A batch that a producer sent at once is an event for each of its messages.

    Args:
        body: decompressed.
    """
    number = 0
    for raw in body.split(EVENT_END):
        if not raw:
            continue
        for event in _of_batch(_event(number, java.text(raw).split(FIELD_END))):
            yield event
            number += 1


def _event(number: int, fields: list[str]) -> TraceEvent:
    kind, texts = fields[0], fields[1:]
    names = FIELDS.get(kind)
    if names is None:
        return TraceEvent(number, "", {}, f"{kind[:SHOWN]!r} is not a kind of trace event")
    if len(texts) < LEAST[kind]:
        return TraceEvent(number, kind, {}, f"{len(texts)} fields, {LEAST[kind]} at least")
    if kind == PUB and len(texts) == WITHOUT_OFFSET_ID:
        names = tuple(name for name in names if name != "offset_message_id")
    values: dict[str, Any] = {}
    for name, text in zip(names, texts, strict=False):
        try:
            value = _value(name, text)
        except ValueError as error:
            return TraceEvent(number, kind, values, f"{name}: {error}")
        if value is not None:
            values[name] = value
    return TraceEvent(number, kind, values)


def _of_batch(event: TraceEvent) -> Iterator[TraceEvent]:
    """Give the messages of a batch one by one: a client joins their IDs by commas."""
    values = event.values
    offset_ids = values.get("offset_message_id", "").split(",")
    keys = values.get("unique_key", "").split(",")
    if len(keys) == 1 or len(keys) != len(offset_ids):
        yield event
        return
    for at, (key, offset_id) in enumerate(zip(keys, offset_ids, strict=True)):
        own = dict(values, unique_key=key, offset_message_id=offset_id, batch=len(keys))
        yield event._replace(number=event.number + at, values=own)


def _number(text: str) -> int:
    """Read a number as Java does, which takes no spaces and no underscores."""
    if not re.fullmatch(r"[+-]?\d{1,19}", text, re.ASCII):
        reason = f"{text[:SHOWN]!r} is not a number"
        raise ValueError(reason)
    number = int(text)
    if not -LONG_LIMIT <= number < LONG_LIMIT:
        reason = f"{text} is not a 64-bit number"
        raise ValueError(reason)
    return number


def _word_of(words: tuple[str, ...], text: str) -> str:
    number = _number(text)
    if not 0 <= number < len(words):
        reason = f"{number} is not one of 0 to {len(words) - 1}"
        raise ValueError(reason)
    return words[number]


def _value(name: str, text: str) -> object:
    """Read a field; None where the client had none.

    Raises:
        ValueError: it is not what it must be.
    """
    if name in _NUMBERS:
        return _number(text)
    if name in _TRUTHS:
        return text.lower() == "true"
    if name in {MESSAGE_TYPE, RETURN_TYPE}:
        return _word_of(MESSAGE_TYPES if name == MESSAGE_TYPE else RETURN_TYPES, text)
    if text in {"", NULL}:
        return None
    return text.split() if name == KEYS else text
