"""Kernels that read directories which hold one mapped file each, and little in it.

A question to the operating system takes a microsecond, and Python as long to put it. All names are
looked up from directories that are open. What the system fills is laid out as Linux does on every
processor. Source: man 2 getdents64, man 2 statx.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, TypeAlias

from rmqtool.formats.consume_queue import CQ_UNIT_SIZE
from rmqtool.machine.calls import (
    CALLS,
    CLOSE,
    ERRNO,
    GETDENTS64,
    LSEEK,
    OPENAT,
    PREAD,
    STATX,
    call,
)
from rmqtool.machine.compiled import called, inlined, kernel
from rmqtool.machine.intrinsics import SLACK, address_of, call_c, load_i8, load_u1, number_at
from rmqtool.store.place import LISTED, OPEN_FLAGS
from rmqtool.store.segment import NAME_DIGITS

if TYPE_CHECKING:
    from rmqtool.machine.arrays import Int64s, UInt8s
    from rmqtool.machine.calls import Calls

    Integers: TypeAlias = tuple[int, ...]

MOST_DATA: Final = 1 << 16  # bytes of data of a file that is read as a whole
# Columns of what is known of each queue.
(
    QUEUE_ID,
    STATE,
    START,  # first byte of its file in the queue, by the name of the file
    FIRST,  # number of the first unit that is not zeros
    COUNT,  # units up to the last one that is not zeros
    MODE,  # of the file; owner and group follow
    OWNER,
    GROUP,
    STORED,  # bytes that the disk really holds
    DIRECTORY_MODE,  # of its directory; owner and group follow
    DIRECTORY_OWNER,
    DIRECTORY_GROUP,
    FACTS,  # how many columns these are
) = range(13)
# States of a queue.
SHORT: Final = 0  # its units are here
ASK: Final = 1  # the system refused something, or did not tell: to be asked again, and said
OTHER: Final = 2  # more than one file, another length, much data: looked at one by one

FLAGS: Final = LISTED | os.O_NOFOLLOW
# Source: linux/dirent.h, struct linux_dirent64.
RECORD_LENGTH, ENTRY_TYPE, ENTRY_NAME = 16, 18, 19
# Source: linux/stat.h, struct statx.
STATX_OWNER, STATX_GROUP, STATX_MODE, STATX_SIZE, STATX_BLOCKS = 20, 24, 28, 40, 48
STATX_BYTES: Final = 256
STATX_BASIC: Final = 0x7FF
EMPTY_PATH: Final = 0x1000  # AT_EMPTY_PATH: of what is open
DISK_BLOCK: Final = 512
WORD: Final = 8  # bytes that are looked at together
REGULAR, FORMAT = 0o100000, 0o170000
UNKNOWN_TYPE, DIRECTORY_TYPE, FILE_TYPE = 0, 4, 8
SEEK_DATA, SEEK_HOLE, ENXIO = 3, 4, 6
ZERO, NINE, DOT = 0x30, 0x39, 0x2E
LARGEST_INTEGER: Final = (1 << 31) - 1
QUEUE_DIGITS: Final = 10  # of the largest number of a queue
# Parts of the scratch of a kernel.
AT_STATX: Final = 0
AT_EMPTY: Final = STATX_BYTES  # an empty name
AT_LISTING: Final = STATX_BYTES + 8
LISTING_BYTES: Final = 4096
AT_DATA: Final = AT_LISTING + LISTING_BYTES
SCRATCH: Final = AT_DATA + MOST_DATA + SLACK
ROOM: Final = MOST_DATA + 2 * CQ_UNIT_SIZE  # bytes of units that a queue may have


@kernel(
    f"UniTuple(int64, 4)({CALLS}, UniTuple(int64, 4),"
    " uint8[::1], uint8[::1], int64[:, ::1], uint8[::1])"
)
def read_listed(
    calls: Calls, asked: Integers, listing: UInt8s, scratch: UInt8s, facts: Int64s, units: UInt8s
) -> Integers:
    """Read the queues that are listed, until the listing ends or there is no room for one more.

    Args:
        calls: functions of the C library.
        asked: the open directory that was listed; where to go on in the listing; where it ends;
            bytes of a file.
        listing: uint8: of the directory, as `getdents64` gives it.
        scratch: uint8, shape (SCRATCH,), all zeros from AT_EMPTY to AT_LISTING.
        facts: int64, shape (n, FACTS); filled.
        units: uint8; filled with the units of short queues, one after the other.

    Returns:
        Where to go on; how many queues are in `facts`; bytes of units; bytes that were read.
    """
    above, position, end, length = asked
    row, used, read = 0, 0, 0
    while position < end and row < facts.shape[0] and used + ROOM <= units.size:
        name, kind = position + ENTRY_NAME, listing[position + ENTRY_TYPE]
        number = queue_number(listing, name)
        if number >= 0 and kind in (DIRECTORY_TYPE, UNKNOWN_TYPE):
            facts[row, QUEUE_ID] = number
            state, size = read_queue(
                calls, above, address_of(listing, name), length, (scratch, facts, units, row, used)
            )
            facts[row, STATE] = state
            if state == SHORT:
                used += facts[row, COUNT] * CQ_UNIT_SIZE
                read += size
            row += state != OTHER
        position += native(listing, position + RECORD_LENGTH, 2)
    return position, row, used, read


@kernel(f"int64({CALLS}, int64, uint8[::1])")
def list_queues(calls: Calls, directory: int, listing: UInt8s) -> int:
    """List some of an open directory, from where it was left; give the bytes that were filled.

    Args:
        calls: functions of the C library.
        directory: descriptor.
        listing: uint8; filled.

    Returns:
        Bytes; 0 at its end, -errno where the system refuses.
    """
    filled = call(calls[GETDENTS64], directory, address_of(listing, 0), listing.size)
    return filled if filled >= 0 else -number_at(call_c(calls[ERRNO], (0, 0, 0, 0, 0)))


@inlined
def native(array: UInt8s, position: int, size: int) -> int:
    """Read a number as the system writes it, the low byte first."""
    number = 0
    for byte in range(size):
        number |= load_u1(array, position + byte) << (8 * byte)
    return number


@called
def queue_number(listing: UInt8s, name: int) -> int:
    """Read the name of a queue's directory, as `queue_id_of` does; -1 for another name."""
    number, at = 0, name
    while listing[at] != 0:
        if not ZERO <= listing[at] <= NINE or at - name >= QUEUE_DIGITS:
            return -1
        number = number * 10 + (listing[at] - ZERO)
        at += 1
    has_zero = listing[name] == ZERO and at > name + 1
    return -1 if at == name or has_zero or number > LARGEST_INTEGER else number


