"""Members of a tar: headers by `tarfile`, contents stay where they are.

`tarfile` reads a header's extensions into memory and trusts their numbers, so it reads through a
file that counts: a header of a stranger takes a bounded number of bytes and steps. An archive that
ends without its two blocks of zeros is cut.
"""

from __future__ import annotations

import stat
import tarfile
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from rmqtool.archives.stream import Stream
from rmqtool.store.archive import Member, MemberPart
from rmqtool.store.entry import EntryKind

if TYPE_CHECKING:
    from rmqtool.archives.members import Members
    from rmqtool.store.place import OpenFile

BLOCK: Final = tarfile.BLOCKSIZE
HEADER_BYTES: Final = 8 << 20  # of one member: long names, and where a sparse file has its data
HEADER_READS: Final = 20_000
PADDING_BYTES: Final = 1 << 20  # past the end mark: tar fills its last record with zeros
# What tarfile raises on a header of a stranger; RecursionError: extensions of extensions.
DAMAGED: Final = (
    tarfile.TarError,
    ValueError,
    LookupError,
    OverflowError,
    RecursionError,
    EOFError,
)
KINDS: Final = {tarfile.DIRTYPE: EntryKind.DIRECTORY, tarfile.SYMTYPE: EntryKind.LINK}
FORMATS: Final = {EntryKind.DIRECTORY: stat.S_IFDIR, EntryKind.FILE: stat.S_IFREG}
NANO: Final = 1_000_000_000


class _Headers(Stream):
    """A file of which one header may read only so much."""

    def __init__(self, source: OpenFile) -> None:
        super().__init__(source, HEADER_BYTES)
        self.begin()

    def begin(self) -> None:
        """Begin the header of another member."""
        self._bytes = self._reads = 0

    def read(self, count: int = -1) -> bytes:
        """Read so many bytes; fewer at the end."""
        self._bytes += max(count, 0)
        self._reads += 1
        if count < 0 or self._bytes > HEADER_BYTES or self._reads > HEADER_READS:
            message = "a header is too large"
            raise ValueError(message)
        return super().read(count)


class _Tar(tarfile.TarFile):
    members: list[tarfile.TarInfo]  # what it keeps of all that it has read


def read_tar(source: OpenFile, members: Members) -> None:
    """Add the members of a tar; whatever it holds, damage ends in `members.cut`.

    Args:
        source: the tar; its members are stretches of it.
        members: takes them.

    Raises:
        UnreadablePath: the disk refused, or there are too many members.
    """
    headers = _Headers(source)
    end = 0
    try:
        tar = _Tar(fileobj=headers, encoding="utf-8", errors="surrogateescape")
        while True:
            headers.begin()
            found = tar.next()
            tar.members = []
            if found is None:
                break
            if found.size < 0 or tar.offset <= end:
                members.cut(f"the header at byte {found.offset:,} of the archive is damaged")
                return
            end = tar.offset
            _add(source, members, found)
    except DAMAGED as error:
        members.cut(f"it cannot be read past byte {end:,}: {error}")
        return
    _check_end(source, end, members)


def _check_end(source: OpenFile, end: int, members: Members) -> None:
    """Look for the end mark, and for what somebody put past it."""
    tail = source.read_at(end, PADDING_BYTES)
    if len(tail) < BLOCK:
        members.cut(f"it ends at byte {source.size:,}, without the end mark of a tar")
    elif any(tail[:BLOCK]):
        members.cut(f"the header at byte {end:,} of the archive is damaged")
    elif any(tail) or source.size > end + PADDING_BYTES:
        members.cut(f"what follows its end mark at byte {end:,} is not read")


def _add(source: OpenFile, members: Members, found: tarfile.TarInfo) -> None:
    kind = EntryKind.FILE if found.isreg() else KINDS.get(found.type, EntryKind.OTHER)
    if found.islnk():
        linked = members.archive.member(members.path_of(found.linkname))
        if linked is None or linked.kind is not EntryKind.FILE:
            members.trouble(found.name, "a hard link to no file of the archive: left out")
            return
        members.add(found.name, linked)
        return
    extents: tuple[MemberPart, ...] = ()
    size = 0
    if kind is EntryKind.FILE:
        size, extents = _extents(source, found)
        if size < found.size:
            members.trouble(found.name, f"{size:,} of its {found.size:,} bytes are there")
    member = Member(
        kind,
        size,
        int(found.mtime * NANO),
        found.uid,
        found.gid,
        FORMATS.get(kind, 0) | stat.S_IMODE(found.mode),
        found.linkname,
        source,
        extents,
    )
    members.add(found.name, member)


def _extents(source: OpenFile, found: tarfile.TarInfo) -> tuple[int, tuple[MemberPart, ...]]:
    """Give the bytes of a member that can be read, and where its data is.

    Raises:
        ValueError: its map of holes contradicts itself.
    """
    holes = getattr(found, "sparse", None)  # ends in pieces of no length
    pieces = [(0, found.size)] if holes is None else [hole for hole in holes if hole[1]]
    offsets = accumulate((length for _, length in pieces), initial=found.offset_data)
    extents: list[MemberPart] = []
    end = 0
    for (position, length), offset in zip(pieces, offsets, strict=False):
        if length < 0 or position < end or position + length > found.size:
            message = "a map of holes contradicts itself"
            raise ValueError(message)
        there = min(length, source.size - offset)
        if there > 0:
            extents.append(MemberPart(position, there, offset))
        if there < length:
            return position + max(there, 0), tuple(extents)
        end = position + length
    return found.size, tuple(extents)
