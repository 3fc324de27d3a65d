"""Members of a zip: the directory by `zipfile`; what is stored stays where it is.

What is compressed is written to the temporary copy, with its CRC checked on the way.
"""

from __future__ import annotations

import calendar
import stat
import zipfile
import zlib
from typing import TYPE_CHECKING, Final

from rmqtool.archives.stream import Stream
from rmqtool.errors import Trouble, UnreadablePath
from rmqtool.store.archive import Archive, Member, MemberPart
from rmqtool.store.entry import EntryKind, printable
from rmqtool.store.place import OpenFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.writing.temporary_copy import TemporaryCopy


DIRECTORY_BYTES: Final = 64 << 20  # zipfile reads it at once; some 600,000 members of a store
PIECE_BYTES: Final = 1 << 20
UNIX: Final = 3  # the system that made a member, as far as its mode is one of Unix
LONGEST_TARGET: Final = 4096
METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
ENCRYPTED: Final = 1
DAMAGED: Final = (
    zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, LookupError, OverflowError,
    NotImplementedError, RuntimeError,
)  # fmt: skip
FORMATS: Final = {
    stat.S_IFLNK: EntryKind.LINK,
    stat.S_IFREG: EntryKind.FILE,
    0: EntryKind.FILE,  # made where there are no modes
}


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
        self._stream = Stream(source, DIRECTORY_BYTES)
        try:
            self._zip = zipfile.ZipFile(self._stream)
        except DAMAGED as error:
            reason = f"its directory, which is its end, cannot be read: {error}"
            raise UnreadablePath(
                path=members.archive.location, reason=reason, trouble=Trouble.TOLD
            ) from error
        self.unpacked_bytes = sum(one.file_size for one in self._zip.infolist() if _is_packed(one))

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
        for one in self._zip.infolist():
            kind = _kind(one)
            if kind is EntryKind.DIRECTORY or kind is EntryKind.OTHER:
                self._add(one, Member(kind))
            elif kind is EntryKind.LINK:
                self._add(one, Member(kind, target=self._target(one)))
            elif (reason := _refusal(one)) is not None:
                self.members.trouble(one.filename, reason)
            elif _is_packed(one) and copy is not None:
                offset, size = copy.size, self._unpack(one, copy, advance)
                extents = (MemberPart(0, size, offset),) if size else ()
                self._add(one, Member(kind, size, source=shared, extents=extents))
            else:
                size, offset = self._stored(one)
                extents = (MemberPart(0, size, offset),) if size else ()
                self._add(one, Member(kind, size, source=self._source, extents=extents))

    def _add(self, one: zipfile.ZipInfo, member: Member) -> None:
        mode = one.external_attr >> 16 if one.create_system == UNIX else 0
        self.members.add(one.filename, member._replace(mtime_ns=_mtime_ns(one), mode=mode))

    def _unpack(
        self, one: zipfile.ZipInfo, copy: TemporaryCopy, advance: Callable[[int], None]
    ) -> int:
        """Unpack a member; give the bytes that could be."""
        begin = copy.size
        try:
            file = self._zip.open(name=one)
        except DAMAGED as error:
            self.members.trouble(one.filename, f"cannot be unpacked: {error}")
            return 0
        with file:
            while True:
                try:
                    data = file.read(PIECE_BYTES)
                except DAMAGED as error:
                    self.members.trouble(one.filename, f"cannot be unpacked to its end: {error}")
                    break
                if not data:
                    break
                copy.append(data)
                advance(len(data))
        if copy.size - begin < one.file_size:
            sentence = f"{copy.size - begin:,} of its {one.file_size:,} bytes are there"
            self.members.trouble(one.filename, sentence)
        return copy.size - begin

    def _stored(self, one: zipfile.ZipInfo) -> tuple[int, int]:
        """Give the bytes of a member that is not compressed, and where they are."""
        try:
            with self._zip.open(name=one):
                offset = self._stream.tell()  # zipfile has just read what stands before the data
        except DAMAGED as error:
            self.members.trouble(one.filename, f"cannot be read: {error}")
            return 0, 0
        size = max(min(one.file_size, self._source.size - offset), 0)
        if size < one.file_size:
            self.members.trouble(one.filename, f"{size:,} of its {one.file_size:,} bytes are there")
        return size, offset

    def _target(self, one: zipfile.ZipInfo) -> str:
        """Give where a link leads to; its content says so."""
        try:
            with self._zip.open(name=one) as file:
                return file.read(LONGEST_TARGET).decode("utf-8", "surrogateescape")
        except DAMAGED as error:
            self.members.trouble(one.filename, f"cannot be unpacked: {error}")
            return ""


