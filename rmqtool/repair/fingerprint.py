"""What tells that a store is still the one that a plan was made for."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from rmqtool.store.entry import Entry, EntryKind
from rmqtool.store.names import OURS
from rmqtool.store.root import is_known

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store.place import Place


def fingerprint(root: Place) -> str:
    """Digest the names, lengths and mtimes of all files of a store.

    What a running rmqtool or an earlier repair leaves beside it does not count, nor does `lock`.
    """
    digest = hashlib.sha256()
    for path, entry in _files(root, ""):
        line = f"{path}\0{entry.kind}\0{entry.size}\0{entry.mtime_ns}\n"
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _files(directory: Place, path: str) -> Iterator[tuple[str, Entry]]:
    for entry in directory.entries():
        if not path and (entry.name == "lock" or entry.name.startswith(OURS)):
            continue
        below = f"{path}{entry.name}"
        place = directory.child(entry.name)
        is_link = entry.kind is EntryKind.LINK
        if is_link and not path and is_known(entry.name):  # a broker is led elsewhere, here only
            place = place.resolved()
            there = place.stat()
            if there is not None and there.kind is EntryKind.DIRECTORY:
                yield from _files(place, f"{below}/")
        elif entry.kind is EntryKind.DIRECTORY:
            yield from _files(place, f"{below}/")
        else:
            yield below, entry
