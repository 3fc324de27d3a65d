"""Bridges: records that are well-formed, inert and just as long as the bytes they stand for.

A broker that meets damage cuts the log there; over a bridge it walks on. A bridge is a message of
transaction type ROLLBACK, which no release dispatches to a queue or indexes under a key; it says
where it lies, its body is zeros, its checksum right, its topic `rmqtool`. Its times are those of
its neighbours: recovery picks its first segment, and queues are searched, by the store time of
records. Source: CommitLogDispatcherBuildConsumeQueue, IndexService#buildIndex,
CommitLog#isMappedFileMatchedRecover, 4.9.3 to 5.5.0; proven in tests/repair/broker.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from rmqtool.broker.conf import MAX_MESSAGE_SIZE
from rmqtool.formats.message import SMALLEST_RECORD, Message, encode, sealed
from rmqtool.formats.properties import CRC32_RESERVED_LENGTH, crc_item
from rmqtool.formats.sys_flag import SysFlag
from rmqtool.judge.bridge import BRIDGE_TOPIC
from rmqtool.repair.log.content import Content

if TYPE_CHECKING:
    from collections.abc import Iterator

SMALLEST_BRIDGE: Final = SMALLEST_RECORD + len(BRIDGE_TOPIC)
SMALLEST_LARGEST: Final = 4096


@dataclass(frozen=True, slots=True)
class BridgeMaker:
    """Makes bridges for one store.

    Attributes:
        largest: bytes of a record that the broker accepts (maxMessageSize)
    """

    largest: int = MAX_MESSAGE_SIZE.default  # 4.9.3 holds whole records to it
    # whether each needs a property CRC: with forceVerifyPropCRC a record without one ends the log
    property_crc: bool = False

    @property
    def smallest(self) -> int:
        """Bytes of the smallest bridge."""
        return SMALLEST_BRIDGE + (CRC32_RESERVED_LENGTH if self.property_crc else 0)

    def over(self, start: int, length: int, time_ms: int) -> Iterator[tuple[int, Content]]:
        """Yield (physical offset, bridge) for a stretch: several in a row where it is too long.

        Args:
            start: physical offset of the stretch.
            length: its bytes; at least `smallest`.
            time_ms: store time of the bridges.
        """
        largest = max(self.largest, SMALLEST_LARGEST)
        count = -(-length // largest)
        edges = [start + length * number // count for number in range(count + 1)]
        for begin, end in pairwise(edges):
            yield begin, self._bridge(begin, end - begin, time_ms)

    def _bridge(self, physical_offset: int, size: int, time_ms: int) -> Content:
        if size < self.smallest:
            reason = f"a bridge needs {self.smallest:,} bytes, there are {size:,}"
            raise ValueError(reason)
        reserved = bytes(CRC32_RESERVED_LENGTH) if self.property_crc else b""
        message = sealed(
            Message(
                physical_offset=physical_offset,
                sys_flag=SysFlag.TRANSACTION_ROLLBACK_TYPE,
                born_timestamp=time_ms,
                store_timestamp=time_ms,
                body=bytes(size - self.smallest),
                topic_bytes=BRIDGE_TOPIC,
                properties_bytes=reserved,
            )
        )
        if self.property_crc:
            head = encode(message)[:-CRC32_RESERVED_LENGTH]
            message = message._replace(properties_bytes=crc_item(head))
        return Content.of(encode(message))
