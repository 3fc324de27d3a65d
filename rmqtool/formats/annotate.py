"""Annotated bytes: for each stretch of a structure, which field it is and what it says.

Spans tile: the first begins where the structure begins, each next one where the last ended, and
the last ends where the structure ends. The hex view shows them, the tests prove it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqtool.formats import host, java, properties, sys_flag
from rmqtool.formats.message import MESSAGE_PREFIX, TOPIC_LENGTH_BYTES, middle_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.formats.layout import Layout
    from rmqtool.formats.message import Message


class Span(NamedTuple):
    """One stretch."""

    name: str  # field, or `property NAME`
    position: int  # first byte, counted from the start of the structure
    length: int  # bytes, never 0
    value: str  # what they say, as text that may hold anything a client sent; escape it


def layout_spans(layout: Layout, raw: bytes, position: int = 0) -> list[Span]:
    """Give a span for each field of a fixed-size structure.

    Args:
        layout: what `raw` holds.
        raw: its bytes.
        position: where the first span begins.

    Raises:
        Truncated: fewer bytes are there than the layout has.
    """
    values = layout.parse(raw)
    return [
        Span(
            field.name, position + field.position, field.size, _say(field.name, values[field.name])
        )
        for field in layout.fields
    ]


def body_spans(message: Message, raw: bytes) -> list[Span]:
    """Give a span for each field of a record, down to the single property.

    Args:
        message: what `decode` made of `raw`.
        raw: the record's bytes.
    """
    middle = middle_of(message.sys_flag)
    spans = layout_spans(MESSAGE_PREFIX, raw)
    spans += layout_spans(middle, raw[MESSAGE_PREFIX.size :], MESSAGE_PREFIX.size)
    spans += _tail_spans(message, MESSAGE_PREFIX.size + middle.size)
    return [span for span in spans if span.length]


def _tail_spans(message: Message, position: int) -> Iterator[Span]:
    """Walk body, topic and properties, which begin at `position`; some may have no bytes."""
    body = f"{len(message.body):,} bytes, compression {message.compression}"
    yield Span("body", position, len(message.body), body)
    position += len(message.body)
    width = TOPIC_LENGTH_BYTES[message.magic_code]
    yield Span("topic_length", position, width, str(message.topic_length))
    position += width
    yield Span("topic", position, len(message.topic_bytes), message.topic)
    position += len(message.topic_bytes)
    yield Span("properties_length", position, 2, str(message.properties_length))
    position += 2
    for item in properties.items(message.properties_bytes):
        name, value = java.text(item.name), java.text(item.value)
        if not item.is_kept:
            value = f"dropped by the reader: {value}"
        yield Span(f"property {name}", position + item.position, item.length, value)


def _say(name: str, value: int | bytes) -> str:
    """Word a value: the number or the hex digits, and what is known about them."""
    if isinstance(value, bytes):
        return host.address_text(value)
    if meaning := _MEANINGS.get(name):
        return f"{value} ({meaning(value)})"
    if name.endswith(("timestamp", "_time")):
        return f"{value} ({time_text(value)})"
    return str(value)


def time_text(milliseconds: int) -> str:
    """Give a time as ISO 8601 UTC with milliseconds; a dash outside the calendar."""
    from datetime import UTC, datetime, timedelta

    try:
        time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return "-"
    return f"{time:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03}Z"


_MEANINGS: dict[str, Callable[[int], str]] = {
    "magic_code": lambda value: f"{value & 0xFFFFFFFF:#010x}",
    "magic": lambda value: f"{value & 0xFFFFFFFF:#010x}",
    "body_crc": lambda value: f"{value & 0xFFFFFFFF:#010x}",
    "key_hash": lambda value: f"{value & 0xFFFFFFFF:#010x}",
    "physical_offset": lambda value: f"{value & 0xFFFFFFFFFFFFFFFF:#x}",
    "sys_flag": lambda value: ", ".join(sys_flag.names(value)) or "none",
}
