"""A torn line of a journal: the next command finishes the edit or takes it back, never half."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from typing_extensions import Buffer

from rmqtool.errors import PlanMismatch, RepairError
from rmqtool.writing import journal, staging
from rmqtool.writing.edits import Transaction
from rmqtool.writing.journal import JOURNAL_NAME
from rmqtool.writing.lock import StoreLock
from rmqtool.writing.undo import resume, undo
from tests.store.edited_store import contents, edit, edits_of, leftovers, make_store, traces_below
from tests.store.journals import to_format_1

# What may be left of a line: with its end, without it, with zeros in place of a page.
TEARS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "nothing": lambda _: b"",
    "a byte": lambda line: line[:1],
    "half": lambda line: line[: len(line) // 2],
    "no end": lambda line: line[:-1],
    "half, end": lambda line: line[: len(line) // 2] + b"\n",
    "zeros, end": lambda line: bytes(len(line) - 9) + line[-9:],
    "a bit": lambda line: line[:12] + bytes([line[12] ^ 4]) + line[13:],
}
APPENDS: Final = ("head", "prepared", "committed", "done")  # of an edit, in this order


@pytest.fixture(autouse=True)
def quick_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not look through all processes for a broker."""
    monkeypatch.setattr(StoreLock, "_others", lambda _: [])


def undone(root: Path) -> None:
    """Take the edit back."""
    with StoreLock(root) as lock:
        undo(lock)


def resumed(root: Path) -> None:
    """Finish what was interrupted."""
    with StoreLock(root) as lock:
        resume(lock)


def cut_at(number: int, tear: Callable[[bytes], bytes] | None, work: Callable[[], object]) -> None:
    """Kill some work in a child while the last line of an append is written.

    Args:
        number: of the append, from 0 on.
        tear: gives what of the line is on the disk; None for nothing, of this append.
        work: what is killed.
    """
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    count = 0
    write_all = staging.write_all

    def written(handle: int, data: Buffer, position: int) -> None:
        nonlocal count
        if count == number:
            raw = bytes(data)
            start = raw.rstrip(b"\n").rfind(b"\n") + 1
            if tear is not None:
                write_all(handle, raw[:start] + tear(raw[start:]), position)
            os._exit(0)
        count += 1
        write_all(handle, data, position)

    try:
        vars(journal)["write_all"] = written  # in this child
        work()
    finally:
        os._exit(1)


def tear_last(root: Path, tear: Callable[[bytes], bytes]) -> None:
    """Damage the last line of the journal, as a disk that lies."""
    (path,) = root.glob(f"rmqtool-undo-*/{JOURNAL_NAME}")
    raw = path.read_bytes()
    start = raw.rstrip(b"\n").rfind(b"\n") + 1
    with path.open("r+b") as file:
        file.truncate(start)
        file.seek(start)
        file.write(tear(raw[start:]))


@pytest.mark.parametrize("rescue", [resumed, undone, edit])
@pytest.mark.parametrize("number", range(len(APPENDS)), ids=APPENDS)
def test_torn_in_edit(quick_path: Path, number: int, rescue: Callable[[Path], object]) -> None:
    """Whatever is left of a line that a power cut tore: old or new, and to be taken back."""
    root = quick_path / "store"
    before = traces_below(make_store(root))
    edit(root)
    new = contents(root)
    for name, tear in TEARS.items():
        old = contents(make_store(root))
        cut_at(number, tear, lambda: edit(root))
        expected = new if rescue is edit or (number == 3 and rescue is resumed) else old
        if rescue is undone and number < APPENDS.index("committed"):
            with pytest.raises(RepairError, match="no edit to take back"):
                rescue(root)
        else:
            rescue(root)
        assert expected == contents(root), name
        if edits_of(root):
            undone(root)
        assert (before, []) == (traces_below(root), leftovers(root)), name


