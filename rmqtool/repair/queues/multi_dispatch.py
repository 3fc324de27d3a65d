"""Edits of numbers that records have in further (light) queues, where one is no number any more.

At such a text Java throws, and a broker that recovers after a crash does not start. The body, and
with it the message, is undamaged; so its number is put back where other evidence tells it: the
queue's own unit of this record, or that the record is the one that is missing between its
neighbours in the log. It must be as long as the text that it replaces. Where nothing tells, spaces
go over the numbers: a broker then takes the record for one without further queues and delivers it
in its own queue still. Source: ConsumeQueue#multiDispatchLmqQueue, MultiDispatchUtils
#checkMultiDispatchQueue, StringUtils#isBlank, 4.9.3 to 5.5.0; proven in tests/repair/broker.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.names import light_queue_id, topic_text
from rmqtool.derive.settings import rules_of
from rmqtool.errors import DecodeError, UnreadablePath
from rmqtool.findings.registry_commitlog import CL_LMQ, CL_QOFF_GAP
from rmqtool.findings.registry_consume_queue import CQ_LMQ
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.java import parse_long
from rmqtool.formats.message import decode
from rmqtool.formats.properties import (
    INNER_MULTI_DISPATCH,
    INNER_MULTI_QUEUE_OFFSET,
    PROPERTY_SEPARATOR,
    items,
)
from rmqtool.repair.log.content import Content

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rmqtool.broker.dispatch import DispatchRules
    from rmqtool.check.inspection import Inspection
    from rmqtool.findings.finding import Finding
    from rmqtool.formats.message import Message
    from rmqtool.formats.properties import PropertyItem
    from rmqtool.repair.patches import RepairedQueue
    from rmqtool.repair.queues.unit_judge import LostUnits
    from rmqtool.repair.writer import EditWriter
    from rmqtool.store.record_heads import LogReader
    from rmqtool.store.segment import Segment

    Queue = tuple[bytes, int]

CODE: Final = CL_LMQ
# Numbers, a byte that is no separator, and the next property.
_JOINED: Final = re.compile(rb"[\d,]*\d(?P<odd>.)[A-Za-z_]+\x01", re.DOTALL)
NUMBERS: Final = INNER_MULTI_QUEUE_OFFSET.encode()
PUT_BACK: Final = "the record's numbers in its light queues, as their units and neighbours tell"
BLANKED: Final = (
    "spaces: the numbers cannot be recovered, so brokers skip the light queues, and the message "
    "stays in its own queue"
)


@dataclass(slots=True)
class WrongLightNumber:
    """A record one of whose numbers is not one."""

    physical_offset: int  # where it lies
    message: Message  # its fields
    position: int  # of the numbers in the record
    texts: list[bytes]  # the numbers as they are
    queues: list[Queue]  # topic and queue id of each
    numbers: list[int | None]  # what the numbers are, as far as that is known
    unit: bytes  # its unit in each of its queues
    separator: bytes = b""  # belongs after the numbers: with it the next property is whole again

    @property
    def raw(self) -> bytes:
        """What belongs in place of the numbers; spaces if it is not known, or does not fit."""
        length = len(b",".join(self.texts))
        parts = [
            str(number).encode() if parse_long(text.decode("latin-1")) is None else text
            for number, text in zip(self.numbers, self.texts, strict=True)
        ]
        put_back = b",".join(parts)
        is_known = None not in self.numbers and len(put_back) == length
        return (put_back if is_known else b" " * length) + self.separator

    @property
    def is_known(self) -> bool:
        """Whether all numbers are put back."""
        return bool(self.raw.removesuffix(self.separator).strip())


def read(log: LogReader, place: tuple[int, int], rules: DispatchRules) -> WrongLightNumber | None:
    """Read a record that says of its further queues what is no number.

    Args:
        log: that it lies in.
        place: physical offset and bytes.
        rules: how the broker dispatches it.
    """
    try:
        raw = log.read_at(*place)
        message = decode(raw)
        if (at := lost_separator(message)) is not None:
            message = decode(raw[:at] + PROPERTY_SEPARATOR + raw[at + 1 :])
    except DecodeError:
        return None
    properties = _properties(message)
    names, numbers = properties.get(INNER_MULTI_DISPATCH.encode()), properties.get(NUMBERS)
    if names is None or numbers is None:
        return None
    # Java drops empty texts at the end of both; the bytes of those stay as they are.
    topics, texts = (item.value.rstrip(b",").split(b",") for item in (names, numbers))
    if len(topics) != len(texts):
        return None
    start = _start_of(numbers, message)
    queues = [
        (topic, light_queue_id(topic.decode("latin-1"), message.queue_id, has_lmq=rules.lmq))
        for topic in topics
    ]
    known = [parse_long(text.decode("latin-1")) for text in texts]
    unit = CQ_UNIT.packer.pack(place[0], message.size, rules.tags_code(message))
    separator = b"" if at is None else PROPERTY_SEPARATOR
    return WrongLightNumber(place[0], message, start, texts, queues, known, unit, separator)


def lost_separator(message: Message) -> int | None:
    """Give the position, in a record, of what was the separator after its numbers.

    A flipped bit of it makes the next property a part of them.

    Returns:
        None where the numbers end as they should, or are not there.
    """
    numbers = _properties(message).get(NUMBERS)
    joined = None if numbers is None else _JOINED.match(numbers.value)
    if numbers is None or joined is None:
        return None
    is_flipped = (joined["odd"][0] ^ PROPERTY_SEPARATOR[0]).bit_count() == 1
    return _start_of(numbers, message) + joined.start("odd") if is_flipped else None


def _properties(message: Message) -> dict[bytes, PropertyItem]:
    return {item.name: item for item in items(message.properties_bytes) if item.is_kept}


def _start_of(item: PropertyItem, message: Message) -> int:
    """Give the position of a property's value in its record."""
    properties_at = message.size - len(message.properties_bytes)
    return properties_at + item.position + len(item.name) + 1


