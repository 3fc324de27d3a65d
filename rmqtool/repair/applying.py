"""Make the edits of a plan: in the store itself, journalled and undoable, or in a new copy.

In place, all edits are one transaction (`writing/edits.py`): killed at any moment, the store is the
old one, or a rerun makes it the new one. Into a copy, unchanged files share their blocks with the
original where the file system can (reflink), and are copied else; never by a hard link, as a broker
that runs on the copy would write into the original. A store in an archive is copied out of it.
"""

from __future__ import annotations

import os
import stat
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

from rmqtool.errors import PlanMismatch, Trouble
from rmqtool.repair.plans import QUEUE_DIRECTORIES, Action, Edit, Plan
from rmqtool.repair.verifying import verify
from rmqtool.store.entry import Entry, EntryKind
from rmqtool.store.names import OURS
from rmqtool.store.place import Place
from rmqtool.store.rocksdb import is_queue_database
from rmqtool.store.root import is_known
from rmqtool.writing.directory import Directory, Spot, spot_of
from rmqtool.writing.edits import Transaction
from rmqtool.writing.output import OutputDirectory, refuse_within
from rmqtool.writing.staging import write_errors
from rmqtool.writing.workplace import name_of_link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rmqtool.repair.log.content import Content
    from rmqtool.writing.lock import StoreLock
    from rmqtool.writing.output_tree import OutputTree, OutputTreeFile

COMMAND: Final = "repair"
CHUNK: Final = 4 << 20
DIRECTORY_MODE: Final = 0o755  # where an archive says nothing


def apply_in_place(plan: Plan, lock: StoreLock) -> str:
    """Make all edits in the store.

    Args:
        plan: verified here once more.
        lock: of the store; held.

    Returns:
        Name of the undo directory; empty when nothing had to be done.

    Raises:
        PlanMismatch: the store is not the one that the plan was made for.
        WriteFailed: the system refused; the store is as it was.
        EditUnfinished: the same half way; the store is not.
    """
    verify(plan, Place.of(os.fspath(lock.root)))
    with Transaction(lock, command=COMMAND) as edits:
        for edit in plan.edits:
            if edit.action is Action.REBUILD:
                from rmqtool.repair.rocksdb import stage_in_store  # few stores have it

                stage_in_store(plan, edit, lock, edits)
            else:
                _stage(edits, edit)
    return edits.undo_directory.name if edits.is_changing else ""


def _stage(edits: Transaction, edit: Edit) -> None:
    reason = f"{edit.code}: {edit.reason}"
    match edit.action:
        case Action.WRITE:
            assert edit.content is not None  # noqa: S101 - a plan was read, or made, with it
            for position, raw in pieces(edit.content, edit.position):
                edits.write(edit.path, position, raw, reason=reason)
        case Action.LENGTH:
            edits.set_length(edit.path, edit.size, reason=reason)
        case Action.REMOVE:
            edits.remove(edit.path, reason=reason)
        case Action.CREATE | Action.REPLACE:
            assert edit.content is not None  # noqa: S101 - likewise
            edits.replace_file(
                edit.path,
                size=edit.size,
                pieces=edit.content.written(),
                mtime_ms=edit.mtime_ms,
                reason=reason,
            )


def pieces(content: Content, start: int) -> Iterator[tuple[int, bytes]]:
    """Yield the bytes to write, zeros included, in pieces of bounded size."""
    position = start
    for chunk in content.chunks():
        for begin in range(0, len(chunk), CHUNK):
            part = chunk[begin : begin + CHUNK]
            yield position, part
            position += len(part)


def apply_to_copy(plan: Plan, store: Place, output: str) -> list[str]:
    """Write a repaired copy of a store into a new directory.

    Nobody can read in the copy what they cannot read in the original.

    Args:
        plan: verified here once more.
        store: the original; only read.
        output: the new directory.

    Returns:
        What was left out, as it is no file: links, sockets and the like.

    Raises:
        PlanMismatch: the store is not the one that the plan was made for; or part of it is
            elsewhere, and no configuration names that place.
        OutputExists: the directory is there.
        WriteFailed: the system refused, and nothing is left of the copy; or it would lie in the
            store.
    """
    refuse_within(store, output)
    verify(plan, store)
    by_path: dict[str, list[Edit]] = {}
    for edit in plan.edits:
        if edit.path.startswith("/"):
            first = "use" if store.is_local else "unpack the archive, and use"
            reason = f"lies outside of the store: a copy cannot have it; {first} --in-place"
            raise PlanMismatch(path=edit.path, reason=reason, trouble=Trouble.EXPLAINED)
        by_path.setdefault(edit.path, []).append(edit)
    with write_errors(store), _opened(store) as root:
        mode = os.fstat(root.handle).st_mode if root is not None else _mode_of(store)
        with OutputDirectory(output, mode=mode & 0o777) as tree:
            copy = _Copy(tree, by_path, plan.elsewhere)
            if root is not None:
                copy.root(root)
            else:
                copy.archive(store)
            for path, edits in by_path.items():
                for edit in edits:
                    if edit.action is Action.CREATE and edit.content is not None:
                        _create(tree, path, edit)
            for edit in plan.edits:
                if edit.action is Action.REBUILD:
                    from rmqtool.repair.rocksdb import write_in_copy  # few stores have it

                    write_in_copy(plan, edit, tree)
    return copy.left_out


