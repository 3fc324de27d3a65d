"""Reads that the disk refuses, so that none is ever passed over without a word.

Most who ask say what they could not read. Some only look for a hint, and do without: for the
release, for lengths. What such a read would have told is missing all the same. So each refusal is
noted where it happens, and whoever answers for a command tells of it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.errors import UnreadablePath

MOST: Final = 1000  # that are kept; a disk may have any number of bad sectors
_LISTENING: Final[list[dict[str, UnreadablePath]]] = []


@contextmanager
def refused_reads() -> Iterator[dict[str, UnreadablePath]]:
    """Collect the reads that fail in this process until the block ends.

    Returns:
        The first refusal of each file, by the path of the file; at most `MOST`. It fills up while
        the block runs.
    """
    refused: dict[str, UnreadablePath] = {}
    _LISTENING.append(refused)
    try:
        yield refused
    finally:
        _LISTENING[:] = [listener for listener in _LISTENING if listener is not refused]


def note_refused(error: UnreadablePath) -> None:
    """Tell all who listen that a read has failed."""
    for refused in _LISTENING:
        if len(refused) < MOST:
            refused.setdefault(error.path, error)
