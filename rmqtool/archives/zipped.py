"""Members of a zip: its directory, which is its end; what is stored stays where it is.

What is compressed is written to the temporary copy, with its CRC checked on the way. The library
takes time with the square of what an entry says beside its name, and unpacks the same bytes for as
many names as claim them; so the directory is read here, and paid for.
Source: APPNOTE.TXT 6.3.10, 4.3 and 4.5; observed, Info-ZIP 3.0 and Java's ZipOutputStream.
"""

from __future__ import annotations

import calendar
import stat
import zlib
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Final, NoReturn

from rmqtool.errors import Trouble, UnreadablePath
from rmqtool.store.archive import Member, MemberPart
from rmqtool.store.entry import EntryKind
from rmqtool.store.place import OpenFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.archives.members import Members
    from rmqtool.writing.temporary_copy import TemporaryCopy


PIECE_BYTES: Final = 1 << 20
DIRECTORY_BYTES: Final = 128 << 20  # of a million members of a store
INPUT_BYTES: Final = 64 << 10  # of a compressed member, read at once
UNIX: Final = 3  # the system that made a member, as far as its mode is one of Unix
LONGEST_TARGET: Final = 4096
STORED, DEFLATED = 0, 8
ENCRYPTED: Final = 1
UTF_8: Final = 1 << 11
LONG: Final = 0xFFFFFFFF  # a number that lies in the extra field
ENTRY_STEPS: Final = 100  # see `budget`
ENTRY: Final = Struct("<4sBB2x4H3L3H4x2L")  # APPNOTE 4.3.12
LOCAL: Final = Struct("<4s22x2H")  # 4.3.7
END: Final = Struct("<4s4H2LH")  # 4.3.16
END_64: Final = Struct("<4sQ2H2L4Q")  # 4.3.14
LOCATOR_64: Final = Struct("<4sLQL")  # 4.3.15
FIELD: Final = Struct("<HH")  # 4.5: of the extra field
FIELD_64: Final = 1
FORMATS: Final = {
    stat.S_IFLNK: EntryKind.LINK,
    stat.S_IFREG: EntryKind.FILE,
    0: EntryKind.FILE,  # made where there are no modes
}


class DamagedZip(ValueError):
    """Something of a zip that cannot be read; its text says why."""


@dataclass(slots=True)
class ZipEntry:
    """One member, as the directory has it."""

    name: str
    flags: int
    method: int  # how it is compressed
    date: int  # of the last change, as MS-DOS has it
    time: int
    crc: int
    packed: int  # bytes of its data in the zip
    size: int  # bytes that it claims to have
    mode: int  # 0 where it was made without one
    header: int  # where its local header is

    @property
    def kind(self) -> EntryKind:
        """What it is."""
        if self.name.endswith("/"):
            return EntryKind.DIRECTORY
        return FORMATS.get(stat.S_IFMT(self.mode), EntryKind.OTHER)

    @property
    def is_packed(self) -> bool:
        """Whether it is a file that must be unpacked."""
        return self.method != STORED and self.kind is EntryKind.FILE

    @property
    def refusal(self) -> str | None:
        """Why it is not read; None where it is."""
        if self.flags & ENCRYPTED:
            return "is encrypted: left out"
        if self.method not in {STORED, DEFLATED}:
            return f"is compressed by method {self.method}, which is not read: left out"
        return None

    @property
    def mtime_ns(self) -> int:
        """Last change; a zip has the local time of whoever made it, read here as UTC."""
        day = ((self.date >> 9) + 1980, self.date >> 5 & 15, self.date & 31)
        moment = (self.time >> 11, self.time >> 5 & 63, 2 * (self.time & 31))
        try:
            return calendar.timegm((*day, *moment)) * 1_000_000_000
        except (ValueError, OverflowError):
            return 0


