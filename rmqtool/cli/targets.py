"""Files to be written: refused before anything is read, where they cannot or must not be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.errors import OutputExists, WriteFailed
from rmqtool.store.place import EntryKind, Place
from rmqtool.store.remote import place_of
from rmqtool.writing.output import refuse_within

if TYPE_CHECKING:
    from collections.abc import Sequence


def refuse_targets(stores: Sequence[str], *targets: str | None) -> None:
    """Refuse a report that cannot or must not be written, before anything is read.

    Raises:
        OutputExists: a target is there.
        WriteFailed: there is no directory for it, or it lies in a store.
    """
    roots = [place_of(store) for store in stores]
    taken: set[Place] = set()
    for target in filter(None, targets):
        place = place_of(target)
        if place in taken:
            raise OutputExists(path=target, reason="is asked for twice; choose another name")
        taken.add(place)
        for root in roots:
            refuse_within(root, target)
        if place.stat() is not None:
            raise OutputExists(path=target, reason="exists already; choose another name")
        parent = place.parent.stat()
        if parent is None or parent.kind is not EntryKind.DIRECTORY:
            raise WriteFailed(path=target, reason="there is no such directory")
