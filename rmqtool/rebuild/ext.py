"""Consume queue extension: units with the Bloom bits of SQL92 subscriptions, after queue units.

A broker with `enableConsumeQueueExt` puts the address of an ext unit in place of the tags code, and
sets the bits of every subscription of `consumerFilter.json` that was born before the message and
that it fulfils. Bits of subscriptions that were dropped, or changed since, are known to nobody.
Source: ConsumeQueueExt#put, #fullFillToEnd, CommitLogDispatcherCalcBitMap, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.derive.sql92 import Subscription
from rmqtool.errors import DecodeError, UnreadablePath
from rmqtool.formats.config_names import FILTERS_JSON
from rmqtool.formats.config_shapes import consumer_filters
from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE
from rmqtool.formats.consume_queue_ext import (
    END_BLANK,
    END_BLANK_DATA_LENGTH,
    EXT_UNIT,
    MAX_EXT_UNIT_SIZE,
    MAX_REAL_OFFSET,
    ExtUnit,
    address,
    encode,
)
from rmqtool.formats.message import decode
from rmqtool.store.record_heads import LogReader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rmqtool.formats.config_shapes import ConsumerFilter
    from rmqtool.formats.message import Message
    from rmqtool.store.tree import Store

FAMILY: Final = "consumequeue_ext"
_BITS: Final = 8


class Filter(NamedTuple):
    """One subscription."""

    subscription: Subscription  # its expression
    born_time: int  # ms since 1970
    positions: tuple[int, ...]  # its bits


@dataclass(frozen=True, slots=True)
class ExtRules:
    """What ext units of a store are made of."""

    file_length: int  # bytes of an ext file
    bit_map_size: int  # bytes of a bitmap
    filters: Mapping[str, Sequence[Filter]]  # by topic
    reader: LogReader = field(repr=False)  # of the log

    @property
    def not_understood(self) -> int:
        """How many expressions may be fulfilled by any message, as far as is known here."""
        return sum(
            not filter_.subscription.is_understood
            for some in self.filters.values()
            for filter_ in some
        )

    def close(self) -> None:
        """Close the log."""
        self.reader.__exit__(None, None, None)

    def unit(self, physical_offset: int, size: int, tags_code: int) -> tuple[bytes, int] | None:
        """Give the ext unit of a record, and its store time; None when there is no such record.

        A unit that passes over a lost record names none.
        """
        try:
            message = decode(self.reader.read_at(physical_offset, size))
        except (DecodeError, UnreadablePath):
            return None
        if message.physical_offset != physical_offset:
            return None
        bits = self._bit_map(message)
        whole = EXT_UNIT.size + len(bits)
        unit = ExtUnit(whole, tags_code, message.store_timestamp, bits)
        return (encode(unit), message.store_timestamp) if whole <= MAX_EXT_UNIT_SIZE else None

    def _bit_map(self, message: Message) -> bytes:
        """Give the bits; none where no subscription was there when the message came."""
        known = self.filters.get(message.topic, ())
        there = [filter_ for filter_ in known if filter_.born_time < message.store_timestamp]
        if not there:
            return b""
        bits, properties = bytearray(self.bit_map_size), message.properties
        for filter_ in there:
            if filter_.subscription.may_match(properties):
                for position in filter_.positions:
                    bits[position // _BITS] |= 1 << position % _BITS
        return bytes(bits)


def ext_rules(store: Store) -> ExtRules:
    """Read what is needed: the subscriptions and the length of files."""
    document = store.config(FILTERS_JSON).document
    of_topics = list(consumer_filters(document))
    counts = {consumer_filter.bit_count for consumer_filter in of_topics}
    filters: dict[str, list[Filter]] = defaultdict(list)
    bit_count = next(iter(counts)) or 0 if len(counts) == 1 else 0
    # a broker ignores a file with bits of two lengths
    for consumer_filter in of_topics if bit_count else ():
        if _is_usable(consumer_filter, bit_count):
            born = consumer_filter.born_time or 0
            filters[consumer_filter.topic].append(
                Filter(
                    Subscription(consumer_filter.expression or ""),
                    born,
                    consumer_filter.bit_positions,
                )
            )
    length = store.geometry.consume_queue_ext.value
    return ExtRules(length, -(-bit_count // _BITS), dict(filters), LogReader(store.commitlog))


def _is_usable(consumer_filter: ConsumerFilter, bit_count: int) -> bool:
    return all(0 <= position < bit_count for position in consumer_filter.bit_positions)


@dataclass(slots=True)
class ExtBytes:
    """Bytes of a queue's ext space, all in one file."""

    position: int  # of the first of them
    data: bytearray  # the bytes
    store_timestamp: int  # of the last unit, ms


class ExtQueue:
    """The ext units of one queue, one after the other.

    Attributes:
        pending: what has not been written yet.
    """

    def __init__(self, rules: ExtRules) -> None:
        self.pending: list[ExtBytes] = []
        self._rules = rules
        self._end = 0

    @property
    def pending_bytes(self) -> int:
        """How many bytes have not been written yet."""
        return sum(len(unit.data) for unit in self.pending)

    def addressed(self, packed: bytes | memoryview) -> bytes:
        """Give queue units with the addresses of ext units in place of tags codes."""
        units = bytearray(packed)
        for at in range(0, len(units), CQ_UNIT_SIZE):
            physical_offset, size, tags_code = CQ_UNIT.packer.unpack_from(units, at)
            unit = self._rules.unit(physical_offset, size, tags_code) if size > 0 else None
            place = self._put(*unit) if unit else None
            if place is not None:
                CQ_UNIT.packer.pack_into(units, at, physical_offset, size, address(place))
        return bytes(units)

    def _put(self, unit: bytes, store_timestamp: int) -> int | None:
        """Append a unit; give its position, or None where no address reaches."""
        length = self._rules.file_length
        room = length - self._end % length - END_BLANK_DATA_LENGTH
        if len(unit) > room:
            self._append(EXT_UNIT["size"].build(END_BLANK), store_timestamp)
            self._end += -self._end % length
        if len(unit) > length - END_BLANK_DATA_LENGTH or self._end + len(unit) > MAX_REAL_OFFSET:
            return None
        position = self._end
        self._append(unit, store_timestamp)
        return position

    def _append(self, data: bytes, store_timestamp: int) -> None:
        last = self.pending[-1] if self.pending else None
        if (
            last is None
            or last.position + len(last.data) != self._end
            or (not self._end % self._rules.file_length)
        ):
            last = ExtBytes(self._end, bytearray(), store_timestamp)
            self.pending.append(last)
        last.data += data
        last.store_timestamp = store_timestamp
        self._end += len(data)
