"""Places inside of an archive: the same face as a local `Place`, read by ranges, never unpacked.

Nothing of an archive ever becomes a name in a file system: members are stretches of the archive
itself, or of one temporary file that holds what was compressed (`archives/`). So `..`, absolute
paths, links and devices of a stranger lead nowhere. A location is `backup.tar.gz!/store/commitlog`
and is shown as `backup.tar.gz!store/commitlog`; people may type either.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from rmqtool.errors import Trouble, UnreadablePath
from rmqtool.store.entry import Entry, EntryKind, printable
from rmqtool.store.place import SEPARATOR, OpenFile, Place, no_file, not_a_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

INSIDE: Final = f"{SEPARATOR}/"
MOST_LINKS: Final = 40  # as Linux follows
OPENED: Final[dict[str, Archive]] = {}  # by absolute path; a process opens an archive once


class MemberPart(NamedTuple):
    """A stretch of a member that holds data; between two of them are zeros."""

    position: int  # in the member, bytes
    length: int  # bytes
    offset: int  # in the member's source, bytes


class Member(NamedTuple):
    """One name in an archive."""

    kind: EntryKind  # of the name itself
    size: int = 0  # bytes that can be read
    mtime_ns: int = 0  # last change, ns since 1970 UTC
    owner: int | None = None  # number of the user; None where the archive does not say it
    group: int = 0  # number of the group
    mode: int = 0  # permission bits
    target: str = ""  # where a link leads to
    source: OpenFile | None = None  # holds the data
    extents: tuple[MemberPart, ...] = ()  # where in the source, by position, disjoint
    allocated: int = 0  # bytes of all extents


@dataclass
class Archive:
    """An archive whose members are known."""

    location: str  # absolute path of the archive
    # members by name, by the path of their directory; the top is ""
    directories: dict[str, dict[str, Member]] = field(default_factory=lambda: {"": {}})
    # what is missing of the archive, by path: it is not whole
    troubles: dict[str, str] = field(default_factory=dict)

    def member(self, path: str) -> Member | None:
        """Give what a path stands for; links are not followed."""
        if not path:
            return Member(EntryKind.DIRECTORY)
        above, _, name = path.rpartition("/")
        return self.directories.get(above, {}).get(name)


@dataclass(frozen=True, slots=True)
class ArchivePlace(Place):
    """A directory or file inside of an archive that this process has opened."""

    def __str__(self) -> str:
        return printable(self.location.replace(INSIDE, SEPARATOR, 1))

    @property
    def path(self) -> str:
        """Path inside of the archive."""
        return self.location.partition(INSIDE)[2]

    @property
    def name(self) -> str:
        """Last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> Self:
        """The directory that holds this place; itself at the top."""
        return self._at(self.path.rpartition("/")[0])

    @property
    def troubles(self) -> Sequence[tuple[str, str]]:
        """What is missing, so that nothing in the archive is called sound."""
        name = self.archive.location.rpartition("/")[2]
        return [
            (printable(f"{name}{SEPARATOR}{path}" if path else name), reason)
            for path, reason in self.archive.troubles.items()
        ]

    def child(self, name: str) -> Self:
        """Give the place of a name in this directory."""
        return self._at(f"{self.path}/{name}" if self.path else name)

    def outside(self, path: str) -> ArchivePlace:
        """Give the place of an absolute path of the machine that the archive was made on."""
        return self._at(posixpath.normpath(path).lstrip("/"))

    def resolved(self) -> ArchivePlace:
        """Give the place that a link leads to inside of the archive, there or not.

        Raises:
            UnreadablePath: the link leads into a loop.
        """
        place: ArchivePlace = self
        for _ in range(MOST_LINKS):
            member = place._member()
            if member is None or member.kind is not EntryKind.LINK:
                return place
            above = place.path.rpartition("/")[0]
            place = place.outside(posixpath.join(f"/{above}", member.target))
        raise UnreadablePath(path=str(self), reason="the links lead into a loop")

    def stat(self) -> Entry | None:
        """Say what is here, without following a link; None when nothing is."""
        member = self._member()
        return None if member is None else _entry(self.name, member)

    def names(self) -> list[tuple[str, EntryKind]]:
        """List this directory, sorted by name."""
        return sorted((name, member.kind) for name, member in self._members().items())

    def entries(self) -> list[Entry]:
        """List this directory, sorted by name. Raises UnreadablePath: it is no directory."""
        return [_entry(name, member) for name, member in sorted(self._members().items())]

    def open(self) -> OpenFile:
        """Open a member for reading. Raises UnreadablePath: missing, or not a regular file."""
        member = self._member()
        if member is None:
            raise no_file(str(self))
        if member.kind is not EntryKind.FILE:
            raise not_a_file(str(self), member.kind)
        return ArchiveFile(self, member)

    @property
    def archive(self) -> Archive:
        """The archive. Raises UnreadablePath: this process has not opened it."""
        path = self.location.partition(INSIDE)[0]
        archive = OPENED.get(path)
        if archive is None:
            reason = "the archive is read by one process only: unpack it first"
            raise UnreadablePath(path=str(self), reason=reason, trouble=Trouble.EXPLAINED)
        return archive

    def _at(self, path: str) -> Self:
        return type(self)(f"{self.location.partition(INSIDE)[0]}{INSIDE}{path}")

    def _member(self) -> Member | None:
        return self.archive.member(self.path)

    def _members(self) -> dict[str, Member]:
        members = self.archive.directories.get(self.path)
        if members is None:
            reason = "no such file or directory" if self._member() is None else "not a directory"
            raise UnreadablePath(path=str(self), reason=reason, trouble=Trouble.MISSING)
        return members


