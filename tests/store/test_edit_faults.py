"""Killed at any moment, or on a failing disk, a store is the old or the new one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from rmqtool.cli.main import main
from rmqtool.errors import RepairError
from rmqtool.writing.edits import Transaction
from rmqtool.writing.lock import StoreLock
from rmqtool.writing.undo import resume, undo
from tests.store.edited_store import (
    FILE,
    QUEUE,
    SEGMENT,
    change,
    contents,
    edit,
    leftovers,
    make_store,
    traces,
    traces_below,
)
from tests.store.faults import (
    PERSISTENT,
    Faults,
    bad_disk,
    killed_at,
    no_space,
    operations,
    without_exchange,
)


@pytest.fixture(autouse=True)
def quick_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not look through all processes for a broker, 10,000 times."""
    monkeypatch.setattr(StoreLock, "_others", lambda _: [])


# Each operation is killed, or fails, in some of the tests; in all of them when all is asked for.
STEP = 3
RERUN_EACH = 5  # of failed reads; every change is followed by a rerun elsewhere
SWAPPED = (f"{QUEUE}/{FILE}", "checkpoint")
Sides = tuple[dict[str, tuple[int, str]], dict[str, tuple[int, str]]]


def sides(root: Path) -> Sides:
    """Give the contents of the store before and after the edit."""
    make_store(root)
    before = contents(root)
    edit(root)
    return before, contents(root)


def taken_back(root: Path) -> None:
    """Take the latest edit back, if there is one."""
    with StoreLock(root) as lock, suppress(RepairError):
        undo(lock)


def resumed(root: Path) -> None:
    """Finish what was interrupted."""
    with StoreLock(root) as lock:
        resume(lock)


def is_old_or_new(root: Path, old_new: Sides, *, gaps: bool = False) -> bool:
    """Whether each artefact is that of one side; the bytes of the edited file may be of both."""
    found = contents(root)
    old, new = old_new
    for name in SWAPPED:
        allowed = {old[name], new[name]} | ({None} if gaps else set())
        if found.get(name) not in allowed:
            return False
    raw = (root / SEGMENT).read_bytes()
    changed = bytearray(bytes(range(256)) * 8)
    changed[100:106], changed[300:350] = b"bridge", b"\1" * 50
    pairs = zip(raw, bytes(range(256)) * 8, changed, strict=False)
    return len(raw) in {2000, 2048} and all(byte in {a, b, 0} for byte, a, b in pairs)


RESCUES = [resumed, taken_back, edit]


@pytest.mark.parametrize(
    ("rescue", "has_exchange"),
    [(resumed, True), (taken_back, True), (edit, True), (resumed, False), (taken_back, False)],
)
def test_edit_killed(
    quick_path: Path, rescue: Callable[[Path], object], *, has_exchange: bool, is_whole: bool
) -> None:
    """Killed at any operation: old or new, then completed, or taken back byte for byte."""
    step = 1 if is_whole else STEP
    root = quick_path / "store"
    with nullcontext() if has_exchange else without_exchange():
        old_new = sides(root)
        number, ends = 0 if is_whole else RESCUES.index(rescue), set()
        while True:
            before = traces_below(make_store(root))
            if not killed_at(number, lambda: edit(root)):
                break
            assert is_old_or_new(root, old_new, gaps=not has_exchange), number
            rescue(root)
            found = contents(root)
            assert found in old_new, number
            ends.add(found == old_new[1])
            taken_back(root)
            assert (before, []) == (traces_below(root), leftovers(root)), number
            number += step
    assert number > 50
    expected = {"resumed": {False, True}, "taken_back": {False}, "edit": {True}}
    assert expected[rescue.__name__] == ends


@pytest.mark.parametrize("has_exchange", [True, False])
def test_undo_killed(quick_path: Path, *, has_exchange: bool, is_whole: bool) -> None:
    """Undo that is killed at any operation is finished by the next undo, or by resume."""
    root = quick_path / "store"
    with nullcontext() if has_exchange else without_exchange():
        old_new = sides(root)
        for first, rescue in enumerate((taken_back, resumed)):
            number, is_killed = 0 if is_whole else first, True
            while is_killed:
                before = traces_below(make_store(root))
                edit(root)
                is_killed = killed_at(number, lambda: taken_back(root))
                assert is_old_or_new(root, old_new, gaps=not has_exchange), number
                rescue(root)
                taken_back(root)
                assert (before, []) == (traces_below(root), leftovers(root)), number
                number += 1 if is_whole else 2
            assert number > 15


@pytest.mark.parametrize("after", ["commit", "first change", "last change"])
def test_resume_killed(quick_path: Path, after: str, *, is_whole: bool) -> None:
    """Finishing an edit may itself be killed at any operation."""
    root = quick_path / "store"
    old_new = sides(root)
    seen = Faults()
    make_store(root)
    with seen.injected():
        edit(root)
    ftruncates = [number for number, name in enumerate(seen.seen) if name == "ftruncate"]
    begin = ftruncates[-2]  # the one before the last is of the file that is edited
    first = {"commit": begin, "first change": begin + 5, "last change": begin + 14}[after]
    number, is_killed = 0, True
    while is_killed:
        before = traces_below(make_store(root))
        assert killed_at(first, lambda: edit(root))
        is_killed = killed_at(number, lambda: resumed(root))
        assert is_old_or_new(root, old_new)
        resumed(root)
        assert old_new[1] == contents(root)
        taken_back(root)
        assert (before, []) == (traces_below(root), leftovers(root)), number
        number += 1 if is_whole else STEP
    assert number > 5


