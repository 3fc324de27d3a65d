"""The broker's check of one record, byte for byte in its order, and nothing it does not check.

The physical offset, the sequence of queue offsets and the blank's length are no part of it: that is
what lets a broker walk over some damage and stop at other. Where Java would throw, the check fails.
Source: CommitLog#checkMessageAndReturnSize, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from rmqtool.broker.dispatch import has_bad_batch_numbers, has_bad_delay
from rmqtool.formats import java, properties
from rmqtool.formats.host import PORT_BYTES
from rmqtool.formats.layout import big_endian
from rmqtool.formats.message import (
    BLANK_MAGIC_CODE,
    MESSAGE_MAGIC_CODE,
    MESSAGE_MAGIC_CODE_V2,
    MESSAGE_PREFIX,
    TOPIC_LENGTH_BYTES,
    middle_of,
)

if TYPE_CHECKING:
    from rmqtool.broker.rules import Rules
    from rmqtool.startup.settings import Settings

_LARGEST_ARRAY: Final = 2**31 - 3  # a longer one is refused whatever the heap
_CRC_CHUNK: Final = 1 << 20
_LARGEST_SHORT: Final = 2**15 - 1
_SIZE_BYTES: Final = MESSAGE_PREFIX["total_size"].size
_IN_PREFIX, _IN_MIDDLE = tuple(MESSAGE_PREFIX.positions), tuple(middle_of(0).positions)
_BODY_CRC, _SYS_FLAG = map(_IN_PREFIX.index, ("body_crc", "sys_flag"))  # fields by number
_BORN_ADDRESS, _STORE_TIMESTAMP, _STORE_ADDRESS = map(
    _IN_MIDDLE.index, ("born_address", "store_timestamp", "store_address")
)


class Source(Protocol):
    """Where bytes are read from."""

    def read_at(self, position: int, length: int) -> bytes:
        """Read; fewer bytes at the end."""


class RecordFailure(enum.StrEnum):
    """Why a record check failed."""

    NOTHING_LEFT = "the file ends here"
    BEYOND_FILE = "totalSize is more than the rest of the file"
    UNUSED = "nothing has been written from here on"
    NO_MAGIC = "no record begins here"
    BODY_CRC = "the body differs from the stored body"
    PROPERTY_CRC = "the property CRC differs or is missing"
    LENGTHS = "the lengths do not fit together"
    PROPERTY = "a numeric property cannot be parsed"
    FOREIGN_OFFSET = "the physicalOffset lies in another file"
    OUT_OF_MEMORY = "totalSize is more than the heap can hold"


@dataclass(frozen=True, slots=True)
class DispatchRequest:
    """What dispatch takes from a record."""

    topic: str  # as stored, decoded as Java does
    queue_id: int  # the field
    physical_offset: int  # the field, not the place
    size: int  # bytes of the record
    store_timestamp: int  # ms
    queue_offset: int  # the field
    sys_flag: int  # the field
    properties: dict[str, str]  # names and values
    has_properties: bool = True  # whether it has bytes of them, though they may name none


@dataclass(frozen=True, slots=True)
class Checked:
    """The answer of a check."""

    size: int  # of the record; 0 for a blank, -1 when unknown
    consumed: int  # bytes by which the broker's buffer went on
    record: DispatchRequest | None = None  # set when the check passed and this is no blank
    stop: RecordFailure | None = None  # set when the check failed

    @property
    def passed(self) -> bool:
        """Whether the check passed; a blank passes, too."""
        return self.stop is None


class _Fails(Exception):
    """The check fails here; never leaves this module."""

    def __init__(self, stop: RecordFailure, size: int = -1) -> None:
        super().__init__()
        self.stop, self.size = stop, size


@dataclass(slots=True)
class RecordCheck:
    """Checks records by one version's rules."""

    rules: Rules  # of the version
    settings: Settings  # of the broker
    # records with a topic length of two bytes are known, whatever the version
    reads_v2: bool = False

    def check(
        self, source: Source, position: int, limit: int, *, reads_body: bool = True
    ) -> Checked:
        """Check the record at `position`.

        Args:
            source: the file.
            position: where the record begins.
            limit: where the broker's buffer ends.
            reads_body: as recovery does; dispatch passes over the body, and then checks no CRC.

        Raises:
            UnreadablePath: the disk refused.
        """
        cursor = _Cursor(source, position, limit)
        try:
            size, record = self._parse(cursor, reads_body=reads_body)
        except _Fails as failure:
            return Checked(failure.size, cursor.at - position, stop=failure.stop)
        return Checked(size, cursor.at - position, record)

    def _parse(self, cursor: _Cursor, *, reads_body: bool) -> tuple[int, DispatchRequest | None]:
        """Go through one record; give its size and content, 0 and None for a blank."""
        begin = cursor.at
        total_size, magic = self._head(cursor)
        if magic == BLANK_MAGIC_CODE:
            return 0, None
        array = self._allocated(total_size)
        prefix = MESSAGE_PREFIX.packer.unpack(cursor.over(begin, MESSAGE_PREFIX.size))
        sys_flag = prefix[_SYS_FLAG]
        layout = middle_of(sys_flag)
        middle = layout.packer.unpack(cursor.take(layout.size))
        if array < PORT_BYTES + max(len(middle[_BORN_ADDRESS]), len(middle[_STORE_ADDRESS])):
            raise _Fails(RecordFailure.LENGTHS)
        body_length = middle[-1]
        self._body(cursor, body_length, prefix[_BODY_CRC], array, reads_body=reads_body)
        topic_width = TOPIC_LENGTH_BYTES[magic]
        topic_length = cursor.integer(topic_width)
        topic = java.text(cursor.copied(topic_length, array))
        properties_length = cursor.integer(properties.LENGTH_BYTES)
        decoded: dict[str, str] = {}
        if properties_length > 0:
            decoded = properties.decode(cursor.copied(properties_length, array))
            if has_bad_delay(topic, decoded):
                raise _Fails(RecordFailure.PROPERTY)
        if reads_body and self.checks_property_crc:
            self._property_crc(cursor, decoded, total_size)
        length = MESSAGE_PREFIX.size + layout.size + topic_width + properties.LENGTH_BYTES
        length += max(body_length, 0) + topic_length + max(properties_length, 0)
        if total_size != length:
            raise _Fails(RecordFailure.LENGTHS, total_size)
        if has_bad_batch_numbers(self.rules, decoded):
            raise _Fails(RecordFailure.PROPERTY)
        _, _, _, queue_id, _, queue_offset, physical_offset, *_ = prefix
        record = DispatchRequest(
            topic,
            queue_id,
            physical_offset,
            total_size,
            middle[_STORE_TIMESTAMP],
            queue_offset,
            sys_flag,
            decoded,
            properties_length > 0,
        )
        return total_size, record

    def _head(self, cursor: _Cursor) -> tuple[int, int]:
        """Read totalSize and magic, in the order of the version's tests."""
        if self.rules.checks_bounds and cursor.left <= _SIZE_BYTES:
            raise _Fails(RecordFailure.NOTHING_LEFT)
        total_size = cursor.integer(_SIZE_BYTES)
        if self.rules.checks_bounds and cursor.left < total_size - _SIZE_BYTES:
            raise _Fails(RecordFailure.BEYOND_FILE)
        if self.rules.refuses_negative_sizes and total_size < 0:
            raise _Fails(RecordFailure.LENGTHS)
        magic = cursor.integer(MESSAGE_PREFIX["magic_code"].size)
        known = magic == MESSAGE_MAGIC_CODE or (magic == MESSAGE_MAGIC_CODE_V2 and self.knows_v2)
        if not known and magic != BLANK_MAGIC_CODE:
            raise _Fails(RecordFailure.NO_MAGIC if total_size or magic else RecordFailure.UNUSED)
        return total_size, magic

    def _allocated(self, total_size: int) -> int:
        """Give the length of the array that Java copies the parts into, one after the other."""
        if total_size < 0:
            raise _Fails(RecordFailure.LENGTHS)
        if total_size > min(_LARGEST_ARRAY, self.settings.heap_bytes):
            raise _Fails(RecordFailure.OUT_OF_MEMORY)  # an Error, which the broker does not catch
        return total_size

    def _body(
        self, cursor: _Cursor, length: int, body_crc: int, array: int, *, reads_body: bool
    ) -> None:
        """Pass over the body, or read it and compare its CRC."""
        if length <= 0:
            return
        if not reads_body:
            cursor.skip(length)
            return
        if length > array:
            raise _Fails(RecordFailure.LENGTHS)
        if not self.checks_body_crc:
            cursor.skip(length)
        elif cursor.crc(length) != body_crc:
            raise _Fails(RecordFailure.BODY_CRC)

    @property
    def knows_v2(self) -> bool:
        """Whether records with a topic length of two bytes are known."""
        return self.reads_v2 or self.rules.has_v2

    @property
    def checks_body_crc(self) -> bool:
        """Whether bodies are compared with their CRC."""
        return self.settings.checks_crc and not self._forces_property_crc

    @property
    def checks_property_crc(self) -> bool:
        """Whether the property CRC is asked for instead, of every record."""
        return self.settings.checks_crc and self._forces_property_crc

    @property
    def _forces_property_crc(self) -> bool:
        return self.rules.verifies_property_crc and self.settings.forces_property_crc

    def _property_crc(self, cursor: _Cursor, decoded: dict[str, str], total_size: int) -> None:
        """Compare the CRC over the whole record; without one in its properties it fails."""
        expected = properties.stored_crc(decoded)
        if expected == 0 and not self.rules.knows_zero_crc:
            expected = None
        begin = cursor.at - total_size
        length = total_size - properties.CRC32_RESERVED_LENGTH
        if expected is None or begin < 0 or length < 0:
            raise _Fails(RecordFailure.PROPERTY_CRC)
        if cursor.crc_from(begin, length) != expected:
            raise _Fails(RecordFailure.PROPERTY_CRC)


