"""All records that were ever in the log of a broker, read from kept copies of its files.

The reader shares nothing with rmqtool: positions are written out. It takes a record as a broker
that recovers does: its lengths add up and its body has its CRC.
Source: CommitLog#checkMessageAndReturnSize, 4.9.3 to 5.5.0; addresses are IPv4.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX: Final = struct.Struct(">iIIiiqqiq8sq8siqi")  # up to the length of the body
MAGIC: Final = 0xDAA320A7
CRC_BITS: Final = 0x7FFFFFFF
PAGE: Final = 4096


class Given(NamedTuple):
    """What tells a record from all others that were ever at its place.

    Attributes:
        physical_offset: where it begins.
        size: bytes.
        store_time: ms since 1970.
        topic: as stored.
        queue_id: queue of the topic.
        queue_offset: number in that queue.
        body_crc: as stored.
    """

    physical_offset: int
    size: int
    store_time: int
    topic: str
    queue_id: int
    queue_offset: int
    body_crc: int

    @property
    def end(self) -> int:
        """Physical offset past it."""
        return self.physical_offset + self.size


def walk(path: Path, start: int) -> Iterator[Given]:
    """Yield the records of a file from its first byte on, up to what is none.

    Args:
        path: of the file.
        start: physical offset of its first byte.
    """
    raw = path.read_bytes()
    at = 0
    while at + PREFIX.size < len(raw):
        found = _record(raw, at, start + at)
        if found is None:
            return
        yield found
        at += found.size


def _record(raw: bytes, at: int, physical_offset: int) -> Given | None:
    (size, magic, crc, queue_id, _, queue_offset, own, *_, store_time, _, _, _, length) = (
        PREFIX.unpack_from(raw, at)
    )
    if magic != MAGIC or own != physical_offset or at + size > len(raw) or length < 0:
        return None
    body = at + PREFIX.size
    topic = body + length + 1
    if topic > at + size:
        return None
    texts = topic + raw[topic - 1]
    (properties,) = struct.unpack_from(">H", raw, texts)
    if texts + 2 + properties != at + size:
        return None
    if length and zlib.crc32(raw[body : body + length]) & CRC_BITS != crc:
        return None
    name = raw[topic:texts].decode()
    return Given(own, size, store_time, name, queue_id, queue_offset, crc)


class KeptLog:
    """Keeps each file of a log by a hard link, as brokers delete and make files.

    Args:
        log: directory of the commitlog.
        into: directory on the same file system.

    Attributes:
        ever: all records that were in the log when its broker was killed, or ended.
    """

    def __init__(self, log: Path, into: Path) -> None:
        self.ever: set[Given] = set()
        self._log, self._into = log, into
        self._names: dict[Path, Path] = {}  # what the log has, and its links
        self._dropped: set[Path] = set()
        into.mkdir()

    def keep(self) -> None:
        """Link what the log has now."""
        self._names = {}
        for path in sorted(self._log.iterdir()):
            link = self._into / f"{path.name}.{path.stat().st_ino}"
            self._names[path] = link
            if not link.exists():
                os.link(path, link)

    def take(self) -> None:
        """Take the records of the log, whose broker is no more."""
        self.keep()
        for path in self._names:
            self.ever.update(walk(path, int(path.name)))

    def recovered(self) -> None:
        """Take note of the files that a broker has deleted as it recovered: those after its end."""
        for path, link in self._names.items():
            if not path.exists() or path.stat().st_ino != link.stat().st_ino:
                self._dropped.add(link)

    def cut(self, length: int) -> int:
        """Lose the last bytes of a log, as a machine does that loses power: zeros are there.

        Args:
            length: about how many, from the end of the last record.

        Returns:
            How many records are lost wholly or in part.
        """
        records = [record for path in self._names for record in walk(path, int(path.name))]
        first = min(int(path.name) for path in self._names)
        at = max((records[-1].end - length) // PAGE * PAGE, first + PAGE) if records else first
        for path in self._names:
            start, size = int(path.name), path.stat().st_size
            begin = max(at - start, 0)
            if begin < size:
                with path.open("r+b") as file:
                    file.seek(begin)
                    file.write(bytes(size - begin))
        return sum(record.end > at for record in records)

    def final(self) -> set[Given]:
        """Give the records that brokers left in the log, those of expired files among them."""
        self.take()
        found: set[Given] = set()
        for link in self._into.iterdir():
            if link not in self._dropped:
                found.update(walk(link, int(link.name.partition(".")[0])))
        self.ever |= found  # also what came and expired in one life
        return found

    def end(self) -> int:
        """Give the physical offset past the last record of the log."""
        for path in sorted(self._log.iterdir(), reverse=True):
            records = list(walk(path, int(path.name)))
            if records:
                return records[-1].end
        return 0
