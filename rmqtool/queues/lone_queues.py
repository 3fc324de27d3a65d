"""Directories of queues that hold one mapped file and nothing else, read many at a time.

A store of a million queues has a million of them, each with a page of data at most; the questions
to the operating system are all that they cost. Kernels ask them, on all processors.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from rmqtool.engine import on_threads
from rmqtool.formats.consume_queue import CQ_UNIT_SIZE
from rmqtool.machine import calls
from rmqtool.queues import lone_kernels
from rmqtool.queues.lone_kernels import (
    FACTS,
    FLAGS,
    MOST_DATA,
    QUEUE_ID,
    ROOM,
    SCRATCH,
    SHORT,
    STATE,
)
from rmqtool.store.anchors import from_anchor
from rmqtool.store.entry import listed, stored_bytes
from rmqtool.store.place import (
    OPEN_FLAGS,
    Place,
    count_read,
    note_medium,
    pace,
    read_some,
)
from rmqtool.store.queues import queue_id_of
from rmqtool.store.segment import NAME_DIGITS, start_of
from rmqtool.store.used import without_zeros

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from rmqtool.machine.calls import Calls

    Int64s: TypeAlias = npt.NDArray[np.int64]

LISTING_BYTES: Final = 1 << 15  # of a directory that is read at once
QUEUES: Final = LISTING_BYTES // 24  # the most that are listed in so many bytes
UNIT_BYTES: Final = 1 << 20  # of units that are read before they are handed over
MOST_BYTES: Final = 128 << 20  # of units of all; the queues after these are read one by one
TOPICS: Final = 4  # whose queues one thread reads at a time
FEW: Final = 256  # queues that are read one by one sooner than kernels are loaded
SAMPLE: Final = 8  # queues of these; where none has little data the other topics' are left out


class LoneQueues(NamedTuple):
    """The queues of one directory that are alone in theirs, and hold little."""

    # int64, shape (n, FACTS): see the columns of `lone_kernels`
    facts: Int64s
    units: bytes  # of one queue after the other, packed


class _Read(NamedTuple):
    """What a kernel read of a directory."""

    queues: LoneQueues
    asked: list[int]  # queues of which the system refused something
    size: int = 0  # bytes that were read
    errors: Sequence[OSError] = ()  # why not all of it could be listed


class _Room:
    """What a kernel works with. Belongs to one thread at a time."""

    def __init__(self) -> None:
        self.listing = np.empty(LISTING_BYTES, np.uint8)
        self.scratch = np.zeros(SCRATCH, np.uint8)
        self.facts = np.empty((QUEUES, FACTS), np.int64)
        self.units = np.empty(UNIT_BYTES + ROOM, np.uint8)


class _Left:
    """How many bytes of units may be read still. All threads take of it: roughly is enough."""

    def __init__(self) -> None:
        self._bytes = MOST_BYTES

    def take(self, queues: LoneQueues) -> bool:
        """Take the units of some queues; say whether there is room for more."""
        self._bytes -= len(queues.units)
        return self._bytes > 0


def lone_queues(
    places: Sequence[Place], length: int, jobs: int | None = None
) -> Iterator[LoneQueues]:
    """Read the directories in directories that hold one file of a length, and little data.

    All others are left out: who looks at them one by one says what is wrong with them. So is what
    cannot be read, what does not lie on a local disk, and what comes after MOST_BYTES.

    Args:
        places: of the directories, those of topics.
        length: bytes that each file has.
        jobs: threads; None is one for each processor.

    Yields:
        The queues of each directory.
    """
    left, numbers = _Left(), _few(places)
    if numbers is not None:
        yield from _one_by_one(places, numbers, length, left)
        return
    functions = calls.calls() if places else None
    if functions is None or pace() is not None or not all(type(place) is Place for place in places):
        for place in places:
            yield _joined([*_each(place, length, left)])
        return
    rooms: deque[_Room] = deque()  # append and pop are atomic
    parts = [places[first : first + TOPICS] for first in range(0, len(places), TOPICS)]

    def read(part: Sequence[Place]) -> list[_Read]:
        room = rooms.pop() if rooms else _Room()
        try:
            return [_read(functions, place, length, room, left) for place in part]
        finally:
            rooms.append(room)

    for part, results in zip(parts, on_threads(read, parts, jobs), strict=True):
        for place, result in zip(part, results, strict=True):
            count_read(result.size)
            for error in result.errors:
                note_medium(place.location, error)
            again = _each(place, length, left, result.asked) if result.asked else ()
            yield _joined([result.queues, *again])


def _joined(parts: Sequence[LoneQueues]) -> LoneQueues:
    facts = [part.facts for part in parts] or [np.empty((0, FACTS), np.int64)]
    return LoneQueues(np.concatenate(facts), b"".join(part.units for part in parts))


def _read(functions: Calls, place: Place, length: int, room: _Room, left: _Left) -> _Read:
    """Read the queues of a directory by kernel."""
    parts, asked, size, has_room = list[LoneQueues](), list[int](), 0, True
    with _open(place) as opened:
        if opened is None:
            return _Read(_joined([]), [])
        while has_room and (end := lone_kernels.list_queues(functions, opened, room.listing)) > 0:
            position = 0
            while position < end and has_room:
                position, count, used, read = lone_kernels.read_listed(
                    functions,
                    (opened, position, end, length),
                    *(room.listing, room.scratch, room.facts, room.units),
                )
                facts, size = room.facts[:count], size + read
                is_short = facts[:, STATE] == SHORT
                asked += facts[~is_short, QUEUE_ID].tolist()
                parts.append(LoneQueues(facts[is_short], room.units[:used].tobytes()))
                has_room = left.take(parts[-1])
    errors = [OSError(-end, os.strerror(-end))] if end < 0 else []
    return _Read(_joined(parts), asked, size, errors)


def _few(places: Sequence[Place]) -> list[list[int]] | None:
    """List the queues of directories; None where there are more than FEW altogether."""
    listings, left = list[list[int]](), FEW
    for place in places:
        with _open(place) as opened:
            listings.append([] if opened is None else _numbers(place, opened))
        left -= len(listings[-1])
        if left < 0:
            return None
    return listings


def _one_by_one(
    places: Sequence[Place], listings: Sequence[Sequence[int]], length: int, left: _Left
) -> Iterator[LoneQueues]:
    """Read the queues of directories, unless none of the first ones has little data."""
    looked_at, short = 0, 0
    for place, numbers in zip(places, listings, strict=True):
        is_in_vain = looked_at >= SAMPLE and not short
        queues = _joined([] if is_in_vain else [*_each(place, length, left, numbers)])
        looked_at, short = looked_at + len(numbers), short + len(queues.facts)
        yield queues


@contextmanager
def _open(place: Place) -> Iterator[int | None]:
    """Open a directory; None where it cannot be, or does not lie on a local disk."""
    if type(place) is not Place:
        yield None
        return
    try:
        path, above = from_anchor(place.location)
        opened = os.open(path, FLAGS, dir_fd=above)
    except (OSError, ValueError):  # the listing of the queues says so
        yield None
        return
    try:
        yield opened
    finally:
        os.close(opened)


def _each(
    place: Place, length: int, left: _Left, numbers: Sequence[int] | None = None
) -> Iterator[LoneQueues]:
    """Read queues of a directory one by one; all of them where no numbers are given."""
    with _open(place) as opened:
        if opened is None:
            return
        for number in _numbers(place, opened) if numbers is None else numbers:
            try:
                queue = _queue(place, opened, number, length)
            except OSError as error:
                note_medium(f"{place.location}/{number}", error)
                continue
            if queue is not None:
                yield queue
                if not left.take(queue):
                    break


def _numbers(place: Place, opened: int) -> list[int]:
    """List the queues of a topic; those below 0, of damaged records, are read one by one."""
    try:
        numbers = listed(opened, lambda file: queue_id_of(file.name))
    except OSError as error:
        note_medium(place.location, error)
        return []
    return [number for number in numbers if number is not None and number >= 0]


def _queue(place: Place, above: int, number: int, length: int) -> LoneQueues | None:
    directory = os.open(str(number), FLAGS, dir_fd=above)
    try:
        only = _only(directory)
        start = start_of(only) if len(only) == NAME_DIGITS else None
        if start is None or start % length:
            return None
        whose = os.fstat(directory)
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
        note_medium(f"{place.location}/{number}/{only}", error)
        return None
    finally:
        os.close(handle)
    if len(data) != end - begin:
        return None
    first, units = _units(start + begin, data)
    rows = (number, SHORT, start, first, len(units) // CQ_UNIT_SIZE)
    owners = (whose_is for of in (facts, whose) for whose_is in (of.st_mode, of.st_uid, of.st_gid))
    mode, owner, group, *of_directory = owners
    column = (*rows, mode, owner, group, stored_bytes(facts), *of_directory)
    return LoneQueues(np.array([column], np.int64), units)


def _units(begin: int, data: bytes) -> tuple[int, bytes]:
    """Give the number of the first unit that is not zeros, and all up to the last one."""
    data = without_zeros(data)
    if not data:
        return begin // CQ_UNIT_SIZE, b""
    zeros = len(data) - len(data.lstrip(b"\0")) if not data[0] else 0
    number = (begin + zeros) // CQ_UNIT_SIZE
    before = begin - number * CQ_UNIT_SIZE  # zeros of a hole, where it ends within a unit
    data = bytes(before) + data if before > 0 else data[-before:]
    return number, data.ljust(-(-len(data) // CQ_UNIT_SIZE) * CQ_UNIT_SIZE, b"\0")


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