def _opened(store: Place) -> AbstractContextManager[Directory | None]:
    """Open the directory of a store, for as long as it is copied; None of one in an archive."""
    return Directory.at(store.location) if store.is_local else nullcontext()


def _mode_of(store: Place) -> int:
    facts = store.stat()
    return (facts and facts.mode) or DIRECTORY_MODE


class _Copy:
    """A copy while it is made.

    Attributes:
        left_out: paths of what is no file.
        rebuilt: directories that are written anew, not copied.
    """

    def __init__(
        self, tree: OutputTree, edits: dict[str, list[Edit]], elsewhere: tuple[str, ...]
    ) -> None:
        self.left_out: list[str] = []
        self._tree, self._edits, self._elsewhere = tree, edits, elsewhere
        self.rebuilt = {path for path in edits if _is_rebuilt(edits[path])}
        if any(map(is_queue_database, self.rebuilt)):
            self.rebuilt |= QUEUE_DIRECTORIES

    def root(self, root: Directory) -> None:
        """Copy a store; what a link of its root leads to only if the configuration names it."""
        for name, facts in root.entries():
            if name.startswith(OURS) or name in self.rebuilt:
                continue
            if not stat.S_ISLNK(facts.st_mode):
                self._entry(Spot(root, name), facts, (name,))
                continue
            place = os.path.realpath(name_of_link(root, name))
            if self._follows(name, root.shown(name), place, self._elsewhere):
                with spot_of(place).directory as above:
                    spot = Spot(above, place.rpartition("/")[2])
                    if (copied := spot.facts()) is not None:
                        self._entry(spot, copied, (name,))

    def archive(self, root: Place) -> None:
        """Copy a store out of an archive: links lead to what the archive has, or nowhere."""
        elsewhere = [root.outside(path).location for path in self._elsewhere]
        for entry in root.entries():
            if entry.name.startswith(OURS) or entry.name in self.rebuilt:
                continue
            place = root.child(entry.name)
            if entry.kind is not EntryKind.LINK:
                self._member(place, entry, (entry.name,))
                continue
            target = place.resolved()
            is_followed = self._follows(entry.name, str(place), target.location, elsewhere)
            if is_followed and (copied := target.stat()) is not None:
                self._member(target, copied, (entry.name,))

    def _follows(self, name: str, shown: str, place: str, elsewhere: Sequence[str]) -> bool:
        """Tell whether what a link of the root leads to belongs to the store.

        Raises:
            PlanMismatch: a broker follows it, and no configuration names the place.
        """
        if place in elsewhere:
            return True
        if is_known(name):
            reason = f"is a link to {place}, and no --broker-conf names that place"
            raise PlanMismatch(path=shown, reason=reason, trouble=Trouble.EXPLAINED)
        self.left_out.append(name)
        return False

    def _member(self, place: Place, entry: Entry, parts: tuple[str, ...]) -> None:
        path = "/".join(parts)
        own = self._edits.get(path, [])
        if any(edit.action is Action.REMOVE for edit in own):
            return
        if entry.kind is EntryKind.DIRECTORY:
            self._tree.directory(*parts, mode=entry.mode & 0o777 or DIRECTORY_MODE)
            for below in place.entries():
                self._member(place.child(below.name), below, (*parts, below.name))
        elif entry.kind is EntryKind.FILE:
            self._file(
                lambda size: self._tree.copy_read(place, entry, *parts, size=size), path, own
            )
        else:
            self.left_out.append(path)

    def _entry(self, spot: Spot, facts: os.stat_result, parts: tuple[str, ...]) -> None:
        path = "/".join(parts)
        own = self._edits.get(path, [])
        if any(edit.action is Action.REMOVE for edit in own):
            return
        if stat.S_ISDIR(facts.st_mode):
            self._tree.directory(*parts, mode=facts.st_mode & 0o777)
            with spot.directory.enter(spot.name) as directory:
                for name, below in directory.entries():
                    self._entry(Spot(directory, name), below, (*parts, name))
        elif stat.S_ISREG(facts.st_mode):
            self._file(lambda size: self._tree.copy(spot, *parts, size=size), path, own)
        else:
            self.left_out.append(path)

    def _file(
        self, copy: Callable[[int | None], OutputTreeFile], path: str, edits: list[Edit]
    ) -> None:
        """Write a file as the edits leave it.

        Args:
            copy: writes it as it is, with a length of its own; None is as many bytes as it has.
            path: below the store root.
            edits: of it.
        """
        for edit in edits:
            if edit.action in {Action.REPLACE, Action.CREATE}:
                _create(self._tree, path, edit)
                return
        sizes = [edit.size for edit in edits if edit.action is Action.LENGTH]
        copied = copy(sizes[-1] if sizes else None)
        writes = [edit for edit in edits if edit.action is Action.WRITE and edit.content]
        if not writes:
            return
        with copied.writing() as handle:
            for edit in writes:
                assert edit.content is not None  # noqa: S101 - chosen so
                for position, raw in pieces(edit.content, edit.position):
                    copied.put(handle, position, raw)


def _is_rebuilt(edits: list[Edit]) -> bool:
    return any(edit.action is Action.REBUILD for edit in edits)


def _create(tree: OutputTree, path: str, edit: Edit) -> None:
    if path not in tree.files and edit.content is not None:
        tree.file(
            *path.split("/"), size=edit.size, pieces=edit.content.written(), mtime_ms=edit.mtime_ms
        )
