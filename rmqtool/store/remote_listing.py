"""What a remote directory holds, listed once with all that is below it.

A check asks for many names that may be there, some of them again and again, and on an object store
each question is a request: 565 of them for a store of 44 small files. Objects that are no live
broker's do not change meanwhile, so while a store is judged its names are those of one listing,
which takes a request for 1,000 files.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Final

from rmqtool.errors import UnreadablePath
from rmqtool.store.entry import Entry, EntryKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NO_NAMES: Final = frozenset({"", ".", ".."})  # keys may contain them; as names they lead elsewhere


class Listing:
    """The names below a directory, as one moment had them.

    Args:
        top: path of the directory, as its file system spells it.
        entries: path and entry of all that is below it.
    """

    def __init__(self, top: str, entries: Iterable[tuple[str, Entry]]) -> None:
        self._entries = {top: Entry(top.rpartition("/")[2], EntryKind.DIRECTORY, 0, 0, 0)}
        self._below: dict[str, list[Entry]] = {top: []}
        for path, entry in sorted(entries, key=lambda pair: pair[0]):
            if NO_NAMES.isdisjoint(path[len(top) + 1 :].split("/")):
                self._entries[path] = entry
                self._below.setdefault(path.rpartition("/")[0], []).append(entry)

    def stat(self, path: str) -> Entry | None:
        """Say what is at a path; None when nothing is."""
        return self._entries.get(path)

    def entries(self, path: str) -> list[Entry] | None:
        """Give what is in a directory, sorted by name; None where a path is not one."""
        entry = self._entries.get(path)
        if entry is None or entry.kind is not EntryKind.DIRECTORY:
            return None
        return sorted(self._below.get(path, ()), key=lambda entry: entry.name)


_KNOWN: Final[dict[tuple[str, str], Listing]] = {}
_lock: Final = Lock()


def known(source: str, path: str) -> Listing | None:
    """Give the listing that tells of a path; None when its directory is not listed now."""
    for (opens, top), listing in tuple(_KNOWN.items()):
        if opens == source and (path == top or path.startswith(f"{top}/")):
            return listing
    return None


@contextmanager
def listed_once(place: object) -> Iterator[None]:
    """Let the names below a remote directory be those of now while the block runs.

    Args:
        place: of a directory; nothing is done where it is local, or no directory.
    """
    listing = getattr(place, "listing", None)
    source, path = getattr(place, "source", ""), getattr(place, "path", "")
    if listing is None or known(source, path) is not None:
        yield
        return
    kept = None
    with suppress(UnreadablePath):  # who reads it says so
        kept = listing()
    if kept is None:
        yield
        return
    with _lock:
        _KNOWN[source, path] = kept
    try:
        yield
    finally:
        with _lock:
            _KNOWN.pop((source, path), None)
