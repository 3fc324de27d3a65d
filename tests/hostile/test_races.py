"""Whoever owns the store puts a link in the place of a directory between any two calls."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from rmqtool.errors import RmqtoolError
from rmqtool.repair import apply, plan, undo
from rmqtool.repair.plans import Plan
from rmqtool.writing.lock import StoreLock
from tests.hostile.stranger import NOBODY, Scene, look, scene
from tests.store.edited_store import FILE, QUEUE, SEGMENT, edit, make_store
from tests.store.faults import Faults, operations

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


def swapping(root: Path, name: str, outside: Path) -> Callable[..., object]:
    """Give an action that swaps a component for a link, then lets the call go on."""

    def action(call: Callable[..., object], args: tuple[object, ...]) -> object:
        path = root / name
        with suppress(OSError):
            path.rename(root.parent / "away")
            path.symlink_to(outside / name)
        return call(*args)

    return action


@pytest.mark.parametrize("name", SWAPPED)
@pytest.mark.parametrize("work", ["edit", "undo"])
def test_swapped(quick_path: Path, work: str, name: str) -> None:
    """At whatever call of an edit, or of taking it back: what is outside stays as it is."""
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
    count = operations(go, reads=True)
    outside = make_outside(quick_path)
    before = look(outside)
    for number in range(count):
        prepare()
        shutil.rmtree(quick_path / "away", ignore_errors=True)
        (quick_path / "away").unlink(missing_ok=True)
        with Faults(number, swapping(root, name, outside), reads=True).injected():
            go()
        assert before == look(outside), number
    assert count > 100


STEP = 19  # every so many calls, others for each component
IN_REPAIR = (
    "consumequeue", "consumequeue/crash-orders", "consumequeue/crash-orders/1", "commitlog",
    "config", "index", "commitlog/00000000000000000000", "checkpoint", "lock",
)  # fmt: skip


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can show what root does")
@pytest.mark.parametrize(("begin", "name"), [*enumerate(IN_REPAIR)])
def test_swapped_in_repair(begin: int, name: str) -> None:
    """The same for a whole repair by root of a store that a stranger owns."""
    with scene(0) as made:
        store = made.store
        made.yield_to_stranger()
        wanted = plan(store)
        before = made.seen()
        pristine = made.top / "pristine"
        shutil.copytree(store, pristine, symlinks=True)
        count = operations(lambda: repaired(wanted), reads=True)
        for number in range(begin, count, STEP):
            renew(made, pristine)
            faults = Faults(number, swapping(store, name, made.outside), reads=True)
            with faults.injected():
                repaired(wanted)
            assert before == made.seen(), (number, name)
        assert count > 200


def repaired(wanted: Plan) -> None:
    """Apply a plan in place, as far as that goes."""
    with suppress(RmqtoolError):
        apply(wanted, in_place=True)


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
