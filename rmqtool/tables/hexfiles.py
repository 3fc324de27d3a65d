"""The hex view of files of fixed-size units, and of all other files: see hexview.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqtool.formats.annotate import layout_spans
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.checkpoint import CHECKPOINT
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.dledger import DLEDGER_INDEX_UNIT
from rmqtool.formats.index import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT, entry_position
from rmqtool.formats.tiered_index import (
    TIERED_INDEX_HEADER,
    TIERED_INDEX_ITEM,
    TIERED_INDEX_SLOT,
)
from rmqtool.formats.timer import TIMER_CHECK, TIMER_LOG_RECORD, TIMER_SLOT
from rmqtool.store.branch import BranchKind
from rmqtool.tables.hexview import READ_BYTES, FieldBytes, hex_row, lines_of, pieces_of, raw_pieces
from rmqtool.tables.timer_tiered import slots_end

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.formats.layout import Layout
    from rmqtool.rows import Row
    from rmqtool.store.place import OpenFile
    from rmqtool.tables.inputs import FilePart
    from rmqtool.tables.selection import Selection


class UnitSection(NamedTuple):
    """A stretch of a file that holds units of one kind."""

    layout: Layout  # of a unit
    begin: int  # position of the first one
    end: int  # position after the last one


_UNITS = {
    BranchKind.CONSUME_QUEUE: CQ_UNIT,
    BranchKind.BATCH_QUEUE: BATCH_CQ_UNIT,
    BranchKind.COMPACTION_QUEUE: BATCH_CQ_UNIT,
    BranchKind.DLEDGER_INDEX: DLEDGER_INDEX_UNIT,
    BranchKind.TIMER_WHEEL: TIMER_SLOT,
    BranchKind.TIMER_LOG: TIMER_LOG_RECORD,
}
_HEADS = {BranchKind.CHECKPOINT: CHECKPOINT, BranchKind.TIMER_CHECK: TIMER_CHECK}


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
    if part.kind is BranchKind.INDEX:
        entries = min(entry_position(part.slots, 0), size)
        header = INDEX_HEADER.size
        return [
            UnitSection(INDEX_HEADER, 0, header),
            UnitSection(INDEX_SLOT, header, entries),
            UnitSection(INDEX_ENTRY, entries, size),
        ]
    if part.kind is BranchKind.TIERED_INDEX:
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
