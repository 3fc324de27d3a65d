"""Hash a file for the manifest: up to its last byte that is not zero, holes unread."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.check.log.range_checksum import range_checksum
from rmqtool.errors import UnreadablePath

if TYPE_CHECKING:
    from rmqtool.store.place import OpenFile, Place

CHUNK: Final = 1 << 20
ZEROS: Final = bytes(CHUNK)


class DigestTask(NamedTuple):
    """A file to be hashed. Picklable."""

    place: Place  # the file
    mark: int = 0  # hash its first bytes up to here, too: what there was at an earlier time
    in_range: bool = False  # give a broker's checksum of the range that it holds, too


class Digest(NamedTuple):
    """What was found."""

    used: int = 0  # bytes up to the last one that is not zero
    sha256: str = ""  # of these
    until_mark: str = ""  # of the bytes up to the mark; empty where the used bytes end before
    range_checksum: str = ""  # as a broker gives it; empty where nobody asked
    unread: UnreadablePath | None = None  # why the file could not be read; None when it could


def digest(task: DigestTask) -> Digest:
    """Hash a file."""
    try:
        with task.place.open() as file:
            found = _Hasher(file, task.mark).run()
            return found._replace(range_checksum=range_checksum(file)) if task.in_range else found
    except UnreadablePath as error:
        return Digest(unread=error)


class _Hasher:
    """The state of hashing one file. Zeros wait until something follows them."""

    def __init__(self, file: OpenFile, mark: int) -> None:
        self._file, self._mark = file, mark
        self._hash = hashlib.sha256(usedforsecurity=False)
        self._used = self._zeros = 0
        self._until_mark = ""

    def run(self) -> Digest:
        position, size = 0, self._file.size
        while position < size:
            found = self._file.next_data(position)
            if found is None:
                break
            end = min(found + CHUNK, size)
            if position < self._mark <= found:  # the mark lies in a hole: it was no last byte
                self._mark = 0
            if found < self._mark < end:
                end = self._mark
            self._zeros += found - position
            raw = self._file.read_at(found, end - found)
            if not raw:
                break
            self._take(raw)
            position = found + len(raw)
            if position == self._mark and not self._zeros:
                self._until_mark = self._hash.copy().hexdigest()
        return Digest(self._used, self._hash.hexdigest(), self._until_mark)

    def _take(self, raw: bytes) -> None:
        bare = raw.rstrip(b"\0")
        if bare:
            self._used += self._zeros + len(bare)
            while self._zeros:
                length = min(self._zeros, CHUNK)
                self._hash.update(memoryview(ZEROS)[:length])
                self._zeros -= length
            self._hash.update(bare)
        self._zeros += len(raw) - len(bare)
