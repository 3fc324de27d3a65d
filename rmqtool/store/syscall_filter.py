"""Which system calls a confined process may make: a seccomp filter, in the kernel's own code.

What is not in the list does not exist for the process (ENOSYS): no network, no other program, no
other process, no mounts, no debugging. Numbers of calls differ by processor; of others there is no
filter. The list is what Python, RocksDB and the C library call once everything is imported.
Source: seccomp(2), linux/filter.h; asm/unistd_64.h of x86-64, asm-generic/unistd.h of aarch64.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import Final, NamedTuple


class Machine(NamedTuple):
    """A processor whose calls are known."""

    audit: int  # how the kernel calls it, AUDIT_ARCH_*
    column: int  # of its numbers in `CALLS`
    seccomp: int  # number of the call that installs a filter


MACHINES: Final = {
    "x86_64": Machine(0xC000003E, 0, 317),
    "aarch64": Machine(0xC00000B7, 1, 277),
}
NONE: Final = -1
# By name: number for x86-64, and for aarch64. What is called most stands first.
CALLS: Final = {
    "read": (0, 63), "write": (1, 64), "pread64": (17, 67), "futex": (202, 98),
    "readv": (19, 65), "writev": (20, 66), "pwrite64": (18, 68), "preadv": (295, 69),
    "pwritev": (296, 70), "preadv2": (327, 286), "mmap": (9, 222), "munmap": (11, 215),
    "mremap": (25, 216), "mprotect": (10, 226), "madvise": (28, 233), "brk": (12, 214),
    "lseek": (8, 62), "close": (3, 57), "fcntl": (72, 25), "dup": (32, 23),
    "open": (2, NONE), "openat": (257, 56), "stat": (4, NONE), "lstat": (6, NONE),
    "fstat": (5, 80), "newfstatat": (262, 79), "statx": (332, 291), "access": (21, NONE),
    "faccessat": (269, 48), "faccessat2": (439, 439), "readlink": (89, NONE),
    "readlinkat": (267, 78), "getdents64": (217, 61), "statfs": (137, 43), "fstatfs": (138, 44),
    "readahead": (187, 213), "fadvise64": (221, 223), "mkdir": (83, NONE), "mkdirat": (258, 34),
    "getcwd": (79, 17),
    "sched_yield": (24, 124), "sched_getaffinity": (204, 123), "getcpu": (309, 168),
    "nanosleep": (35, 101), "clock_nanosleep": (230, 115), "clock_gettime": (228, 113),
    "clock_getres": (229, 114), "gettimeofday": (96, 169), "getrusage": (98, 165),
    "times": (100, 153), "sysinfo": (99, 179), "uname": (63, 160), "getrandom": (318, 278),
    "getpid": (39, 172), "gettid": (186, 178), "getppid": (110, 173), "getuid": (102, 174),
    "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177),
    "set_robust_list": (273, 99), "rseq": (334, 293), "membarrier": (324, 283),
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132), "restart_syscall": (219, 128), "exit": (60, 93),
    "exit_group": (231, 94),
}  # fmt: skip
# What changes files: for a process that has a directory to write in.
WRITING: Final = {
    "fsync": (74, 82), "fdatasync": (75, 83), "sync_file_range": (277, 84),
    "ftruncate": (77, 46), "fallocate": (285, 47), "flock": (73, 32), "rename": (82, NONE),
    "renameat": (264, 38), "renameat2": (316, 276), "unlink": (87, NONE), "unlinkat": (263, 35),
}  # fmt: skip
# What is allowed with one value of an argument: which, and a mask of the bits that count.
CLONE, TGKILL, PRCTL, IOCTL = (56, 220), (234, 131), (157, 167), (16, 29)
CLONE_THREAD: Final = 0x00010000
PR_SET_NAME, PR_SET_VMA, TCGETS = 15, 0x53564D41, 0x5401
WHOLE: Final = 0xFFFFFFFF

X32: Final = 0x40000000  # numbers of another calling convention of x86-64 begin here
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # positions in struct seccomp_data
LOAD, EQUAL, AT_LEAST, AND, RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
KILL, ALLOW, REFUSE = 0x80000000, 0x7FFF0000, 0x00050000 | errno.ENOSYS
INSTRUCTION: Final = struct.Struct("HBBI")
MODE_FILTER, SET_MODE_FILTER, SPECULATION, PR_SET_SECCOMP = 2, 1, 4, 22


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def install(*, writes: bool) -> bool:
    """Take all other system calls from this thread and those that it starts; for good.

    Args:
        writes: whether it keeps what changes files.

    Returns:
        False where this processor or this kernel cannot.
    """
    machine = MACHINES.get(os.uname().machine)
    if machine is None or struct.calcsize("P") != struct.calcsize("q"):
        return False
    code = program(machine, os.getpid(), writes=writes)
    filled = ctypes.byref(_Program(len(code) // INSTRUCTION.size, code))
    library = ctypes.CDLL(None, use_errno=True)
    # Without SPECULATION, older kernels make each process with a filter slower.
    if not library.syscall(machine.seccomp, SET_MODE_FILTER, SPECULATION, filled):
        return True
    return not library.prctl(PR_SET_SECCOMP, MODE_FILTER, filled, 0, 0)


def program(machine: Machine, process: int, *, writes: bool) -> bytes:
    """Give the filter for a processor.

    Args:
        machine: the processor.
        process: the only one that may be sent a signal: what aborts itself does so.
        writes: as for `install`.
    """
    calls = (CALLS | WRITING) if writes else CALLS
    lines = [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, machine.audit),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
        (AT_LEAST, 0, 1, X32),
        (RETURN, 0, 0, REFUSE),
    ]
    for numbers in calls.values():
        if (number := numbers[machine.column]) != NONE:
            lines += [(EQUAL, 0, 1, number), (RETURN, 0, 0, ALLOW)]
    lines += _with_argument(CLONE[machine.column], 0, CLONE_THREAD, (CLONE_THREAD,))
    lines += _with_argument(TGKILL[machine.column], 0, WHOLE, (process,))
    lines += _with_argument(PRCTL[machine.column], 0, WHOLE, (PR_SET_NAME, PR_SET_VMA))
    lines += _with_argument(IOCTL[machine.column], 1, WHOLE, (TCGETS,))
    lines.append((RETURN, 0, 0, REFUSE))
    return b"".join(INSTRUCTION.pack(*line) for line in lines)


def _with_argument(
    number: int, argument: int, mask: int, values: tuple[int, ...]
) -> list[tuple[int, int, int, int]]:
    """Allow a call whose argument, after a mask, is one of some values; refuse it otherwise."""
    tests = [(EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
    body = [
        (LOAD, 0, 0, ARGUMENTS + 8 * argument),  # the lower half: both are little-endian
        (AND, 0, 0, mask),
        *tests,
        (RETURN, 0, 0, REFUSE),
        (RETURN, 0, 0, ALLOW),
    ]
    return [(EQUAL, 0, len(body), number), *body]
