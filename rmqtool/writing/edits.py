"""Edit a store in place: all or nothing, and to be taken back.

    with StoreLock(root) as lock:
        resume(lock)                                   # what an earlier, killed run left
        ...                                            # read the store, decide
        with Transaction(lock, command="repair") as edits:
            edits.write("commitlog/00000000000000000000", position, record)
            queue = edits.replace_tree("consumequeue/orders/0")
            queue.file("00000000000000000000", size=6_000_000, pieces=[(0, units)])
            edits.replace_file("checkpoint", size=4096, pieces=[(0, checkpoint)])

In the block nothing of the store changes; all is staged in the undo directory. At its end the
staged is brought to the disk, the journal says so (`journal.py`), and only then the changes are
made, in the order in which they were first mentioned. Mention them in the order of repairs, log,
queues, index, checkpoint, configuration: a broker that is started on the half of it, after a kill,
then meets derived files that are older than the log, never newer.

Each swapped file or tree is at every moment the old or the new one. Bytes written into a file that
stays may be torn by a kill; `resume` then completes them. An error while the changes are made takes
back those already made. A change that would change nothing is left out, and so is an edit of
nothing.
"""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from rmqtool.errors import EditUnfinished, PlanMismatch, RepairError
from rmqtool.store.names import relative_path
from rmqtool.writing.directory import Directory, Spot
from rmqtool.writing.file_edit import NEW, OLD, SAVED_NAMES, open_single
from rmqtool.writing.journal import Journal, State, state_line
from rmqtool.writing.output_tree import OutputTree
from rmqtool.writing.roll_forward import finish, restore_mtimes, settle
from rmqtool.writing.staged import SavedBytes, StagedEdit, StagedSwap
from rmqtool.writing.staging import DiskSync, write_errors
from rmqtool.writing.swap import Swap
from rmqtool.writing.system_calls import rename_new
from rmqtool.writing.undo import discard, remove_leftovers
from rmqtool.writing.undo_directory import discarded, new_undo_name, undo_directories
from rmqtool.writing.workplace import ASIDE, Workplace

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Buffer

    from rmqtool.writing.lock import StoreLock
    from rmqtool.writing.output_tree import Pieces
    from rmqtool.writing.roll_forward import Change


