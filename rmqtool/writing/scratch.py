"""A directory for temporary files that lives as long as this process, and that nobody else enters.

`mkdtemp` gives it a name that cannot be foretold, and makes it for this user alone (0700): nobody
can have put a link in its place. Spark makes its warehouse, of which nothing here has a use, in the
working directory unless it is told another one; results of tasks on this machine are put down here
on their way, see `spool`.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Final

from rmqtool.writing.directory import Directory
from rmqtool.writing.staging import write_all, write_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX: Final = "rmqtool-"


@cache
def _directory() -> tempfile.TemporaryDirectory[str]:
    """Make it; it is removed when this process ends."""
    with write_errors(tempfile.gettempdir()):
        return tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)


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
    """Write a new file; give its path.

    Raises:
        WriteFailed: the system refused.
    """
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
