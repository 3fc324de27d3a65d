"""Where rows come from: one file of a store, small and picklable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqtool.store.branch import BranchKind
    from rmqtool.store.place import OpenFile, Place


@dataclass(frozen=True, slots=True)
class FilePart:
    """One file.

    Attributes:
        kind: what it is.
        place: where it lies.
        path: the same relative to the store root.
        start: first byte in its byte space; 0 for a file that is alone.
        topic: of the queue; empty where there is none.
        queue_id: of the queue.
        slots: hash slots of a key index file.
        entries: entries of a key index file, the unused one counted.
    """

    kind: BranchKind
    place: Place
    path: str
    start: int = 0
    topic: str = ""
    queue_id: int = 0
    slots: int = 0
    entries: int = 0

    def open(self) -> OpenFile:
        """Open for reading.

        Raises:
            UnreadablePath: see `Place.open`.
        """
        return self.place.open()
