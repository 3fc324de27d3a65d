"""What a process gives up, for good, before it touches what a stranger wrote.

It keeps what is open, and memory, time and room up to a limit. It becomes a user without rights,
loses all capabilities and what its environment says, and the kernel lets it reach the files that
it was given alone (`landlock`), by few system calls (`syscall_filter`). Whatever a kernel lacks is
named, and the rest is done.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.store import landlock, syscall_filter

if TYPE_CHECKING:
    from collections.abc import Iterable

NOWHERE: Final = "/dev/null"  # what a library insists on writing goes there
SPARE_USERS: Final = 2_000_000_000  # from here on, numbers that no system gives to anybody
FEW: Final = 1 << 16  # users that a container has
BEFORE_LAST: Final = 1024  # its last ones have meanings, `nobody` among them
SET_DUMPABLE, DROP_BOUND, NO_NEW_PRIVILEGES, AMBIENT, CLEAR = 4, 24, 38, 47, 4  # of prctl
CAPABILITIES: Final = 0x20080522  # how sets of 64 capabilities are handed over
# What there is to confine by, for people.
LANDLOCK: Final = "Landlock, which shuts off other files (Linux 5.13 and newer)"
FILTER: Final = "a seccomp filter, which shuts off network and programs"
USER: Final = "a user without rights"
WAYS: Final = (LANDLOCK, FILTER, USER)


class Limits(NamedTuple):
    """What a confined process may use."""

    memory: int  # bytes
    seconds: int  # of a processor
    descriptors: int  # open at a time
    file_bytes: int  # of a file that it writes


class Room(NamedTuple):
    """What a confined process keeps."""

    directory: int  # that it works in, open
    files: tuple[int, ...]  # open files that it may open once more, for reading
    writes: bool  # whether it may make files in its directory
    user: int | None  # to become; None: whoever it is
    limits: Limits


def confine(room: Room) -> list[str]:
    """Give up all but what is in a room.

    Returns:
        What this machine cannot take away.

    Raises:
        OSError: the directory is not one.
    """
    os.environ.clear()
    os.fchdir(room.directory)
    if not sys.platform.startswith("linux"):
        return [LANDLOCK, FILTER]
    lacking = []
    _limit(room.limits)
    library = ctypes.CDLL(None, use_errno=True)
    _drop_bound(library)
    if room.user is not None and not _become(room.user):
        lacking.append(USER)
    _drop_capabilities(library)
    library.prctl(SET_DUMPABLE, 0, 0, 0, 0)  # nobody looks into it, not even the same user
    library.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if not landlock.restrict(_rules(room)):
        lacking.append(LANDLOCK)
    if not syscall_filter.install(writes=room.writes):
        lacking.append(FILTER)
    return lacking


def spare_user(number: int) -> int | None:
    """Give a user that nobody is: no file is his, and no process that was not made so.

    Args:
        number: chooses one of many.

    Returns:
        None where a container has no user to spare.
    """
    with suppress(OSError, ValueError), open("/proc/self/uid_map", encoding="ascii") as ranges:  # noqa: PTH123
        for line in ranges:
            first, _, count = map(int, line.split())
            if first <= SPARE_USERS < SPARE_USERS + FEW <= first + count:
                return SPARE_USERS + number % FEW
            if count > 2 * BEFORE_LAST:
                return first + count - BEFORE_LAST - 1 - number % BEFORE_LAST
    return None


def _rules(room: Room) -> Iterable[tuple[int, int]]:
    nowhere = os.open(NOWHERE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield nowhere, landlock.READ_FILE | landlock.WRITE_FILE | landlock.TRUNCATE
    finally:
        os.close(nowhere)
    yield room.directory, landlock.WRITING if room.writes else landlock.READING
    for file in room.files:
        yield file, landlock.READ_FILE


def _limit(limits: Limits) -> None:
    """Let a length from damaged bytes end this process, not the machine."""
    import resource

    wanted = {
        resource.RLIMIT_AS: 2 * limits.memory,  # what threads reserve and do not use counts, too
        resource.RLIMIT_DATA: limits.memory,
        resource.RLIMIT_CPU: limits.seconds,
        resource.RLIMIT_NOFILE: limits.descriptors,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_CORE: 0,  # no copy of its memory on the disk
    }
    for kind, most in wanted.items():
        hard = resource.getrlimit(kind)[1]
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (least, least))


def _drop_bound(library: ctypes.CDLL) -> None:
    """Make sure that no capability ever comes back; one who is not root has none."""
    number = 0
    while not library.prctl(DROP_BOUND, number, 0, 0, 0):
        number += 1


def _become(user: int) -> bool:
    """Become another user, of no group but that of the same number."""
    with suppress(OSError):  # a container may have no right to
        os.setgroups([])
    try:
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    except OSError:
        return False
    return True


def _drop_capabilities(library: ctypes.CDLL) -> None:
    library.prctl(AMBIENT, CLEAR, 0, 0, 0)
    library.capset(struct.pack("=Ii", CAPABILITIES, 0), bytes(24))  # all three sets are empty
