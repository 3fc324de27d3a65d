"""Images with records in them, and a plain search that shares nothing with rmqtool's."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from rmqtool.carve.carving import Carved, Carving
from rmqtool.carve.options import CarveOptions
from rmqtool.formats.message import MESSAGE_MAGIC_CODE_V2, Message, encode, sealed

PREFIX: Final = b"\xda\xa3\x20"  # of both magic codes
HOST: Final = bytes([10, 0, 0, 1])


@dataclass(frozen=True)
class Found:
    """A record that a plain search found.

    Attributes:
        position: in the image.
        raw: its bytes.
        physical_offset: that it states.
        has_body: or nothing proves it.
    """

    position: int
    raw: bytes
    physical_offset: int
    has_body: bool


def plain_search(image: bytes) -> list[Found]:
    """Find whole records by their magic codes, lengths and checksums, byte by byte."""
    found: list[Found] = []
    at = 0
    while (place := image.find(PREFIX, at + 4)) >= 0:
        start = place - 4
        record = whole_record(image, start)
        at = start + 1 if record is None else start + len(record.raw)
        found += [] if record is None else [record]
    return found


def whole_record(image: bytes, start: int) -> Found | None:
    """Give the record at a place, if all of it is there."""
    try:
        size, magic, crc, _, _, _, offset, flags = struct.unpack_from(">iIiiiqqi", image, start)
        header = 88 + (12 if flags & 16 else 0) + (12 if flags & 32 else 0)
        (length,) = struct.unpack_from(">i", image, start + header - 4)
        wide = magic == 0xDAA320AB
        at = start + header + length
        (topic,) = struct.unpack_from(">h" if wide else ">b", image, at)
        at += 2 if wide else 1
        (properties,) = struct.unpack_from(">h", image, at + topic)
    except struct.error:
        return None
    raw = image[start : start + size]
    if magic not in {0xDAA320A7, 0xDAA320AB}:
        return None
    if min(length, properties, offset) < 0 or topic <= 0 or len(raw) < max(size, 1):
        return None
    if at + topic + 2 + properties != start + size:
        return None
    body = image[start + header : start + header + length]
    if zlib.crc32(body) & 0x7FFFFFFF != crc:
        return None
    return Found(start, raw, offset, bool(body))


def log(  # noqa: PLR0913 - what records are made of
    count: int,
    *,
    start: int = 0,
    seed: int = 0,
    host: bytes = HOST,
    port: int = 10911,
    bodies: Iterable[bytes] = (),
    born: int = 0,
) -> bytes:
    """Make records that follow each other in a log.

    Args:
        count: how many.
        start: physical offset of the first one.
        seed: of what they hold.
        host: of the broker.
        port: of the broker.
        bodies: of the first ones; the others are random.
        born: when they were sent, ms.
    """
    dice, given = np.random.default_rng(seed), list(bodies)
    raw = b""
    for number in range(count):
        body = given[number] if number < len(given) else dice.bytes(int(dice.integers(1, 400)))
        raw += record(start + len(raw), body, host=host, port=port, number=number, born=born)
    return raw


def record(offset: int, body: bytes, **fields: Any) -> bytes:  # noqa: ANN401 - of several types
    """Make one record: `host`, `port`, `number`, `topic`, `properties`, `born`, `wide`."""
    message = Message(
        queue_offset=fields.get("number", 0),
        physical_offset=offset,
        born_timestamp=fields.get("born", 0),
        born_address=fields.get("host", HOST),
        store_timestamp=1_700_000_000_000 + fields.get("number", 0),
        store_address=fields.get("host", HOST),
        store_port=fields.get("port", 10911),
        body=body,
        topic_bytes=fields.get("topic", b"orders"),
        properties_bytes=fields.get("properties", b"TAGS\x01a\x02"),
    )
    if fields.get("wide"):
        message = message._replace(magic_code=MESSAGE_MAGIC_CODE_V2)
    return encode(sealed(message))


def carve(
    tmp_path: Path,
    *images: bytes | Path,
    output: str = "out.rmq",
    **options: Any,  # noqa: ANN401 - as the options are
) -> tuple[Carved, bytes]:
    """Carve images; give what the file holds, too."""
    paths = []
    for number, image in enumerate(images):
        path = image if isinstance(image, Path) else tmp_path / f"image{number}"
        if isinstance(image, bytes):
            path.write_bytes(image)
        paths.append(str(path))
    target = tmp_path / output
    with ExitStack() as keep:
        done = Carving(CarveOptions(tuple(paths), str(target), **options), keep).run()
    raw = b"" if target.is_dir() else target.read_bytes()
    if not target.is_dir():
        target.unlink()
    return done, raw


def cut(raw: bytes) -> list[bytes]:
    """Cut a .rmq file by the lengths of its records."""
    found = []
    while raw:
        size = int.from_bytes(raw[:4], "big")
        found.append(raw[:size])
        raw = raw[size:]
    return found
