"""Directories that the user named, kept open while a command runs: each is looked up once.

A path is looked up anew at each call of the system, and whoever owns a directory on the way may put
another one there meanwhile. So what lies below a kept directory is looked up from there, by its
descriptor. Outside of a command, as when rmqtool is a library, paths are looked up as they are.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST: Final = 16  # that are kept; each costs a comparison at each look
# O_PATH asks for no right to read.
_FLAGS: Final = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
# Each with its path, what begins all paths below it, and the length of that; the innermost first.
_KEPT: Final[list[tuple[str, str, int, int]]] = []
_OPEN: Final[list[int]] = []  # all that were opened: who looks just now may use one
_COMMANDS: Final[list[int]] = []  # processes whose commands run; a child has those of its parent


@contextmanager
def anchored() -> Iterator[None]:
    """Keep directories until the block ends."""
    _COMMANDS.append(os.getpid())
    try:
        yield
    finally:
        _COMMANDS.pop()
        if not _COMMANDS:
            _KEPT.clear()
            for handle in _OPEN:
                with suppress(OSError):
                    os.close(handle)
            _OPEN.clear()


def keep(location: str, opened: int | None = None) -> None:
    """Keep a directory, by its absolute path; anew where another one lies there by now.

    Args:
        location: of the directory; nothing is kept where none is.
        opened: the directory, where it is open already.
    """
    if not _COMMANDS or len(_OPEN) >= MOST or location == "/":
        return
    with suppress(OSError, ValueError):
        handle = os.open(location, _FLAGS) if opened is None else os.dup(opened)
        for at, (path, *_, known) in enumerate(_KEPT):
            if path == location and os.path.sameopenfile(handle, known):
                os.close(handle)
                return
            if path == location:
                del _KEPT[at]
                break
        _OPEN.append(handle)
        _KEPT.append((location, f"{location}/", len(location) + 1, handle))
        _KEPT.sort(key=lambda anchor: -anchor[2])


def from_anchor(location: str) -> tuple[str, int | None]:
    """Give a path, and the open directory to look it up from; None where none is kept above it."""
    for path, beginning, length, handle in _KEPT:
        if location.startswith(beginning):
            return location[length:] or ".", handle
        if location == path:
            return ".", handle
    return location, None
