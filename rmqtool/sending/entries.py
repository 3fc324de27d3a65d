"""The messages of a file, one after the other: JSON lines or records, told apart by content."""

from __future__ import annotations

import base64
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import orjson

from rmqtool.errors import DecodeError
from rmqtool.formats import inner_batch, properties
from rmqtool.formats.compression import decompress
from rmqtool.formats.message import (
    MESSAGE_PREFIX,
    SMALLEST_RECORD,
    TOPIC_LENGTH_BYTES,
    Message,
    SysFlag,
    decode,
)
from rmqtool.messages.sent import SENT
from rmqtool.sending.options import Destination
from rmqtool.sending.outgoing import BadLine, BadMessage, Outgoing, Stored, outgoing
from rmqtool.times import ms_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rmqtool.store.place import OpenFile

EVERYWHERE: Final = Destination()
_STEP: Final = 1 << 20
LONGEST_LINE: Final = 128 << 20  # a body of 16 MiB may be six times as long in JSON
LARGEST_RECORD: Final = 64 << 20
_MAGIC: Final = MESSAGE_PREFIX["magic_code"]
_SIZE: Final = MESSAGE_PREFIX["total_size"]
_NO_TEXT: Final = "that is not UTF-8, and requests hold text"
_PARQUET: Final = b"PAR1"
_BLANK: Final = b" \t\r"


def digest_of(file: OpenFile) -> str:
    """Give the SHA-256 of a file."""
    digest = sha256()
    for position in range(0, file.size, _STEP):
        digest.update(file.read_at(position, _STEP))
    return digest.hexdigest()


def entries(
    file: OpenFile,
    to: Destination = EVERYWHERE,
    advance: Callable[[int], None] = lambda _: None,
) -> Iterator[Outgoing | BadLine]:
    """Yield the messages of a file in its order, and what cannot be sent.

    Args:
        file: JSON lines as `extract` writes them, or records one after the other.
        to: where all of them go instead of their own topics.
        advance: takes the bytes that were read since it was last called.

    Raises:
        UnreadablePath: the disk refused.
    """
    if file.read_at(0, len(_PARQUET)) == _PARQUET:
        yield BadLine(1, 0, "this is Parquet: extract to FILE.jsonl or FILE.rmq")
        return
    is_records = _MAGIC.of(file.read_at(0, MESSAGE_PREFIX.size)) in TOPIC_LENGTH_BYTES
    number = 0
    for entry in (_of_records if is_records else _of_lines)(file, advance):
        number += 1
        if isinstance(entry, BadLine):
            yield entry
            continue
        line, position, stored = entry
        try:
            yield outgoing(stored, number, line, to)
        except BadMessage as error:
            yield BadLine(line, position, str(error), stored.place[0])


def _of_lines(
    file: OpenFile, advance: Callable[[int], None]
) -> Iterator[tuple[int, int, Stored] | BadLine]:
    for line, position, raw in _lines(file, advance):
        if not raw.strip(_BLANK):
            continue
        if len(raw) > LONGEST_LINE:
            yield BadLine(line, position, f"the line has more than {LONGEST_LINE:,} bytes")
            continue
        try:
            yield line, position, _stored_of_line(raw)
        except BadMessage as error:
            yield BadLine(line, position, str(error))


def _lines(file: OpenFile, advance: Callable[[int], None]) -> Iterator[tuple[int, int, bytes]]:
    """Yield number, position and bytes of each line; of one that is too long, its beginning."""
    line, start, pieces, length = 1, 0, list[bytes](), 0
    for position in range(0, file.size, _STEP):
        raw = file.read_at(position, _STEP)
        advance(len(raw))
        *ended, rest = raw.split(b"\n")
        for piece in ended:
            yield line, start, b"".join([*pieces, piece])
            line, start = line + 1, start + length + len(piece) + 1
            pieces, length = [], 0
        length += len(rest)
        if sum(map(len, pieces)) <= LONGEST_LINE:
            pieces.append(rest)
    if length:
        yield line, start, b"".join(pieces)


def _stored_of_line(raw: bytes) -> Stored:
    """Read one line. Raises BadMessage: it is no message."""
    try:
        fields = orjson.loads(raw)
    except ValueError as error:
        reason = f"no JSON: {error}"
        raise BadMessage(reason) from error
    if not isinstance(fields, dict):
        reason = "no JSON object"
        raise BadMessage(reason)
    unknown = [name for name in fields if name not in SENT.names]
    if unknown:
        reason = f"no field of a message is called {unknown[0]!r}"
        raise BadMessage(reason)
    topic = _text(fields, "topic")
    return Stored(
        _text(fields, "stored_topic", topic),
        topic,
        _number(fields, "queue_id"),
        _number(fields, "flag") or 0,
        _time(fields, "born_time"),
        _properties(fields),
        _body(fields),
        _text(fields, "transaction", "none"),
        _text(fields, "message_id", "") or _text(fields, "unique_key", "") or None,
        _damage(fields),
        _time(fields, "store_time"),
    )