class _Cursor:
    """Java's buffer: a position that only goes on, and an end; reading beyond it fails."""

    __slots__ = ("_limit", "_source", "at")

    def __init__(self, source: Source, position: int, limit: int) -> None:
        self._source, self.at, self._limit = source, position, limit

    @property
    def left(self) -> int:
        return self._limit - self.at

    def take(self, length: int) -> bytes:
        self._need(length)
        data = self._source.read_at(self.at, length)
        self.at += length
        return data

    def over(self, begin: int, length: int) -> bytes:
        """Read from further back, and go on after it."""
        self.at = begin
        return self.take(length)

    def copied(self, length: int, array: int) -> bytes:
        """Read what Java copies into an array of that length."""
        if not 0 <= length <= array:
            raise _Fails(RecordFailure.LENGTHS)
        return self.take(length)

    def integer(self, width: int) -> int:
        return big_endian(self.take(width))

    def skip(self, length: int) -> None:
        self._need(length)
        self.at += length

    def crc(self, length: int) -> int:
        self._need(length)
        value = self.crc_from(self.at, length)
        self.at += length
        return value

    def crc_from(self, begin: int, length: int) -> int:
        """Give the CRC of a stretch, piece by piece: a length from the data allocates nothing."""
        from zlib import crc32

        value = 0
        for piece in range(begin, begin + length, _CRC_CHUNK):
            value = crc32(
                self._source.read_at(piece, min(_CRC_CHUNK, begin + length - piece)), value
            )
        return value & 0x7FFFFFFF

    def _need(self, length: int) -> None:
        if length > self.left:
            raise _Fails(RecordFailure.LENGTHS if self.left else RecordFailure.NOTHING_LEFT)
