"""What lies behind the last record of a file that can be read, where it is not zeros.

Three things look alike to a scan: a record that was written only in part, which every recovery cuts
off; records of an earlier time; damage. Reads and validation ask here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_commitlog import CL_MAGIC, CL_SIZE, CL_STALE, CL_TAIL
from rmqtool.formats.message import (
    BLANK,
    MESSAGE_MAGIC_CODE,
    MESSAGE_MAGIC_CODE_V2,
    MESSAGE_PREFIX,
    SMALLEST_RECORD,
)
from rmqtool.store.record_heads import MAGIC, MAGIC_POSITION

if TYPE_CHECKING:
    from rmqtool.findings.catalogue import Code
    from rmqtool.findings.finding import Finding
    from rmqtool.store.place import OpenFile
    from rmqtool.store.segment import Segment

STALE_SEARCHED: Final = 16 << 20  # bytes after the tail that are searched for old records


def stale_record(file: OpenFile, segment: Segment, position: int, length: int) -> Finding | None:
    """Look behind a tail for a record that lies elsewhere by its own account.

    Args:
        file: the segment.
        segment: whose tail.
        position: where the tail begins.
        length: bytes of it.

    Raises:
        UnreadablePath: the file cannot be read.
    """
    raw = file.read_at(position, min(length, STALE_SEARCHED))
    for match in MAGIC.finditer(raw):
        begin = match.start() - MAGIC_POSITION
        if begin <= segment.entry_header:
            continue  # the torn record itself
        size = MESSAGE_PREFIX["total_size"].of(raw, begin)
        own = MESSAGE_PREFIX["physical_offset"].of(raw, begin)
        place = segment.start + position + begin
        if SMALLEST_RECORD <= size <= len(raw) - begin and own != place:
            at = At(segment.path, position + begin, size, place)
            message = "a record past the tail says it belongs elsewhere"
            return finding(CL_STALE, at, message, expected=place, actual=own)
    return None


def tail_code(file: OpenFile, segment: Segment, position: int, length: int) -> Code:
    """Tell a record that was written in part from one that is damaged.

    Args:
        file: the segment.
        segment: whose tail.
        position: where the tail begins.
        length: bytes of it, up to the last one that is not zero, or up to the end of a record that
            was accepted although it ends in zeros.

    Raises:
        UnreadablePath: the file cannot be read.
    """
    header = segment.entry_header
    head = file.read_at(position + header, BLANK.size)
    ends_in_zero = file.read_at(position + length - 1, 1) == b"\0"
    if ends_in_zero or len(head) < BLANK.size:
        return CL_TAIL
    size, magic = BLANK.packer.unpack(head)
    if magic not in {MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2}:
        return CL_TAIL if not any(head) else CL_MAGIC
    # What was written goes on to the last byte but few: records end in text, not in zeros.
    return CL_TAIL if size > length - header else CL_SIZE


def fits(file: OpenFile, segment: Segment, position: int) -> bool:
    """Tell whether a torn record would have room in its file.

    A file is made with its whole length, and no record is begun that does not fit: where one does
    not, the file was cut.

    Args:
        file: the segment.
        segment: the last one in use.
        position: where the record begins.

    Raises:
        UnreadablePath: the file cannot be read.
    """
    head = file.read_at(position + segment.entry_header, BLANK.size)
    if len(head) < BLANK.size:
        return False
    size, _ = BLANK.packer.unpack(head)
    return bool(position + segment.entry_header + size <= segment.size)