class LightNumbers:
    """Finds the numbers of all such records of a store.

    Attributes:
        places: (physical offset, bytes) of the records.
        records: those that can be put right, in the order of the log.

    Args:
        inspection: of the store.
    """

    def __init__(self, inspection: Inspection) -> None:
        self.places: list[tuple[int, int]] = []
        self.records: list[WrongLightNumber] = []
        self._inspection = inspection

    def find(
        self, log: LogReader, judge: LostUnits, queues: Mapping[Queue, RepairedQueue]
    ) -> Iterator[tuple[Queue, int, WrongLightNumber]]:
        """Find the numbers; yield queue, number and record of those that are put back.

        All queues of a record: no run has those after a number that cannot be read, either.

        Args:
            log: as it is.
            judge: knows what is damaged of the log.
            queues: what they should hold so far, all runs taken.
        """
        if not self.places:
            return
        rules = rules_of(self._inspection.store, self._inspection.scope.version)
        read_ones = (read(log, place, rules) for place in sorted(self.places))
        self.records = [
            record
            for record in read_ones
            if record and not judge.damaged_at(record.physical_offset, 0)
        ]
        missing: dict[Queue, list[tuple[WrongLightNumber, int]]] = {}
        for record in self.records:
            for number, queue in enumerate(record.queues):
                if record.numbers[number] is None:
                    missing.setdefault(queue, []).append((record, number))
        for queue, places in missing.items():
            numbers = self._numbers_of(queue, queues.get(queue), places)
            for (record, number), offset in zip(places, numbers, strict=True):
                record.numbers[number] = offset
        for record in self.records:
            for queue, offset in zip(record.queues, record.numbers, strict=True):
                if record.is_known and offset is not None:
                    yield queue, offset, record

    def _numbers_of(
        self, queue: Queue, known: RepairedQueue | None, places: list[tuple[WrongLightNumber, int]]
    ) -> list[int | None]:
        """Give the number of each record in one queue: by its unit, else by its neighbours."""
        offsets = [record.physical_offset for record, _ in places]
        numbers = [self._by_unit(queue, record) for record, _ in places]
        if known is None or None not in numbers:
            return numbers
        for hole in known.placement.holes:
            rows = [row for row, at in enumerate(offsets) if hole.before < at < hole.after]
            if len(rows) == hole.length:
                for step, row in enumerate(rows):
                    numbers[row] = hole.start + step
        later = [row for row, at in enumerate(offsets) if at > known.placement.newest]
        if later and known.placement.next >= 0:
            for step, row in enumerate(later):
                numbers[row] = known.placement.next + step
        return numbers

    def _by_unit(self, queue: Queue, record: WrongLightNumber) -> int | None:
        """Give the number of the only unit that names a record; None without, or with several."""
        topic = topic_text(queue[0])
        matches: list[int] = []
        try:
            for number, units in self._inspection.queue("queues", (topic, queue[1])).used():
                is_its = units["physical_offset"] == record.physical_offset
                is_its &= units["size"] == record.message.size
                matches += (number + np.flatnonzero(is_its)).tolist()
        except UnreadablePath:
            return None
        return matches[0] if len(matches) == 1 else None

    def edit(self, writer: EditWriter, segment_at: Callable[[int], Segment | None]) -> None:
        """Write the numbers.

        Args:
            writer: takes the edits.
            segment_at: gives the file of a physical offset.
        """
        for record in self.records:
            segment = segment_at(record.physical_offset)
            if segment is None:
                continue
            names = ", ".join(topic_text(topic) for topic, _ in record.queues)
            lost = "" if record.is_known else f"the numbers of one message in {names}"
            position = record.physical_offset - segment.start + record.position
            reason = PUT_BACK if record.is_known else BLANKED
            writer.write(segment, position, Content.of(record.raw), CODE, reason, lost)

    @property
    def mended(self) -> frozenset[int]:
        """Physical offsets of the records whose other properties are whole again."""
        return frozenset(record.physical_offset for record in self.records if record.separator)

    def is_answered(self, defect: Finding) -> bool:
        """Tell whether a finding is only a consequence of numbers that are put back."""
        if defect.code not in {CQ_LMQ, CL_QOFF_GAP} or defect.position is None:
            return False  # of a queue as a whole
        return any(
            (topic_text(topic), queue_id) == (defect.topic, defect.queue_id)
            for record in self.records
            if record.is_known
            for topic, queue_id in record.queues
        )
