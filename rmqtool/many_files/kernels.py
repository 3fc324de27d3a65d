"""Kernels that make many files, each the only one of a directory of its own.

A question to the operating system takes a few microseconds here, and Python as long again to put
it. All names are looked up from directories that are open, of a tree that nobody else can enter.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from rmqtool.machine.calls import addresses_of, call
from rmqtool.machine.compiled import called, kernel
from rmqtool.machine.intrinsics import address_of, call_c, number_at

if TYPE_CHECKING:
    from rmqtool.machine.arrays import Int64s, UInt8s

    Integers: TypeAlias = tuple[int, ...]

# Columns of what is known of each file.
(
    DIRECTORY,  # descriptor of the directory that its own directory is made in
    NAME,  # place of the name of its own directory among the names; each ends with a 0
    PATH,  # of its path from the directory above on
    LEAD,  # bytes that it begins with: the same unit again and again
    DATA,  # place of what follows among the data
    BYTES,  # of it
    FACTS,  # how many columns these are
) = range(7)
TIMES: Final = 32  # bytes of the two times of a file, as `futimens` takes them

MODES: Final = (0o777, 0o666)  # of directories and files, at most: the umask counts
FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
EEXIST: Final = 17
LINKS_THEMSELVES: Final = 0x100  # AT_SYMLINK_NOFOLLOW
UID, GID, DIRECTORY_MODE, FILE_MODE = range(4)  # whose the new ones are
AS_MADE: Final = (-1,) * 4  # leaves what they have


class WriteCalls(NamedTuple):
    """Addresses of functions, as man 2 and man 3 describe them."""

    mkdirat: int
    fchownat: int
    fchmodat: int
    openat: int
    fchown: int
    fchmod: int
    ftruncate: int
    pwrite: int
    futimens: int
    close: int
    errno: int  # `__errno_location`, which errno is a macro for


CALLS: Final = f"UniTuple(int64, {len(WriteCalls._fields)})"  # numba's name for it
(
    MKDIRAT,
    FCHOWNAT,
    FCHMODAT,
    OPENAT,
    FCHOWN,
    FCHMOD,
    FTRUNCATE,
    PWRITE,
    FUTIMENS,
    CLOSE,
    ERRNO,
) = range(len(WriteCalls._fields))


@cache
def calls() -> WriteCalls | None:
    """Give the addresses in this process; None where the library has not all, as on a Mac."""
    addresses = addresses_of((*WriteCalls._fields[:-1], "__errno_location"))
    return None if addresses is None else WriteCalls(*addresses)


GIVEN: Final = "UniTuple(int64, 4), int64[:, ::1], UniTuple(uint8[::1], 4)"


@kernel(f"UniTuple(int64, 2)({CALLS}, int64, {GIVEN})")
def make_files(
    calls: WriteCalls,
    length: int,
    owner: Integers,
    facts: Int64s,
    given: tuple[UInt8s, UInt8s, UInt8s, UInt8s],
) -> Integers:
    """Make files with their directories, until one cannot be made.

    Args:
        calls: functions of the C library.
        length: bytes of each file.
        owner: user, group and modes of what is made: UID, GID, DIRECTORY_MODE, FILE_MODE.
        facts: int64, shape (n, FACTS): see the columns.
        given: names; data; some units that files begin with; times of access and of change, as
            seconds and nanoseconds, TIMES bytes of each file.

    Returns:
        How many were made, and why the next one could not be: an errno, 0 after the last.
    """
    names, data, lead, times = given
    for row in range(facts.shape[0]):
        above = facts[row, DIRECTORY]
        name = address_of(names, facts[row, NAME])
        if call(calls[MKDIRAT], above, name, MODES[0]) < 0:
            error = number_at(call_c(calls[ERRNO], (0, 0, 0, 0, 0)))
            if error != EEXIST:
                return row, error
        error = give_directory(calls, (above, name), owner)
        if error != 0:
            return row, error
        path = address_of(names, facts[row, PATH])
        handle = call_c(calls[OPENAT], (above, path, FLAGS, MODES[1], 0)) << 32 >> 32
        if handle < 0:
            return row, number_at(call_c(calls[ERRNO], (0, 0, 0, 0, 0)))
        error = give_file(calls, handle, owner)
        if error == 0:
            error = fill(calls, handle, length, (facts, row, data, lead))
        stamp = address_of(times, row * TIMES)
        if error == 0 and call(calls[FUTIMENS], handle, stamp, 0) < 0:
            error = number_at(call_c(calls[ERRNO], (0, 0, 0, 0, 0)))
        call(calls[CLOSE], handle, 0, 0)
        if error != 0:
            return row, error
    return facts.shape[0], 0


@called
def give_directory(calls: WriteCalls, where: tuple[int, int], owner: Integers) -> int:
    """Give a new directory to its owner; give an errno, 0 for none."""
    above, name = where
    if owner[DIRECTORY_MODE] < 0:
        return 0
    given = (above, name, owner[UID], owner[GID], LINKS_THEMSELVES)
    result = call_c(calls[FCHOWNAT], given) << 32 >> 32 if owner[UID] >= 0 else 0
    if result == 0:
        result = call_c(calls[FCHMODAT], (above, name, owner[DIRECTORY_MODE], 0, 0)) << 32 >> 32
    return 0 if result == 0 else number_at(call_c(calls[ERRNO], (0, 0, 0, 0, 0)))


@called
def give_file(calls: WriteCalls, handle: int, owner: Integers) -> int:
    """Give a new file to its owner; give an errno, 0 for none."""
    if owner[FILE_MODE] < 0:
        return 0
    result = call(calls[FCHOWN], handle, owner[UID], owner[GID]) if owner[UID] >= 0 else 0
    if result == 0:
        result = call(calls[FCHMOD], handle, owner[FILE_MODE], 0)
    return 0 if result == 0 else number_at(call_c(calls[ERRNO], (0, 0, 0, 0, 0)))


@called
def fill(
    calls: WriteCalls, handle: int, length: int, what: tuple[Int64s, int, UInt8s, UInt8s]
) -> int:
    """Give a new file its length, what it begins with, and its data; give an errno, 0 for none."""
    facts, row, data, lead = what
    if call(calls[FTRUNCATE], handle, length, 0) < 0:
        return number_at(call_c(calls[ERRNO], (0, 0, 0, 0, 0)))
    position = 0
    while position < facts[row, LEAD]:
        size = min(facts[row, LEAD] - position, lead.size)
        error = put(calls, handle, (address_of(lead, 0), size, position))
        if error != 0:
            return error
        position += size
    start = address_of(data, facts[row, DATA])
    return put(calls, handle, (start, facts[row, BYTES], position))


@called
def put(calls: WriteCalls, handle: int, what: tuple[int, int, int]) -> int:
    """Write bytes from an address at a position of a file; give an errno, 0 for none."""
    address, size, position = what
    while size > 0:
        written = call_c(calls[PWRITE], (handle, address, size, position, 0))
        if written <= 0:
            return number_at(call_c(calls[ERRNO], (0, 0, 0, 0, 0)))
        address, size, position = address + written, size - written, position + written
    return 0
