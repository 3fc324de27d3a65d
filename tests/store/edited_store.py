"""A small store and an edit of it that has every kind of change."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from rmqtool.store.names import OURS
from rmqtool.writing.directory import Directory
from rmqtool.writing.edits import Transaction
from rmqtool.writing.lock import StoreLock
from rmqtool.writing.undo import resume
from rmqtool.writing.undo_directory import (
    UndoDirectory,
    undo_directories,
)
from tests.evidence import Trace, snapshot

SEGMENT = "commitlog/00000000000000000000"
QUEUE = "consumequeue/orders/0"
FILE = "00000000000000000000"
_LONG_AGO_NS = 1_600_000_000_123_456_789


def make_store(root: Path) -> Path:
    """Make a store, in place of one that is there."""
    shutil.rmtree(root, ignore_errors=True)
    for path in ("commitlog", QUEUE, "config", "index"):
        (root / path).mkdir(parents=True)
    (root / SEGMENT).write_bytes(bytes(range(256)) * 8)
    (root / QUEUE / FILE).write_bytes(b"old unit" * 20)
    (root / "config/topics.json").write_text("{old}")
    (root / "checkpoint").write_bytes(b"old".ljust(4096, b"\0"))
    (root / "abort").write_text("4711")
    (root / "lock").write_text("lock")
    paths = sorted(root.rglob("*"), reverse=True)
    for number, found in enumerate([*paths, root]):
        os.utime(found, ns=(_LONG_AGO_NS, _LONG_AGO_NS + number))
    return root


def edit(root: Path, *elsewhere: Path) -> Transaction:
    """Finish what was interrupted, then make the edit; some places are outside of the root."""
    with StoreLock(root, tuple(map(str, elsewhere))) as lock:
        resume(lock)
        with Transaction(lock, command="edit") as edits:
            change(edits)
    return edits


def apply(root: Path, *steps: Callable[[Transaction], object]) -> Transaction:
    """Make an edit of some steps."""
    with StoreLock(root) as lock, Transaction(lock, command="steps") as edits:
        for step in steps:
            step(edits)
    return edits


def change(edits: Transaction) -> None:
    """Stage every kind of change."""
    edits.write(SEGMENT, 100, b"bridge", reason="CL-CRC at 100")
    edits.write(SEGMENT, 300, b"\1" * 50)
    edits.set_length(SEGMENT, 2000)
    queue = edits.replace_tree(QUEUE)
    queue.file(FILE, size=400, pieces=[(20, b"new unit")], mtime_ms=1_700_000_000_001)
    edits.replace_tree("consumequeue/new/1").file(FILE, size=10, mtime_ms=1)
    edits.replace_file("checkpoint", size=4096, pieces=[(0, b"new")])
    edits.replace_file("config/delayOffset.json", size=2, pieces=[(0, b"{}")])
    edits.remove("abort")
    edits.set_mtime("config/topics.json", 1_700_000_000_000)


def traces(root: Path) -> dict[str, Trace]:
    """Give what a broker would see of a store, times included."""
    return {name: trace for name, trace in snapshot(root).items() if not name.startswith(OURS)}


def traces_below(root: Path) -> dict[str, Trace]:
    """Give `traces` without the root itself: a kill may come before its mtime is put back."""
    return {name: trace for name, trace in traces(root).items() if name != "."}


def contents(root: Path) -> dict[str, tuple[int, str]]:
    """Give names, lengths and bytes of the files; the times of new files depend on the clock."""
    found = traces(root)
    return {name: (trace.size, trace.digest) for name, trace in found.items() if trace.digest}


def edits_of(root: Path) -> list[UndoDirectory]:
    """List the edits of a store that can be taken back, or have to be finished."""
    with Directory.at(root) as directory:
        return undo_directories(directory)


def leftovers(root: Path) -> list[str]:
    """Give the names of ours in a store."""
    return sorted(path.name for path in root.iterdir() if path.name.startswith("rmqtool-"))
