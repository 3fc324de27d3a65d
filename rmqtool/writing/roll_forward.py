"""Bring one side of an edit in place into the store: the new one, or the one from before it."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from rmqtool.errors import EditUnfinished, PlanMismatch, RepairError
from rmqtool.writing.file_edit import NEW, OLD, ByteRange, FileEdit, Saved
from rmqtool.writing.journal import Journal, State, change_lines, state_line
from rmqtool.writing.staging import DiskSync, write_errors
from rmqtool.writing.swap import Swap

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.writing.directory import Directory
    from rmqtool.writing.lock import StoreLock
    from rmqtool.writing.workplace import Workplace

    Change = Swap | FileEdit
    Sides = dict[str, list[int | None]]  # number of a swap: inodes [old, new]

_CHECKPOINT: Final = "checkpoint"
_CHECKPOINT_BYTES: Final = 4096
_FEW: Final = 64  # more swaps than this are brought to the disk together


def settle(
    work: Workplace,
    changes: Sequence[Change],
    sides: Sides,
    side: int,
    sync: DiskSync,
    *,
    trusted: bool,
) -> None:
    """Bring one side of all changes into the store, in order; the old side in reverse order.

    Args:
        work: where.
        changes: what.
        sides: inodes of both sides of each swap.
        side: `OLD` or `NEW`.
        sync: counts the time that the disk takes.
        trusted: whether nobody can have changed the files meanwhile.
    """
    swaps = [change for change in changes if isinstance(change, Swap)]
    at_once = sync if len(swaps) <= _FEW else None
    for change in changes if side == NEW else reversed(changes):
        if isinstance(change, FileEdit):
            change.settle(work, side, sync, trusted=trusted)
            continue
        pair = sides.get(str(change.number), [])
        if len(pair) != len((OLD, NEW)):
            path = work.undo.path
            raise PlanMismatch(path=path, reason=f"change {change.number} is incomplete")
        change.settle(work, pair[side], pair[1 - side], at_once)
    if at_once is None:
        _sync_all(work, swaps, sync)


def finish(lock: StoreLock, work: Workplace, sync: DiskSync) -> None:
    """Write down that all is done, and what a broker would change first."""
    facts = {"lock": lock.as_left, "checkpoint": checkpoint_digest(lock.directory)}
    Journal(work.undo, sync).append(state_line(State.DONE, **facts))


def restore_mtimes(work: Workplace, mtimes: dict[str, int]) -> None:
    """Put back the mtimes (ns) of the directories that hold some paths of the store."""
    for path, mtime_ns in mtimes.items():
        with work.spot(path) as spot:
            spot.directory.set_mtime(mtime_ns)


@contextmanager
def unfinished(undo: Directory, what: str) -> Iterator[None]:
    """Say of an error that the store is left between two states, and what.

    Raises:
        EditUnfinished: in place of any error of writing.
    """
    try:
        with write_errors(undo.path):
            yield
    except RepairError as error:
        raise EditUnfinished(path=undo.path, reason=f"{error}; {what}") from error


def changes_of(undo: Directory) -> list[Change]:
    """Read the changes of an undo directory back, in order.

    Raises:
        PlanMismatch: a line is not what this version writes.
    """
    heads: dict[int, dict[str, Any]] = {}
    ranges: dict[int, list[ByteRange]] = {}
    try:
        for line in change_lines(undo):
            match line.get("operation"):
                case "swap" | "edit":
                    heads[line["number"]] = line
                case "bytes":
                    old, new = Saved(**line["old"]), Saved(**line["new"])
                    part = ByteRange(line["position"], old, new)
                    ranges.setdefault(line["number"], []).append(part)
        return [_change(line, tuple(ranges.get(number, ()))) for number, line in heads.items()]
    except (LookupError, TypeError, ValueError) as error:
        reason = f"journal cannot be understood: {error}"
        raise PlanMismatch(path=undo.path, reason=reason) from error


def _change(line: dict[str, Any], ranges: tuple[ByteRange, ...]) -> Change:
    if line["operation"] == "swap":
        names = ("number", "path", "aside", "what", "reason")
        return Swap(*(line[name] for name in names))
    (old_length, new_length), (old_mtime, new_mtime) = line["length"], line["mtime_ns"]
    lengths, mtimes = (old_length, new_length), (old_mtime, new_mtime)
    return FileEdit(line["number"], line["path"], lengths, mtimes, ranges, line["reason"])


def _sync_all(work: Workplace, swaps: Sequence[Swap], sync: DiskSync) -> None:
    """Bring the directories of many swaps to the disk."""
    places = {(swap.path.rpartition("/")[0], swap.aside.rpartition("/")[0]): swap for swap in swaps}
    devices: set[int] = set()
    for swap in places.values():
        with work.spot(swap.path) as spot, work.aside(swap.aside) as aside:
            device = os.fstat(spot.directory.handle).st_dev
            if device in devices:
                continue
            if sync.file_system(spot.directory):
                devices.add(device)
            else:
                sync.handle(spot.directory.handle)
                sync.handle(aside.directory.handle)


def checkpoint_digest(root: Directory) -> str | None:
    """Digest the checkpoint, which a broker writes while it runs; None without one."""
    with write_errors(root.shown(_CHECKPOINT)):
        facts = root.facts(_CHECKPOINT)
        if facts is None or not stat.S_ISREG(facts.st_mode):
            return None  # of a link: what it leads to is nobody's business
        handle = root.open_file(_CHECKPOINT)
        try:
            return hashlib.sha256(os.pread(handle, _CHECKPOINT_BYTES, 0)).hexdigest()
        finally:
            os.close(handle)