def _damage(fields: Mapping[str, Any]) -> str:
    """Say why a message is not the one that was sent; nothing where it is."""
    if fields.get("topic_b64") is not None:
        return f"topic {_NO_TEXT}"
    what = fields.get("code")
    if fields.get("body_b64") is None:  # otherwise a decoder alone failed
        what = fields.get("body_error") or what
    return "" if what is None else f"the message is damaged: {what}"


def _text(fields: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = fields.get(name)
    value = default if value is None else value
    if not isinstance(value, str):
        reason = f"no {name}" if value is None else f"{name} is not a text"
        raise BadMessage(reason)
    return value


def _number(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        reason = f"{name} is not a whole number"
        raise BadMessage(reason)
    return value


def _time(fields: Mapping[str, Any], name: str) -> int | None:
    text = _text(fields, name, "")
    try:
        return ms_of(datetime.fromisoformat(text)) if text else None
    except (ValueError, OverflowError, TypeError) as error:
        reason = f"{name} {text!r} is not a time with a zone"
        raise BadMessage(reason) from error


def _properties(fields: Mapping[str, Any]) -> dict[str, str]:
    """Give the properties; keys and tags may have columns of their own instead.

    Where a map of texts is not all that a record has, its bytes are there, too.
    """
    exact = _text(fields, "properties_b64", "")
    if exact:
        return properties.decode(_decoded(_bytes("properties_b64", exact), "properties"))
    given = fields.get("properties") or {}
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        reason = "properties is not an object of texts"
        raise BadMessage(reason)
    own = dict(given)
    if tags := _text(fields, "tags", ""):
        own.setdefault(properties.TAGS, tags)
    if unique_key := _text(fields, "unique_key", ""):
        own.setdefault(properties.UNIQ_KEY, unique_key)
    keys = fields.get("keys") or []
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        reason = "keys is not a list of texts"
        raise BadMessage(reason)
    if keys:
        own.setdefault(properties.KEYS, " ".join(keys))
    return own


def _body(fields: Mapping[str, Any]) -> bytes:
    exact = _text(fields, "body_b64", "")
    if not exact:
        return _text(fields, "body", "").encode()
    return _bytes("body_b64", exact)


def _bytes(name: str, exact: str) -> bytes:
    try:
        return base64.b64decode(exact, validate=True)
    except ValueError as error:
        reason = f"{name} is not valid base64: {error}"
        raise BadMessage(reason) from error


def _of_records(
    file: OpenFile, advance: Callable[[int], None]
) -> Iterator[tuple[int, int, Stored] | BadLine]:
    """Yield the messages of records; what follows one with a wrong length is not looked at."""
    position, number = 0, 0
    while position < file.size:
        number += 1
        size = _SIZE.of(file.read_at(position, MESSAGE_PREFIX.size).ljust(MESSAGE_PREFIX.size))
        if not SMALLEST_RECORD <= size <= min(LARGEST_RECORD, file.size - position):
            yield BadLine(
                number, position, f"no record has {size:,} bytes here; what follows is lost"
            )
            return
        advance(size)
        try:
            record = decode(file.read_at(position, size))
            for stored in _of_record(record):
                yield number, position, stored
        except DecodeError as error:
            yield BadLine(number, position, f"{error.field}: {error.reason}")
        except BadMessage as error:
            yield BadLine(number, position, str(error))
        position += size


def _of_record(record: Message) -> Iterator[Stored]:
    """Give the message of a record, or the messages of a batch record.

    Raises:
        BadMessage: one is not what was sent.
        DecodeError: a batch cannot be taken apart.
    """
    inflated = decompress(record.body, record.sys_flag)
    damage = inflated.reason
    if record.crc_matches is False:
        damage = "the body is not the one that was sent: its checksum differs"
    body = inflated.body or b""
    if damage or not record.sys_flag & SysFlag.INNER_BATCH_FLAG:
        yield _stored(record, record.flag, record.properties_bytes, body, damage)
        return
    for message in inner_batch.messages(body):
        yield _stored(record, message.flag, message.properties_bytes, message.body, "")


def _stored(record: Message, flag: int, raw: bytes, body: bytes, damage: str) -> Stored:
    topic = _decoded(record.topic_bytes, "topic").decode()
    return Stored(
        topic,
        topic,
        record.queue_id,
        flag,
        record.born_timestamp,
        properties.decode(_decoded(raw, "properties")),
        body,
        record.transaction,
        record.message_id,
        damage,
        record.store_timestamp,
    )


def _decoded(raw: bytes, what: str) -> bytes:
    """Give bytes that are text. Raises BadMessage: they are none."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        reason = f"{what} {_NO_TEXT}"
        raise BadMessage(reason) from error
    return raw
