"""Files of a queue or log that are there and cannot be read: nothing is known of their stretch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.store.segment import NAME_DIGITS, OddityKind, start_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store.segment import MappedFiles, Oddity

REASONS: Final = {
    OddityKind.LINK: "a link, which is not followed",
    OddityKind.NOT_A_FILE: "neither a file nor a directory",
    OddityKind.DIRECTORY: "a directory in place of a file",
}


def reason_of(oddity: Oddity) -> str:
    """Say why an oddity is something that cannot be read; empty when it is another one."""
    if oddity.kind is OddityKind.UNREADABLE:
        return oddity.actual
    if oddity.kind is OddityKind.MISSING and oddity.actual:
        return f"{oddity.actual}, where nothing is"
    name = oddity.path.rpartition("/")[2]
    is_segment = len(name) == NAME_DIGITS and start_of(name) is not None
    if oddity.kind is OddityKind.DIRECTORY and not is_segment:
        return ""
    return REASONS.get(oddity.kind, "")


def unread_stretches(files: MappedFiles) -> Iterator[tuple[Oddity, int, int]]:
    """Yield what has the name of a segment and cannot be read, with its begin and end."""
    for oddity in files.oddities:
        start = start_of(oddity.path.rpartition("/")[2])
        if start is not None and reason_of(oddity):
            yield oddity, start, start + files.file_length


def is_unread(files: MappedFiles, start: int, end: int) -> bool:
    """Tell whether a stretch without a file is there, but cannot be read."""
    return any(low <= start and end <= high for _, low, high in unread_stretches(files))