class Zip:
    """A zip whose directory was read.

    Attributes:
        members: takes the members.
        unpacked_bytes: what its compressed members claim to have.

    Raises:
        UnreadablePath: there is no directory: the zip is cut, or damaged.
    """

    def __init__(self, source: OpenFile, members: Members) -> None:
        self.members, self._source = members, source
        try:
            self._entries = [*_entries(source, members.spend)]
        except DamagedZip as error:
            reason = f"its directory, which is its end, cannot be read: {error}"
            raise UnreadablePath(
                path=members.archive.location, reason=reason, trouble=Trouble.EXPLAINED
            ) from error
        self.unpacked_bytes = sum(entry.size for entry in self._entries if entry.is_packed)

    def read(self, copy: TemporaryCopy | None, advance: Callable[[int], None]) -> None:
        """Add the members.

        Args:
            copy: takes what is compressed; None where nothing is.
            advance: takes the bytes that were unpacked.

        Raises:
            WriteFailed: see `TemporaryCopy.append`.
            UnreadablePath: there are too many members.
        """
        shared = None
        if copy is not None:
            copy.require(self.unpacked_bytes)
            # Reads stop at what a member has, so the size may be that of all of them.
            shared = OpenFile(self._source.place, copy.handle, self.unpacked_bytes)
        placed = self._placed()
        for entry in self._entries:
            kind, data = entry.kind, placed.get(id(entry))
            if kind is EntryKind.DIRECTORY or kind is EntryKind.OTHER:
                self._add(entry, Member(kind))
            elif (reason := entry.refusal) is not None:
                self.members.trouble(entry.name, reason)
            elif data is None:
                self.members.trouble(entry.name, "its data cannot be read, or is another member's")
                self._add(entry, Member(kind))
            elif kind is EntryKind.LINK:
                self._add(entry, Member(kind, target=self._target(entry, data)))
            elif entry.is_packed and copy is not None:
                offset, size = copy.size, self._unpack(entry, data, copy, advance)
                extents = (MemberPart(0, size, offset),) if size else ()
                self._add(entry, Member(kind, size, source=shared, extents=extents, allocated=size))
            else:
                size = self._stored(entry, data)
                extents = (MemberPart(0, size, data),) if size else ()
                self._add(
                    entry, Member(kind, size, source=self._source, extents=extents, allocated=size)
                )

    def _placed(self) -> dict[int, int]:
        """Give where the data of each entry begins; no two entries share a byte."""
        placed: dict[int, int] = {}
        end = 0
        for entry in sorted(self._entries, key=lambda entry: entry.header):
            raw = self._source.read_at(entry.header, LOCAL.size)
            if entry.header < end or len(raw) < LOCAL.size:
                continue
            magic, name_bytes, extra_bytes = LOCAL.unpack(raw)
            data = entry.header + LOCAL.size + name_bytes + extra_bytes
            if magic != b"PK\3\4" or data > self._source.size:
                continue
            placed[id(entry)] = data
            end = data + entry.packed
        return placed

    def _add(self, entry: ZipEntry, member: Member) -> None:
        self.members.add(entry.name, member._replace(mtime_ns=entry.mtime_ns, mode=entry.mode))

    def _unpack(
        self, entry: ZipEntry, data: int, copy: TemporaryCopy, advance: Callable[[int], None]
    ) -> int:
        """Unpack a member; give the bytes that could be."""
        begin = copy.size
        try:
            for piece in self._inflated(entry, data):
                copy.append(piece)
                advance(len(piece))
        except (DamagedZip, zlib.error) as error:
            self.members.trouble(entry.name, f"cannot be unpacked to its end: {error}")
        size = copy.size - begin
        if size < entry.size:
            self.members.trouble(entry.name, f"{size:,} of its {entry.size:,} bytes are there")
        return size

    def _inflated(self, entry: ZipEntry, data: int) -> Iterator[bytes]:
        """Yield what a member has, piece by piece: no more than it says.

        Raises:
            DamagedZip: it is not what it says.
            zlib.error: it cannot be unpacked.
        """
        stream, waiting, crc, left = zlib.decompressobj(-zlib.MAX_WBITS), b"", 0, entry.size
        end = data + entry.packed
        while not stream.eof:
            if not waiting:
                waiting = self._source.read_at(data, min(INPUT_BYTES, end - data))
                data += len(waiting)
            piece = stream.decompress(waiting, PIECE_BYTES)
            if not piece and not waiting:
                _refuse("its data is cut off")
            waiting = stream.unconsumed_tail
            crc, left = zlib.crc32(piece, crc), left - len(piece)
            if left < 0:
                _refuse("it has more bytes than it says")
            yield piece
        if crc != entry.crc:
            _refuse("its CRC differs")

    def _stored(self, entry: ZipEntry, data: int) -> int:
        """Give the bytes of a member that is not compressed."""
        size = min(entry.size, entry.packed, self._source.size - data)
        if size < entry.size:
            self.members.trouble(entry.name, f"{size:,} of its {entry.size:,} bytes are there")
        return size

    def _target(self, entry: ZipEntry, data: int) -> str:
        """Give where a link leads to; its content says so."""
        if entry.method == STORED:
            raw = self._source.read_at(data, min(entry.size, entry.packed, LONGEST_TARGET))
            return raw.decode("utf-8", "surrogateescape")
        try:
            raw = next(self._inflated(entry, data))
        except (DamagedZip, zlib.error) as error:
            self.members.trouble(entry.name, f"cannot be unpacked: {error}")
            return ""
        return raw[:LONGEST_TARGET].decode("utf-8", "surrogateescape")


