"""Commitlog files of one name in two directories: one goes if it holds the same, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.findings.registry_layout import FS_DUP
from rmqtool.store.used import data_stretches

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqtool.repair.writer import EditWriter
    from rmqtool.store.segment import MappedFiles, Segment

CHUNK: Final = 4 << 20
SAME: Final = "another directory holds the same file, byte for byte; the undo directory keeps it"
ZEROS: Final = (
    "it is all zeros, and another directory holds a file of its name with records; the undo "
    "directory keeps it"
)


def copies(files: MappedFiles) -> dict[Segment, str] | None:
    """Give the files that can go, and why; None if two of one name differ: a person has to choose.

    Args:
        files: of the log; of several with one start the last one is read, here as everywhere. One
            that begins with a record comes after one that does not.

    Raises:
        UnreadablePath: one of them cannot be read.
    """
    read = {segment.start: segment for segment in files.segments}
    copies = {}
    for segment in files.segments:
        if segment is read[segment.start]:
            continue
        if are_same(segment, read[segment.start]):
            copies[segment] = SAME
        elif _is_zero(segment):
            copies[segment] = ZEROS
        else:
            return None
    return copies


def _is_zero(segment: Segment) -> bool:
    with segment.open() as file:
        return not any(data_stretches(file, 0, chunk=CHUNK))


def are_same(segment: Segment, other: Segment) -> bool:
    """Tell whether two files hold the same. Raises UnreadablePath: one of them cannot be read."""
    if segment.size != other.size:
        return False
    with segment.open() as first, other.open() as second:
        return all(
            first.read_at(position, CHUNK) == second.read_at(position, CHUNK)
            for position in range(0, segment.size, CHUNK)
        )


def edit(writer: EditWriter, spare: Mapping[Segment, str]) -> None:
    """Take copies out."""
    for segment, reason in spare.items():
        writer.remove(segment.place.location, FS_DUP, reason)
