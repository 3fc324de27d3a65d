"""Members of a tar: the few fields of a header that a store needs; contents stay where they are.

The library's reader copies all names of a global header for each member, and believes the numbers
in headers. So headers are read here, and each is paid for from the budget of the archive. One that
ends without its two blocks of zeros is cut.
Source: POSIX pax; GNU tar, tar.h and sparse.c; observed, GNU tar 1.34.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from rmqtool.store.archive import Member, MemberPart
from rmqtool.store.entry import EntryKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.archives.members import Members
    from rmqtool.store.place import OpenFile


BLOCK: Final = 512
EXTENSION_BYTES: Final = 8 << 20  # of one member: long names, and where a sparse file has its data
PADDING_BYTES: Final = 1 << 20  # past the end mark: tar fills its last record with zeros
NANO: Final = 1_000_000_000
LARGEST_SIZE: Final = (1 << 63) - 1
LONGEST_NUMBER: Final = 24  # characters, as text
MOST_EXTENSIONS: Final = 16  # headers in a row that belong to the next member
# What things cost, see `budget`.
HEADER_STEPS: Final = 100
PIECE_STEPS: Final = 400  # of a map of holes: each is a read of its own

CHECKSUM: Final = slice(148, 156)
REGULAR: Final = frozenset(b"0\0007S")
KINDS: Final = {ord("5"): EntryKind.DIRECTORY, ord("2"): EntryKind.LINK}
HARD_LINK: Final = ord("1")
WITHOUT_DATA: Final = frozenset(b"123456")  # whatever their size says
LONG_NAME, LONG_LINK, GNU_SPARSE = ord("L"), ord("K"), ord("S")
PAX, SOLARIS_PAX, GLOBAL_PAX = ord("x"), ord("X"), ord("g")
FORMATS: Final = {EntryKind.DIRECTORY: stat.S_IFDIR, EntryKind.FILE: stat.S_IFREG}
USED_KEYS: Final = frozenset(
    (
        b"path", b"linkpath", b"size", b"uid", b"gid", b"mtime", b"GNU.sparse.map",
        b"GNU.sparse.name", b"GNU.sparse.size", b"GNU.sparse.realsize", b"GNU.sparse.major",
    )
)  # fmt: skip
OFFSET_KEY, LENGTH_KEY = b"GNU.sparse.offset", b"GNU.sparse.numbytes"
OLD_PIECES: Final = 4  # of a map of holes in a header, and
MORE_PIECES: Final = 21  # in each block that follows it


class DamagedHeader(ValueError):
    """A header that cannot be read; its text says why."""


class DataPiece(NamedTuple):
    """A stretch of a sparse member that has data."""

    position: int  # in the member, bytes
    length: int  # bytes


@dataclass
class PaxValues:
    """What the headers before a member say about it."""

    values: dict[bytes, bytes] = field(default_factory=dict)  # of those in `USED_KEYS`
    pieces: list[int] = field(default_factory=list)  # of a map of holes: position, length, …


@dataclass
class TarHeader:
    """One member."""

    kind: int  # as tar has it
    name: str
    target: str  # of a link
    size: int  # bytes of the file; more than there are of data where it is sparse
    stored: int  # bytes of data
    data: int  # where its data begins
    mode: int
    owner: tuple[int, int]  # numbers of user and group
    mtime_ns: int
    pieces: list[DataPiece] | None = None  # where a sparse member has its data


def read_tar(source: OpenFile, members: Members) -> None:
    """Add the members of a tar; whatever it holds, damage ends in `members.cut`.

    Args:
        source: the tar; its members are stretches of it.
        members: takes them.

    Raises:
        UnreadablePath: the disk refused, or there are too many members.
    """
    reader = _HeaderReader(source, members)
    try:
        for header in reader.headers():
            _add(source, members, header)
    except ValueError as error:
        members.cut(f"it cannot be read past byte {reader.end:,}: {error}")
        return
    _check_end(source, reader.end, members)


def is_header(raw: bytes) -> bool:
    """Tell by its checksum whether a block is a header; those before POSIX have no magic number."""
    if len(raw) < BLOCK or not any(raw):
        return False
    try:
        stored = _number(raw[CHECKSUM])
    except DamagedHeader:
        return False
    blank = raw[:148] + b" " * 8 + raw[156:]
    total = sum(blank)
    return stored in {total, total - 256 * sum(byte > 127 for byte in blank)}  # noqa: PLR2004 - signed bytes


class _HeaderReader:
    """Reads headers, one after the other."""

    def __init__(self, source: OpenFile, members: Members) -> None:
        self._source, self._spend = source, members.spend
        self.end = 0  # past the last member
        self._global: dict[bytes, bytes] = {}

    def headers(self) -> Iterator[TarHeader]:
        """Yield the members, up to a block that is not a header.

        Raises:
            DamagedHeader: one contradicts itself.
            UnreadablePath: they cost too much.
        """
        extension, position, waiting = PaxValues(), 0, 0
        while (raw := self._block(position)) is not None:
            kind = raw[156]
            if kind in {PAX, SOLARIS_PAX, GLOBAL_PAX, LONG_NAME, LONG_LINK}:
                waiting += 1
                if waiting > MOST_EXTENSIONS:
                    _refuse("too many extended headers in a row")
                size = _number(raw[124:136])
                content = self._extension(position + BLOCK, size)
                position += BLOCK + _padded(size)
                if kind == GLOBAL_PAX:
                    self._global |= self._pax(content).values
                elif kind in {LONG_NAME, LONG_LINK}:
                    key = b"path" if kind == LONG_NAME else b"linkpath"
                    extension.values[key] = content.split(b"\0", 1)[0]
                else:
                    extension = self._pax(content, extension)
                continue
            header = self._header(raw, position + BLOCK, extension)
            position = header.data + (0 if kind in WITHOUT_DATA else _padded(header.stored))
            if position > LARGEST_SIZE:
                _refuse(f"a member of {header.stored:,} bytes")
            self.end = position
            yield header
            extension, waiting = PaxValues(), 0
        if waiting:
            _refuse("an extended header without a member")

    def _block(self, position: int) -> bytes | None:
        """Read a header; None where there is not one."""
        self._spend(HEADER_STEPS)
        raw = self._source.read_at(position, BLOCK)
        return raw if is_header(raw) else None

    def _extension(self, position: int, size: int) -> bytes:
        """Read what an extended header holds."""
        if size > EXTENSION_BYTES:
            _refuse("a header is too large")
        self._spend(size)
        raw = self._source.read_at(position, size)
        if len(raw) < size:
            _refuse("an extended header is cut off")
        return raw

    def _pax(self, raw: bytes, extension: PaxValues | None = None) -> PaxValues:
        """Take records apart; of those that are not used nothing is kept."""
        pax_values = extension or PaxValues()
        position = 0
        while position < len(raw) and raw[position]:
            space = raw.find(b" ", position, position + LONGEST_NUMBER)
            length = _decimal(raw[position:space]) if space > 0 else 0
            end = position + length
            if space + 1 >= end or end > len(raw) or raw[end - 1] != ord("\n"):
                _refuse("a record of an extended header is damaged")
            equals = raw.find(b"=", space, min(end, space + LONGEST_NUMBER))
            if equals > 0:
                key = raw[space + 1 : equals]
                if key in USED_KEYS:
                    pax_values.values[key] = raw[equals + 1 : end - 1]
                elif key in {OFFSET_KEY, LENGTH_KEY}:
                    self._spend(PIECE_STEPS)
                    pax_values.pieces.append(_decimal(raw[equals + 1 : end - 1]))
            position = end
        return pax_values

    def _header(self, raw: bytes, data: int, extension: PaxValues) -> TarHeader:
        values = self._global | extension.values
        kind = raw[156]
        name = values.get(b"path", _text(raw[0:100]))
        if b"path" not in values and raw[257:263] == b"ustar\0" and raw[345]:
            name = _text(raw[345:500]) + b"/" + name
        if kind in REGULAR and b"path" not in values and name.endswith(b"/"):
            kind = ord("5")  # as before POSIX
        size = _decimal(values[b"size"]) if b"size" in values else _number(raw[124:136])
        header = TarHeader(
            kind,
            _name(values.get(b"GNU.sparse.name", name)).rstrip("/"),
            _name(values.get(b"linkpath", _text(raw[157:257]))),
            size,
            size,
            data,
            _number(raw[100:108]),
            (_owner(values, b"uid", raw[108:116]), _owner(values, b"gid", raw[116:124])),
            _mtime(values, raw[136:148]),
        )
        if kind == GNU_SPARSE:
            self._old_sparse(raw, header)
        elif kind in REGULAR:
            self._sparse(header, values, extension.pieces)
        return header

    def _old_sparse(self, raw: bytes, header: TarHeader) -> None:
        """Read the map of GNU's own format: in the header, and in blocks that follow it."""
        header.pieces = []
        self._add_old(header.pieces, raw[386:482], OLD_PIECES)
        header.size, is_more = _number(raw[483:495]), raw[482]
        while is_more:
            self._spend(HEADER_STEPS)
            block = self._source.read_at(header.data, BLOCK)
            if len(block) < BLOCK:
                _refuse("a map of holes is cut off")
            self._add_old(header.pieces, block, MORE_PIECES)
            header.data += BLOCK
            is_more = block[504]

    def _add_old(self, pieces: list[DataPiece], raw: bytes, count: int) -> None:
        for at in range(0, 24 * count, 24):
            if not raw[at]:
                return
            self._spend(PIECE_STEPS)
            pieces.append(DataPiece(_number(raw[at : at + 12]), _number(raw[at + 12 : at + 24])))

    def _sparse(self, header: TarHeader, values: dict[bytes, bytes], pieces: list[int]) -> None:
        """Read the map of a pax header, or of the beginning of the data (1.0)."""
        size = values.get(b"GNU.sparse.size", values.get(b"GNU.sparse.realsize"))
        if values.get(b"GNU.sparse.major") == b"1":
            numbers, used = self._map_in_data(header)
            header.data += used
            header.stored -= used
        elif b"GNU.sparse.map" in values:
            text = values[b"GNU.sparse.map"]
            self._spend(PIECE_STEPS * (text.count(b",") // 2 + 1))
            numbers = [*map(_decimal, text.split(b","))]
        elif pieces:
            numbers = pieces
        else:
            return
        if size is None or len(numbers) % 2:
            _refuse("a map of holes contradicts itself")
        header.size = _decimal(size)
        header.pieces = [*map(DataPiece, numbers[::2], numbers[1::2])]

    def _map_in_data(self, header: TarHeader) -> tuple[list[int], int]:
        """Give the numbers before the data of a member, and the bytes that they take."""
        lines, position, wanted = [b""], 0, 1
        while len(lines) <= wanted:
            self._spend(HEADER_STEPS + BLOCK)
            block = self._source.read_at(header.data + position, BLOCK)
            position += BLOCK
            if len(block) < BLOCK or position > header.stored:
                _refuse("a map of holes is cut off")
            first, *others = block.split(b"\n")
            if len(lines[-1]) > LONGEST_NUMBER:
                _refuse("a map of holes contradicts itself")
            lines[-1] += first
            lines += others
            self._spend(PIECE_STEPS * len(others) // 2)
            if len(lines) > 1:
                wanted = 2 * _decimal(lines[0]) + 1
        return [*map(_decimal, lines[1:wanted])], position


def _add(source: OpenFile, members: Members, header: TarHeader) -> None:
    is_file = header.kind in REGULAR
    kind = EntryKind.FILE if is_file else KINDS.get(header.kind, EntryKind.OTHER)
    if header.kind == HARD_LINK:
        linked = members.archive.member(members.path_of(header.target))
        if linked is None or linked.kind is not EntryKind.FILE:
            members.trouble(header.name, "a hard link to no file of the archive: left out")
            return
        members.add(header.name, linked)
        return
    extents: tuple[MemberPart, ...] = ()
    size = 0
    if is_file:
        size, extents = _extents(source, header)
        if size < header.size:
            members.trouble(header.name, f"{size:,} of its {header.size:,} bytes are there")
    member = Member(
        kind,
        size,
        header.mtime_ns,
        *header.owner,
        FORMATS.get(kind, 0) | stat.S_IMODE(header.mode),
        header.target,
        source,
        extents,
        sum(extent.length for extent in extents),
    )
    members.add(header.name, member)


def _extents(source: OpenFile, header: TarHeader) -> tuple[int, tuple[MemberPart, ...]]:
    """Give the bytes of a member that can be read, and where its data is.

    Raises:
        DamagedHeader: its map of holes contradicts itself.
    """
    pieces = header.pieces
    if pieces is None:
        there = min(header.size, max(source.size - header.data, 0))
        return there, (MemberPart(0, there, header.data),) if there else ()
    _check_pieces(pieces, header)
    pieces = [piece for piece in pieces if piece.length]  # a map ends in one of no length
    offsets = accumulate((piece.length for piece in pieces), initial=header.data)
    extents: list[MemberPart] = []
    for piece, offset in zip(pieces, offsets, strict=False):
        there = min(piece.length, source.size - offset)
        if there > 0:
            extents.append(MemberPart(piece.position, there, offset))
        if there < piece.length:
            return piece.position + max(there, 0), tuple(extents)
    return header.size, tuple(extents)


def _check_pieces(pieces: list[DataPiece], header: TarHeader) -> None:
    ends = [piece.position + piece.length for piece in pieces]
    is_ordered = all(end <= piece.position for end, piece in zip(ends, pieces[1:], strict=False))
    stored = sum(piece.length for piece in pieces)
    if not is_ordered or (ends and ends[-1] > header.size) or stored > header.stored:
        _refuse("a map of holes contradicts itself")


def _check_end(source: OpenFile, end: int, members: Members) -> None:
    """Look for the end mark, and for what somebody put past it."""
    tail = source.read_at(end, PADDING_BYTES)
    if len(tail) < BLOCK:
        members.cut(f"it ends at byte {source.size:,}, without the end mark of a tar")
    elif any(tail[:BLOCK]):
        members.cut(f"the header at byte {end:,} of the archive is damaged")
    elif any(tail) or source.size > end + PADDING_BYTES:
        members.cut(f"what follows its end mark at byte {end:,} is not read")


def _refuse(reason: str) -> NoReturn:
    raise DamagedHeader(reason)


def _text(raw: bytes) -> bytes:
    return raw.split(b"\0", 1)[0]


def _name(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _decimal(raw: bytes) -> int:
    """Read a number without a sign. Raises DamagedHeader: it is not one, or too large."""
    if not raw.isdigit() or len(raw) > LONGEST_NUMBER:
        _refuse("a number of a header is damaged")
    number = int(raw)
    if number > LARGEST_SIZE:
        _refuse("a number of a header is too large")
    return number


def _number(raw: bytes) -> int:
    """Read a number of a header: octal, or big-endian where the first bit says so."""
    if raw[0] == 0x80:  # noqa: PLR2004 - as GNU tar has it
        number = int.from_bytes(raw[1:], "big")
        if number > LARGEST_SIZE:
            _refuse("a number of a header is too large")
        return number
    text = _text(raw).strip()
    if not text:
        return 0
    if not text.isdigit() or b"8" in text or b"9" in text:
        _refuse("a number of a header is damaged")
    return int(text, 8)


def _owner(values: dict[bytes, bytes], key: bytes, raw: bytes) -> int:
    return _decimal(values[key]) if key in values else _number(raw)


def _mtime(values: dict[bytes, bytes], raw: bytes) -> int:
    """Give the last change in ns; a pax header has parts of a second."""
    if b"mtime" not in values:
        return _signed(raw) * NANO
    seconds, _, part = values[b"mtime"].partition(b".")
    is_before = seconds.startswith(b"-")
    whole = _decimal(seconds.removeprefix(b"-")) * NANO
    parts = _decimal(part[:9].ljust(9, b"0")) if part else 0
    return -(whole + parts) if is_before else whole + parts


def _signed(raw: bytes) -> int:
    if raw[0] == 0xFF:  # noqa: PLR2004 - a negative number, as GNU tar has it
        return int.from_bytes(raw, "big", signed=True)
    return _number(raw)
