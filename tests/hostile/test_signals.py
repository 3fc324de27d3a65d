"""Signals while something is written: as it was or as it will be, and the next run does it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from rmqtool.cli.exits import INTERRUPTED, TERMINATED
from rmqtool.cli.main import main
from rmqtool.cli.signals import Terminated, stoppable
from rmqtool.reads.export_options import ExportFormat
from tests.hostile.kills import facts
from tests.hostile.races import Race, races
from tests.spark.test_export import content, exported
from tests.store.faults import Faults, operations

SIGNALS: Final = {
    signal.SIGINT: INTERRUPTED,
    signal.SIGTERM: TERMINATED,
    signal.SIGHUP: TERMINATED,
}
IN_PLACE: Final = {
    "repair": ("--in-place", "--yes", "--yes"),
    "rebuild": ("--in-place", "--yes", "--jobs", "1"),
}
ELSEWHERE: Final = ("repair", "rebuild", "extract", "export")
STEP: Final = 40  # of calls, of which one gets a signal when all variants are asked for
DONE: Final = {0, 1, 3}  # 3: damage that is left out
Work = Callable[[], int]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the store is somebody else's")


@pytest.fixture(scope="module")
def race() -> Iterator[Race]:
    """A damaged store of a stranger, which can be put back."""
    with races("copy") as made:
        yield made


def signalled(number: int, kind: signal.Signals, work: Work) -> int:
    """Work in a process that sends itself a signal at a call; give its exit code."""
    child = os.fork()
    if not child:

        def send(call: Callable[..., object], args: tuple[object, ...]) -> object:
            os.kill(os.getpid(), kind)
            return call(*args)

        code = 99
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            with Faults(number, send).injected():
                code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def points(count: int, *, is_whole: bool) -> Iterator[tuple[int, signal.Signals]]:
    """Give calls in the middle, each with a signal: of a few each has another one."""
    step = STEP if is_whole else count // len(SIGNALS)
    kinds = [*SIGNALS]
    for turn, number in enumerate(range(step // 2, count, step)):
        yield number, kinds[turn % len(kinds)]


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(race: Race, name: str, *, is_whole: bool) -> None:
    """The store is as it was, or as the edit makes it; nobody holds the lock, nothing is left."""
    store = race.made.store

    def work() -> int:
        return main([name, str(store), *IN_PLACE[name], "--quiet"])

    race.prepare()
    before = facts(store)
    count = operations(work)
    after = contents(store)
    for number, kind in points(count, is_whole=is_whole):
        race.prepare()
        assert SIGNALS[kind] == signalled(number, kind, work), (number, kind)
        assert before == facts(store) or after == contents(store), (number, kind)
        assert work() in DONE, (number, kind)
        assert after == contents(store), (number, kind)
        assert [] == [path.name for path in store.iterdir() if "discard" in path.name]
    assert race.is_whole_outside()


def contents(store: Path) -> dict[str, str]:
    """Give the digests of what is the store's own; names of index files tell when it was."""
    found = {name: one[-1] for name, one in facts(store).items() if not name.startswith("index/")}
    return {**found, "index": str(len(list((store / "index").iterdir())))}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_elsewhere(race: Race, name: str, *, is_whole: bool) -> None:
    """What is written anew is not there, or whole; beside it nothing is left."""
    store, place = race.made.store, race.made.work
    target = place / "new.jsonl"

    def export() -> int:
        try:
            with stoppable():
                exported(store, target, form=ExportFormat.JSONL, by=("queue_id",))
        except KeyboardInterrupt:
            return INTERRUPTED
        except Terminated:
            return TERMINATED
        return 0

    def work() -> int:
        if name == "export":
            return export()
        jobs = () if name == "repair" else ("--jobs", "1")
        return main([name, str(store), "--output", str(target), *jobs, "--quiet"])

    def written() -> dict[str, bytes]:
        found = content(target) if target.is_dir() else {}
        found |= {"": target.read_bytes()} if target.is_file() else {}
        return {name: raw for name, raw in found.items() if not name.startswith("_")}

    race.prepare()
    before = facts(store)
    count = operations(work)
    whole = written()
    for number, kind in points(count, is_whole=is_whole):
        race.prepare()
        assert SIGNALS[kind] == signalled(number, kind, work), (number, kind)
        if name == "export":  # complete files, which the next run leaves as they are
            assert written().items() <= whole.items(), (number, kind)
        else:
            assert written() in ({}, whole), (number, kind)
            assert [] == [path.name for path in place.iterdir() if path != target]
        if not target.is_file() and (name == "export" or not target.exists()):
            assert work() in DONE, (number, kind)
        assert whole == written(), (number, kind)
        assert before == facts(store)
    assert race.is_whole_outside()
