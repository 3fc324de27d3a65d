"""Commitlog files of the same name in two directories: one goes if both hold the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.findings.registry_layout import FS_DUP

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqtool.repair.writer import EditWriter
    from rmqtool.store.segment import MappedFiles, Segment

CHUNK: Final = 4 << 20
REASON: Final = "another directory holds the same file, byte for byte; the undo directory keeps it"


def copies(files: MappedFiles) -> list[Segment] | None:
    """Give the files that can go; None if two of one name differ: a person has to choose.

    Args:
        files: of the log; of several with one start the last one is read, here as everywhere.

    Raises:
        UnreadablePath: one of them cannot be read.
    """
    read = {one.start: one for one in files.segments}
    spare = [one for one in files.segments if one is not read[one.start]]
    return spare if all(_are_same(one, read[one.start]) for one in spare) else None


def _are_same(one: Segment, other: Segment) -> bool:
    if one.size != other.size:
        return False
    with one.open() as first, other.open() as second:
        return all(
            first.read_at(position, CHUNK) == second.read_at(position, CHUNK)
            for position in range(0, one.size, CHUNK)
        )


def edit(writer: EditWriter, spare: Iterable[Segment]) -> None:
    """Take copies out."""
    for one in spare:
        writer.remove(one.place.location, FS_DUP, REASON)
