"""Whoever owns the store puts a link in the place of a directory between any two calls."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from rmqtool.errors import RmqtoolError
from rmqtool.repair import undo
from rmqtool.store import rocksdb_database as rocksdb_files
from rmqtool.writing.directory import Directory
from rmqtool.writing.lock import StoreLock
from tests.hostile.asked import asked, can_trace
from tests.hostile.kills import HOW, wrong_after
from tests.hostile.races import WORKS, races, swapping
from tests.hostile.stranger import look
from tests.store.edited_store import FILE, QUEUE, SEGMENT, edit, make_store
from tests.store.faults import Faults

SWAPPED = ("consumequeue", QUEUE, "commitlog", "config", SEGMENT, f"{QUEUE}/{FILE}", "lock")


@pytest.fixture(autouse=True)
def quick_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not look through all processes for a broker, 10,000 times."""
    monkeypatch.setattr(StoreLock, "_others", lambda _: [])


def make_outside(top: Path) -> Path:
    """Make what the links lead to: of the same shape, so that whatever follows one finds a lot."""
    outside = top / "outside"
    make_store(outside)
    (outside / "evil").mkdir()
    return outside


@pytest.mark.parametrize("name", SWAPPED)
@pytest.mark.parametrize("work", ["edit", "undo"])
def test_swapped(quick_path: Path, work: str, name: str) -> None:
    """At whatever call of an edit, or of taking it back: what is outside stays as it is.

    Of those that look up a name: a swap before another call is one before the next of these.
    """
    root = quick_path / "store"

    def prepare() -> None:
        make_store(root)
        if work == "undo":
            edit(root)

    def go() -> None:
        with suppress(RmqtoolError):
            if work == "edit":
                edit(root)
            else:
                undo(root)

    prepare()
    calls = Faults(reads=True)
    with calls.injected():
        go()
    outside = make_outside(quick_path)
    before = look(outside)
    for number in calls.named:
        prepare()
        shutil.rmtree(quick_path / "away", ignore_errors=True)
        (quick_path / "away").unlink(missing_ok=True)
        with Faults(number, swapping(root, name, outside), reads=True).injected():
            go()
        assert before == look(outside), number
    assert len(calls.named) > 50


STEP = 197  # every so many calls, others for each component; all of them: `races`


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can show what root does")
@pytest.mark.parametrize("work", [*WORKS, "rocksdb-copy", "rocksdb-dump"])
def test_swapped_in_store(work: str) -> None:
    """The same for a whole repair, undo, rebuild, copy and dump by root of a stranger's store."""
    with races(work) as race:
        assert race.count > 100
        assert [] == [(number, name) for number, name, good in race.tries(0, STEP) if not good]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can show what root does")
@pytest.mark.skipif(not can_trace(), reason="strace sees what the kernel is asked")
@pytest.mark.parametrize("work", ["rebuild-index", "rocksdb-repair", "rocksdb-dump"])
def test_nothing_else_asks(work: str) -> None:
    """A swap between two of those calls is one before the next: nothing asks in between."""
    found = asked(work)
    assert found.lookups > 100
    assert found.unseen == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can show what root does")
def test_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever follows a link is found out, by one of the swaps at least."""

    def following(directory: Directory, name: str) -> int:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=directory.handle)

    with races("repair") as race:
        monkeypatch.setattr(Directory, "open_directory", following)
        opens = [number for number in race.asking("consumequeue") if race.seen[number] == "open"]
        assert not all(race.withstands(number, "consumequeue") for number in opens[::-1])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can show what root does")
def test_notices_a_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads a database through a stranger's link is found out."""
    with races("rocksdb-dump") as race:
        monkeypatch.setattr(rocksdb_files, "_is_trusted", lambda *_: True)
        numbers = race.asking("consumequeue")
        assert not all(race.withstands(number, "consumequeue") for number in numbers)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can show what root does")
@pytest.mark.parametrize(("begin", "how"), [*enumerate(HOW)])
@pytest.mark.parametrize("work", WORKS)
def test_ends_in_store(work: str, begin: int, how: str) -> None:
    """Killed, or on a disk that fails: undo gives the store as it was."""
    with races(work) as race:
        tries, wrong = wrong_after(race, how, 7 * begin, STEP)
        assert tries
        assert [] == wrong
