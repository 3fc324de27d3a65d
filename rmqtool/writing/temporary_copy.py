"""What was compressed in an archive, in one temporary file that has no name.

The file is made in the private directory of this process (`scratch`) and its name is removed at
once: the system frees it when the process ends, however it ends. A run of zeros becomes a hole.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Final

from rmqtool.errors import Trouble, WriteFailed
from rmqtool.writing.directory import Directory
from rmqtool.writing.leftovers import PREFIX, hold, sweep
from rmqtool.writing.staging import write_all, write_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self


NAME: Final = "unpacked"
CHECK_EACH: Final = 16 << 20  # bytes, before the disk is asked again
RESERVE_BYTES: Final = 1 << 30  # others need the disk, too: so much, or a tenth of it, stays free
RESERVE_PART: Final = 10
# A MiB of zstd may hold 32 GiB of zeros: no room on the disk, but seconds a GiB in each command.
FREE_BYTES: Final = 16 << 30
TIMES: Final = 64


class TemporaryCopy:
    """Takes bytes in order; a limit bounds them.

    Attributes:
        directory: where the file is.
        size: bytes so far, zeros included.

    Args:
        limit: bytes at most, zeros included; None is what the disk has to spare, and what an
            archive of its size may ask for.
        packed_bytes: of the archive.

    Raises:
        WriteFailed: there is no place for temporary files.
    """

    def __init__(self, limit: int | None, packed_bytes: int) -> None:
        self.directory = tempfile.gettempdir()
        self.size = 0
        path = place_for(NAME)
        above, _, name = path.rpartition("/")
        with write_errors(path), Directory.at(above) as directory:
            self.handle = directory.create(name, 0o600)
            os.unlink(name, dir_fd=directory.handle)
        if limit is None:
            limit = min(self._spare(), FREE_BYTES + TIMES * packed_bytes)
        self.limit = limit
        self._next_check = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the file."""
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1

    def require(self, count: int) -> None:
        """Refuse bytes that are announced and are too many. Raises WriteFailed: see `append`."""
        if self.size + count > self.limit:
            reason = (
                f"unpacked, it has more than {self.limit:,} bytes; --unpack-limit is how many it "
                f"may take in {self.directory}, and TMPDIR names another directory"
            )
            raise WriteFailed(path="archive", reason=reason, trouble=Trouble.EXPLAINED)

    def append(self, data: bytes) -> None:
        """Take the next bytes.

        Raises:
            WriteFailed: more than the limit, or than the disk has to spare.
        """
        self.require(len(data))
        if self.size >= self._next_check:
            self._next_check = self.size + CHECK_EACH
            if self._spare() < CHECK_EACH:
                reason = f"the disk of {self.directory} is nearly full; TMPDIR names another one"
                raise WriteFailed(path=self.directory, reason=reason, trouble=Trouble.EXPLAINED)
        with write_errors(self.directory):
            if data.count(0) == len(data):
                os.ftruncate(self.handle, self.size + len(data))
            else:
                write_all(self.handle, data, self.size)
        self.size += len(data)

    def _spare(self) -> int:
        """Give the bytes that the disk has free and nobody needs."""
        disk = os.fstatvfs(self.handle)
        reserve = min(RESERVE_BYTES, disk.f_blocks * disk.f_frsize // RESERVE_PART)
        return max(disk.f_bavail * disk.f_frsize - reserve, 0)


# A directory for temporary files that lives as long as this process, and that nobody else enters.
#
# `mkdtemp` gives it a name that cannot be foretold, and makes it for this user alone (0700): nobody
# can have put a link in its place. Spark makes its warehouse, of which nothing here has a use, in
# the
# working directory unless it is told another one; results of tasks on this machine are put down
# here
# on their way, see `spool`.


@cache
def _directory() -> tempfile.TemporaryDirectory[str]:
    """Make it; it is removed when this process ends, or by the next one if this is killed."""
    with write_errors(tempfile.gettempdir()):
        sweep(tempfile.gettempdir())
        made = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
    hold(made.name)
    return made


def place_for(name: str) -> str:
    """Give a path that nothing else uses; nothing is there yet.

    Raises:
        WriteFailed: there is no place for temporary files.
    """
    return f"{_directory().name}/{name}"


def top() -> str:
    """Give the directory itself, which only this user enters.

    Raises:
        WriteFailed: there is no place for temporary files.
    """
    return _directory().name


def put(name: str, data: bytes) -> str:
    """Write a new file; give its path. Raises WriteFailed: the system refused."""
    path = place_for(name)
    with write_errors(path), Directory.at(_directory().name) as directory:
        handle = directory.create(name, 0o600)
        try:
            write_all(handle, data, 0)
        finally:
            os.close(handle)
    return path


@contextmanager
def job_directory() -> Iterator[str]:
    """Make a directory that is removed at the end of the block, with all that is in it."""
    with tempfile.TemporaryDirectory(dir=_directory().name, ignore_cleanup_errors=True) as path:
        yield path
