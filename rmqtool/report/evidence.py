"""What makes a report evidence: the digest of each file, and who looked, where, when and with what.

Files are read whole, once more than the validation reads them. What cannot be read is said.
"""

from __future__ import annotations

import getpass
import hashlib
import shlex
import socket
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rmqtool import __version__
from rmqtool.errors import UnreadablePath
from rmqtool.store.entry import EntryKind, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.store.place import Place
    from rmqtool.store.tree import Store

CHUNK: Final = 1 << 20
ZEROS: Final = memoryview(bytes(CHUNK))
LARGEST_HOLES: Final = 4 << 30  # of a file, bytes; those of brokers have 1 GiB at most


@dataclass(frozen=True, slots=True)
class DigestedFile:
    """A file of the store."""

    path: str  # relative to the store root, printable; absolute where it lies elsewhere
    size: int  # bytes
    sha256: str = ""  # hex digits; empty where it could not be read
    problem: str = ""  # why not; empty otherwise


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a report has beside its facts."""

    command: str  # the command line
    version: str  # of rmqtool and of Python
    user: str  # who ran it
    host: str  # name of the machine
    clock_ms: int  # its clock, ms since 1970
    zone: str  # offset of its time zone from UTC, such as +0800
    files: tuple[DigestedFile, ...]  # by path


def evidence(store: Store, words: Sequence[str]) -> Evidence:
    """Digest every file of a store, and take down the circumstances.

    Args:
        store: whose files.
        words: the command line, without the program's name.

    Raises:
        UnreadablePath: the store root cannot be listed.
    """
    roots = [(store.root, "")]
    roots += [
        (branch.place, branch.path) for branch in store.branches if branch.path.startswith("/")
    ]
    return Evidence(
        command=shlex.join(["rmqtool", *words]),
        version=f"rmqtool {__version__}, Python {sys.version.split()[0]}",
        user=_user(),
        host=socket.gethostname(),
        clock_ms=round(time.time() * 1000),
        zone=time.strftime("%z"),
        files=tuple(file for place, path in roots for file in _files(place, path)),
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        return "unknown"


def _files(place: Place, path: str) -> Iterator[DigestedFile]:
    """Yield the files below a directory, by name."""
    for entry in sorted(place.entries(), key=lambda one: one.name):
        below = f"{path}/{entry.name}" if path else entry.name
        child = place.child(entry.name)
        if entry.kind is EntryKind.DIRECTORY:
            try:
                yield from _files(child, below)
            except UnreadablePath as error:
                yield DigestedFile(printable(below), 0, problem=error.reason)
        elif entry.kind is EntryKind.FILE:
            yield _digested(child, below)


def _digested(place: Place, path: str) -> DigestedFile:
    digest, position, holes = hashlib.sha256(), 0, 0
    try:
        with place.open() as file:
            while position < file.size:
                found = file.next_data(position)
                begin = file.size if found is None else found
                holes += begin - position
                if holes > LARGEST_HOLES:
                    problem = f"{holes:,} bytes of it are holes, which takes hours to hash"
                    return DigestedFile(printable(path), file.size, problem=problem)
                for at in range(position, begin, CHUNK):
                    digest.update(ZEROS[: begin - at])
                raw = file.read_at(begin, CHUNK)
                digest.update(raw)
                position = begin + len(raw)
                if not raw:
                    break
    except UnreadablePath as error:
        return DigestedFile(printable(path), position, problem=error.reason)
    return DigestedFile(printable(path), position, digest.hexdigest())
