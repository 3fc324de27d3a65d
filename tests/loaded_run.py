"""Run tests again and again while the machine has far more to do than it has processors.

    python -m tests.loaded_run [--load 20] [--nice 0] [--times 3] [PYTEST ARGUMENTS]

Without arguments: the test files that wait for something, kill something, or drive a process with a
clock of its own, such as a broker. What passes here does not depend on how fast a machine is. After
each run it says how long that took and what the load of the machine was, each minute.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parent
ROOT: Final = TESTS.parent
BUSY: Final = (sys.executable, "-c", "while True: pass")
WAITS: Final = re.compile(
    r"\b(sleep|wait_until|monotonic|perf_counter|deadline|Thread|Popen|SIG(INT|TERM|KILL)"
    r"|running_broker|StreamingQuery\w*)\b|\btimeout=|\.(kill|wait)\("
)


def files_that_wait() -> list[str]:
    """Give the test files in which time plays a part."""
    return [
        path.relative_to(ROOT).as_posix()
        for path in sorted(TESTS.rglob("test_*.py"))
        if WAITS.search(path.read_text(encoding="utf-8"))
    ]


def watch(ended: threading.Event, loads: list[float]) -> None:
    """Note the load of each minute until something has ended."""
    while not ended.wait(60):
        loads.append(os.getloadavg()[0])


def main() -> int:
    """Run them; the exit code is that of the first run that fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--load", type=int, default=20, help="processes that are always busy")
    parser.add_argument("--nice", type=int, default=0, help="of these")
    parser.add_argument("--times", type=int, default=3)
    asked, wanted = parser.parse_known_args()
    words = [sys.executable, "-m", "pytest", "-q", *(wanted or files_that_wait())]
    with ExitStack() as stack:
        for _ in range(asked.load):
            words_of_one = ("nice", "-n", str(asked.nice), *BUSY)
            busy = subprocess.Popen(words_of_one)  # noqa: S603 - ourselves
            stack.callback(busy.wait)
            stack.callback(busy.kill)
        for number in range(1, asked.times + 1):
            began = time.monotonic()
            ended, loads = threading.Event(), list[float]()
            watching = threading.Thread(target=watch, args=(ended, loads))
            watching.start()
            code = subprocess.run(words, cwd=ROOT, check=False).returncode  # noqa: S603 - likewise
            ended.set()
            watching.join()
            took = f"{time.monotonic() - began:.0f} s"
            loads = loads or [os.getloadavg()[0]]
            load = f"load {min(loads):.0f} to {max(loads):.0f}"
            print(f"run {number}: exit code {code}, {took}, {load}")  # noqa: T201
            if code:
                return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
