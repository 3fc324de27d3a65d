"""In place or into a copy: the same bytes, the original times, evidence kept, brokers respected."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from contextlib import suppress
from itertools import cycle
from pathlib import Path

import pytest

from rmqtool import repair
from rmqtool.errors import OutputExists, RepairError, StoreLocked, WriteFailed
from rmqtool.repair.in_place import planned_in_place, quarantine
from rmqtool.repair.options import RepairOptions
from rmqtool.store.names import UNDO_PREFIX
from rmqtool.writing.lock import StoreLock
from rmqtool.writing.undo import resume
from tests.damage import DAMAGES
from tests.repair.repaired import Broken, broken, traces
from tests.store.edited_store import edits_of, leftovers
from tests.store.faults import Faults, killed_at, no_space, operations

NAME = "rocketmq-4.9.3-traffic"
KILLS = 60  # of some hundred operations, evenly


def harmed(tmp_path: Path, name: str = "flip-body-middle") -> Broken:
    """Give a damaged store."""
    made = broken(NAME, DAMAGES[name], tmp_path)
    assert made is not None
    return made


@pytest.mark.parametrize(
    "name", ["flip-body-middle", "cut-last-segment", "remove-middle-segment", "foreign-name"]
)
def test_copy(name: str, tmp_path: Path) -> None:
    """A copy has the bytes and times that a repair in place gives; the original is as it was."""
    store = harmed(tmp_path, name)
    before = traces(store.root)
    plan = store.plan()
    repair.apply(plan, tmp_path / "copy")
    assert before == traces(store.root)
    repair.apply(plan, in_place=True)
    wanted, found = traces(store.root), traces(tmp_path / "copy")
    directories = {path for path, trace in wanted.items() if not trace.digest}
    for path in directories:
        del wanted[path], found[path]
    assert wanted == found
    with pytest.raises(OutputExists):
        repair.apply(store.plan(), tmp_path / "copy")


def test_times(tmp_path: Path) -> None:
    """Segments and queue files keep their mtimes: expiry and time search go by them."""
    store = harmed(tmp_path)
    before = {path: trace.mtime_ns for path, trace in traces(store.root).items()}
    repair.apply(store.plan(), in_place=True)
    after = {path: trace.mtime_ns for path, trace in traces(store.root).items()}
    assert before == after


def test_quarantine(tmp_path: Path) -> None:
    """Each replaced stretch is kept, with its place and digest."""
    store = harmed(tmp_path)
    plan = store.plan()
    count = quarantine(plan, str(tmp_path / "kept"))
    lines = (tmp_path / "kept" / "quarantine.jsonl").read_text().splitlines()
    assert count == len(lines) == len(plan.edits)
    for line in map(json.loads, lines):
        raw = (tmp_path / "kept" / line["file"]).read_bytes()
        original = (store.root / line["path"]).read_bytes()
        assert raw == original[line["position"] : line["position"] + line["length"]]
        assert line["sha256"] == hashlib.sha256(raw).hexdigest()


def test_running_broker(tmp_path: Path) -> None:
    """A store whose lock a broker holds is refused, with the broker's pid; nothing is written."""
    store = harmed(tmp_path)
    plan = store.plan()
    (store.root / "abort").write_text(str(os.getpid()))
    (store.root / "lock").write_text("lock")
    before = traces(store.root)
    with (store.root / "lock").open("r+b") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        with pytest.raises(StoreLocked, match=str(os.getpid())):
            repair.apply(plan, in_place=True)
    assert before == traces(store.root)


def test_nothing_to_take_back(tmp_path: Path) -> None:
    """Where nothing was edited, there is nothing to take back, and it is said so."""
    with pytest.raises(RepairError, match="no edit"):
        repair.undo(harmed(tmp_path).root)


def test_repaired_in_between(tmp_path: Path) -> None:
    """Under the lock a plan is made of what is there then, and its bytes are kept."""
    store = harmed(tmp_path)
    kept = tmp_path / "kept"

    class Keeping:
        quarantine = str(kept)

    options = RepairOptions(str(store.root), broker_conf=store.conf)
    plan, name = planned_in_place(options, store.plan, Keeping())
    assert name.startswith(UNDO_PREFIX)
    assert len(plan.edits) + 1 == len(list(kept.iterdir()))


@pytest.fixture
def quick_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not look through all processes for a broker, each time."""
    monkeypatch.setattr(StoreLock, "_others", lambda _: [])


@pytest.mark.usefixtures("quick_lock")
def test_killed(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Killed at any file operation, a store can be finished, repaired again, or given back."""
    store = harmed(tmp_path, "zero-8-sectors-middle")
    plan = store.plan()
    before = traces(store.root)

    def work() -> None:
        repair.apply(plan, in_place=True)

    count = operations(work)
    after = traces(store.root)
    repair.undo(store.root)
    assert before == traces(store.root)
    step = 1 if request.config.getoption("--all-variants") else max(1, count // KILLS)
    ways = cycle((finish, take_back, run_again))
    for number in range(0, count, step):
        assert killed_at(number, work)
        next(ways)(store)
        found = traces(store.root)
        assert found in (before, after), number
        if found == after:
            repair.undo(store.root)
        assert (before, []) == (traces(store.root), leftovers(store.root)), number


def finish(store: Broken) -> None:
    """Do what comes first in whatever is run next."""
    with StoreLock(store.root) as lock:
        resume(lock)


def take_back(store: Broken) -> None:
    """Take back what a killed run left, if there is anything, without finishing it first."""
    if edits_of(store.root):
        repair.undo(store.root)
        assert [] == edits_of(store.root)
    else:
        finish(store)


def run_again(store: Broken) -> None:
    """Plan and repair once more; that must be the whole repair."""

    class Keeping:
        quarantine = None

    options = RepairOptions(str(store.root), broker_conf=store.conf)
    planned_in_place(options, store.plan, Keeping())
    assert [] == store.findings()


@pytest.mark.usefixtures("quick_lock")
def test_disk_full(tmp_path: Path) -> None:
    """A disk that is full at any moment leaves the store as it was, or wholly repaired."""
    store = harmed(tmp_path)
    plan = store.plan()
    before = traces(store.root)
    count = operations(lambda: repair.apply(plan, in_place=True))
    after = traces(store.root)
    repair.undo(store.root)
    for number in range(0, count, max(1, count // 30)):
        with Faults(number, no_space, lasting=1).injected(), suppress(WriteFailed):
            repair.apply(plan, in_place=True)
        if traces(store.root) == after:
            repair.undo(store.root)
        with StoreLock(store.root) as lock:
            resume(lock)
        assert before == traces(store.root), number