def _entries(source: OpenFile, spend: Callable[[int], None]) -> Iterator[ZipEntry]:
    """Yield the entries of the directory; what they cost is paid before they are read.

    Raises:
        DamagedZip: there is no directory, or it is damaged.
        UnreadablePath: they cost too much.
    """
    count, size, position = _directory(source)
    spend(count * ENTRY_STEPS + size)
    raw = source.read_at(position, size)
    at = 0
    for _ in range(count):
        if at + ENTRY.size > size:
            _refuse(f"the entry at its byte {at:,} is cut off")
        entry, at = _entry(raw, at)
        if entry.header + LOCAL.size > source.size:
            _refuse(f"a member past the end, at byte {entry.header:,}")
        yield entry


def _directory(source: OpenFile) -> tuple[int, int, int]:
    """Give how many entries there are, the bytes that they take, and where they begin."""
    begin = max(source.size - END.size - 0xFFFF, 0)
    tail = source.read_at(begin, source.size - begin)
    at = tail.rfind(b"PK\5\6")
    if at < 0 or at + END.size > len(tail):
        _refuse("it is not there")
    *_, count, size, position, _ = END.unpack_from(tail, at)
    end = begin + at
    locator = source.read_at(end - LOCATOR_64.size, LOCATOR_64.size) if end > END_64.size else b""
    if locator.startswith(b"PK\6\7"):
        end = LOCATOR_64.unpack(locator)[2]
        end_64 = source.read_at(end, END_64.size)
        if len(end_64) < END_64.size or not end_64.startswith(b"PK\6\6"):
            _refuse("its end is not where it says")
        *_, count, size, position = END_64.unpack(end_64)
    if size > DIRECTORY_BYTES:
        _refuse(f"it has {size:,} bytes; at most {DIRECTORY_BYTES:,} are read")
    if position + size > end or count * ENTRY.size > size:
        _refuse(f"{count:,} members in {size:,} bytes at {position:,}")
    return count, size, position


def _entry(raw: bytes, at: int) -> tuple[ZipEntry, int]:
    """Read an entry; give the position past it, too."""
    (
        magic, _, system, flags, method, time, date, crc, packed, size,
        name_bytes, extra_bytes, note_bytes, attributes, header,
    ) = ENTRY.unpack_from(raw, at)  # fmt: skip
    if magic != b"PK\1\2":
        _refuse(f"the entry at its byte {at:,} is damaged")
    at += ENTRY.size
    end = at + name_bytes + extra_bytes + note_bytes
    if end > len(raw):
        _refuse(f"the entry at its byte {at:,} is cut off")
    name = raw[at : at + name_bytes].decode(
        "utf-8" if flags & UTF_8 else "cp437", "surrogateescape"
    )
    extra = raw[at + name_bytes : at + name_bytes + extra_bytes]
    size, packed, header = _long(extra, (size, packed, header))
    mode = attributes >> 16 if system == UNIX else 0
    return ZipEntry(name, flags, method, date, time, crc, packed, size, mode, header), end


def _long(extra: bytes, numbers: tuple[int, int, int]) -> tuple[int, ...]:
    """Take what does not fit 32 bits from the extra field, in this order."""
    at = 0
    while LONG in numbers and at + FIELD.size <= len(extra):
        kind, length = FIELD.unpack_from(extra, at)
        at += FIELD.size
        if kind == FIELD_64:
            longer = memoryview(extra)[at : at + length]
            values = (longer[first : first + 8] for first in range(0, length, 8))
            return tuple(
                int.from_bytes(next(values, b""), "little") if number == LONG else number
                for number in numbers
            )
        at += length
    return numbers


def _refuse(reason: str) -> NoReturn:
    raise DamagedZip(reason)
