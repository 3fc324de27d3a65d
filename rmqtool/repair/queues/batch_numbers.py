"""Edits of the numbers of batch records, where INNER_BASE or queueOffset is damaged.

Where a name or a separator is damaged, a broker counts the batch as one message, or cannot parse
the number: recovery after a crash then ends the log at that record. A broker writes one number into
INNER_BASE and into the queueOffset of the record, so the latter tells what it was. Where both are
numbers, and differ, the unit of the batch queue tells which of them is right; 4.9, which knows no
batches, would place the record by its queueOffset. Source: CommitLog#asyncPutMessages,
#setBatchSizeIfNeeded, 5.0.0 to 5.5.0; ReputMessageService#doReput, 4.9.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.errors import DecodeError
from rmqtool.findings.registry_commitlog import CL_BATCH
from rmqtool.formats.java import parse_long
from rmqtool.formats.message import MESSAGE_PREFIX, Message, decode
from rmqtool.formats.properties import (
    INNER_BASE,
    INNER_NUM,
    NAME_VALUE_SEPARATOR,
    PROPERTY_SEPARATOR,
    crc_matches,
    items,
)
from rmqtool.repair.log.content import Content
from rmqtool.repair.queues.topic_names import unit_at
from rmqtool.repair.writer import EditWriter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqtool.check.inspection import Inspection
    from rmqtool.findings.finding import Finding
    from rmqtool.repair.plans import Edit
    from rmqtool.store.record_heads import LogReader

REASON: Final = "the record's INNER_BASE, as its queueOffset has it"
AS_QUEUED: Final = "the record's {}, as its batch queue has it"


def edits(inspection: Inspection, findings: Iterable[Finding], log: LogReader) -> list[Edit]:
    """Give the edits that put INNER_BASE or queueOffset back.

    Args:
        inspection: of the store.
        findings: what a validation says of it.
        log: of the store.
    """
    writer = EditWriter(inspection.store.root)
    for finding in findings:
        if finding.code != CL_BATCH or finding.physical_offset is None or finding.length is None:
            continue
        segment = inspection.segment_at(finding.physical_offset)
        raw = log.read_at(finding.physical_offset, finding.length)
        mended = _mended(raw) or _as_queued(inspection, finding.physical_offset, raw)
        if segment is not None and mended is not None:
            position = mended.position + finding.physical_offset - segment.start
            writer.write(segment, position, Content.of(mended.raw), CL_BATCH, mended.reason)
    return writer.edits


class _Mended(NamedTuple):
    """Bytes that make a batch record whole."""

    position: int  # where they go, in the record
    raw: bytes  # the bytes
    reason: str  # why


def _as_queued(inspection: Inspection, physical_offset: int, raw: bytes) -> _Mended | None:
    """Give the number that differs from the unit of the record, where the other one does not."""
    message = _decoded(raw)
    if message is None:
        return None
    there = message.properties.get(INNER_BASE, "")
    base, count = parse_long(there), parse_long(message.properties.get(INNER_NUM, ""))
    if base is None or count is None or base == message.queue_offset:
        return None
    queue = inspection.queue("batch_queues", (message.topic, message.queue_id))
    for stated in (base, message.queue_offset):
        unit = unit_at(queue, stated)
        if unit is None or (unit.physical_offset, unit.queue_offset, unit.messages) != (
            physical_offset,
            stated,
            count,
        ):
            continue
        if stated == base:
            field = MESSAGE_PREFIX["queue_offset"]
            return _Mended(field.position, field.build(base), AS_QUEUED.format("queueOffset"))
        name = INNER_BASE.encode() + NAME_VALUE_SEPARATOR
        position = raw.find(name + there.encode(), len(raw) - len(message.properties_bytes))
        number = str(stated).encode()
        if position >= 0 and len(number) == len(there):
            return _Mended(position + len(name), number, AS_QUEUED.format(INNER_BASE))
    return None


def _mended(raw: bytes) -> _Mended | None:
    """Give the one byte that makes a batch record whole; None without."""
    message = _decoded(raw)
    if message is None or parse_long(message.properties.get(INNER_BASE, "")) is not None:
        return None
    name = INNER_BASE.encode() + NAME_VALUE_SEPARATOR
    wanted = name + str(message.queue_offset).encode() + PROPERTY_SEPARATOR
    start = len(raw) - len(message.properties_bytes)
    for item in items(message.properties_bytes):
        begin = start + item.position
        there = raw[begin : begin + len(wanted)].ljust(len(wanted), PROPERTY_SEPARATOR)
        odd = [at for at, byte in enumerate(wanted) if there[at] != byte]
        position = begin + odd[0] if len(odd) == 1 else len(raw)
        if position < len(raw):
            byte = wanted[odd[0] : odd[0] + 1]
            if _is_whole(raw[:position] + byte + raw[position + 1 :], message.queue_offset):
                return _Mended(position, byte, REASON)
    return None


def _is_whole(raw: bytes, base: int) -> bool:
    message = _decoded(raw)
    if message is None or crc_matches(raw, message.properties) is False:
        return False
    values = message.properties
    has_number = parse_long(values.get(INNER_NUM, "")) is not None
    return has_number and parse_long(values.get(INNER_BASE, "")) == base


def _decoded(raw: bytes) -> Message | None:
    try:
        return decode(raw)
    except DecodeError:
        return None
