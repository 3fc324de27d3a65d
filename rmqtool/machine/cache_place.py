"""Where machine code may be kept: beside the modules, or in directories of the user's own.

What lies there is run, so a directory counts only if nobody else can have put anything into it:
`writing.private_place` says which.
"""

from __future__ import annotations

import os
import pwd
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.writing import private_place

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

OWN: Final = "rmqtool"  # the directory in the user's cache


class CacheDirectory(NamedTuple):
    """A directory for machine code, and who may read what is put there."""

    path: str  # absolute
    directory_mode: int = 0o700  # of directories that are made
    file_mode: int = 0o600  # of files


def installed() -> CacheDirectory:
    """Give the directory beside the modules, where `rmqtool warm-up` puts code for all users."""
    beside = Path(__file__).resolve().parent / "__pycache__" / "kernels"
    return CacheDirectory(str(beside), 0o755, 0o644)


def own() -> list[CacheDirectory]:
    """Give the directories of the user's own, the one to take first first.

    A home that belongs to another user is not one: `sudo` may keep that of who called it.
    """
    found = [os.environ.get("NUMBA_CACHE_DIR", ""), _below(os.environ.get("XDG_CACHE_HOME", ""))]
    found.append(_below(os.environ.get("HOME", ""), ".cache"))
    with suppress(KeyError):  # a container may run as a user whom nobody knows
        found.append(_below(pwd.getpwuid(os.geteuid()).pw_dir, ".cache"))
    return [CacheDirectory(path) for path in dict.fromkeys(found) if path.startswith("/")]


def _below(place: str, *names: str) -> str:
    return "/".join([place, *names, OWN]) if place else ""


def opened(place: CacheDirectory, *, makes: bool = False) -> AbstractContextManager[int]:
    """Open a directory in which machine code may lie; give its descriptor.

    Args:
        place: which.
        makes: make it, and what is missing above it.

    Raises:
        Untrusted: another user may write there.
        OSError: it is not there, or cannot be made.
    """
    return private_place.opened(place.path, makes=makes, mode=place.directory_mode)
