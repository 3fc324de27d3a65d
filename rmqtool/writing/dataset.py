"""A directory of many files that many processes write, each file there completely or not at all.

For `export`, whose files are made by executors on other machines: no process sees them all, so
they cannot be staged as one. A file is made in `_staging` (or, for a remote file system, on this
machine, where it has no name) and moved to its name at once. Names that begin with `_` are ours,
and readers of data leave them out.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rmqtool.errors import Trouble, UnreadablePath, WriteFailed
from rmqtool.store.address import place_of
from rmqtool.store.anchors import keep
from rmqtool.store.entry import EntryKind
from rmqtool.store.place import Place
from rmqtool.store.remote import RemotePlace, reason_of
from rmqtool.writing.directory import Directory, Spot, spot_of
from rmqtool.writing.staging import DiskSync, write_errors
from rmqtool.writing.system_calls import rename_over

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

STAGING: Final = "_staging"
_BUFFERED_BYTES: Final = 1 << 20
_PIECE_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class Dataset:
    """A directory to write; small and picklable."""

    place: Place  # where it is

    @classmethod
    def of(cls, path: str) -> Dataset:
        """Give the directory that a path or a URI names, there or not.

        Raises:
            UnreadablePath: the URI is malformed.
        """
        return cls(place_of(path) if Place.is_uri(path) else Place(str(Path(path).absolute())))

    def __str__(self) -> str:
        return str(self.place)

    def exists(self) -> bool:
        """Whether anything is there. Raises UnreadablePath: the file system refused."""
        return self.place.stat() is not None

    def names(self) -> list[str]:
        """Give the names in the directory; none when it is not there.

        Raises:
            UnreadablePath: it is a file, or may not be listed.
        """
        return [name for name, _ in self.place.names()] if self.exists() else []

    def files(self, above: str = "") -> Iterator[str]:
        """Yield the files in the directory and below it, without those of ours.

        Args:
            above: a directory in it; all of it by default.

        Raises:
            UnreadablePath: a directory may not be listed.
        """
        place = self._place(above) if above else self.place
        for name, kind in place.names():
            path = f"{above}/{name}" if above else name
            if kind is EntryKind.DIRECTORY and not name.startswith("_"):
                yield from self.files(path)
            elif kind is EntryKind.FILE and not name.startswith("_"):
                yield path

    def make(self) -> None:
        """Create the directory; the one that holds it must be there.

        Raises:
            WriteFailed: the system refused.
        """
        if isinstance(self.place, RemotePlace):
            return
        location, opened = self.place.location, None
        with write_errors(self), contextlib.ExitStack() as stack:
            spot = spot_of(location)
            stack.enter_context(spot.directory)
            with contextlib.suppress(FileExistsError):
                spot.directory.make(spot.name)
                opened = stack.enter_context(spot.directory.enter(spot.name)).handle
            keep(location, opened)

    def read(self, name: str, limit: int) -> bytes | None:
        """Read a file that was written here; None without one.

        Raises:
            UnreadablePath: it is there and cannot be read.
        """
        place = self._place(name)
        entry = place.stat()
        return None if entry is None or entry.kind is not EntryKind.FILE else place.read(limit)

    def write(self, name: str, data: bytes) -> None:
        """Write a small file, in place of one of that name.

        Raises:
            WriteFailed: the system refused.
        """
        file = self.new_file(name)
        try:
            with write_errors(file.place):
                file.stream.write(data)
            file.commit()
        finally:
            file.discard()

    def new_file(self, name: str) -> NewFile:
        """Stage a file; `NewFile.commit` makes it `name`, in place of one of that name.

        Args:
            name: relative, `/` separated.

        Raises:
            WriteFailed: the system refused.
        """
        place = self._place(name)
        if isinstance(place, RemotePlace):
            with write_errors(tempfile.gettempdir()):
                return NewFile(place, tempfile.TemporaryFile(buffering=_BUFFERED_BYTES))
        with write_errors(self), Directory.at(self.place.location) as top:
            with contextlib.suppress(FileExistsError):
                top.make(STAGING)
            staging = top.enter(STAGING)
            try:
                # Another machine may try the same task at the same time.
                staged = Spot(staging, f"rmqtool-{uuid.uuid4().hex}")
                stream = os.fdopen(staging.create(staged.name), "wb", _BUFFERED_BYTES)
            except BaseException:
                staging.close()
                raise
        return NewFile(place, stream, staged, (self.place.location, *name.split("/")))

    def remove(self, name: str) -> None:
        """Remove a file or a directory that was written here, if it is there.

        Raises:
            WriteFailed: the system refused.
        """
        place = self._place(name)
        entry = place.stat()
        if entry is None:
            return
        is_directory = entry.kind is EntryKind.DIRECTORY
        with _errors(place):
            if isinstance(place, RemotePlace):
                system = place.file_system()
                (system.delete_dir if is_directory else system.delete_file)(place.path)
            else:
                *above, last = name.split("/")
                with Directory.at(self.place.location) as top, top.enter(*above) as directory:
                    directory.remove(last)

    def _place(self, name: str) -> Place:
        place = self.place
        for part in name.split("/"):
            if part in {"", ".", ".."} or "\0" in part:
                raise WriteFailed(
                    path=f"{self}/{name}",
                    reason="cannot be the name of a file",
                    trouble=Trouble.NAME,
                )
            place = place.child(part)
        return place


@dataclass(slots=True)
class NewFile:
    """A file while it is made."""

    place: Place  # what it will be
    stream: IO[bytes]  # what is written to
    staged: Spot | None = None  # where it is made; None where it has no name before it is uploaded
    # the directory of the dataset, and the components of its name there
    target: tuple[str, ...] = ()

    def commit(self) -> int:
        """Give it its name; return its length. Raises WriteFailed: the system refused."""
        with _errors(self.place):
            self.stream.flush()
            size = os.fstat(self.stream.fileno()).st_size
            if isinstance(self.place, RemotePlace):
                _upload(self.stream, self.place)
            elif self.staged is not None:
                DiskSync().handle(self.stream.fileno())
                self._rename(self.staged)
        self._close()
        return size

    def discard(self) -> None:
        """Remove what was not committed."""
        if self.staged is not None:
            with contextlib.suppress(OSError):
                self.staged.directory.unlink(self.staged.name)
        with contextlib.suppress(OSError):
            self._close()

    def _rename(self, staged: Spot) -> None:
        """Move it to its name, through directories that are made where they are missing."""
        top, *above, last = self.target
        directory = Directory.at(top)
        try:
            for name in above:
                with contextlib.suppress(FileExistsError):
                    directory.make(name)
                with directory:
                    directory = directory.enter(name)
            rename_over(staged, Spot(directory, last))
        finally:
            directory.close()

    def _close(self) -> None:
        self.stream.close()
        if self.staged is not None:
            self.staged.directory.close()
            self.staged = None  # once it has its name, there is nothing to discard


@contextlib.contextmanager
def _errors(place: Place) -> Iterator[None]:
    """Turn what a file system says into WriteFailed."""
    try:
        with write_errors(place):
            yield
    except UnreadablePath as error:
        raise WriteFailed(path=str(place), reason=error.reason, trouble=error.trouble) from error
    except (ValueError, NotImplementedError) as error:
        raise WriteFailed(path=str(place), reason=reason_of(error)) from error


def _upload(staged: IO[bytes], place: RemotePlace) -> None:
    """Copy a whole local file; an object appears when its upload ends."""
    position = 0
    with place.file_system().open_output_stream(place.path) as stream:
        while piece := os.pread(staged.fileno(), _PIECE_BYTES, position):
            stream.write(piece)
            position += len(piece)
