"""A directory of many files that many processes write, each file there completely or not at all.

For `export`, whose files are made by executors on other machines: no process sees them all, so
they cannot be staged as one. A file is made in `_staging` (or, for a remote file system, in the
local directory for temporary files) and moved to its name at once. Names that begin with `_` are
ours, and readers of data leave them out.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rmqtool.errors import UnreadablePath, WriteFailed
from rmqtool.store.place import EntryKind, Place
from rmqtool.store.remote import RemotePlace, place_of, reason_of
from rmqtool.writing.staging import DiskSync, write_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

STAGING: Final = "_staging"
_PIECE_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class Dataset:
    """A directory to write; small and picklable.

    Attributes:
        place: where it is.
    """

    place: Place

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
        """Whether anything is there.

        Raises:
            UnreadablePath: the file system refused.
        """
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
        if not isinstance(self.place, RemotePlace):
            with write_errors(self), contextlib.suppress(FileExistsError):
                Path(self.place.location).mkdir()

    def read(self, name: str, limit: int) -> bytes | None:
        """Read a file that was written here; None when there is none.

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
            with write_errors(file.path):
                Path(file.path).write_bytes(data)
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
        is_local = not isinstance(place, RemotePlace)
        above = Path(self._place(STAGING).location) if is_local else Path(tempfile.gettempdir())
        with write_errors(above):
            above.mkdir(exist_ok=True)
        # Another machine may try the same task at the same time.
        return NewFile(place, str(above / f"rmqtool-{uuid.uuid4().hex}"))

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
            elif is_directory:
                shutil.rmtree(place.location)
            else:
                Path(place.location).unlink()

    def _place(self, name: str) -> Place:
        place = self.place
        for part in name.split("/"):
            if part in {"", ".", ".."} or "\0" in part:
                raise WriteFailed(path=f"{self}/{name}", reason="cannot be the name of a file")
            place = place.child(part)
        return place


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file while it is made.

    Attributes:
        place: what it will be.
        path: where it is made, on this machine.
    """

    place: Place
    path: str

    def commit(self) -> int:
        """Give it its name; return its length.

        Raises:
            WriteFailed: the system refused.
        """
        staged = Path(self.path)
        with _errors(self.place):
            size = staged.stat().st_size
            if isinstance(self.place, RemotePlace):
                _upload(staged, self.place)
                return size
            DiskSync().path(staged)
            target = Path(self.place.location)
            target.parent.mkdir(parents=True, exist_ok=True)
            staged.replace(target)
        return size

    def discard(self) -> None:
        """Remove what was not committed."""
        with contextlib.suppress(OSError):
            Path(self.path).unlink()


@contextlib.contextmanager
def _errors(place: Place) -> Iterator[None]:
    """Turn what a file system says into WriteFailed."""
    try:
        with write_errors(place):
            yield
    except UnreadablePath as error:
        raise WriteFailed(path=str(place), reason=error.reason) from error
    except (ValueError, NotImplementedError) as error:
        raise WriteFailed(path=str(place), reason=reason_of(error)) from error


def _upload(staged: Path, place: RemotePlace) -> None:
    """Copy a whole local file; an object appears when its upload ends."""
    with staged.open("rb") as file, place.file_system().open_output_stream(place.path) as stream:
        while piece := file.read(_PIECE_BYTES):
            stream.write(piece)