@called
def only_file(calls: Calls, directory: int, scratch: UInt8s) -> int:
    """Give where the name of the only entry of a directory stands, a file; -STATE for another."""
    at, count, result = address_of(scratch, AT_LISTING), 0, -OTHER
    filled = call(calls[GETDENTS64], directory, at, LISTING_BYTES)
    position = AT_LISTING
    while position < AT_LISTING + filled:
        name = position + ENTRY_NAME
        is_dots = scratch[name] == DOT and (
            scratch[name + 1] == 0 or (scratch[name + 1] == DOT and scratch[name + 2] == 0)
        )
        if not is_dots:
            count += 1
            kind = scratch[position + ENTRY_TYPE]
            result = name if kind == FILE_TYPE else -ASK if kind == UNKNOWN_TYPE else -OTHER
        position += native(scratch, position + RECORD_LENGTH, 2)
    if filled < 0:
        return -ASK
    if count > 1:
        return -OTHER
    # There may be more of it, which would lie where the name is.
    rest = address_of(scratch, AT_DATA)
    return result if call(calls[GETDENTS64], directory, rest, LISTING_BYTES) == 0 else -ASK


@called
def start_of_file(scratch: UInt8s, name: int) -> int:
    """Read the name of a mapped file of 20 digits; -1 for another name."""
    start = 0
    for at in range(name, name + NAME_DIGITS):
        if not ZERO <= scratch[at] <= NINE:
            return -1
        start = start * 10 + (scratch[at] - ZERO)
    # The largest number of 63 bits has 19 digits, and is less than ten times 10 ** 18.
    is_number = scratch[name + NAME_DIGITS] == 0 and scratch[name] == ZERO
    return start if is_number and start >= 0 else -1


@called
def read_queue(
    calls: Calls, above: int, name: int, length: int, out: tuple[UInt8s, Int64s, UInt8s, int, int]
) -> tuple[int, int]:
    """Read one queue; give its state, and the bytes that were read."""
    scratch, facts, _, row, _ = out
    directory = call(calls[OPENAT], above, name, FLAGS)
    if directory < 0:
        return ASK, 0
    file = only_file(calls, directory, scratch)
    start = start_of_file(scratch, file) if file > 0 else -1
    is_told = ask_facts(calls, directory, scratch, facts, (DIRECTORY_MODE, row))
    handle = -1
    if start >= 0 and start % length == 0 and is_told:
        handle = call(calls[OPENAT], directory, address_of(scratch, file), OPEN_FLAGS)
    call(calls[CLOSE], directory, 0, 0)
    if handle < 0:
        is_odd = file == -OTHER or (file > 0 and (start < 0 or start % length != 0))
        return (OTHER if is_odd else ASK), 0
    facts[row, START] = start
    state, size = read_file(calls, handle, length, out)
    call(calls[CLOSE], handle, 0, 0)
    return state, size


