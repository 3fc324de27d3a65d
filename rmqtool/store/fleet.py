"""Many stores at once: patterns, lists and files of stores, as paths that each open one store.

`*`, `?` and `[...]` stand for a part of one name, as in a shell; names that begin with a dot are
matched by patterns that do. What is there under its very name is no pattern. In a URI, `?` begins
options only where `name=` follows.
"""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.errors import DecodeError, Trouble, UnreadablePath
from rmqtool.formats.epoch import decode_identity
from rmqtool.store.address import archive_of, is_pattern, place_of, without_options
from rmqtool.store.entry import printable
from rmqtool.store.place import Place, is_remote
from rmqtool.store.root import ARCHIVE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


LARGEST_FILE: Final = 64 << 20  # bytes of a file of stores: half a million paths
IDENTITY: Final = "brokerIdentity"
LARGEST_IDENTITY: Final = 4096
NO_MATCH: Final = "no path matches this pattern"
_MAGIC: Final = re.compile(r"[*?[]")
_URI_TOP: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*/?|file:/+")


class FleetStore(NamedTuple):
    """One store of several. Picklable."""

    path: str  # opens it; of a URI, with options and credentials
    broker: str = ""  # its name in the file of stores; empty where that has none

    @property
    def name(self) -> str:
        """The path as it is shown: without what may be secret."""
        if not is_remote(self.path):
            return self.path
        from rmqtool.store.remote import without_credentials

        return without_credentials(without_options(self.path)[0])


class Fleet(NamedTuple):
    """The stores that are meant."""

    # each once, in the order in which they are named; of a pattern, by path
    stores: tuple[FleetStore, ...] = ()
    # what stands for no store, and why: patterns that nothing matches, archives
    refused: tuple[tuple[str, str], ...] = ()


def fleet_of(given: Iterable[str], stores_file: str | None = None) -> Fleet:
    """Find the stores of patterns, paths and a file of stores. Nothing of a store is read.

    Args:
        given: paths, URIs and patterns.
        stores_file: a line for each path or pattern; after a tab, the broker's name. Empty lines,
            and those that begin with `#`, do not count. Paths are relative to this directory.

    Raises:
        UnreadablePath: the file cannot be read.
    """
    refused: dict[str, str] = {}
    named = [FleetStore(path) for path in given]
    for line in () if stores_file is None else _lines(stores_file):
        if archive_of(line.path) is None:
            named.append(line)
        else:
            refused[line.name] = ARCHIVE
    by_path: dict[str, FleetStore] = {}
    for store in named:
        if not is_pattern(store.path):
            by_path.setdefault(store.path, store)
            continue
        try:
            matches = list(_matches(store.path))
        except UnreadablePath as error:
            refused[store.name] = error.reason
            continue
        if not matches:
            refused[store.name] = NO_MATCH
        for path in matches:
            if archive_of(path) is not None:
                refused[path] = ARCHIVE
            else:
                by_path.setdefault(path, store._replace(path=path))
    return Fleet(tuple(by_path.values()), tuple(refused.items()))


def broker_of(root: Place) -> str | None:
    """Give the name of the broker that a store root says it belongs to; None where it does not.

    Source: BrokerMetadata#loadFromStr, `brokerIdentity`, 5.1.1 and later.
    """
    try:
        raw = root.child(IDENTITY).read(LARGEST_IDENTITY)
        return printable(decode_identity(raw, path=IDENTITY).broker_name) or None
    except (DecodeError, UnreadablePath):
        return None  # a hint only: who validates the store reads the file


def below(path: str, name: str) -> str:
    """Give the path of a name in a directory; options of a URI stay behind it."""
    text, options = without_options(path)
    return _child(text, name) + options


def _lines(stores_file: str) -> Iterator[FleetStore]:
    place = place_of(stores_file)
    entry = place.stat()
    if entry is not None and entry.size > LARGEST_FILE:
        reason = f"{entry.size:,} bytes; a file of stores has at most {LARGEST_FILE:,}"
        raise UnreadablePath(path=str(place), reason=reason, trouble=Trouble.EXPLAINED)
    for line in os.fsdecode(place.read(LARGEST_FILE)).splitlines():
        path, _, broker = line.strip().partition("\t")
        if path and not path.startswith("#"):
            yield FleetStore(path.strip(), broker.strip())


def _matches(pattern: str) -> Iterator[str]:
    """Yield the paths that match a pattern, in order.

    Raises:
        UnreadablePath: a directory that the pattern names may not be listed.
    """
    text, options = without_options(pattern)
    scheme = _URI_TOP.match(text) if Place.is_uri(text) else re.match("/*", text)
    top = scheme[0] if scheme else ""
    parts = [part for part in text[len(top) :].split("/") if part]
    first = next(number for number, part in enumerate(parts) if _MAGIC.search(part))
    paths: Iterable[str] = [top + "/".join(parts[:first])]
    for number, part in enumerate(parts[first:], first):
        is_last = number == len(parts) - 1
        if _MAGIC.search(part):
            paths = _listed(paths, options, part, is_strict=number == first)
        else:
            paths = _named(paths, options, part, is_last=is_last)
    for path in paths:
        yield path + options


def _listed(paths: Iterable[str], options: str, pattern: str, *, is_strict: bool) -> Iterator[str]:
    """Yield the names in directories that match."""
    for path in paths:
        try:
            names = [name for name, _ in place_of(f"{path or '.'}{options}").names()]
        except UnreadablePath as error:
            if is_strict and error.trouble is not Trouble.MISSING:
                raise
            continue  # a file, or what may not be looked into: no match below it
        for name in sorted(names):
            if fnmatchcase(name, pattern) and (pattern[0] == "." or name[0] != "."):
                yield _child(path, name)


def _named(paths: Iterable[str], options: str, name: str, *, is_last: bool) -> Iterator[str]:
    """Yield a name in directories; of the last name, where it is there."""
    for path in paths:
        child = _child(path, name)
        if not is_last or place_of(child + options).stat() is not None:
            yield child


def _child(path: str, name: str) -> str:
    return f"{path}{'' if not path or path.endswith('/') else '/'}{name}"
