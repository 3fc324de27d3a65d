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
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rmqtool.errors import PlanMismatch, RepairError, WriteFailed
from rmqtool.store.names import relative_path
from rmqtool.writing.file_edit import NEW, OLD, SAVED_NAMES
from rmqtool.writing.journal import (
    Journal,
    State,
    discard_path,
    new_undo_name,
    state_line,
    undo_directories,
)
from rmqtool.writing.output_tree import OutputTree, inherit
from rmqtool.writing.staged import SavedBytes, StagedEdit, StagedSwap
from rmqtool.writing.staging import DiskSync, write_errors
from rmqtool.writing.swap import Swap
from rmqtool.writing.system_calls import rename_new
from rmqtool.writing.undo import (
    discard,
    finish,
    remove_leftovers,
    restore_mtime,
    restore_mtimes,
    settle,
)
from rmqtool.writing.workplace import Workplace, inode, like_of

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Buffer

    from rmqtool.writing.lock import StoreLock
    from rmqtool.writing.output_tree import Pieces
    from rmqtool.writing.undo import Change


class Transaction:
    """One edit of a store in place; a context manager.

    A path is of the store and relative, `/` separated; or absolute, where the configuration of
    the broker places part of the store elsewhere.

    Attributes:
        undo_directory: where the journal and what was replaced are; `undo` takes its name.
        is_changing: after the block, whether there was anything to change.

    Args:
        lock: of the store; held, and held until the block has ended.
        command: what is run, for the journal.
    """

    def __init__(self, lock: StoreLock, *, command: str) -> None:
        self.undo_directory = lock.root / new_undo_name(lock.root)
        self.is_changing = False
        self._lock = lock
        self._root_mtime_ns = 0
        self._command = command
        self._sync = DiskSync()
        self._work = Workplace(lock.root, self.undo_directory)
        self._staging = discard_path(self.undo_directory)
        self._journal = Journal(self._staging, self._sync)
        self._asides: dict[Path, OutputTree] = {}
        self._swaps: dict[str, StagedSwap] = {}
        self._edits: dict[str, StagedEdit] = {}
        self._saved: list[SavedBytes] = []

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
        root = self._lock.root
        if not self._lock.is_held:
            raise RepairError(path=str(root), reason="its lock is not held")
        for edit in undo_directories(root):
            if edit.state is not State.DONE:
                reason = f"{edit.name} was interrupted and has to be finished first"
                raise PlanMismatch(path=str(root), reason=reason)
        remove_leftovers(self._lock, self._sync)
        with write_errors(self._staging):
            self._root_mtime_ns = root.stat().st_mtime_ns
            self._staging.mkdir()
            try:
                self._journal.begin(
                    self._command, root_mtime_ns=self._root_mtime_ns, lock=self._lock.found
                )
                for name in SAVED_NAMES:
                    self._saved.append(SavedBytes(self._staging / name))
                self._aside(self._staging / "aside")
            except BaseException:
                self._abandon()
                raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._abandon()
            return
        try:
            changes = self._prepare()
            line = self._committed_line(changes)
        except BaseException:
            self._abandon()
            raise
        if changes:
            self._commit(changes, line)
            self.is_changing = True
        else:
            remove_leftovers(self._lock, self._sync)

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
            return
        staged.file = staged.aside.file(staged.name, size=size, pieces=pieces, mtime_ms=mtime_ms)
        like = like_of(staged.target)
        with write_errors(staged.file.path):
            mode = stat.S_IMODE(like.st_mode) if stat.S_ISREG(like.st_mode) else None
            inherit(Path(staged.file.path), like, mode=mode)

    def remove(self, path: str | os.PathLike[str], *, reason: str = "") -> None:
        """Take a file or a tree out of the store; it is kept in the undo directory.

        Raises:
            RepairError: the path cannot be meant, or was mentioned already.
        """
        if inode(self._work.target(self._shown(path))) is not None:
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
            target = self._work.target(top)
            aside, number = self._aside_of(top, target), self._next_number()
            is_inside = aside.top.parent == self._staging
            name = f"{number:04}" if is_inside else f"{aside.top}/{number:04}"
            what = "create" if inode(target) is None else "replace"
            staged = StagedSwap(number, top, target, aside, name, what, reason, bool(rest))
            self._swaps[top] = staged
        elif not (rest and staged.is_ancestor):
            raise RepairError(path=shown, reason="is to be changed twice")
        return staged, rest

    def _edit(self, path: str | os.PathLike[str], reason: str) -> StagedEdit:
        shown = self._shown(path)
        if shown not in self._edits:
            target = self._work.target(shown)
            with write_errors(target):
                facts = target.lstat()
            if not stat.S_ISREG(facts.st_mode):
                raise RepairError(path=str(target), reason="is not a regular file")
            if facts.st_nlink > 1:  # `cp -al` made it: its other name is somebody's backup
                reason = "has another hard link, which would be changed, too; copy it first"
                raise RepairError(path=str(target), reason=reason)
            sizes, times = [facts.st_size] * 2, [facts.st_mtime_ns] * 2
            self._edits[shown] = StagedEdit(self._next_number(), shown, target, sizes, times)
        edit = self._edits[shown]
        edit.reason = edit.reason or reason
        return edit

    def _shown(self, path: str | os.PathLike[str]) -> str:
        """Give a path as the journal has it: relative where it is in the store."""
        given = Path(path)
        if not given.is_absolute():
            return os.fspath(path)
        relative_path(given.parts[1:])
        with write_errors(given):
            given = given.parent.resolve() / given.name
        is_inside = given.is_relative_to(self._lock.root)
        return str(given.relative_to(self._lock.root) if is_inside else given)

    def _topmost_missing(self, shown: str) -> tuple[str, tuple[str, ...]]:
        if shown.startswith("/"):
            return shown, ()
        parts = shown.split("/")
        for count in range(1, len(parts)):
            top = "/".join(parts[:count])
            if inode(self._work.target(top)) is None:
                return top, tuple(parts[count:])
        return shown, ()

    def _aside_of(self, shown: str, target: Path) -> OutputTree:
        """Give the directory to stage a target in: on its own file system, as renames need.

        It must not be in a directory that the broker lists, so it is beside the outermost one.
        """
        with write_errors(target):
            device = target.parent.stat().st_dev
            if device == self._lock.root.stat().st_dev:
                return self._asides[self._staging / "aside"]
            beside = self._beside(shown)
            if beside.stat().st_dev != device:
                reason = "is a file system of its own: nothing can be swapped in; write a new copy"
                raise RepairError(path=str(target), reason=reason)
            place = beside / self.undo_directory.name
            if place not in self._asides:
                self._journal.append({"outside": str(place)})
            return self._aside(place)

    def _beside(self, shown: str) -> Path:
        """Give the directory that holds the outermost directory of the store above a path."""
        if shown.startswith("/"):
            return self._work.target(shown).parent.parent
        return self._work.target(shown.partition("/")[0]).parent

    def _aside(self, place: Path) -> OutputTree:
        if place not in self._asides:
            with write_errors(place):
                place.mkdir()
            self._asides[place] = OutputTree(place, self._sync)
        return self._asides[place]

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
            for aside in self._asides.values():
                aside.finish()
            lines = [line for change in changes for line in change.lines()]
            self._journal.append(*lines, state_line(State.PREPARED, changes=len(changes)))
            with write_errors(self.undo_directory):
                self._sync.all(sorted({place.parent for place in self._asides}))
                rename_new(self._staging, self.undo_directory)
                self._sync.path(self._lock.root)
        return changes

    def _refuse_nested(self) -> None:
        paths = [swap.target.parts for swap in self._swaps.values()]
        paths += [edit.target.parts for edit in self._edits.values()]
        for outer, inner in itertools.pairwise(sorted(paths)):
            if inner[: len(outer)] == outer:
                raise RepairError(path=str(Path(*inner)), reason="is to be changed twice")

    def _committed_line(self, changes: list[Change]) -> dict[str, Any]:
        """Give the line that commits: what is where now, and what will have to be put back."""
        swaps = [change for change in changes if isinstance(change, Swap)]
        above = {self._work.target(swap.path).parent: swap.path for swap in reversed(swaps)}
        with write_errors(self._lock.root):
            return state_line(
                State.COMMITTED,
                inodes={str(swap.number): swap.inodes(self._work) for swap in swaps},
                fingerprints={str(swap.number): swap.fingerprints(self._work) for swap in swaps},
                directories={path: parent.stat().st_mtime_ns for parent, path in above.items()},
                lock=self._lock.found,
            )

    def _commit(self, changes: list[Change], line: dict[str, Any]) -> None:
        """Make the changes; on an error take back those already made."""
        try:
            Journal(self.undo_directory, self._sync).append(line)
            settle(self._work, changes, line["inodes"], NEW, self._sync, trusted=True)
            finish(self._lock, self._work, self._sync)
        except BaseException as error:
            self._roll_back(changes, line, error)
            raise

    def _roll_back(self, changes: list[Change], line: dict[str, Any], error: BaseException) -> None:
        try:
            settle(self._work, changes, line["inodes"], OLD, self._sync, trusted=True)
            restore_mtimes(self._work, line["directories"])
            discard(self._lock, self.undo_directory, self._sync)
        except RepairError as second:
            reason = f"{error}; it could not be taken back ({second}): run again to finish it"
            raise WriteFailed(path=str(self.undo_directory), reason=reason) from error

    def _abandon(self) -> None:
        """Remove what was staged, as far as the system lets us; a later run removes the rest."""
        for saved in self._saved:
            saved.close()
        with suppress(RepairError):
            if inode(self.undo_directory) is not None:
                discard(self._lock, self.undo_directory, self._sync)
            remove_leftovers(self._lock, self._sync)
            restore_mtime(self._lock.root, self._root_mtime_ns)
