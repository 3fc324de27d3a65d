"""A directory for temporary files that lives as long as this process.

Spark makes its warehouse, of which nothing here has a use, in the working directory unless it is
told another one; results of tasks on this machine are put down here on their way, see `spool`.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX: Final = "rmqtool-"


@cache
def _directory() -> tempfile.TemporaryDirectory[str]:
    """Make it; it is removed when this process ends."""
    return tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)


def place_for(name: str) -> str:
    """Give a path that nothing else uses; nothing is there yet."""
    return f"{_directory().name}/{name}"


@contextmanager
def job_directory() -> Iterator[str]:
    """Make a directory that is removed at the end of the block, with all that is in it."""
    with tempfile.TemporaryDirectory(dir=_directory().name, ignore_cleanup_errors=True) as path:
        yield path
