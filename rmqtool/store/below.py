"""Stores below a directory: a backup's parent, or one directory for many brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.errors import UnreadablePath
from rmqtool.store.entry import EntryKind
from rmqtool.store.root import telling_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store.place import Place

ENOUGH: Final = 2  # weight of names that tells a store root, as in `recognise`
DEPTH: Final = 6  # directories on the way to a store
MOST_LISTED: Final = 20_000  # directories; whoever has more of them named the wrong one


def is_store(names: list[tuple[str, EntryKind]]) -> bool:
    """Tell by the names in a directory whether it is a store root."""
    return telling_names(names) >= ENOUGH


def stores_below(top: Place, depth: int = DEPTH) -> Iterator[Place]:
    """Yield the store roots below a directory, or itself, in order of their paths.

    Links are not followed, nothing below a store is looked at, and what may not be listed is
    passed over.

    Args:
        top: where to look.
        depth: how many directories below it.
    """
    waiting = [(top, 0)]
    listed = 0
    while waiting and listed < MOST_LISTED:
        place, level = waiting.pop()
        listed += 1
        try:
            names = place.names()
        except UnreadablePath:
            continue
        if is_store(names):
            yield place
        elif level < depth:
            inner = [name for name, kind in names if kind is EntryKind.DIRECTORY]
            waiting += [(place.child(name), level + 1) for name in reversed(inner)]
