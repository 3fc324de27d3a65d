"""The hex view of a log: every byte that was asked for, with the name and value of its field.

Lines tile: each begins where the one before ended. A long field takes several lines, of which the
first has the value; a long run of zeros takes one line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.errors import DecodeError
from rmqtool.findings.registry_commitlog import CL_CRC
from rmqtool.formats import message
from rmqtool.formats.annotate import Span, body_spans, layout_spans
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.checkpoint import CHECKPOINT
from rmqtool.formats.compression import DEFAULT_CEILING_BYTES
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.dledger import (
    DLEDGER_BLANK,
    DLEDGER_ENTRY,
    DLEDGER_INDEX_UNIT,
)
from rmqtool.formats.index import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT, entry_position
from rmqtool.formats.tiered_index import (
    TIERED_INDEX_HEADER,
    TIERED_INDEX_ITEM,
    TIERED_INDEX_SLOT,
)
from rmqtool.formats.timer import TIMER_CHECK, TIMER_LOG_RECORD, TIMER_SLOT
from rmqtool.scan import columns as row
from rmqtool.scan.batch import Batch, Extent
from rmqtool.store.artefact import ArtefactKind
from rmqtool.tables.bodies import BodyMode
from rmqtool.tables.message_filter import wanted_records
from rmqtool.tables.messages import MessageOptions, batches_of, damage_before, is_shown
from rmqtool.tables.timer_tiered import slots_end

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.formats.layout import Layout
    from rmqtool.rows import Row
    from rmqtool.store.place import OpenFile
    from rmqtool.store.segment import SegmentPart
    from rmqtool.tables.inputs import FilePart
    from rmqtool.tables.selection import Selection


LINE_BYTES: Final = 8  # with the longest field and a value they fit 80 columns
LONG_ZEROS: Final = 64  # bytes of zeros that are put on one line
READ_BYTES: Final = 1 << 20
MISSING: Final = "missing"  # field of bytes that are not there


class FieldBytes(NamedTuple):
    """A field with the bytes that make it."""

    position: int  # first byte in the file
    raw: bytes | None  # the bytes; None stands for zeros
    length: int  # how many
    field: str  # its name
    value: str | None  # what they say
    code: str | None = None  # finding code


def message_lines(part: SegmentPart, options: MessageOptions) -> Iterator[Row]:
    """Give the lines of the records, gaps and fillers of a part of a segment.

    Raises:
        UnreadablePath: the file cannot be read.
    """
    with part.segment.open() as file:
        for row_before in damage_before(part, options):
            yield _missing_line(part, row_before)
        for batch in batches_of(part, options, start=None):
            for piece in _batch_pieces(file, batch, options):
                for line in lines_of(piece):
                    offset = batch.segment.start + line.position
                    yield hex_row(line, part.segment.path, offset)


def _missing_line(part: SegmentPart, before: Row) -> Row:
    """Give the line of bytes that no file is there for, before a file."""
    return {
        "file": part.segment.path,
        "position": 0,
        "physical_offset": before["physical_offset"],
        "length": before["size"],
        "field": MISSING,
        "value": "bytes before this file that no file holds",
        "code": before["code"],
    }


def hex_row(line: FieldBytes, path: str, physical_offset: int | None) -> Row:
    """Give one line as a row."""
    return {
        "file": path,
        "position": line.position,
        "physical_offset": physical_offset,
        "length": line.length,
        "hex": None if line.raw is None else line.raw.hex(" "),
        "field": line.field,
        "value": line.value,
        "code": line.code,
    }


def lines_of(piece: FieldBytes) -> Iterator[FieldBytes]:
    """Cut a piece into lines."""
    if piece.raw is None or (piece.length >= LONG_ZEROS and not any(piece.raw)):
        text = piece.value or f"{piece.length:,} bytes of zeros"
        yield piece._replace(raw=None, value=text)
        return
    for start in range(0, piece.length, LINE_BYTES):
        raw = piece.raw[start : start + LINE_BYTES]
        value, code = (None, None) if start else (piece.value, piece.code)
        yield FieldBytes(piece.position + start, raw, len(raw), piece.field, value, code)


def _batch_pieces(file: OpenFile, batch: Batch, options: MessageOptions) -> Iterator[FieldBytes]:
    if batch.kind is not Extent.RECORD:
        if is_shown(batch, options):
            yield from _other_pieces(file, batch)
        return
    for number in np.flatnonzero(wanted_records(batch, options.selection)).tolist():
        yield from _record_pieces(file, batch, number, options)


def _record_pieces(
    file: OpenFile, batch: Batch, number: int, options: MessageOptions
) -> Iterator[FieldBytes]:
    record = batch.columns[:, number]
    position, size = int(record[row.POSITION]), int(record[row.SIZE])
    if header := batch.segment.entry_header:
        start = position - header
        entry = file.read_at(start, header)
        yield from pieces_of(entry, layout_spans(DLEDGER_ENTRY, entry), start)
    if size > DEFAULT_CEILING_BYTES:
        yield from raw_pieces(file, position, position + size, "record", None)
        return
    raw = file.read_at(position, size)
    try:
        spans = body_spans(message.decode(raw), raw)
    except DecodeError as error:  # the file changes while it is read
        spans = [Span("record", 0, len(raw), error.reason)]
    is_hidden = options.body.mode is BodyMode.REDACTED
    damage = batch.damage.get(position)
    for piece in pieces_of(raw, spans, position):
        is_body = piece.field == "body"
        code = None
        if damage is not None and is_body is (damage == CL_CRC):  # once, where it belongs
            code, damage = str(damage), None
        yield piece._replace(raw=None if is_body and is_hidden else piece.raw, code=code)


def pieces_of(raw: bytes, spans: list[Span], position: int) -> Iterator[FieldBytes]:
    """Give the pieces of a structure that lies at `position` of its file."""
    for span in spans:
        stretch = raw[span.position : span.position + span.length]
        yield FieldBytes(position + span.position, stretch, span.length, span.name, span.value)


def _other_pieces(file: OpenFile, batch: Batch) -> Iterator[FieldBytes]:
    position = batch.position
    if position >= batch.segment.size:
        what = "bytes that the file ought to have" if batch.length else "the end of the file"
        yield FieldBytes(position, None, batch.length, MISSING, what, batch.code)
        return
    if batch.kind is Extent.FILLER:
        layout = DLEDGER_BLANK if batch.segment.entry_header else message.BLANK
        raw = file.read_at(position, layout.size)
        yield from pieces_of(raw, layout_spans(layout, raw), position)
        position += len(raw)
    name = "unspecified" if batch.kind is Extent.FILLER else str(batch.kind)
    yield from raw_pieces(file, position, batch.end, name, batch.code)


def raw_pieces(
    file: OpenFile, begin: int, end: int, name: str, code: str | None
) -> Iterator[FieldBytes]:
    """Give bytes that are no field, with long runs of zeros apart."""
    position, zeros = begin, begin
    while position < end:
        data = file.next_data(position)
        position = end if data is None else min(data, end)  # over holes of a sparse file
        raw = file.read_at(position, min(READ_BYTES, end - position))
        if not raw:
            break
        used = len(raw.lstrip(b"\0"))
        first = len(raw) - used
        if used and position + first > zeros:
            yield FieldBytes(zeros, None, position + first - zeros, name, None, code)
        if used:
            body = raw[first:].rstrip(b"\0")
            yield FieldBytes(position + first, body, len(body), name, None, code)
            zeros = position + first + len(body)
        position += len(raw)
    if position > zeros:
        yield FieldBytes(zeros, None, position - zeros, name, None, code)


# The hex view of files of fixed-size units, and of all other files: see hexview.py.


class UnitSection(NamedTuple):
    """A stretch of a file that holds units of one kind."""

    layout: Layout  # of a unit
    begin: int  # position of the first one
    end: int  # position after the last one


_UNITS = {
    ArtefactKind.CONSUME_QUEUE: CQ_UNIT,
    ArtefactKind.BATCH_QUEUE: BATCH_CQ_UNIT,
    ArtefactKind.COMPACTION_QUEUE: BATCH_CQ_UNIT,
    ArtefactKind.DLEDGER_INDEX: DLEDGER_INDEX_UNIT,
    ArtefactKind.TIMER_WHEEL: TIMER_SLOT,
    ArtefactKind.TIMER_LOG: TIMER_LOG_RECORD,
}
_HEADS = {ArtefactKind.CHECKPOINT: CHECKPOINT, ArtefactKind.TIMER_CHECK: TIMER_CHECK}


def file_lines(part: FilePart, selection: Selection) -> Iterator[Row]:
    """Give the lines of one file; of a queue those of the units that were asked for.

    Raises:
        UnreadablePath: the file cannot be read.
    """
    with part.open() as file:
        sections = _sections(part, file.size)
        if part.kind in _UNITS:
            sections = [_chosen(section, part.start, selection) for section in sections]
        for piece in _pieces(file, sections, is_whole=not selection.options()):
            for line in lines_of(piece):
                yield hex_row(line, part.path, None)


def _sections(part: FilePart, size: int) -> list[UnitSection]:
    """Say which units a file holds, and where."""
    if layout := _UNITS.get(part.kind):
        return [UnitSection(layout, 0, size)]
    if layout := _HEADS.get(part.kind):
        return [UnitSection(layout, 0, layout.size)]
    if part.kind is ArtefactKind.INDEX:
        entries = min(entry_position(part.slots, 0), size)
        header = INDEX_HEADER.size
        return [
            UnitSection(INDEX_HEADER, 0, header),
            UnitSection(INDEX_SLOT, header, entries),
            UnitSection(INDEX_ENTRY, entries, size),
        ]
    if part.kind is ArtefactKind.TIERED_INDEX:
        header, items = TIERED_INDEX_HEADER.size, slots_end(size)
        return [
            UnitSection(TIERED_INDEX_HEADER, 0, header),
            UnitSection(TIERED_INDEX_SLOT, header, items),
            UnitSection(TIERED_INDEX_ITEM, items, size),
        ]
    return []


def _chosen(section: UnitSection, start: int, selection: Selection) -> UnitSection:
    """Give the part of a queue that was asked for."""
    first, last = selection.queue_offsets
    size, end = section.layout.size, section.end
    begin = 0 if first is None else min(max(0, first * size - start), end)
    if last is not None:
        end = min(max(begin, last * size - start), end)
    return UnitSection(section.layout, begin, end)


def _pieces(file: OpenFile, sections: list[UnitSection], *, is_whole: bool) -> Iterator[FieldBytes]:
    """Give the units of all sections, and the bytes after them."""
    position = 0
    for section in sections:
        whole = section._replace(end=min(section.end, file.size))
        for piece in _section_pieces(file, whole):
            yield piece
            position = piece.position + piece.length
    if is_whole:
        yield from raw_pieces(file, position, file.size, "rest" if sections else "text", None)


def _section_pieces(file: OpenFile, section: UnitSection) -> Iterator[FieldBytes]:
    """Give whole units; unused ones that follow each other are one piece."""
    size = section.layout.size
    step = READ_BYTES // size * size
    position = zeros = section.begin
    while position + size <= section.end:
        data = file.next_data(position)
        if data is None or data >= section.end:  # nothing but a hole of a sparse file
            position = section.end - (section.end - position) % size
            break
        position += (data - position) // size * size
        raw = file.read_at(position, min(step, section.end - position))
        count = len(raw) // size
        if not count:
            break  # shorter than it should be, or cut short while it is read
        if raw.count(0) == len(raw):
            position += count * size
            continue
        for start in range(0, count * size, size):
            unit = raw[start : start + size]
            if not any(unit):
                continue
            if position + start > zeros:
                yield FieldBytes(zeros, None, position + start - zeros, "unused", None)
            yield from pieces_of(unit, layout_spans(section.layout, unit), position + start)
            zeros = position + start + size
        position += count * size
    if position > zeros:
        yield FieldBytes(zeros, None, position - zeros, "unused", None)
