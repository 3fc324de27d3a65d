"""Mutants that meet the tests that need a JVM or a browser: processes of their own, no forks."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tests.switches import ON, Ran

MARKS: Final = "(spark or broker or browser) and not all_variants"
AT_ONCE: Final = 2
SLACK, TIMES = 120, 6  # seconds that a run may take, and times what it took without a change
FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)


class Apart:
    """Runs those files that come by a mutant, the fastest first.

    A worker of Spark serves many tests and notes the first one only, so all tests of a file count.

    Args:
        ran: the tests that were watched.
        seconds: of tests for one mutant, as they took when nothing was changed.
        told: is given each outcome: number, test that fails or "", seconds, how many tests.
    """

    def __init__(
        self,
        ran: Iterable[Ran],
        seconds: float,
        told: Callable[[int, str, float, int], None],
    ) -> None:
        self._seconds, self._told = seconds, told
        self._names: defaultdict[str, list[str]] = defaultdict(list)
        self._took: defaultdict[str, float] = defaultdict(float)
        self._by: defaultdict[int, set[str]] = defaultdict(set)
        self._sound: dict[str, bool] = {}
        for one in ran:
            file = one.name.partition("::")[0]
            self._names[file].append(one.name)
            self._took[file] += one.seconds
            for number in one.numbers:
                self._by[number].add(file)

    def run(self, numbers: Iterable[int]) -> None:
        """Try all that these tests come by."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self._try, [number for number in numbers if number in self._by]))

    def _try(self, number: int) -> None:
        begin, left, tests, failed = time.perf_counter(), self._seconds, 0, ""
        for file in sorted(self._by[number], key=self._took.__getitem__):
            if tests and self._took[file] > left:
                break
            left -= self._took[file]
            tests += len(self._names[file])
            if failed := self._fails(number, file):
                break
        self._told(number, failed, time.perf_counter() - begin, tests)

    def _fails(self, number: int, file: str) -> str:
        names = self._names[file]
        while names:
            failed = _failing(names, number, SLACK + TIMES * self._took[file])
            if not failed or failed == file or self._is_sound(failed):
                return failed
            names = [name for name in names if name != failed]
        return ""

    def _is_sound(self, name: str) -> bool:
        if name not in self._sound:
            self._sound[name] = not _failing([name], -1, SLACK * TIMES)
        return self._sound[name]


def _failing(names: list[str], number: int, seconds: float) -> str:
    """Give the test that fails with a mutant; the file, when they take far too long."""
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-rfE", "-p", "no:cacheprovider"]
    process = subprocess.Popen(  # noqa: S603 - ourselves
        [*words, "-m", MARKS, *names],
        env={**os.environ, ON: str(number)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        text, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return names[0].partition("::")[0]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    found = FAILED.search(text)
    return found[1] if found and process.returncode else ""
