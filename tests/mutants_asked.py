"""All mutants in one tree, each behind a switch (`tests/switches.py`), and the whole suite."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from tests.mutants import Mutant
from tests.mutants_apart import MARKS, Apart
from tests.switches import NOW, SEEN, Ran, Reached, Tried, reached, switched
from tests.tiers import CI, WHOLE

LATE: Final = "out of time"
NEED_MORE: Final = "not spark and not broker and not browser and not all_variants"


def whole(mutants: list[Mutant], out: Path, seconds: float) -> list[Mutant]:
    """Let the whole suite look at all mutants that can be switched; give those that cannot.

    Args:
        mutants: all of a run.
        out: file of outcomes, which may have some already.
        seconds: of tests for one mutant, as they took when nothing was changed.
    """
    asked = Asked(mutants, switched(mutants), out, seconds)
    slow = f"not quick and {NEED_MORE}"
    with ThreadPoolExecutor(2) as pool:  # one process each
        left_out = pool.submit(asked.watched, "all", slow, WHOLE, but=_collected(slow, CI))
        quick, some = asked.watched("quick", "quick", WHOLE), asked.watched("some", slow, CI)
        rest = left_out.result()
    asked.tell("whole", quick | some)
    asked.tell("all", rest)
    asked.tell_apart(asked.watched("java", MARKS, CI))
    git = ["git", "checkout", "-q", "rmqtool"]
    subprocess.run(git, check=True)  # noqa: S603
    return [mutant for number, mutant in enumerate(mutants) if number not in asked.inside]


class Asked:
    """All mutants that are switched in the tree here, and what is found out about them.

    Args:
        mutants: all of a run.
        inside: the numbers of those that can be switched.
        out: file of outcomes, which may have some already.
        seconds: of tests for one mutant, as they took when nothing was changed.
    """

    def __init__(self, mutants: list[Mutant], inside: set[int], out: Path, seconds: float) -> None:
        self.inside = inside
        self._mutants, self._out, self._seconds = mutants, out, seconds
        self._quick: set[str] = set()

    def watched(
        self, name: str, marks: str, tier: str, but: Collection[str] = ()
    ) -> dict[str, Ran]:
        """Run tests once, and note which of them come by which mutant; or read what was noted.

        Args:
            name: of what is noted.
            marks: of the tests.
            tier: that has them.
            but: those that run elsewhere.
        """
        folder = self._out.with_name(f"{self._out.stem}-{name}")
        if not (folder / "ran").exists():
            folder.mkdir(exist_ok=True)
            folder.chmod(0o777)  # some tests run commands as another user
            (folder / NOW).touch()
            words = ["--tier", tier, "-m", marks, "tests"]
            forked(partial(_run, words, Reached(folder, but), str(folder)), 4 * 3600)
        found = reached(folder)
        self._quick |= found.keys() if name == "quick" else set()
        return found

    def tell(self, tier: str, ran: dict[str, Ran]) -> None:
        """Let each mutant that survives meet tests in forks, those of the quick tier first."""
        took = {one.name: one.seconds for one in ran.values()}
        wanted: dict[int, list[str]] = {}
        cut: set[int] = set()
        for number in self._left(tier):
            by = [one for one in ran.values() if number in one.numbers]
            by.sort(key=lambda one: (one.name not in self._quick, one.seconds))
            until = np.cumsum([one.seconds for one in by])
            wanted[number] = [
                one.name for one, at in zip(by, until, strict=True) if at < self._seconds
            ]
            if len(wanted[number]) < len(by):
                cut.add(number)

        def told(number: int, failed: str, taken: float) -> None:
            late = LATE if number in cut else ""
            self._write(number, tier, failed, late, taken, len(wanted[number]))

        files = sorted({name.partition("::")[0] for names in wanted.values() for name in names})
        forked(partial(_run, ["-m", NEED_MORE, *files], Tried(wanted, took, told)), 4 * 3600)

    def tell_apart(self, ran: dict[str, Ran]) -> None:
        """Let each mutant that survives meet the tests that cannot be forked."""

        def told(number: int, failed: str, taken: float, tests: int) -> None:
            self._write(number, "java", failed, "", taken, tests)

        Apart(ran.values(), self._seconds, told).run(self._left("java"))

    def _left(self, tier: str) -> list[int]:
        """Give the numbers of those that survive and that a tier has not seen."""
        seen = {
            Mutant(*(outcome[name] for name in Mutant._fields))
            for outcome in outcomes(self._out)
            if outcome["by"] or outcome.get("tier", "whole") == tier
        }
        return sorted(outcome for outcome in self.inside if self._mutants[outcome] not in seen)

    def _write(
        self, number: int, tier: str, failed: str, late: str, taken: float, tests: int
    ) -> None:
        by = "" if not failed else "quick" if failed in self._quick else "whole"
        line = {**self._mutants[number]._asdict(), "tiers": ["quick", "whole"], "tier": tier}
        line |= {"by": by, "failed": failed or late, "tests": tests, "seconds": round(taken, 1)}
        with self._out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _collected(marks: str, tier: str) -> set[str]:
    """Name the tests of a tier."""
    words = ["pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", *words, "--tier", tier, "-m", marks, "tests"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603
    return {line for line in text.splitlines() if "::" in line}


def _run(arguments: list[str], plugin: object, seen: str | None = None) -> int:
    if seen is not None:
        os.environ[SEEN] = seen
    return int(pytest.main(["-q", "-p", "no:cacheprovider", *arguments], [plugin]))


def outcomes(out: Path) -> list[dict[str, Any]]:
    """Read what was found before."""
    lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    return [json.loads(line) for line in lines]


def forked(work: Callable[[], int], seconds: float) -> int | None:
    """Do something in a child that has loaded what is slow to load; None when it takes too long."""
    child = os.fork()
    if not child:
        os.setsid()
        with Path(os.devnull).open("w") as nothing:
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
        code = 70
        with contextlib.suppress(BaseException):
            code = work()
        os._exit(code)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None