class Transaction:
    """One edit of a store in place; a context manager.

    A path is of the store and relative, `/` separated; or absolute, where the configuration of
    the broker, given to the lock, places part of the store elsewhere.

    Attributes:
        is_changing: after the block, whether there was anything to change.

    Args:
        lock: of the store; held, and held until the block has ended.
        command: what is run, for the journal.
    """

    def __init__(self, lock: StoreLock, *, command: str) -> None:
        self.is_changing = False
        self._lock = lock
        self._root_mtime_ns = 0
        self._command = command
        self._sync = DiskSync()
        self._asides: Asides | None = None
        self._swaps: dict[str, StagedSwap] = {}
        self._edits: dict[str, StagedEdit] = {}
        self._saved: list[SavedBytes] = []
        self._undo: Directory | None = None

    undo_directory: Path  # where the journal and what was replaced are; `undo` takes its name
    _work: Workplace
    _journal: Journal
    _sides: dict[str, Any]  # as the journal has them

    @property
    def fsync_seconds(self) -> float:
        """Seconds that were spent waiting for the disk."""
        return self._sync.seconds

    def __enter__(self) -> Self:
        """Make the undo directory.

        Raises:
            PlanMismatch: an earlier edit was interrupted; `resume` has to finish it first.
            WriteFailed: the system refused.
        """
        lock = self._lock
        if not lock.is_held:
            raise RepairError(path=str(lock.root), reason="its lock is not held")
        root = lock.directory
        for edit in undo_directories(root):
            if edit.state is not State.DONE:
                reason = f"{edit.name} was interrupted and has to be finished first"
                raise PlanMismatch(path=root.path, reason=reason)
        remove_leftovers(lock, self._sync)
        name = new_undo_name(root)
        self.undo_directory = lock.root / name
        with write_errors(self.undo_directory):
            self._root_mtime_ns = os.fstat(root.handle).st_mtime_ns
            root.make(discarded(name), 0o755)  # others may look how far it is, and no more
            try:
                self._undo = undo = root.enter(discarded(name))
                undo.path = root.shown(name)
                self._work = Workplace(root, undo, lock.elsewhere)
                self._journal = Journal(undo, self._sync)
                self._journal.begin(
                    self._command, root_mtime_ns=self._root_mtime_ns, lock=lock.as_left
                )
                for saved in SAVED_NAMES:
                    self._saved.append(SavedBytes(undo, saved))
                self._asides = Asides(self._work, self._journal, self._sync)
            except BaseException:
                self._abandon()
                self._close()
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is not None:
                self._abandon()
                return
            try:
                changes = self._prepare()
            except BaseException:
                self._abandon()
                raise
            if changes:
                self._commit(changes)
                self.is_changing = True
            else:
                remove_leftovers(self._lock, self._sync)
        finally:
            self._close()

    def replace_tree(self, path: str | os.PathLike[str], *, reason: str = "") -> OutputTree:
        """Stage a tree in place of what is there, or where nothing is.

        Returns:
            The tree, empty; write it before the block ends.

        Raises:
            RepairError: the path cannot be meant, or was mentioned already.
            WriteFailed: the system refused.
        """
        staged, rest = self._stage(path, reason)
        tree = staged.open_tree()
        return tree.subtree(*rest) if rest else tree

    def replace_file(
        self,
        path: str | os.PathLike[str],
        *,
        size: int,
        pieces: Pieces = (),
        mtime_ms: int | None = None,
        reason: str = "",
    ) -> None:
        """Stage a file in place of what is there, or where nothing is.

        Args:
            path: of the store.
            size: bytes; all zero (sparse) but for the pieces.
            pieces: (position, bytes).
            mtime_ms: ms since 1970 UTC; None leaves the time of writing.
            reason: why, for people.

        Raises:
            RepairError: the path cannot be meant, or was mentioned already.
            WriteFailed: the system refused.
        """
        staged, rest = self._stage(path, reason)
        if rest:
            staged.open_tree().file(*rest, size=size, pieces=pieces, mtime_ms=mtime_ms)
        else:
            staged.write_file(size, pieces, mtime_ms)

    def remove(self, path: str | os.PathLike[str], *, reason: str = "") -> None:
        """Take a file or a tree out of the store; it is kept in the undo directory.

        Raises:
            RepairError: the path cannot be meant, or was mentioned already.
        """
        with self._work.spot(self._shown(path)) as spot:
            is_there = spot.facts() is not None
        if is_there:
            self._stage(path, reason)[0].what = "remove"

    def write(
        self, path: str | os.PathLike[str], position: int, data: Buffer, *, reason: str = ""
    ) -> None:
        """Overwrite bytes of a file; its mtime stays.

        Raises:
            RepairError: the path cannot be meant, or is no file that may be changed.
            WriteFailed: the system refused.
        """
        edit = self._edit(path, reason)
        edit.pieces.append((position, self._saved[NEW].add([bytes(data)])))

    def set_length(self, path: str | os.PathLike[str], length: int, *, reason: str = "") -> None:
        """Cut a file, or extend it by zeros; its mtime stays.

        Raises:
            RepairError: the path cannot be meant, or is no file that may be changed.
        """
        self._edit(path, reason).length[NEW] = length

    def set_mtime(self, path: str | os.PathLike[str], mtime_ms: int, *, reason: str = "") -> None:
        """Set the mtime of a file, ms since 1970 UTC.

        Raises:
            RepairError: the path cannot be meant, or is no file that may be changed.
        """
        self._edit(path, reason).mtime_ns[NEW] = mtime_ms * 1_000_000

    def is_there(self, path: str) -> bool:
        """Whether the store has all that was written for a path: then nothing changes there."""
        staged = self._swaps.get(self._shown(path))
        return staged is not None and staged.is_there

    def _stage(
        self, path: str | os.PathLike[str], reason: str
    ) -> tuple[StagedSwap, tuple[str, ...]]:
        """Give what is swapped for a path to come in, and the rest of the path below that.

        Where directories are missing above the path, the topmost of them is what is swapped in.
        """
        shown = self._shown(path)
        top, rest = self._topmost_missing(shown)
        staged = self._swaps.get(top)
        if staged is None:
            assert self._asides is not None  # noqa: S101 - the block has begun
            number = self._next_number()
            with self._work.spot(top) as spot:
                place, aside = self._asides.tree_for(top, spot)
                what = "create" if spot.facts() is None else "replace"
            name = f"{place}/{number:04}" if place else f"{number:04}"
            staged = StagedSwap(number, top, self._work, aside, name, what, reason, bool(rest))
            self._swaps[top] = staged
        elif not (rest and staged.is_ancestor):
            raise RepairError(path=shown, reason="would be changed twice")
        return staged, rest

    def _edit(self, path: str | os.PathLike[str], reason: str) -> StagedEdit:
        shown = self._shown(path)
        if shown not in self._edits:
            with self._work.spot(shown) as spot:
                handle = open_single(spot)
                facts = os.fstat(handle)
                os.close(handle)
            sizes, times = [facts.st_size] * 2, [facts.st_mtime_ns] * 2
            self._edits[shown] = StagedEdit(self._next_number(), shown, self._work, sizes, times)
        edit = self._edits[shown]
        edit.reason = edit.reason or reason
        return edit

    def _shown(self, path: str | os.PathLike[str]) -> str:
        """Give a path as the journal has it: relative where it is in the store."""
        shown = os.fspath(path)
        if not shown.startswith("/"):
            return shown
        relative_path(tuple(shown.split("/")[1:]))
        return shown.removeprefix(f"{self._lock.root}/")

    def _topmost_missing(self, shown: str) -> tuple[str, tuple[str, ...]]:
        if shown.startswith("/"):
            return shown, ()
        parts = shown.split("/")
        for count in range(1, len(parts)):
            top = "/".join(parts[:count])
            with self._work.spot(top) as spot:
                if spot.facts() is None:
                    return top, tuple(parts[count:])
        return shown, ()

    def _next_number(self) -> int:
        return len(self._swaps) + len(self._edits) + 1

    def _prepare(self) -> list[Change]:
        """Bring all that was staged, and all that will be lost, to the disk."""
        self._refuse_nested()
        swaps = [staged.build() for staged in self._swaps.values()]
        edits = [edit.build(self._saved[OLD]) for edit in self._edits.values()]
        changes = [change for change in (*swaps, *edits) if change is not None]
        changes.sort(key=lambda change: change.number)
        for saved in self._saved:
            saved.finish(self._sync)
            saved.close()
        if changes:
            assert self._asides is not None  # noqa: S101 - the block has begun
            self._asides.finish()
            lines = [line for change in changes for line in change.lines()]
            self._sides = self._both_sides(changes)
            prepared = state_line(State.PREPARED, changes=len(changes), **self._sides)
            self._journal.append(*lines, prepared)
            name, root = self.undo_directory.name, self._lock.directory
            with write_errors(self.undo_directory):
                self._sync.handle(self._work.undo.handle)
                rename_new(Spot(root, discarded(name)), Spot(root, name))
                self._sync.handle(root.handle)
        return changes

    def _refuse_nested(self) -> None:
        paths = [tuple(self._work.real(path).split("/")) for path in (*self._swaps, *self._edits)]
        for outer, inner in itertools.pairwise(sorted(paths)):
            if inner[: len(outer)] == outer:
                raise RepairError(path="/".join(inner), reason="would be changed twice")

    def _both_sides(self, changes: list[Change]) -> dict[str, Any]:
        """Give what is where now, and what will have to be put back."""
        swaps = [change for change in changes if isinstance(change, Swap)]
        first = {swap.path.rpartition("/")[0]: swap.path for swap in reversed(swaps)}
        directories = {}  # each by the first path that changes in it
        for path in first.values():
            with self._work.spot(path) as spot:
                directories[path] = os.fstat(spot.directory.handle).st_mtime_ns
        return {
            "inodes": {str(swap.number): swap.inodes(self._work) for swap in swaps},
            "fingerprints": {str(swap.number): swap.fingerprints(self._work) for swap in swaps},
            "directories": directories,
        }

    def _commit(self, changes: list[Change]) -> None:
        """Make the changes; on an error take back those already made."""
        inodes = self._sides["inodes"]
        try:
            self._journal.append(state_line(State.COMMITTED, lock=self._lock.as_left))
            settle(self._work, changes, inodes, NEW, self._sync, trusted=True)
            finish(self._lock, self._work, self._sync)
        except BaseException as error:
            self._roll_back(changes, error)
            raise

    def _roll_back(self, changes: list[Change], error: BaseException) -> None:
        try:
            settle(self._work, changes, self._sides["inodes"], OLD, self._sync, trusted=True)
            restore_mtimes(self._work, self._sides["directories"])
            discard(self._lock, self.undo_directory.name, self._sync)
        except RepairError as second:
            reason = f"{error}; the changes could not be undone: {second}"
            raise EditUnfinished(path=str(self.undo_directory), reason=reason) from error

    def _close(self) -> None:
        for saved in self._saved:
            saved.close()
        if self._asides is not None:
            self._asides.close()
        if self._undo is not None:
            self._undo.close()

    def _abandon(self) -> None:
        """Remove what was staged, as far as the system lets us; a later run removes the rest."""
        with suppress(RepairError, OSError):
            if self._lock.directory.facts(self.undo_directory.name) is not None:
                discard(self._lock, self.undo_directory.name, self._sync)
            remove_leftovers(self._lock, self._sync)
            self._lock.directory.set_mtime(self._root_mtime_ns)