def attempt(lock: StoreLock) -> None:
    """Make the edit, with nothing to finish before."""
    with Transaction(lock, command="edit") as edits:
        change(edits)


def operations_of_attempt(root: Path, *, reads: bool) -> int:
    """Count what the edit asks of the system."""
    with StoreLock(make_store(root)) as lock:
        return operations(lambda: attempt(lock), reads=reads)


def test_edit_fails(quick_path: Path, *, is_whole: bool) -> None:
    """Whatever fails once, the store is the old one as if nothing had been, and a rerun works."""
    root = quick_path / "store"
    old_new = sides(root)
    for number in range(0, operations_of_attempt(root, reads=True), 1 if is_whole else 2):
        before = traces(make_store(root))
        with StoreLock(root) as lock:
            faults = Faults(number, no_space, reads=True)
            with pytest.raises(RepairError, match="No space left"), faults.injected():
                attempt(lock)
        assert before == traces(root), number
        if number % RERUN_EACH == 0:
            edit(root)
            assert old_new[1] == contents(root), number
            taken_back(root)
            assert (before, []) == (traces(root), leftovers(root)), number


def test_disk_breaks(quick_path: Path, *, is_whole: bool) -> None:
    """A disk that takes nothing more leaves old or new; when it is mended, both ways work."""
    root = quick_path / "store"
    old_new = sides(root)
    for number in range(operations_of_attempt(root, reads=False)):
        rescues = (resumed, taken_back)
        for rescue in rescues if is_whole else (rescues[number % 2],):
            before = traces_below(make_store(root))
            faults = Faults(number, bad_disk, lasting=PERSISTENT)
            with StoreLock(root) as lock, pytest.raises(RepairError), faults.injected():
                attempt(lock)
            assert is_old_or_new(root, old_new), number
            rescue(root)
            assert contents(root) in old_new, number
            taken_back(root)
            assert before == traces_below(root), number


def test_undo_fails(quick_path: Path, *, is_whole: bool) -> None:
    """Undo says what failed, and the next undo finishes it."""
    root = quick_path / "store"
    sides(root)
    make_store(root)
    edit(root)
    for number in range(0, operations(lambda: taken_back(root), reads=True), 1 if is_whole else 2):
        before = traces_below(make_store(root))
        edit(root)
        with StoreLock(root) as lock:
            with Faults(number, bad_disk, reads=True).injected(), suppress(RepairError):
                undo(lock)
            resume(lock)
        taken_back(root)
        assert (before, []) == (traces_below(root), leftovers(root)), number


@pytest.mark.parametrize("fault", [no_space, bad_disk])
@pytest.mark.parametrize("lasting", [1, PERSISTENT])
def test_undo_says_how_far(
    quick_path: Path,
    capfd: pytest.CaptureFixture[str],
    fault: Callable[..., object],
    lasting: int,
    *,
    is_whole: bool,
) -> None:
    """`repair --undo` that fails never says that all is as it was; half way it says how to go on.

    The store is then that of the edit, or the one before it, unless it says that it is half way.
    """
    root = quick_path / "store"
    old_new = sides(root)
    command = ["repair", str(root), "--undo"]
    said = set()
    step = 1 if is_whole else STEP
    for number in range(0, operations(lambda: taken_back(root), reads=True), step):
        make_store(root)
        edit(root)
        with Faults(number, fault, reads=True, lasting=lasting).injected():
            code = main(command)
        told = capfd.readouterr().err
        found = contents(root)
        assert (code in {0, 3}) == ("the latest edit is taken back" in told), number
        assert code in {0, 2} or "could not be read in full" in told, (number, told)
        if code == 2:
            assert "as it was" not in told, number
        if found not in old_new:
            assert "it goes on from here" in told, number
        if code and "the edit is taken back:" in told:
            assert found == old_new[0], number
        said.add("it goes on from here" in told)
        resumed(root)
        taken_back(root)
        assert ([], old_new[0]) == (leftovers(root), contents(root)), number
    assert said == {True, False}


def test_broker_between(quick_path: Path) -> None:
    """After a kill and a broker's run, neither way is taken: its changes would be overwritten."""
    root = quick_path / "store"
    make_store(root)
    seen = Faults()
    with seen.injected():
        edit(root)
    make_store(root)
    last = max(number for number, name in enumerate(seen.seen) if name == "ftruncate")
    assert killed_at(last, lambda: edit(root))
    (root / "lock").write_text("lock")
    before = traces_below(root)
    for action in (resumed, undo_now):
        with pytest.raises(RepairError, match="a broker ran"):
            action(root)
    assert before == traces_below(root)
    assert 1 == len(leftovers(root))


def undo_now(root: Path) -> None:
    """Take the latest edit back, or say why not."""
    with StoreLock(root) as lock:
        undo(lock)
