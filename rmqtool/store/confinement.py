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

from rmqtool.store import syscall_filter

if TYPE_CHECKING:
    from collections.abc import Iterable


MORE_SECONDS: Final = 2  # until SIGKILL: where both limits are one, no SIGXCPU tells the cause
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
    if not restrict(_rules(room)):
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
        yield nowhere, READ_FILE | WRITE_FILE | TRUNCATE
    finally:
        os.close(nowhere)
    yield room.directory, WRITING if room.writes else READING
    for file in room.files:
        yield file, READ_FILE


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
        end = least
        if kind == resource.RLIMIT_CPU and hard == resource.RLIM_INFINITY:
            end += MORE_SECONDS
        resource.setrlimit(kind, (least, end))


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


# Which files a confined process may reach: Landlock, from Linux 5.13 on.
#
# Rules name open files and directories, never paths, so nobody can put another file in their place.
# What no rule allows is refused, whoever runs the process; so are TCP, abstract sockets and signals
# to other processes, where the kernel knows how.
# See landlock(7), linux/landlock.h, ABI 1 to 7.


CREATE, ADD_RULE, RESTRICT = 444, 445, 446  # the same on all processors
VERSION, PATH_BENEATH = 1, 1
WRITE_FILE, READ_FILE, READ_DIR = 1 << 1, 1 << 2, 1 << 3
REMOVE_FILE, MAKE_FILE, TRUNCATE = 1 << 5, 1 << 8, 1 << 14
ALL: Final = (1 << 13) - 1  # what the first version knows
ADDED: Final = {2: 1 << 13, 3: TRUNCATE, 5: 1 << 15}  # by the version that brought it
NETWORK_VERSION, SCOPE_VERSION = 4, 6
RULE: Final = struct.Struct("=Qi")
READING: Final = READ_FILE | READ_DIR
WRITING: Final = READING | WRITE_FILE | REMOVE_FILE | MAKE_FILE | TRUNCATE


def restrict(rules: Iterable[tuple[int, int]]) -> bool:
    """Let this thread and those that it starts reach only what rules allow; for good.

    Args:
        rules: an open file or directory, and what is allowed there and below.

    Returns:
        False where this kernel cannot, or may not be asked.

    Raises:
        OSError: a rule is refused.
    """
    library = ctypes.CDLL(None, use_errno=True)
    version = library.syscall(CREATE, None, ctypes.c_size_t(0), VERSION)
    if version < 1:
        return False
    known = ALL
    for since, right in ADDED.items():
        known |= right if version >= since else 0
    handled = struct.pack("=Q", known)
    if version >= NETWORK_VERSION:
        handled += struct.pack("=Q", 3)  # binding and connecting
    if version >= SCOPE_VERSION:
        handled += struct.pack("=Q", 3)  # abstract sockets and signals
    ruleset = library.syscall(CREATE, handled, ctypes.c_size_t(len(handled)), 0)
    if ruleset < 0:
        return False
    try:
        for handle, allowed in rules:
            rule = RULE.pack(allowed & known, handle)
            if library.syscall(ADD_RULE, ruleset, PATH_BENEATH, rule, 0):
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code))
        return not library.syscall(RESTRICT, ruleset, 0)
    finally:
        with suppress(OSError):
            os.close(ruleset)
