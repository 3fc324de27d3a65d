"""Swap a component of a store for a link between any two calls of a command that changes it.

    python -m tests.hostile.races [--work repair undo] [--step 1] [--every-call] [--jobs 2]

The store is a stranger's, and root repairs it, rebuilds it, takes a repair back, or makes a copy,
an export or a file of messages out of it. Before a call of the system, one that only asks included,
a component becomes a link to a place outside that has the same shape, so that whatever follows it
finds a lot; each component has its turn. For a call that does not ask about the component, nor
about what lies below it, nor about the directory that it lies in, a swap is the same as one before
the next call: so it is tried before those that do. `--every-call` tries all that look up or list
names. What lies outside is compared before and after: bytes, owners, modes, times; a repaired copy
must hold none of it. `--step N` tries every N-th of these calls, others for each component. What is
wrong is printed, then a table.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final, NamedTuple
from unittest import mock

from rmqtool import rebuild
from rmqtool.cli.exits import BUG
from rmqtool.cli.main import main as rmqtool
from rmqtool.errors import RmqtoolError
from rmqtool.messages.extract import ExtractRun
from rmqtool.messages.options import ExtractOptions
from rmqtool.reads.export_options import ExportFormat
from rmqtool.repair import apply, plan, undo
from rmqtool.repair.plans import Plan
from rmqtool.store import rocksdb_cell
from rmqtool.store.place import Place
from rmqtool.writing.lock import StoreLock
from tests import rocksdb_process
from tests.hostile.pristine import Pristine
from tests.hostile.stranger import IN_ROCKSDB, SECRET, Scene, damage_rocksdb, scene, spare
from tests.spark.test_export import exported
from tests.store.faults import Faults

# ruff: noqa: T201 - a program that prints
COMPONENTS: Final = (
    "consumequeue", "consumequeue/crash-orders", "consumequeue/crash-orders/1", "commitlog",
    "config", "index", "commitlog/00000000000000000000", "checkpoint", "lock",
)  # fmt: skip
ROCKSDB: Final = "rocksdb-"  # begins the name of a work on a store with its queues there
IN_ROCKSDB_COMPONENTS: Final = (
    "consumequeue", "consumequeue/CURRENT", "consumequeue/000011.sst", "config", "config/topics",
    "config/topics/CURRENT", "commitlog", "index", "lock", "rmqtool-discard-*", "rmqtool-undo-*",
)  # fmt: skip
FILE_WORKS: Final = ("repair", "undo", "rebuild")
# Each can be taken back, whole.
WORKS: Final = (*FILE_WORKS, *(f"{ROCKSDB}{work}" for work in FILE_WORKS))
READING: Final = ("dump", "validate")
IN_ROCKSDB_OTHERS: Final = ("copy", "rebuild-copy", *READING)
OTHERS: Final = (
    *("rebuild-cq", "rebuild-index", "copy", "export", "extract"),
    *(f"{ROCKSDB}{work}" for work in IN_ROCKSDB_OTHERS),
)
ALL: Final = (*WORKS, *OTHERS)
PIECE: Final = 1 << 20  # bytes


def components_of(work: str) -> tuple[str, ...]:
    """Give the components of the store that a work is on: paths, or patterns of what it makes."""
    return IN_ROCKSDB_COMPONENTS if work.startswith(ROCKSDB) else COMPONENTS


def swapping(root: Path, name: str, outside: Path) -> Callable[..., object]:
    """Give an action that swaps a component for a link, then lets the call go on."""

    def action(call: Callable[..., object], args: tuple[object, ...]) -> object:
        for path in sorted(root.glob(name)) if "*" in name else [root / name]:
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
        named: numbers of those that look up or list names.
        seen: their names, of all of them.
    """

    def __init__(self, made: Scene, work: str) -> None:
        self.made, self.work = made, work
        made.yield_to_stranger()
        if work.removeprefix(ROCKSDB) == "copy":
            mark(made.outside)
        self.answer = ""  # of a command that reads
        self._wanted: Plan = plan(made.store)
        self._before = made.seen()
        self._pristine = Pristine(made.store)
        self.prepare()
        self.go()  # what is only asked once in a process is asked now
        self.prepare()
        faults = Faults(reads=True, entries=True)
        with faults.injected():
            self.go()
        self.count, self.named, self._paths = faults.count, faults.named, faults.paths
        self.seen = faults.seen

    def asking(self, name: str) -> list[int]:
        """Give the numbers of the calls that can tell whether a component was swapped."""
        path = re.escape(str(self.made.store / name)).replace(r"\*", "[^/]*")
        above = str((self.made.store / name).parent)
        at_or_below = re.compile(f"{path}(/.*)?", re.DOTALL)
        return [
            number
            for number, paths in enumerate(self._paths)
            if any(path == above or at_or_below.fullmatch(path) for path in paths)
        ]

    def tries(
        self,
        begin: int = 0,
        step: int = 1,
        components: Sequence[str] = (),
        *,
        every_call: bool = False,
    ) -> Iterator[tuple[int, str, bool]]:
        """Yield number of a call, component, and whether all outside stayed where and as it was.

        Args:
            begin: the first call, of the first component; the next begins a call later.
            step: tries each call that is so far from the one before.
            components: out of `components_of` the work; all of them by default.
            every_call: tries those, too, that cannot tell whether the component was swapped.
        """
        known = components_of(self.work)
        for name in components or known:
            numbers = self.named if every_call else self.asking(name)
            for number in numbers[(begin + known.index(name)) % step :: step]:
                yield number, name, self.withstands(number, name)

    def withstands(self, number: int, name: str) -> bool:
        """Swap a component before a call; tell whether all outside stayed where and as it was."""
        self.prepare()
        action = swapping(self.made.store, name, self.made.outside)
        with Faults(number, action, reads=True, entries=True).injected():
            self.go()
        return self.is_whole_outside() and not self.copied()

    def is_whole_outside(self) -> bool:
        """Tell whether all that lies outside of the store is as it was when last asked."""
        before, self._before = self._before, self.made.seen()
        return before == self._before

    def copied(self) -> list[str]:
        """Name the files of a repaired copy, or `answer`, that hold what lies outside."""
        copies = [path for path in self.made.work.rglob("*") if path.is_file()]
        found = [path.name for path in copies if SECRET in written(path)]
        return [*found, *(["answer"] if SECRET[:20].decode() in self.answer else [])]

    def prepare(self) -> None:
        """Put the store back as it is when the work begins."""
        for top in (self.made.work, self.made.top / "away"):
            remove(top)
        self.made.work.mkdir()
        self._pristine.renew()
        if self.work.removeprefix(ROCKSDB) == "undo":
            apply(self._wanted, in_place=True)

    def go(self) -> None:
        """Do the work, as far as that goes."""
        work = self.work.removeprefix(ROCKSDB)
        store, new = self.made.store, self.made.work / work
        with suppress(RmqtoolError):
            match work:
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
                case "rebuild-copy":
                    rebuild.all(store, output=new, jobs=1)
                case "dump" | "validate":
                    self.answer = answer_of(work, store)
                case "export":
                    exported(store, new, form=ExportFormat.JSONL, by=("topic",))
                case _:
                    ExtractRun(ExtractOptions((str(store),), f"{new}.jsonl", jobs=1)).run()


