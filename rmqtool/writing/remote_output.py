"""New trees on remote file systems, where nothing can be renamed: staged here, then uploaded.

An upload begins with the object `_INCOMPLETE` and ends by removing it: who finds it knows that
the upload was killed. An error while uploading removes what was uploaded. Objects have the time
of the upload; mtimes that were asked for are lost, and so are empty directories.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import TYPE_CHECKING, Final, Self, TypeVar

from rmqtool.errors import OutputExists, Trouble, UnreadablePath, WriteFailed
from rmqtool.store.address import place_of
from rmqtool.store.remote import RemotePlace, reason_of
from rmqtool.writing.directory import Spot, spot_of
from rmqtool.writing.output import OutputDirectory
from rmqtool.writing.output_tree import OutputTree
from rmqtool.writing.staging import DiskSync, write_errors

if TYPE_CHECKING:
    from collections.abc import Callable

INCOMPLETE: Final = "_INCOMPLETE"
_PIECE_BYTES: Final = 8 << 20
Answer = TypeVar("Answer")


def output_directory(path: str | os.PathLike[str]) -> OutputDirectory:
    """Give the directory to write that a path or a URI names.

    Raises:
        UnreadablePath: the URI is malformed.
    """
    if not isinstance(path, str) or not RemotePlace.is_uri(path):
        return OutputDirectory(path)
    place = place_of(path)
    return (
        RemoteOutputDirectory(place)
        if isinstance(place, RemotePlace)
        else OutputDirectory(place.location)
    )


class RemoteOutputDirectory(OutputDirectory):
    """A new tree of objects; a context manager. It is uploaded when the block ends.

    Args:
        place: the target; nothing may be there.
    """

    def __init__(self, place: RemotePlace) -> None:
        self._place = place
        self._uploaded: list[str] = []
        self._spot: Spot | None = None

    def __enter__(self) -> Self:
        """Make a local directory for the files.

        Raises:
            OutputExists: the target is there.
            WriteFailed: the system refused.
        """
        self._refuse_existing()
        with write_errors(tempfile.gettempdir()):
            self._spot = spot_of(tempfile.mkdtemp(prefix="rmqtool-"))
            top = self._spot.directory.enter(self._spot.name)
        OutputTree.__init__(self, top, DiskSync())
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._upload()
        finally:
            self.top.close()
            if self._spot is not None:
                with contextlib.suppress(OSError), self._spot.directory as above:
                    above.remove(self._spot.name)

    def _refuse_existing(self) -> None:
        entry = self._place.stat()
        if entry is None:
            return
        reason = "exists already"
        if self._place.child(INCOMPLETE).stat() is not None:
            reason = f"holds what a killed run left, as {INCOMPLETE} tells: remove it all first"
        raise OutputExists(path=str(self._place), reason=reason)

    def _upload(self) -> None:
        self._refuse_existing()  # meanwhile somebody else may have written there
        try:
            self._put(INCOMPLETE, None)
            files, _ = self.contents()
            for name, file in sorted(files.items()):
                with file.writing() as handle:
                    self._put(name, handle)
            self._remove(INCOMPLETE)
        except BaseException:
            for name in reversed(self._uploaded):  # the mark goes last
                with contextlib.suppress(WriteFailed):
                    self._remove(name)
            raise

    def _put(self, name: str, source: int | None) -> None:
        place = self._place.child(name)
        self._uploaded.append(name)
        _ask(place, lambda: _copy(source, place))

    def _remove(self, name: str) -> None:
        place = self._place.child(name)
        _ask(place, lambda: place.file_system().delete_file(place.path))


def _copy(source: int | None, place: RemotePlace) -> None:
    position = 0
    with place.file_system().open_output_stream(place.path) as stream:
        while source is not None and (piece := os.pread(source, _PIECE_BYTES, position)):
            stream.write(piece)
            position += len(piece)


def _ask(place: RemotePlace, question: Callable[[], Answer]) -> Answer:
    """Ask the file system; its refusal becomes a WriteFailed."""
    try:
        return question()
    except UnreadablePath as error:
        raise WriteFailed(path=str(place), reason=error.reason, trouble=error.trouble) from error
    except (OSError, ValueError, NotImplementedError) as error:
        raise WriteFailed(
            path=str(place), reason=reason_of(error), trouble=Trouble.of(error)
        ) from error
