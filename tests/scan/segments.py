"""Segments for tests: records put together as a broker does, in a file of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.formats.dledger import BLANK_MAGIC, DLEDGER_BLANK, DLEDGER_ENTRY, ENTRY_MAGIC
from rmqtool.formats.message import BLANK, BLANK_MAGIC_CODE, Message, encode, sealed
from rmqtool.scan.batch import ScanOptions
from rmqtool.scan.message import scan
from rmqtool.store.place import Place
from rmqtool.store.segment import Segment, SegmentPart

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

SMALL: Final = ScanOptions(window_bytes=1 << 10, batch_rows=5)  # many windows, many batches
MESSAGE: Final = Message(
    topic_bytes=b"TopicTest",
    body=b"hello",
    properties_bytes=b"KEYS\x01ORDER-1\x02TAGS\x01TagA\x02",
    born_timestamp=1_700_000_000_000,
    store_timestamp=1_700_000_000_005,
)


def placed(messages: Iterable[Message], start: int = 0, entry_header: int = 0) -> list[Message]:
    """Give messages their lengths, and the offsets that they have one behind the other."""
    made = []
    offset = start
    for message in messages:
        one = sealed(message._replace(physical_offset=offset + entry_header))
        made.append(one)
        offset += entry_header + one.size
    return made


def segment_bytes(
    messages: Sequence[Message], *, start: int = 0, size: int = 0, blank: bool = True
) -> bytes:
    """Give a segment: records, a blank if there is room and it is asked for, zeros."""
    raw = b"".join(encode(message) for message in placed(messages, start))
    left = size - len(raw)
    if blank and left >= BLANK.size:
        raw += BLANK.build({"total_size": left, "magic_code": BLANK_MAGIC_CODE})
    return raw.ljust(size, b"\0")


def dledger_bytes(messages: Sequence[Message], *, start: int = 0, size: int = 0) -> bytes:
    """Give a segment of DLedger data, closed by a blank if there is room."""
    raw = b""
    for number, message in enumerate(placed(messages, start, DLEDGER_ENTRY.size)):
        entry = dict.fromkeys(DLEDGER_ENTRY.positions, 0) | {
            "magic": ENTRY_MAGIC,
            "size": DLEDGER_ENTRY.size + message.size,
            "index": number,
            "term": 1,
            "pos": start + len(raw),
            "body_length": message.size,
        }
        raw += DLEDGER_ENTRY.build(entry) + encode(message)
    if (left := size - len(raw)) >= DLEDGER_BLANK.size:
        raw += DLEDGER_BLANK.build({"magic": BLANK_MAGIC, "size": left})
    return raw.ljust(size, b"\0")


def written(directory: Path, raw: bytes, start: int = 0, *, is_dledger: bool = False) -> Segment:
    """Write a segment into a directory; of a log of DLedger, if that is said."""
    path = directory / f"{start:020}"
    path.write_bytes(raw)
    segment = Segment(Place.of(path), f"commitlog/{path.name}", start, len(raw))
    return segment._replace(entry_header=DLEDGER_ENTRY.size if is_dledger else 0)


def whole(segment: Segment) -> SegmentPart:
    """Give a segment as one part."""
    return SegmentPart(segment, 0, segment.size)


def extents(
    part: SegmentPart, options: ScanOptions | None = None, *, start: int | None = None
) -> list[tuple[str, int, int, str]]:
    """Scan a part; give kind, position, length and code of each record and other stretch."""
    found = []
    for batch in scan(part, options, start=start):
        if batch.count:
            positions, sizes = batch.columns[1].tolist(), batch.columns[3].tolist()
            header = positions[0] - batch.position  # none behind a damaged entry header
            assert header in (0, 48)
            rows = zip(positions, sizes, strict=True)
            found += [("record", at - header, size + header, "") for at, size in rows]
            assert batch.end == found[-1][1] + found[-1][2]
        else:
            found.append((str(batch.kind), batch.position, batch.length, batch.code or ""))
    return found
