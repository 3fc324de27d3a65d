"""Edits of INNER_BASE in batch records, where one byte of it is damaged.

Where a name or a separator is damaged, a broker counts the batch as one message, or cannot parse
the number: recovery after a crash then ends the log at that record. A broker writes one number into
INNER_BASE and into the queueOffset of the record, so the latter tells what it was. Source:
CommitLog#asyncPutMessages, #setBatchSizeIfNeeded, 5.0.0 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.errors import DecodeError
from rmqtool.findings.registry_commitlog import CL_BATCH
from rmqtool.formats.java import parse_long
from rmqtool.formats.message import Message, decode
from rmqtool.formats.properties import (
    INNER_BASE,
    INNER_NUM,
    NAME_VALUE_SEPARATOR,
    PROPERTY_SEPARATOR,
    crc_matches,
    items,
)
from rmqtool.repair.log.content import Content
from rmqtool.repair.writer import EditWriter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqtool.check.inspection import Inspection
    from rmqtool.findings.finding import Finding
    from rmqtool.repair.plans import Edit
    from rmqtool.store.record_heads import LogReader

REASON: Final = "the record's INNER_BASE, as its queueOffset has it"


def edits(inspection: Inspection, found: Iterable[Finding], log: LogReader) -> list[Edit]:
    """Give the edits that put INNER_BASE back.

    Args:
        inspection: of the store.
        found: what a validation says of it.
        log: of the store.
    """
    writer = EditWriter(inspection.store.root)
    for one in found:
        if one.code != CL_BATCH or one.physical_offset is None or one.length is None:
            continue
        segment = inspection.segment_at(one.physical_offset)
        mended = _mended(log.read_at(one.physical_offset, one.length))
        if segment is not None and mended is not None:
            position, raw = mended
            position += one.physical_offset - segment.start
            writer.write(segment, position, Content.of(raw), CL_BATCH, REASON)
    return writer.edits


def _mended(raw: bytes) -> tuple[int, bytes] | None:
    """Give position and bytes of the one byte that makes a batch record whole; None without."""
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
                return position, byte
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
