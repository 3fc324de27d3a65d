"""What Python allocates for some work, whatever else the process does meanwhile."""

from __future__ import annotations

import gc
import os
import traceback
import tracemalloc
from collections.abc import Callable
from typing import Final

OFTEN: Final = (700, 10, 10)  # objects between two looks for garbage, as Python begins


def peak(work: Callable[[], object]) -> int:
    """Give the bytes that some work has allocated at most at a time.

    It is done in a child, which has the one thread that forked it: what other threads of the
    tests' process allocate meanwhile (those that serve a Java process, a server or a client)
    would be counted, too. What must be loaded once has to be loaded before.

    Raises:
        AssertionError: The work has failed; its traceback stands in the standard error.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            gc.freeze()  # garbage of the parent is the parent's to let go: some of it talks to Java
            gc.set_threshold(*OFTEN)  # a command that ran in this process has set it otherwise
            tracemalloc.start()
            work()
            os.write(writing, str(tracemalloc.get_traced_memory()[1]).encode())
            code = 0
        finally:
            if code:
                os.write(2, traceback.format_exc().encode())
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        counted = answer.read()
    _, status = os.waitpid(child, 0)
    assert not os.waitstatus_to_exitcode(status)
    return int(counted)