def answer_of(command: str, store: Path) -> str:
    """Give all that a command that reads says about the databases of a store."""
    words = [command, str(store), *(["--as", "rocksdb"] if command == "dump" else [])]
    with TemporaryFile("w+") as out, redirect_stdout(out), redirect_stderr(out):
        code = rmqtool(words)
        out.seek(0)
        said = out.read()
    assert code != BUG, said
    return said


def mark(outside: Path) -> None:
    """Put a secret into each file that a component can be made a link to."""
    for path in outside.rglob("*"):
        if path.is_file() and path.stat().st_size > 2 * len(SECRET):
            with path.open("r+b") as file:
                file.seek(path.stat().st_size // 2)
                file.write(SECRET)


def written(path: Path) -> bytes:
    """Give the bytes of a file without its holes."""
    pieces = []
    with Place(str(path)).open() as file:
        position = file.next_data(0)
        while position is not None and position < file.size:
            pieces.append(file.read_at(position, PIECE))
            position = file.next_data(position + PIECE)
    return b"".join(pieces)


def remove(path: Path) -> None:
    """Remove a file, a link or a directory, or nothing."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


@contextmanager
def races(work: str) -> Iterator[Race]:
    """Make a store to race about."""
    with ExitStack() as stack:
        # Nobody looks through all processes for a broker, thousands of times.
        stack.enter_context(mock.patch.object(StoreLock, "_others", return_value=[]))
        stack.enter_context(mock.patch.object(rocksdb_cell, "_start", rocksdb_process.start))
        made = scene(0)
        if work.startswith(ROCKSDB):
            is_read = work.removeprefix(ROCKSDB) in READING
            made = scene(0, IN_ROCKSDB, spare if is_read else damage_rocksdb)
        yield Race(stack.enter_context(made), work)


class Raced(NamedTuple):
    """What was tried with one component.

    Attributes:
        calls: how many the work makes, and how many of them by name.
        tries: how many there were.
        wrong: numbers of calls before which a swap led outside.
    """

    calls: tuple[int, int]
    tries: int
    wrong: list[int]


def raced(asked: argparse.Namespace, work: str, name: str) -> Raced:
    """Swap one component at each call that is asked for."""
    with races(work) as race:
        tried = [*race.tries(0, asked.step, [name], every_call=asked.every_call)]
        calls = race.count, len(race.named)
        return Raced(calls, len(tried), [number for number, _, is_whole in tried if not is_whole])


def main() -> int:
    """Print what was changed outside, then a table of what was tried; 1 when something was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", nargs="+", choices=ALL, default=[*ALL])
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--every-call", action="store_true")
    parser.add_argument("--jobs", type=int, default=2, help="processes, a component each")
    asked = parser.parse_args()
    failed, begin = 0, time.monotonic()
    with ProcessPoolExecutor(asked.jobs) as pool:
        started = {
            work: [pool.submit(raced, asked, work, name) for name in components_of(work)]
            for work in asked.work
        }
        for work, answers in started.items():
            found = [answer.result() for answer in answers]
            for name, answer in zip(components_of(work), found, strict=True):
                for number in answer.wrong:
                    print(f"{work} | call {number} | {name} | changed or copied")
            count, named = found[0].calls
            tries, wrong = (
                sum(answer.tries for answer in found),
                sum(len(answer.wrong) for answer in found),
            )
            calls = f"{count:,} calls, {named:,} by name"
            seconds = time.monotonic() - begin
            print(
                f"{work} | {calls} | {tries:,} tries | {wrong:,} wrong | {seconds:.0f} s",
                flush=True,
            )
            failed += wrong
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