@called
def ask_facts(
    calls: Calls, handle: int, scratch: UInt8s, facts: Int64s, place: tuple[int, int]
) -> bool:
    """Ask what is open for mode, owner and group; give whether the system told."""
    statx, empty = address_of(scratch, AT_STATX), address_of(scratch, AT_EMPTY)
    given = (handle, empty, EMPTY_PATH, STATX_BASIC, statx)
    if call_c(calls[STATX], given) << 32 != 0:
        return False
    first, row = place
    facts[row, first] = native(scratch, AT_STATX + STATX_MODE, 2)
    facts[row, first + 1] = native(scratch, AT_STATX + STATX_OWNER, 4)
    facts[row, first + 2] = native(scratch, AT_STATX + STATX_GROUP, 4)
    return True


@called
def read_file(
    calls: Calls, handle: int, length: int, out: tuple[UInt8s, Int64s, UInt8s, int, int]
) -> tuple[int, int]:
    """Read the file of a queue; give the state of the queue, and the bytes that were read."""
    scratch, facts, _, row, _ = out
    if not ask_facts(calls, handle, scratch, facts, (MODE, row)):
        return ASK, 0
    if facts[row, MODE] & FORMAT != REGULAR or native(scratch, AT_STATX + STATX_SIZE, 8) != length:
        return OTHER, 0
    blocks = native(scratch, AT_STATX + STATX_BLOCKS, 8) * DISK_BLOCK
    facts[row, STORED] = min(length, blocks)
    begin, end = extent(calls, handle, length)
    if begin < 0:
        return end, 0
    size = end - begin
    if size > MOST_DATA:
        return OTHER, 0
    if size:
        at = address_of(scratch, AT_DATA)
        if call_c(calls[PREAD], (handle, at, size, begin, 0)) != size:
            return ASK, 0
    keep_units(scratch, size, facts[row, START] + begin, out)
    return SHORT, size


@called
def extent(calls: Calls, handle: int, length: int) -> tuple[int, int]:
    """Give where the only data of a file begin and end; -1 and a state where there are more."""
    # Most data begin where the file does: their end is asked first, and a call less is made.
    begin, end = 0, call_c(calls[LSEEK], (handle, 0, SEEK_HOLE, 0, 0))
    if end == 0:
        begin = call_c(calls[LSEEK], (handle, 0, SEEK_DATA, 0, 0))
        if begin < 0:
            is_hole = number_at(call_c(calls[ERRNO], (0, 0, 0, 0, 0))) == ENXIO
            return (0, 0) if is_hole else (-1, ASK)
        end = call_c(calls[LSEEK], (handle, begin, SEEK_HOLE, 0, 0))
    if end < 0:
        return -1, ASK
    if end >= length:
        return begin, length
    if call_c(calls[LSEEK], (handle, end, SEEK_DATA, 0, 0)) >= 0:
        return -1, OTHER
    if number_at(call_c(calls[ERRNO], (0, 0, 0, 0, 0))) != ENXIO:
        return -1, ASK
    return begin, end


@called
def keep_units(
    scratch: UInt8s, size: int, place: int, out: tuple[UInt8s, Int64s, UInt8s, int, int]
) -> None:
    """Copy what is no zeros of the data of a file, as whole units.

    Args:
        scratch: uint8: the data, from AT_DATA on.
        size: bytes of it.
        place: of the data in the queue.
        out: see `read_queue`.
    """
    _, facts, units, row, used = out
    first, end = AT_DATA, AT_DATA + size
    while end - first >= WORD and load_i8(scratch, end - WORD) == 0:
        end -= WORD
    while end > first and scratch[end - 1] == 0:
        end -= 1
    while first < end and scratch[first] == 0:
        first += 1
    if first == end:
        facts[row, FIRST], facts[row, COUNT] = place // CQ_UNIT_SIZE, 0
        return
    number = (place + first - AT_DATA) // CQ_UNIT_SIZE
    count = -(-(place + end - AT_DATA) // CQ_UNIT_SIZE) - number
    facts[row, FIRST], facts[row, COUNT] = number, count
    before = place + first - AT_DATA - number * CQ_UNIT_SIZE
    for at in range(before):
        units[used + at] = 0
    for at in range(end - first):
        units[used + before + at] = scratch[first + at]
    for at in range(before + end - first, count * CQ_UNIT_SIZE):
        units[used + at] = 0
