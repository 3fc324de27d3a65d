"""Make the edits of a plan: in the store itself, journalled and undoable, or in a new copy.

In place, all edits are one transaction (`writing/edits.py`): killed at any moment, the store is the
old one, or a rerun makes it the new one. Into a copy, unchanged files share their blocks with the
original where the file system can (reflink), and are copied else; never by a hard link, as a broker
that runs on the copy would write into the original.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from rmqtool.errors import PlanMismatch
from rmqtool.repair.plans import Action, Edit, Plan, verify
from rmqtool.store.place import EntryKind, Place
from rmqtool.writing.edits import Transaction
from rmqtool.writing.journal import DISCARD_PREFIX, UNDO_PREFIX
from rmqtool.writing.output import OutputDirectory, refuse_within

if TYPE_CHECKING:
    from rmqtool.repair.log.content import Content
    from rmqtool.writing.lock import StoreLock
    from rmqtool.writing.output_tree import OutputTree

COMMAND: Final = "repair"
CHUNK: Final = 4 << 20


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
    """
    verify(plan, Place.of(os.fspath(lock.root)))
    with Transaction(lock, command=COMMAND) as edits:
        for edit in plan.edits:
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
                pieces=edit.content.pieces,
                mtime_ms=edit.mtime_ms,
                reason=reason,
            )


def pieces(content: Content, start: int) -> list[tuple[int, bytes]]:
    """Give the bytes to write, zeros included, in pieces of bounded size."""
    found, position = [], start
    for chunk in content.chunks():
        for begin in range(0, len(chunk), CHUNK):
            part = chunk[begin : begin + CHUNK]
            found.append((position, part))
            position += len(part)
    return found


def apply_to_copy(plan: Plan, store: Place, output: str) -> None:
    """Write a repaired copy of a store into a new directory.

    Args:
        plan: verified here once more.
        store: the original; only read.
        output: the new directory.

    Raises:
        PlanMismatch: the store is not the one that the plan was made for.
        OutputExists: the directory is there.
        WriteFailed: the system refused, and nothing is left of the copy; or it would lie in the
            store.
    """
    refuse_within(store, output)
    verify(plan, store)
    by_path: dict[str, list[Edit]] = {}
    for edit in plan.edits:
        if edit.path.startswith("/"):
            reason = "lies outside of the store: a copy cannot have it; use --in-place"
            raise PlanMismatch(path=edit.path, reason=reason)
        by_path.setdefault(edit.path, []).append(edit)
    with OutputDirectory(output) as tree:
        _copy(tree, store, (), by_path)
        for path, edits in by_path.items():
            for edit in edits:
                if edit.action is Action.CREATE and edit.content is not None:
                    _create(tree, path, edit)


def _copy(
    tree: OutputTree, directory: Place, above: tuple[str, ...], edits: dict[str, list[Edit]]
) -> None:
    for entry in directory.entries():
        if not above and entry.name.startswith((UNDO_PREFIX, DISCARD_PREFIX)):
            continue
        parts = (*above, entry.name)
        place = directory.child(entry.name)
        own = edits.get("/".join(parts), [])
        if any(edit.action is Action.REMOVE for edit in own):
            continue
        kind = entry.kind
        if kind is EntryKind.LINK and not above:
            place = Place.of(place.location)
            found = place.stat()
            kind = found.kind if found is not None else kind
        if kind is EntryKind.DIRECTORY:
            tree.directory(*parts)
            _copy(tree, place, parts, edits)
        elif kind is EntryKind.FILE:
            _copy_file(tree, place, parts, own)


def _copy_file(tree: OutputTree, place: Place, parts: tuple[str, ...], edits: list[Edit]) -> None:
    for edit in edits:
        if edit.action in {Action.REPLACE, Action.CREATE}:
            _create(tree, "/".join(parts), edit)
            return
    sizes = [edit.size for edit in edits if edit.action is Action.LENGTH]
    copied = tree.copy(place.location, *parts, size=sizes[-1] if sizes else None)
    writes = [edit for edit in edits if edit.action is Action.WRITE and edit.content is not None]
    if not writes:
        return
    with copied.writing() as handle:
        for edit in writes:
            assert edit.content is not None  # noqa: S101 - chosen so
            for position, raw in pieces(edit.content, edit.position):
                copied.put(handle, position, raw)


def _create(tree: OutputTree, path: str, edit: Edit) -> None:
    if path not in tree.files and edit.content is not None:
        tree.file(
            *path.split("/"), size=edit.size, pieces=edit.content.pieces, mtime_ms=edit.mtime_ms
        )
