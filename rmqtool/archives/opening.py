"""Open archives: what they are, what must be unpacked, and which stores are in them."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rmqtool.archives.members import Members
from rmqtool.archives.stream import Stream
from rmqtool.archives.tarred import BLOCK, is_header, read_tar
from rmqtool.errors import Trouble, UnreadablePath, WriteFailed
from rmqtool.store.address import place_of
from rmqtool.store.archive import INSIDE, OPENED, Archive, ArchivePlace
from rmqtool.store.containers import (
    CONTAINERS,
    ENDINGS,
    GZIP,
    TAR,
    ZIP,
    ZSTD,
    Container,
    container_of,
)
from rmqtool.store.entry import EntryKind, printable
from rmqtool.store.place import SEPARATOR, OpenFile, Place
from rmqtool.writing.temporary_copy import TemporaryCopy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


PIECE_BYTES: Final = 64 << 10  # of a damaged stream the piece with the damage is lost


@dataclass
class OpenArchives:
    """What the archives of one command line are."""

    # bytes that a temporary copy may take; None is what the disk has to spare
    limit: int | None = None
    notes: list[str] = field(default_factory=list)  # sentences for whoever typed the command
    is_whole: bool = True  # nothing is missing of any of them, as far as that can be told
    _kept: ExitStack = field(default_factory=ExitStack)

    def add(self, path: str, advance: Callable[[int], None]) -> ArchivePlace:
        """Open an archive for as long as this lives; give its top.

        Args:
            path: of the archive, as typed.
            advance: takes the bytes that were unpacked.

        Raises:
            UnreadablePath: it cannot be read, is no archive, or has too many members.
            WriteFailed: there is no room for what was compressed.
        """
        place = place_of(path)
        top = ArchivePlace(f"{place.location}{INSIDE}")
        if place.location in OPENED:
            return top
        archive = Archive(place.location)
        source = place.open()
        self._kept.callback(source.close)
        members = Members(archive, source.stored)
        try:
            self._read(path, source, members, advance)
        except WriteFailed as error:
            raise WriteFailed(path=path, reason=error.reason, trouble=error.trouble) from error
        self.notes += list(_inner(path, archive))
        OPENED[place.location] = archive
        self._kept.callback(OPENED.pop, place.location, None)
        if archive.troubles:
            self.is_whole = False
            self.notes += list(_incomplete(path, archive))
        return top

    def close(self) -> None:
        """Forget the archives; temporary copies are gone."""
        self._kept.close()

    def _read(
        self, path: str, source: OpenFile, members: Members, advance: Callable[[int], None]
    ) -> None:
        head = source.read_at(0, BLOCK)
        container = container_of(head)
        if container is ZIP:
            self._unzip(path, source, members, advance)
        elif container is not None and container.is_compressed:
            copy = self._copy(source)
            copy.require(source.size)
            unpack(source, container, copy, members.cut, advance)
            self._say(path, copy)
            unpacked = OpenFile(source.place, copy.handle, copy.size)
            if container_of(unpacked.read_at(0, BLOCK)) not in {TAR, None}:
                reason = "unpacks to an archive again, which is not opened: unpack it first"
                raise UnreadablePath(path=path, reason=reason, trouble=Trouble.EXPLAINED)
            read_tar(unpacked, members)
        elif container is TAR or is_header(head) or not head.strip(b"\0"):
            read_tar(source, members)
        else:
            names = ", ".join(container.name for container in CONTAINERS)
            reason = f"none of {names}: it is cut at its beginning, or damaged"
            raise UnreadablePath(path=path, reason=reason, trouble=Trouble.EXPLAINED)

    def _unzip(
        self, path: str, source: OpenFile, members: Members, advance: Callable[[int], None]
    ) -> None:
        from rmqtool.archives.zipped import Zip

        unzipped = Zip(source, members)
        if not unzipped.unpacked_bytes:
            unzipped.read(None, advance)
            return
        copy = self._copy(source)
        unzipped.read(copy, advance)
        self._say(path, copy)

    def _copy(self, source: OpenFile) -> TemporaryCopy:
        return self._kept.enter_context(TemporaryCopy(self.limit, source.stored))

    def _say(self, path: str, copy: TemporaryCopy) -> None:
        self.notes.append(
            f"{path}: unpacked into a temporary file in {copy.directory}: {copy.size:,} bytes, "
            "which are gone when rmqtool ends"
        )


@contextmanager
def opening(limit: int | None = None) -> Iterator[OpenArchives]:
    """Let archives be opened in the block."""
    opened = OpenArchives(limit)
    try:
        yield opened
    finally:
        opened.close()


def unpack(
    source: OpenFile,
    container: Container,
    copy: TemporaryCopy,
    cut: Callable[[str], None],
    advance: Callable[[int], None],
) -> None:
    """Unpack one compressed stream; where it is cut or damaged, what comes before it counts.

    Args:
        source: the compressed file.
        container: how it is compressed.
        copy: takes the bytes.
        cut: is told why there is no more, where that is not the end.
        advance: takes the bytes that were unpacked.

    Raises:
        WriteFailed: see `TemporaryCopy.append`.
    """
    from isal import isal_zlib

    damage: Any = isal_zlib.error  # the stubs say that it is no exception
    stream = STREAMS[container](source)
    while True:
        try:
            data = stream.read(PIECE_BYTES)
        except (OSError, EOFError, ValueError, damage) as error:
            notes = str(error).rstrip(".")
            cut(f"it cannot be unpacked past byte {copy.size:,}: {notes}")
            return
        if not data:
            return
        copy.append(data)
        advance(len(data))


def _gunzip(source: OpenFile) -> Any:  # noqa: ANN401 - a stream; isal has few types
    from isal import igzip

    opened: Any = igzip.IGzipFile
    return opened(fileobj=Stream(source, PIECE_BYTES, skips_hole=True), mode="rb")


def _unzstd(source: OpenFile) -> Any:  # noqa: ANN401 - pyarrow has no types
    import pyarrow as pa

    return pa.CompressedInputStream(pa.PythonFile(Stream(source, PIECE_BYTES), mode="r"), "zstd")


STREAMS: Final[dict[Container, Callable[[OpenFile], Any]]] = {GZIP: _gunzip, ZSTD: _unzstd}


def _inner(path: str, archive: Archive) -> Iterator[str]:
    """Say that archives in an archive are not opened: each level may hold a thousand others."""
    stores = [
        f"{above}/{name}" if above else name
        for above, members in archive.directories.items()
        for name, member in members.items()
        if member.kind is EntryKind.FILE and name.endswith(ENDINGS)
    ]
    if stores:
        more = f" (and {len(stores) - 1:,} more)" if len(stores) > 1 else ""
        first = f"{printable(path)}{SEPARATOR}{printable(stores[0])}{more}"
        yield f"{first}: an archive in an archive is not opened: unpack it first"


def _incomplete(path: str, archive: Archive) -> Iterator[str]:
    """Say what is missing of an archive."""
    for member, reason in archive.troubles.items():
        shown = f"{printable(path)}{SEPARATOR}{member}" if member else printable(path)
        yield f"{shown}: {reason}"
    yield f"{printable(path)} is not whole: nothing in it is proven sound"


def start_of(top: Place) -> Place:
    """Go down from the top of an archive while there is only one way."""
    place = top
    while True:
        entry = place.stat()
        if entry is None or entry.kind is not EntryKind.DIRECTORY:
            return place
        names = place.names()
        if len(names) != 1 or names[0][1] not in {EntryKind.DIRECTORY, EntryKind.FILE}:
            return place
        place = place.child(names[0][0])