# Where an edit in place stages what it will swap in: on the file system of what is replaced.


class Asides:
    """The staged trees of one edit: one in the undo directory, and one on each other file system.

    Nobody else can enter them, whoever owns the store.

    Args:
        work: where the edit happens.
        journal: told of those on other file systems before they are made.
        sync: counts the time that the disk takes.
    """

    def __init__(self, work: Workplace, journal: Journal, sync: DiskSync) -> None:
        self._work, self._journal, self._sync = work, journal, sync
        self._trees = {"": OutputTree(work.undo.own(ASIDE), sync)}

    def tree_for(self, path: str, spot: Spot) -> tuple[str, OutputTree]:
        """Give the tree to stage in, and its path; that is empty in the undo directory.

        It must not be in a directory that the broker lists, so it is beside the outermost one.

        Args:
            path: of the store, of what is to be staged.
            spot: where that is.

        Raises:
            RepairError: nothing can be swapped in there.
        """
        device = os.fstat(spot.directory.handle).st_dev
        place = ""
        if device != os.fstat(self._work.root.handle).st_dev:
            above = self._work.beside(path)
            place = f"{above}/{self._work.undo.name}"
            with Directory.at(above or "/") as beside:
                if not above or os.fstat(beside.handle).st_dev != device:
                    reason = "is a file system of its own: nothing can be swapped in; write a copy"
                    raise RepairError(path=str(spot), reason=reason)
                if place not in self._trees:
                    self._journal.append({"outside": place})
                    made = beside.own(self._work.undo.name)
                    self._sync.handle(beside.handle)
                    self._trees[place] = OutputTree(made, self._sync)
        return place, self._trees[place]

    def finish(self) -> None:
        """Bring all that was staged to the disk."""
        for tree in self._trees.values():
            tree.finish()

    def close(self) -> None:
        """Close them."""
        for tree in self._trees.values():
            tree.top.close()
