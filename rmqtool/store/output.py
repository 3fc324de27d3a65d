"""The only module that writes: new files, complete or not at all, and never over another."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from rmqtool.errors import OutputExists, RepairError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def new_file(path: str) -> Iterator[BinaryIO]:
    """Open a file that does not exist yet; it appears, whole and on disk, when the block ends.

    It is staged beside its place; when the block fails nothing is left behind.

    Raises:
        OutputExists: something has that name already.
        RepairError: the directory cannot be written to.
    """
    target = Path(path)
    staged = target.with_name(f".{target.name}.rmqtool-{os.getpid()}")
    if os.path.lexists(target):
        raise OutputExists(path=path, reason="exists already; nothing is overwritten")
    with _refusals(path):
        stream = staged.open("xb")
    try:
        yield stream
        with _refusals(path):
            stream.flush()
            os.fsync(stream.fileno())
            stream.close()
            _appear(staged, target)
            sync_directory(target.parent)
    finally:
        _drop(stream)
        staged.unlink(missing_ok=True)


def _drop(stream: BinaryIO) -> None:
    """Close a stream; what it still holds was refused before, and is given up."""
    try:
        stream.close()
    except OSError:
        return


@contextmanager
def _refusals(path: str) -> Iterator[None]:
    """Turn what the system refuses into our own error."""
    try:
        yield
    except FileExistsError as error:
        raise OutputExists(path=path, reason="exists already; nothing is overwritten") from error
    except OSError as error:
        raise RepairError(path=path, reason=error.strerror or str(error)) from error


def _appear(staged: Path, target: Path) -> None:
    """Give the staged file its name; unlike a rename, a link never replaces what came since."""
    try:
        os.link(staged, target)
    except OSError as error:
        if error.errno not in {errno.EPERM, errno.ENOTSUP}:
            raise
        staged.rename(target)  # a file system without links


def sync_directory(path: Path) -> None:
    """Put a directory's names on disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
