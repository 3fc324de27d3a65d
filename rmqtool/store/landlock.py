"""Which files a confined process may reach: Landlock, from Linux 5.13 on.

Rules name open files and directories, never paths, so nobody can put another file in their place.
What no rule allows is refused, whoever runs the process; so are TCP, abstract sockets and signals
to other processes, where the kernel knows how.
Source: landlock(7), linux/landlock.h, ABI 1 to 7.
"""

from __future__ import annotations

import ctypes
import os
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

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
