"""Directories that hold one mapped file and nothing else, read many at a time.

A store of a million queues has a million of them, each with a page of data at most; the questions
to the operating system are all that they cost.
"""

from __future__ import annotations

import os
import stat
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.errors import UnreadablePath
from rmqtool.store.anchors import from_anchor
from rmqtool.store.entry import listed, stored_bytes
from rmqtool.store.place import LISTED, OPEN_FLAGS, OpenFile, Place, note_medium
from rmqtool.store.segment import NAME_DIGITS, start_of
from rmqtool.store.used import lone_extent

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
            except UnreadablePath:
                continue  # whoever reads a file that the disk refuses notes it
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
        with os.scandir(directory) as entries:
            first, *others = islice(entries, 2)
        start = start_of(first.name)
        if others or start is None or len(first.name) != NAME_DIGITS or start % length:
            return None
        if not first.is_file(follow_symlinks=False):
            return None
        handle = os.open(first.name, OPEN_FLAGS, dir_fd=directory)
    except ValueError:  # an empty directory
        return None
    finally:
        os.close(directory)
    facts = os.fstat(handle)
    with OpenFile(place.child(name).child(first.name), handle, facts.st_size) as file:
        if not stat.S_ISREG(facts.st_mode) or facts.st_size != length:
            return None
        extent = lone_extent(file)
        if extent is None or extent[1] - extent[0] > MOST_DATA:
            return None
        begin, end = extent
        data = file.read_at(begin, end - begin)
    whose = (facts.st_mode, facts.st_uid, facts.st_gid, stored_bytes(facts))
    is_whole = len(data) == end - begin
    return LoneFile(name, first.name, start, begin, data, *whose) if is_whole else None