class ArchiveFile(OpenFile):
    """A member, open for positioned reads; its source stays open with the archive."""

    __slots__ = ("_extents", "_source", "_starts", "_stored")

    def __init__(self, place: Place, member: Member) -> None:
        OpenFile.__init__(self, place, -1, member.size)
        self._source, self._extents = member.source, member.extents
        self._stored = min(member.size, member.allocated)
        self._starts = [extent.position for extent in member.extents]

    @property
    def stored(self) -> int:
        """Bytes that somebody really sent: a hole may be of any length."""
        return self._stored

    def fileno(self) -> int:
        """Refuse: locks of a member do not exist. Raises UnreadablePath: always."""
        raise UnreadablePath(path=str(self.place), reason="inside of an archive: no descriptor")

    def read_into(self, buffer: Buffer, position: int) -> int:
        """Fill a writable buffer from `position` on; return the bytes read.

        Raises:
            UnreadablePath: the disk refused (a bad sector, a lost mount).
        """
        view = memoryview(buffer).cast("B")
        wanted = min(len(view), self.size - position) if position >= 0 else 0
        done = 0
        while done < wanted:
            extent, begin, end = self._piece(position + done, position + wanted)
            piece = view[done : done + end - begin]
            if extent is None or self._source is None:
                piece[:] = bytes(end - begin)
            else:
                offset = extent.offset + begin - extent.position
                count = self._source.read_into(piece, offset)
                if count < end - begin:  # the archive was cut while it is read
                    return done + count
            done += end - begin
        return max(done, 0)

    def next_data(self, position: int) -> int | None:
        """Give the first byte at or past a position that is not in a hole; None without one."""
        while position < self.size:
            extent, _, end = self._piece(position, self.size)
            if extent is not None and self._source is not None:
                offset = extent.offset + position - extent.position
                data_at = self._source.next_data(offset)
                if data_at is not None and position + data_at - offset < end:
                    return position + data_at - offset
            position = end
        return None

    def next_hole(self, position: int) -> int:
        """Give where the next hole begins; the size where there is not one."""
        while position < self.size:
            extent, _, end = self._piece(position, self.size)
            if extent is None or self._source is None:
                return position
            offset = extent.offset + position - extent.position
            hole = position + self._source.next_hole(offset) - offset
            if hole < end:
                return hole
            position = end
        return self.size

    def _piece(self, position: int, end: int) -> tuple[MemberPart | None, int, int]:
        """Give the extent that holds a position, None in a hole, and how far it goes."""
        number = bisect_right(self._starts, position) - 1
        if number >= 0:
            extent = self._extents[number]
            if position < extent.position + extent.length:
                return extent, position, min(end, extent.position + extent.length)
        following = self._starts[number + 1] if number + 1 < len(self._starts) else end
        return None, position, min(end, following)

    def _pread(self, length: int, position: int) -> bytes:
        buffer = bytearray(length)
        return bytes(buffer[: self.read_into(buffer, position)])


def inside(path: str) -> ArchivePlace | None:
    """Give the place inside of an archive that a path names; None when no open archive has it."""
    above, separator, inner = path.partition(SEPARATOR)
    while separator:
        archive = Place.of(above).location
        if archive in OPENED:
            return ArchivePlace(f"{archive}{INSIDE}{inner.strip('/')}")
        more, separator, inner = inner.partition(SEPARATOR)
        above = f"{above}{SEPARATOR}{more}"
    return None


def _entry(name: str, member: Member) -> Entry:
    owner = (member.owner, member.group, member.mode)
    return Entry(name, member.kind, member.size, member.mtime_ns, member.allocated, 0, *owner)
