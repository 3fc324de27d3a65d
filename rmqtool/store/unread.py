"""Files of a queue or log that are there and cannot be read: nothing is known of their stretch."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from rmqtool.errors import Trouble, UnreadablePath
from rmqtool.store.entry import EntryKind
from rmqtool.store.segment import NAME_DIGITS, OddityKind, start_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store.segment import MappedFiles, Oddity

REASONS: Final = {
    OddityKind.LINK: "a link, which is not followed",
    OddityKind.NOT_A_FILE: "neither a file nor a directory",
    OddityKind.DIRECTORY: "a directory in place of a file",
}


def error_of(oddity: Oddity) -> UnreadablePath | None:
    """Say why an oddity is something that cannot be read; None when it is another one."""
    reason, trouble = REASONS.get(oddity.kind, ""), oddity.trouble
    if oddity.kind is OddityKind.UNREADABLE:
        reason = oddity.actual
    elif oddity.kind is OddityKind.MISSING and trouble is Trouble.LINK:
        reason = f"{oddity.actual}, where nothing is"
    elif oddity.kind is OddityKind.LINK:
        trouble = Trouble.LINK
    name = oddity.path.rpartition("/")[2]
    is_segment = len(name) == NAME_DIGITS and start_of(name) is not None
    if not reason or (oddity.kind is OddityKind.DIRECTORY and not is_segment):
        return None
    return UnreadablePath(path=oddity.path, reason=reason, trouble=trouble)


def no_file(path: str, kind: EntryKind) -> UnreadablePath:
    """Say that something has the name of a file, but is not one."""
    trouble = Trouble.LINK if kind is EntryKind.LINK else Trouble.OTHER
    reason = f"a {kind} in place of a file"
    if kind is EntryKind.OTHER:
        reason = REASONS[OddityKind.NOT_A_FILE]
    return UnreadablePath(path=path, reason=reason, trouble=trouble)


def unread_stretches(files: MappedFiles) -> Iterator[tuple[Oddity, int, int]]:
    """Yield what has the name of a segment and cannot be read, with its begin and end."""
    for oddity in files.oddities:
        start = start_of(oddity.path.rpartition("/")[2])
        if start is not None and error_of(oddity):
            yield oddity, start, start + files.file_length


class UnreadStretches:
    """The same, ordered once: a directory may have as many holes as unreadable files."""

    def __init__(self, files: MappedFiles) -> None:
        self._starts = sorted(start for _, start, _ in unread_stretches(files))
        self._length = files.file_length

    def has(self, start: int, end: int) -> bool:
        """Tell whether a stretch without a file is there, but cannot be read."""
        number = bisect_right(self._starts, start) - 1
        return number >= 0 and end <= self._starts[number] + self._length
