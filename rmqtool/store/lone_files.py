"""Directories that hold one mapped file and nothing else, read many at a time.

A store of a million queues has a million of them, each with a page of data at most; the questions
to the operating system are all that they cost.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.store.anchors import from_anchor
from rmqtool.store.entry import listed
from rmqtool.store.place import LISTED, OPEN_FLAGS, Place, count_read, note_medium, pace
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
        for name in listed(opened, lambda found: found.name):
            try:
                found = _read(opened, name, length)
            except OSError as error:
                note_medium(f"{place.location}/{name}", error)
                continue
            if found is not None:
                yield found
    finally:
        os.close(opened)


def _read(above: int, name: str, length: int) -> LoneFile | None:
    directory = os.open(name, LISTED | os.O_NOFOLLOW, dir_fd=above)
    try:
        with os.scandir(directory) as entries:
            first, *others = islice(entries, 2)
        start = start_of(first.name)
        if others or start is None or len(first.name) != NAME_DIGITS or start % length:
            return None
        if not stat.S_ISREG(first.stat(follow_symlinks=False).st_mode):
            return None
        file = os.open(first.name, OPEN_FLAGS, dir_fd=directory)
    except ValueError:  # an empty directory
        return None
    finally:
        os.close(directory)
    try:
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size != length:
            return None
        extent = _extent(file, length)
        if extent is None:
            return None
        begin, end = extent
        data = os.pread(file, end - begin, begin)
        count_read(len(data))
        if data and (slow := pace()) is not None:
            slow.took(file, begin, len(data))
        whole = len(data) == end - begin
        whose = (facts.st_mode, facts.st_uid, facts.st_gid)
        return LoneFile(name, first.name, start, begin, data, *whose) if whole else None
    finally:
        os.close(file)


def _extent(file: int, length: int) -> tuple[int, int] | None:
    """Give where the only data of a sparse file begin and end; None where there are more."""
    try:
        begin = os.lseek(file, 0, os.SEEK_DATA)
    except OSError:
        return 0, 0
    end = os.lseek(file, begin, os.SEEK_HOLE)
    if end - begin > MOST_DATA:
        return None
    if end < length:
        with suppress(OSError):
            os.lseek(file, end, os.SEEK_DATA)
            return None
    return begin, end