@pytest.mark.parametrize("rescue", [resumed, undone, edit])
def test_torn_in_undo(quick_path: Path, rescue: Callable[[Path], object]) -> None:
    """A torn `undoing`: the edit stands, and is taken back by the next undo."""
    root = quick_path / "store"
    for name, tear in TEARS.items():
        before = traces_below(make_store(root))
        edit(root)
        new = contents(root)
        cut_at(0, tear, lambda: undone(root))
        rescue(root)
        if rescue is not undone:
            assert new == contents(root), name
            undone(root)
        assert (before, []) == (traces_below(root), leftovers(root)), name


@pytest.mark.parametrize("rescue", [resumed, undone, edit])
@pytest.mark.parametrize("state", ["committed", "done", "undoing"])
def test_lost_later(quick_path: Path, state: str, rescue: Callable[[Path], object]) -> None:
    """A line whose changes were made, and that the disk then lost: the store tells that it was."""
    root = quick_path / "store"
    for name, tear in TEARS.items():
        before = traces_below(make_store(root))
        if state == "committed":
            cut_at(3, None, lambda: edit(root))
        else:
            edit(root)
        new = contents(root)
        if state == "undoing":
            killed_while_taken_back(root)
            new = contents(root)
        if name == "nothing":
            continue  # a line that is not there at all does not look torn
        tear_last(root, tear)
        rescue(root)
        is_back = rescue is undone or (state == "undoing" and rescue is resumed)
        if not is_back and state != "undoing":
            assert new == contents(root), name
        if edits_of(root):
            undone(root)
        assert (before, []) == (traces_below(root), leftovers(root)), name


def killed_while_taken_back(root: Path) -> None:
    """Take an edit back in a child that is killed when half of it is done."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    count = 0
    try:
        from rmqtool.writing.swap import Swap

        settle = Swap.settle

        def counting(self: Swap, *arguments: object) -> None:
            nonlocal count
            count += 1
            if count == 3:
                os._exit(0)
            settle(self, *arguments)  # type: ignore[arg-type]

        Swap.settle = counting  # type: ignore[method-assign,assignment]
        undone(root)
    finally:
        os._exit(1)


def test_damaged_before_the_last(quick_path: Path) -> None:
    """A line before the last that is damaged is never passed over."""
    root = make_store(quick_path / "store")
    path = edit(root).undo_directory / JOURNAL_NAME
    raw = path.read_bytes()
    for line in raw.splitlines()[:-1]:
        at = raw.index(line) + len(line) // 2
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 4]) + raw[at + 1 :])
        with pytest.raises(PlanMismatch, match="is not a journal, or is damaged"):
            undone(root)
    path.write_bytes(raw)
    undone(root)


@pytest.mark.parametrize("rescue", [resumed, undone])
def test_format_1(quick_path: Path, rescue: Callable[[Path], object]) -> None:
    """An edit of an earlier version, done or interrupted, is taken back or finished."""
    root = quick_path / "store"
    for is_done in (True, False):
        before = traces_below(make_store(root))
        edit(root)
        new = contents(root)
        (path,) = root.glob(f"rmqtool-undo-*/{JOURNAL_NAME}")
        to_format_1(path)
        if not is_done:
            tear_last(root, lambda line: line[:7])
        rescue(root)
        if rescue is resumed:
            assert new == contents(root)
            undone(root)
        assert (before, []) == (traces_below(root), leftovers(root))


def test_a_new_edit_after_one_of_format_1(quick_path: Path) -> None:
    """Journals of both formats are in one store, and are taken back one after the other."""
    root = make_store(quick_path / "store")
    before = traces_below(root)
    edit(root)
    (path,) = root.glob(f"rmqtool-undo-*/{JOURNAL_NAME}")
    to_format_1(path)
    with StoreLock(root) as lock, Transaction(lock, command="second") as edits:
        edits.remove("index")
    undone(root)
    undone(root)
    assert before == traces_below(root)
