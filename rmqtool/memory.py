"""Keep the memory of this process to what is in use."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from typing import Final

MMAP_THRESHOLD: Final = -3  # of mallopt, glibc
LARGE: Final = 1 << 20  # bytes


def give_back_arrays() -> None:
    """Let large arrays go back to the system when they are freed.

    glibc raises the size from which it does so to the largest array that was freed, and then keeps
    what threads leave behind: a hundred MB that nobody uses.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, LARGE)
