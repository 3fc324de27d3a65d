"""Keep the memory of this process to what is in use, and use again what it has."""

from __future__ import annotations

import ctypes
import gc
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of mallopt, glibc. Measured on 2 GiB: without these 202 MiB and 45,000 page faults; with arrays of
# 1 MiB and more given back at once 181, but 150,000, which take 0.1 s; with these 198 and 26,000.
TRIM_THRESHOLD: Final = (-1, 64 << 20)  # free bytes at the top that go back to the system
MMAP_THRESHOLD: Final = (-3, 6 << 20)  # an array from this size on goes back when it is freed
ARENA_MAX: Final = (-8, 1)  # threads use again what another has freed


def give_back_arrays() -> None:
    """Let large arrays go back to the system when they are freed.

    glibc raises the size from which it does so to the largest array that was freed, and then keeps
    what threads leave behind: a hundred MB that nobody uses.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            library = ctypes.CDLL(None)
            for parameter, value in (TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX):
                library.mallopt(parameter, value)


def give_back_rest() -> None:
    """Let go of what was freed piecemeal, once much was and other large things are to come."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def lasting() -> Iterator[None]:
    """Have what is made meanwhile looked through for garbage neither now nor later.

    What is imported lives to the end: each look through it takes 20 ms and more.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
