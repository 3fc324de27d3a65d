"""New files and directories that are there completely or not at all.

`OutputDirectory` is a new tree (written as `output_tree.py` says), `OutputFile` a single file:
staged beside the target, brought to the disk, renamed. While a tree is staged nobody but its
writer can enter it.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rmqtool.errors import OutputExists, Trouble, WriteFailed
from rmqtool.store.address import place_of
from rmqtool.store.entry import EntryKind
from rmqtool.writing.output_tree import OutputTree
from rmqtool.writing.staging import DiskSync, Staging, write_all, write_errors

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import BinaryIO, TextIO

    from typing_extensions import Buffer

    from rmqtool.store.place import Place


def refuse_within(store: Place, target: str | os.PathLike[str]) -> None:
    """Refuse a target that lies in what is read: evidence would grow while it is copied.

    Raises:
        WriteFailed: it does.
    """
    if place_of(target).location.startswith(f"{store.location.rstrip('/')}/"):
        raise WriteFailed(
            path=str(target),
            reason="lies in the store, where nothing is written",
            trouble=Trouble.IN_STORE,
        )


def refuse_targets(stores: Sequence[str], *targets: str | None) -> None:
    """Refuse a report that cannot or must not be written, before anything is read.

    Raises:
        OutputExists: a target is there.
        WriteFailed: there is no directory for it, or it lies in a store.
    """
    roots = [place_of(store) for store in stores]
    taken: set[Place] = set()
    for target in filter(None, targets):
        place = place_of(target)
        if place in taken:
            raise OutputExists(
                path=target,
                reason="is asked for twice; choose another name",
                trouble=Trouble.EXPLAINED,
            )
        taken.add(place)
        for root in roots:
            refuse_within(root, target)
        if place.stat() is not None:
            raise OutputExists(
                path=target, reason="exists already; choose another name", trouble=Trouble.EXPLAINED
            )
        parent = place.parent.stat()
        if parent is None or parent.kind is not EntryKind.DIRECTORY:
            raise WriteFailed(
                path=target, reason="there is no such directory", trouble=Trouble.MISSING
            )


class OutputDirectory(OutputTree):
    """A new directory tree; a context manager. It appears, complete, when the block ends.

    On an error in the block nothing appears and nothing stays behind.

    Args:
        path: the target; must not exist, its parent must.
        mode: of the directory, at most; the umask counts, too.
    """

    def __init__(self, path: str | os.PathLike[str], *, mode: int = 0o777) -> None:
        self._sync = DiskSync()
        self._staging = Staging(Path(path), self._sync)
        self._staging.mode = mode

    def __enter__(self) -> Self:
        """Stage the directory.

        Raises:
            OutputExists: the target is there.
            WriteFailed: the system refused.
        """
        try:
            self._staging.open(directory=True)
        except BaseException:
            self._staging.discard()
            raise
        assert self._staging.top is not None  # noqa: S101 - it is open
        super().__init__(self._staging.top, self._sync)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.finish()
                self._staging.commit()
        finally:
            self._staging.discard()


class OutputFile:
    """A single new file; a context manager. It appears, complete, when the block ends.

    Args:
        path: the target.
        overwrite: whether a regular file that is there may be replaced.
    """

    binary: BinaryIO  # what to write bytes to
    text: TextIO  # what to write text to (UTF-8); use one of the two

    def __init__(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        self._sync = DiskSync()
        self._staging = Staging(Path(path), self._sync, overwrite=overwrite)

    @property
    def fsync_seconds(self) -> float:
        """Seconds that were spent waiting for the disk."""
        return self._sync.seconds

    def __enter__(self) -> Self:
        """Stage the file.

        Raises:
            OutputExists: the target is there.
            WriteFailed: the system refused.
        """
        try:
            self._staging.open(directory=False)
            self._raw = _Raw(self._staging)
            self.binary = io.BufferedWriter(self._raw)
            self.text = io.TextIOWrapper(self.binary, "utf-8", "backslashreplace", newline="")
        except BaseException:
            self._staging.discard()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.text.flush()
                with write_errors(self._staging.target):
                    self._sync.handle(self._staging.handle)
                self._staging.commit()
        finally:
            self._raw.is_ended = True
            self.text.close()
            self._staging.discard()


class _Raw(io.RawIOBase):
    """Writes to a staged file; says `WriteFailed`, which a bare file object would not."""

    def __init__(self, staging: Staging) -> None:
        super().__init__()
        self._staging = staging
        self._position = 0
        self.is_ended = False

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        length = memoryview(data).nbytes
        if not self.is_ended:  # what is still buffered after an error goes nowhere
            with write_errors(self._staging.target):
                write_all(self._staging.handle, data, self._position)
            self._position += length
        return length
