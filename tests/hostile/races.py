"""Swap a component of a store for a link between any two calls of a command that changes it.

    python -m tests.hostile.races [--work repair undo rebuild] [--step 1] [--begin 0]

The store is a stranger's, and root repairs it, rebuilds it, or takes a repair back. At each call of
the system, those that only ask included, one component becomes a link to a place outside that has
the same shape, so that whatever follows it finds a lot; each component has its turn at each call.
What lies outside is compared before and after: bytes, owners, modes, times. `--step N` tries every
N-th call only, another one for each component. What was changed is printed, then a table.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final
from unittest import mock

from rmqtool import rebuild
from rmqtool.errors import RmqtoolError
from rmqtool.repair import apply, plan, undo
from rmqtool.repair.plans import Plan
from rmqtool.writing.lock import StoreLock
from tests.hostile.stranger import NOBODY, Scene, scene
from tests.store.faults import Faults, operations

# ruff: noqa: T201 - a program that prints
COMPONENTS: Final = (
    "consumequeue", "consumequeue/crash-orders", "consumequeue/crash-orders/1", "commitlog",
    "config", "index", "commitlog/00000000000000000000", "checkpoint", "lock",
)  # fmt: skip
WORKS: Final = ("repair", "undo", "rebuild")


def swapping(root: Path, name: str, outside: Path) -> Callable[..., object]:
    """Give an action that swaps a component for a link, then lets the call go on."""

    def action(call: Callable[..., object], args: tuple[object, ...]) -> object:
        path = root / name
        with suppress(OSError):
            path.rename(root.parent / "away")
            path.symlink_to(outside / name)
        return call(*args)

    return action


class Race:
    """One command on a stranger's store, again and again.

    Attributes:
        made: the store, and what lies outside of it.
        work: out of `WORKS`.
        count: calls of the system that it makes.
    """

    def __init__(self, made: Scene, work: str) -> None:
        self.made, self.work = made, work
        made.yield_to_stranger()
        self._wanted: Plan = plan(made.store)
        self._before = made.seen()
        self._pristine = made.top / "pristine"
        shutil.copytree(made.store, self._pristine, symlinks=True)
        self.prepare()
        self.count = operations(self.go, reads=True)

    def tries(self, begin: int = 0, step: int = 1) -> Iterator[tuple[int, str, bool]]:
        """Yield number of a call, component, and whether all outside stayed as it was.

        Args:
            begin: the first call, of the first component; the next one begins a call later.
            step: tries each call that is so far from the one before.
        """
        for later, name in enumerate(COMPONENTS):
            for number in range((begin + later) % step, self.count, step):
                self.prepare()
                action = swapping(self.made.store, name, self.made.outside)
                with Faults(number, action, reads=True).injected():
                    self.go()
                yield number, name, self.is_whole_outside()

    def is_whole_outside(self) -> bool:
        """Tell whether all that lies outside of the store is as it was."""
        return self._before == self.made.seen()

    def prepare(self) -> None:
        """Put the store back as it is when the work begins."""
        renew(self.made, self._pristine)
        if self.work == "undo":
            apply(self._wanted, in_place=True)

    def go(self) -> None:
        """Do the work, as far as that goes."""
        with suppress(RmqtoolError):
            if self.work == "repair":
                apply(self._wanted, in_place=True)
            elif self.work == "undo":
                undo(self.made.store)
            else:
                rebuild.all(self.made.store, in_place=True, jobs=1)


def renew(made: Scene, pristine: Path) -> None:
    """Put the store back, with its times, so that the plan still fits."""
    for path in (made.store, made.top / "away"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
    shutil.copytree(pristine, made.store, symlinks=True)
    for path in [made.store, *made.store.rglob("*")]:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    for path in sorted(pristine.rglob("*"), reverse=True):
        facts = path.lstat()
        times = (facts.st_atime_ns, facts.st_mtime_ns)
        os.utime(made.store / path.relative_to(pristine), ns=times, follow_symlinks=False)


@contextmanager
def races(work: str) -> Iterator[Race]:
    """Make a store to race about."""
    with ExitStack() as stack:
        # Nobody looks through all processes for a broker, thousands of times.
        stack.enter_context(mock.patch.object(StoreLock, "_others", return_value=[]))
        yield Race(stack.enter_context(scene(0)), work)


def main() -> int:
    """Print what was changed outside, then a table of what was tried; 1 when something was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", nargs="+", choices=WORKS, default=[*WORKS])
    parser.add_argument("--begin", type=int, default=0)
    parser.add_argument("--step", type=int, default=1)
    asked = parser.parse_args()
    failed = 0
    for work in asked.work:
        with races(work) as race:
            tries = wrong = 0
            for number, name, is_whole in race.tries(asked.begin, asked.step):
                tries += 1
                if not is_whole:
                    wrong += 1
                    print(f"{work} | call {number} | {name} | something outside has changed")
            print(f"{work} | {race.count:,} calls | {tries:,} tries | {wrong:,} wrong", flush=True)
            failed += wrong
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
