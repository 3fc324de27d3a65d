"""Swap a component of a store for a link between any two calls of a command that changes it.

    python -m tests.hostile.races [--work repair undo copy] [--each 2] [--step 1] [--begin 0]

The store is a stranger's, and root repairs it, rebuilds it, takes a repair back, or makes a copy,
an export or a file of messages out of it. Before each call of the system that looks up a name,
those that only ask included, one component becomes a link to a place outside that has the same
shape, so that whatever follows it finds a lot; each component has its turn at each call. A swap
before a call that has a descriptor alone is the same as one before the next look-up. What lies
outside is compared before and after: bytes, owners, modes, times; a repaired copy must hold none of
it. `--step N` tries every N-th of these calls, another one for each component; `--each N` tries N
calls of each kind, which is what is called and the lines that lead there. What is wrong is printed,
then a table.
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
from rmqtool.messages.extract import ExtractRun
from rmqtool.messages.options import ExtractOptions
from rmqtool.repair import apply, plan, undo
from rmqtool.repair.plans import Plan
from rmqtool.spark.export_options import ExportFormat
from rmqtool.writing.lock import StoreLock
from tests.hostile.stranger import NOBODY, SECRET, Scene, scene
from tests.spark.test_export import exported
from tests.store.faults import Faults

# ruff: noqa: T201 - a program that prints
COMPONENTS: Final = (
    "consumequeue", "consumequeue/crash-orders", "consumequeue/crash-orders/1", "commitlog",
    "config", "index", "commitlog/00000000000000000000", "checkpoint", "lock",
)  # fmt: skip
WORKS: Final = ("repair", "undo", "rebuild")  # each can be taken back, whole
OTHERS: Final = ("rebuild-cq", "rebuild-index", "copy", "export", "extract")
ALL: Final = (*WORKS, *OTHERS)


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
        work: out of `WORKS` and `OTHERS`.
        count: calls of the system that it makes.
        named: numbers of those that look up a name.
        kinds: the same, by what is called, and from where.
    """

    def __init__(self, made: Scene, work: str) -> None:
        self.made, self.work = made, work
        made.yield_to_stranger()
        if work == "copy":
            mark(made.outside)
        self._wanted: Plan = plan(made.store)
        self._before = made.seen()
        self._pristine = made.top / "pristine"
        shutil.copytree(made.store, self._pristine, symlinks=True)
        self.prepare()
        faults = Faults(reads=True)
        with faults.injected():
            self.go()
        self.count, self.named = faults.count, faults.named
        self.kinds: dict[str, list[int]] = {}
        for number in self.named:
            self.kinds.setdefault(faults.kinds[number], []).append(number)

    def chosen(self, each: int) -> list[int]:
        """Give some calls by name of each kind, all over the work."""
        return sorted(
            numbers[len(numbers) * at // min(each, len(numbers))]
            for numbers in self.kinds.values()
            for at in range(min(each, len(numbers)))
        )

    def tries(
        self, begin: int = 0, step: int = 1, each: int = 0
    ) -> Iterator[tuple[int, str, bool]]:
        """Yield number of a call, component, and whether all outside stayed where and as it was.

        Args:
            begin: the first call by name, of the first component; the next begins a call later.
            step: tries each call by name that is so far from the one before.
            each: tries so many calls of each kind only; 0 tries them all.
        """
        named = self.chosen(each) if each else self.named
        for later, name in enumerate(COMPONENTS):
            for number in named[(begin + later) % step :: step]:
                self.prepare()
                action = swapping(self.made.store, name, self.made.outside)
                with Faults(number, action, reads=True).injected():
                    self.go()
                yield number, name, self.is_whole_outside() and not self.copied()

    def is_whole_outside(self) -> bool:
        """Tell whether all that lies outside of the store is as it was."""
        return self._before == self.made.seen()

    def copied(self) -> list[str]:
        """Name the files of a repaired copy that hold what lies outside."""
        copies = [path for path in (self.made.work / "copy").rglob("*") if path.is_file()]
        return [path.name for path in copies if SECRET in path.read_bytes()]

    def prepare(self) -> None:
        """Put the store back as it is when the work begins."""
        renew(self.made, self._pristine)
        for path in self.made.work.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if self.work == "undo":
            apply(self._wanted, in_place=True)

    def go(self) -> None:
        """Do the work, as far as that goes."""
        store, new = self.made.store, self.made.work / self.work
        with suppress(RmqtoolError):
            match self.work:
                case "repair":
                    apply(self._wanted, in_place=True)
                case "undo":
                    undo(store)
                case "rebuild":
                    rebuild.all(store, in_place=True, jobs=1)
                case "rebuild-cq":
                    rebuild.consume_queues(store, in_place=True, jobs=1)
                case "rebuild-index":
                    rebuild.index(store, in_place=True, jobs=1)
                case "copy":
                    apply(self._wanted, new)
                case "export":
                    exported(store, new, form=ExportFormat.JSONL, by=("topic",))
                case _:
                    ExtractRun(ExtractOptions((str(store),), f"{new}.jsonl", jobs=1)).run()


def mark(outside: Path) -> None:
    """Put a secret into each file that a component can be made a link to."""
    for path in outside.rglob("*"):
        if path.is_file() and path.stat().st_size > 2 * len(SECRET):
            with path.open("r+b") as file:
                file.seek(path.stat().st_size // 2)
                file.write(SECRET)


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
    parser.add_argument("--work", nargs="+", choices=ALL, default=[*ALL])
    parser.add_argument("--begin", type=int, default=0)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--each", type=int, default=0)
    asked = parser.parse_args()
    failed = 0
    for work in asked.work:
        with races(work) as race:
            tries = wrong = 0
            for number, name, is_whole in race.tries(asked.begin, asked.step, asked.each):
                tries += 1
                if not is_whole:
                    wrong += 1
                    print(f"{work} | call {number} | {name} | changed or copied")
            calls = f"{race.count:,} calls, {len(race.named):,} by name, {len(race.kinds):,} kinds"
            print(f"{work} | {calls} | {tries:,} tries | {wrong:,} wrong", flush=True)
            failed += wrong
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
