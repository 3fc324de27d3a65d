"""Stores below a directory: a backup's parent, or one directory for many brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.errors import UnreadablePath
from rmqtool.store.address import archive_of
from rmqtool.store.entry import EntryKind
from rmqtool.store.root import telling_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.store.place import Place

    Refused = Callable[[Place, str], None]

ENOUGH: Final = 2  # weight of names that tells a store root, as in `recognise`
DEPTH: Final = 6  # directories on the way to a store
MOST_LISTED: Final = 20_000  # directories; whoever has more of them named the wrong one
ARCHIVE: Final = "an archive, which is opened only where a PATH of its own names it"
_TOO_MANY: Final = (
    f"not looked at, nor is what follows: {MOST_LISTED:,} directories were listed before it"
)


def is_store(names: list[tuple[str, EntryKind]]) -> bool:
    """Tell by the names in a directory whether it is a store root."""
    return telling_names(names) >= ENOUGH


def stores_below(top: Place, refused: Refused = lambda *_: None) -> Iterator[Place]:
    """Yield the store roots below a directory, or itself, in order of their paths.

    Links are not followed, and nothing below a store is looked at.

    Args:
        top: where to look, and six directories below it.
        refused: takes each directory that cannot be listed, each archive, and the first directory
            that is not looked at after many others, with the reason.
    """
    waiting = [(top, 0)]
    listed = 0
    while waiting:
        place, level = waiting.pop()
        if listed >= MOST_LISTED:
            refused(place, _TOO_MANY)
            return
        listed += 1
        try:
            names = place.names()
        except UnreadablePath as error:
            refused(place, error.reason)
            continue
        if is_store(names):
            yield place
            continue
        for name, kind in names:
            if kind is EntryKind.FILE and archive_of(name) is not None:
                refused(place.child(name), ARCHIVE)
        if level < DEPTH:
            inner = [name for name, kind in names if kind is EntryKind.DIRECTORY]
            waiting += [(place.child(name), level + 1) for name in reversed(inner)]
