"""Whether a store is still the one that a plan was made for, and what its edits replace there.

A plan may come from a stranger, as a store may: its paths are looked up as they are when they are
written, without a link, and outside of the store only where the configuration says so.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Final

from rmqtool.errors import PlanMismatch, Trouble
from rmqtool.repair.fingerprint import fingerprint
from rmqtool.repair.plans import place_of as place_of_edit
from rmqtool.store.address import place_of
from rmqtool.writing.directory import Directory
from rmqtool.writing.file_edit import read_stretch
from rmqtool.writing.staging import write_errors
from rmqtool.writing.workplace import Workplace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.repair.plans import Edit, Plan
    from rmqtool.store.place import Place

_CHUNK_BYTES: Final = 4 << 20


def verify(plan: Plan, root: Place) -> None:
    """Prove that a store is still the one that a plan was made for.

    Raises:
        PlanMismatch: it is not, or an edit leads out of it.
    """
    if fingerprint(root) != plan.fingerprint:
        reason = "the store has changed since the plan was made; make a new one"
        raise PlanMismatch(path=str(root), reason=reason, trouble=Trouble.STALE_PLAN)
    for edit in plan.edits:
        if edit.old and _digest(plan, edit) != edit.old:
            reason = f"bytes at {edit.position} have changed since the plan was made"
            raise PlanMismatch(path=edit.path, reason=reason, trouble=Trouble.STALE_PLAN)
        if edit.content is not None and edit.content.is_lent and edit.content.sha256 != edit.new:
            reason = "the other store has changed since the plan was made; make a new one"
            raise PlanMismatch(path=edit.path, reason=reason, trouble=Trouble.STALE_PLAN)


def replaced(plan: Plan, edit: Edit) -> Iterator[bytes]:
    """Yield the bytes that an edit replaces, some at a time.

    Raises:
        RepairError: they cannot be read, or are outside of the store.
    """
    root = place_of(plan.store)
    if not root.is_local:
        yield from _read_member(root, edit)
        return
    with write_errors(edit.path), Directory.at(plan.store) as opened:
        with Workplace(opened, opened, plan.elsewhere).spot(edit.path) as spot:
            handle = spot.directory.open_file(spot.name)
        try:
            yield from read_stretch(handle, edit.position, edit.length)
        finally:
            os.close(handle)


def _read_member(root: Place, edit: Edit) -> Iterator[bytes]:
    """Yield what an edit replaces of a store in an archive, some at a time."""
    end = edit.position + edit.length
    with place_of_edit(root, edit.path).open() as file:
        for position in range(edit.position, end, _CHUNK_BYTES):
            yield file.read_at(position, min(_CHUNK_BYTES, end - position))


def _digest(plan: Plan, edit: Edit) -> str:
    digest = hashlib.sha256()
    for raw in replaced(plan, edit):
        digest.update(raw)
    return digest.hexdigest()
