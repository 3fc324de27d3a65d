"""Directories that hold one mapped file and nothing else, read many at a time.

A store of a million queues has a million of them, each with a page of data at most; the questions
to the operating system are all that they cost.
"""

from __future__ import annotations

import errno
import os
import stat
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.store.anchors import from_anchor
from rmqtool.store.entry import listed, stored_bytes
from rmqtool.store.place import LISTED, OPEN_FLAGS, Place, note_medium, read_some
from rmqtool.store.segment import NAME_DIGITS, start_of

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_DATA: Final = 1 << 16  # bytes of data of a file that is read as a whole


class LoneFile(NamedTuple):
    """A regular file that is alone in its directory, with all that it holds."""

    directory: str  # name of the directory
    name: str  # of the file: 20 digits
    start: int  # first byte of its queue, by its name
    begin: int  # position of the data; all before it, and all after it, is zeros
    data: bytes  # what it holds
    mode: int  # permission bits, and what the operating system keeps beside them
    owner: int  # number of the user
    group: int  # number of the group
    stored: int  # bytes that the disk really holds


def lone_files(place: Place, length: int) -> Iterator[LoneFile]:
    """Read the directories in a directory that hold one file of a length, and little data.

    All others are left out: who looks at them one by one says what is wrong with them. So is what
    cannot be read, and what does not lie on a local disk.

    Args:
        place: of the directory.
        length: bytes that each file has.
    """
    if type(place) is not Place:
        return
    try:
        path, above = from_anchor(place.location)
        opened = os.open(path, LISTED | os.O_NOFOLLOW, dir_fd=above)
    except (OSError, ValueError):
        return
    try:
        for name in _names(place, opened):
            try:
                lone_file = _read(place, opened, name, length)
            except OSError as error:
                note_medium(f"{place.location}/{name}", error)
                continue
            if lone_file is not None:
                yield lone_file
    finally:
        os.close(opened)


def _names(place: Place, opened: int) -> list[str]:
    try:
        return listed(opened, lambda file: file.name)
    except OSError as error:
        note_medium(place.location, error)
        return []


def _read(place: Place, above: int, name: str, length: int) -> LoneFile | None:
    directory = os.open(name, LISTED | os.O_NOFOLLOW, dir_fd=above)
    try:
        only = _only(directory)
        start = start_of(only) if len(only) == NAME_DIGITS else None
        if start is None or start % length:
            return None
        handle = os.open(only, OPEN_FLAGS, dir_fd=directory)
    finally:
        os.close(directory)
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size != length:
            return None
        extent = _extent(handle, length)
        if extent is None or extent[1] - extent[0] > MOST_DATA:
            return None
        begin, end = extent
        data = read_some(handle, end - begin, begin) if end > begin else b""
    except OSError as error:
        note_medium(f"{place.location}/{name}/{only}", error)
        return None
    finally:
        os.close(handle)
    whose = (facts.st_mode, facts.st_uid, facts.st_gid, stored_bytes(facts))
    is_whole = len(data) == end - begin
    return LoneFile(name, only, start, begin, data, *whose) if is_whole else None


def _only(directory: int) -> str:
    """Give the name of the only entry of an open directory, if it is a regular file; or nothing."""
    with os.scandir(directory) as entries:
        listed_here = [*islice(entries, 2)]
    is_one = len(listed_here) == 1 and listed_here[0].is_file(follow_symlinks=False)
    return listed_here[0].name if is_one else ""


def _extent(handle: int, size: int) -> tuple[int, int] | None:
    """Give where the only data of a file begin and end; None where there are more.

    Raises:
        OSError: the file system does not tell.
    """
    begin = end = 0
    try:
        begin = os.lseek(handle, 0, os.SEEK_DATA)
        end = min(os.lseek(handle, begin, os.SEEK_HOLE), size)
        if end < size:
            os.lseek(handle, end, os.SEEK_DATA)
            return None
    except OSError as error:
        if error.errno != errno.ENXIO:  # ENXIO: nothing but a hole follows
            raise
    return begin, end
