"""Disk use: what the files claim to be, and what the disk really holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqtool.store.place import EntryKind

if TYPE_CHECKING:
    from rmqtool.store.place import Place

DEEPEST = 16  # a store is four directories deep; what is deeper is not of RocketMQ's making


class DiskUse(NamedTuple):
    """Files and bytes below a place.

    Attributes:
        files: number of them; directories, links and the like are none.
        size: bytes that they claim.
        allocated: bytes that the disk really holds; less where files are sparse.
    """

    files: int
    size: int
    allocated: int


def disk_use(place: Place, depth: int = DEEPEST) -> DiskUse:
    """Sum up the files below a directory; links are not followed.

    Raises:
        UnreadablePath: a directory may not be listed.
    """
    files = size = allocated = 0
    for entry in place.entries():
        if entry.kind is EntryKind.FILE:
            files, size, allocated = files + 1, size + entry.size, allocated + entry.allocated
        elif entry.kind is EntryKind.DIRECTORY and depth:
            below = disk_use(place.child(entry.name), depth - 1)
            files += below.files
            size += below.size
            allocated += below.allocated
    return DiskUse(files, size, allocated)
