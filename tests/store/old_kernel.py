"""Run a program as an older kernel would: without Landlock, or without seccomp, or both.

    python -m tests.store.old_kernel landlock,seccomp PROGRAM ARGUMENT ...

A seccomp filter of this process answers that there are no such calls.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

from rmqtool.store.syscall_filter import (
    ALLOW,
    ARGUMENTS,
    EQUAL,
    INSTRUCTION,
    LOAD,
    MACHINES,
    MODE_FILTER,
    NUMBER,
    PR_SET_SECCOMP,
    PRCTL,
    REFUSE,
    RETURN,
    _Program,
)

MACHINE: Final = MACHINES[os.uname().machine]
NO_NEW_PRIVILEGES: Final = 38
WITHOUT: Final = {
    "landlock": [
        (EQUAL, 2, 0, 444), (EQUAL, 1, 0, 445), (EQUAL, 0, 1, 446), (RETURN, 0, 0, REFUSE),
    ],
    "seccomp": [
        (EQUAL, 0, 1, MACHINE.seccomp), (RETURN, 0, 0, REFUSE),
        (EQUAL, 0, 4, PRCTL[MACHINE.column]), (LOAD, 0, 0, ARGUMENTS),
        (EQUAL, 0, 1, PR_SET_SECCOMP), (RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW),
    ],
}  # fmt: skip


def main() -> None:
    """Take the calls away, and become the program."""
    lines = [(LOAD, 0, 0, NUMBER)]
    for name in filter(None, sys.argv[1].split(",")):
        lines += WITHOUT[name]
    lines.append((RETURN, 0, 0, ALLOW))
    code = b"".join(INSTRUCTION.pack(*line) for line in lines)
    library = ctypes.CDLL(None, use_errno=True)
    library.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    filled = ctypes.byref(_Program(len(lines), code))
    if library.prctl(PR_SET_SECCOMP, MODE_FILTER, filled, 0, 0):
        raise OSError(ctypes.get_errno(), "no filter")
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - ourselves


if __name__ == "__main__":
    main()
