"""What a message ID says by itself: address, place, time. No store is needed.

An ID of 32 or 56 digits may be an offset message ID or a unique key: both readings are rows, the
likely one first. Source: MessageDecoder#createMessageId, MessageClientIDSetter, MessageIdCodec of
the 5.x clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.errors import DecodeError
from rmqtool.formats.message_id import (
    HIGHEST_PORT,
    OffsetMessageId,
    UniqueKey,
    decode_client_id,
    decode_offset_id,
    decode_unique_key,
    recognise,
)
from rmqtool.table import Column, Table, Type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.query.requests import MessageId
    from rmqtool.rows import Row, Rows

OFFSET_ID: Final = "offset message ID"
UNIQUE_KEY: Final = "unique key"
CLIENT_ID: Final = "unique key of a 5.x client"
AHEAD_MS: Final = 86_400_000  # a zone, and a clock that is fast
DECODED: Final = Table(
    "decoded",
    "a reading of a message ID, without a store",
    (
        Column("id", Type.TEXT, "the ID, in capitals"),
        Column("kind", Type.TEXT, f"{OFFSET_ID}, {UNIQUE_KEY} or {CLIENT_ID}"),
        Column("is_likely", Type.BOOLEAN, "the ID fits this reading; a record alone proves it"),
        Column("host", Type.TEXT, "address of the broker with its port, or of the client"),
        Column("physical_offset", Type.INT64, "place in the commitlog", "bytes"),
        Column(
            "made_time",
            Type.TIME,
            "when the client made the ID, if within the last month and if its clock is UTC",
        ),
        Column("process_id", Type.INT64, "low 16 bits of the process ID of the client"),
        Column("number", Type.INT64, "how many IDs the client had made, low bits"),
    ),
    shown=("kind", "host", "physical_offset", "made_time", "process_id", "number", "is_likely"),
)


def decoded(text: str, now_ms: int) -> Rows:
    """Give the readings of an ID.

    Args:
        text: 32, 34 or 56 hex digits.
        now_ms: the IDs of most clients name a month only by being recent.
    """
    return DECODED.rows([list(_rows(text, now_ms))])


def _rows(text: str, now_ms: int) -> Iterator[Row]:
    likely = recognise(text)
    readings = sorted(_readings(text), key=lambda reading: reading != likely)
    for reading in readings:
        kind, host, time, number = _fields(reading, now_ms)
        yield DECODED.row(
            *(reading, None),
            id=text.upper(),
            kind=kind,
            is_likely=reading == likely,
            host=host,
            made_time=time,
            number=number,
        )


def _readings(text: str) -> Iterator[MessageId]:
    for decode in (decode_offset_id, decode_unique_key, decode_client_id):
        try:
            message_id = decode(text)
        except DecodeError:
            continue
        if not isinstance(message_id, OffsetMessageId) or 0 < message_id.port <= HIGHEST_PORT:
            yield message_id


def _fields(message_id: MessageId, now_ms: int) -> tuple[str, str, int | None, int | None]:
    if isinstance(message_id, OffsetMessageId):
        return OFFSET_ID, message_id.host, None, None
    if isinstance(message_id, UniqueKey):
        past = [time for time in message_id.time_candidates(now_ms) if time <= now_ms + AHEAD_MS]
        return UNIQUE_KEY, message_id.host, max(past, default=None), message_id.counter
    return CLIENT_ID, message_id.hardware_address.hex(":"), message_id.time, message_id.sequence