def _kind(one: zipfile.ZipInfo) -> EntryKind:
    if one.is_dir():
        return EntryKind.DIRECTORY
    mode = one.external_attr >> 16 if one.create_system == UNIX else 0
    return FORMATS.get(stat.S_IFMT(mode), EntryKind.OTHER)


def _is_packed(one: zipfile.ZipInfo) -> bool:
    return one.compress_type != zipfile.ZIP_STORED and _kind(one) is EntryKind.FILE


def _refusal(one: zipfile.ZipInfo) -> str | None:
    if one.flag_bits & ENCRYPTED:
        return "is encrypted: left out"
    if one.compress_type not in METHODS:
        return f"is compressed by method {one.compress_type}, which is not read: left out"
    return None


def _mtime_ns(one: zipfile.ZipInfo) -> int:
    """Give the last change; a zip has the local time of whoever made it, read here as UTC."""
    try:
        return calendar.timegm((*one.date_time, 0, 0, 0)) * 1_000_000_000
    except (ValueError, OverflowError):
        return 0


# Which names of an archive count: what is refused is said, and makes the archive incomplete.


MOST_MEMBERS: Final = 1_000_000  # some 370 MiB of memory and 13 s of CPU
MOST_DEPTH: Final = 64
LONGEST_PATH: Final = 4096  # as Linux has it
TROUBLES_NAMED: Final = 20


class Members:
    """Collects the members of an archive.

    Attributes:
        archive: what is collected into.
        count: members and directories so far.
    """

    def __init__(self, archive: Archive) -> None:
        self.archive, self.count = archive, 0
        self._untold = 0

    def add(self, name: str, member: Member) -> None:
        """Take a member under its name, as the archive spells it.

        Raises:
            UnreadablePath: there are too many.
        """
        path = self.path_of(name)
        if not path:
            return
        above, _, last = path.rpartition("/")
        directory = self._directory(above)
        if directory is None:
            self.trouble(path, "lies below a file or link of the same archive: left out")
            return
        before = directory.get(last)
        if before is not None:
            if member.kind is EntryKind.DIRECTORY is before.kind:
                directory[last] = member
                return
            self.trouble(path, "comes more than once: the last one is read")
            if before.kind is EntryKind.DIRECTORY:
                self._drop(path)
        else:
            self._grow()
        directory[last] = member
        if member.kind is EntryKind.DIRECTORY:
            self.archive.directories.setdefault(path, {})

    def path_of(self, name: str) -> str:
        """Give the path that a name means inside of the archive; empty for the top, or refused."""
        parts = [part for part in name.split("/") if part not in {"", "."}]
        reason = ""
        if ".." in parts:
            reason = "'..' in its name: left out"
        elif "\0" in name:
            reason = "a NUL in its name: left out"
        elif len(parts) > MOST_DEPTH or len(name) > LONGEST_PATH:
            reason = "its name is too long: left out"
        if reason:
            self.trouble(name[:LONGEST_PATH], reason)
            return ""
        return "/".join(parts)

    def trouble(self, path: str, reason: str) -> None:
        """Note that something of the archive is not read, or not to be relied on."""
        troubles, shown = self.archive.troubles, printable(path)
        if shown in troubles or len(troubles) < TROUBLES_NAMED:
            troubles.setdefault(shown, reason)
            return
        self._untold += 1
        troubles["…"] = f"{self._untold:,} more members are like these"

    def cut(self, reason: str) -> None:
        """Note that the archive itself is not whole."""
        self.archive.troubles.setdefault("", reason)

    def _directory(self, path: str) -> dict[str, Member] | None:
        """Give a directory, made where the archive only implies it; None below a file."""
        found = self.archive.directories.get(path)
        if found is not None:
            return found
        above, _, last = path.rpartition("/")
        parent = self._directory(above)
        if parent is None or last in parent:
            return None
        self._grow()
        parent[last] = Member(EntryKind.DIRECTORY)
        return self.archive.directories.setdefault(path, {})

    def _drop(self, path: str) -> None:
        """Forget a directory whose name is now another thing's."""
        prefix = f"{path}/"
        for one in [
            directory
            for directory in self.archive.directories
            if f"{directory}/".startswith(prefix)
        ]:
            del self.archive.directories[one]

    def _grow(self) -> None:
        self.count += 1
        if self.count > MOST_MEMBERS:
            raise UnreadablePath(
                path=self.archive.location,
                reason=f"more than {MOST_MEMBERS:,} members: unpack it if you trust it",
                trouble=Trouble.TOLD,
            )
