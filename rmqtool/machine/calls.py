"""Functions of the C library that kernels call: what reads 100,000 files is asked of the system.

A call from Python takes several times as long as what the system does for it. The addresses differ
in each process, so they are arguments of kernels. Nothing is looked up by a path: each call has an
open directory or an open file.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.machine.compiled import inlined
from rmqtool.machine.intrinsics import call_c

if TYPE_CHECKING:
    from collections.abc import Sequence


class Calls(NamedTuple):
    """Addresses of functions, as man 2 and man 3 describe them."""

    openat: int
    close: int
    getdents64: int
    statx: int
    lseek: int
    pread: int
    errno: int  # `__errno_location`, which errno is a macro for


CALLS: Final = f"UniTuple(int64, {len(Calls._fields)})"  # numba's name for it
# Places of the addresses in `Calls`, as kernels take them: a tuple of numbers.
OPENAT, CLOSE, GETDENTS64, STATX, LSEEK, PREAD, ERRNO = range(len(Calls._fields))


@cache
def calls() -> Calls | None:
    """Give the addresses in this process; None where the library has not all, as on a Mac."""
    names = ("openat", "close", "getdents64", "statx", "lseek", "pread", "__errno_location")
    addresses = addresses_of(names)
    return None if addresses is None else Calls(*addresses)


def addresses_of(names: Sequence[str]) -> tuple[int, ...] | None:
    """Give the addresses of functions of the C library; None where it has not all."""
    if sys.byteorder != "little":  # what the system fills is read so
        return None
    try:
        library = ctypes.CDLL(None)
        functions = [ctypes.cast(getattr(library, name), ctypes.c_void_p) for name in names]
    except (OSError, AttributeError):
        return None
    addresses = tuple(function.value or 0 for function in functions)
    return addresses if all(addresses) else None


@inlined
def call(address: int, first: int, second: int, third: int) -> int:
    """Call a function that gives an `int`: -1 is an error."""
    return call_c(address, (first, second, third, 0, 0)) << 32 >> 32
