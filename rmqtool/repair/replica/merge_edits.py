"""One plan of two: the edits that bring what is lent, and those of the store as these leave it.

Each edit of the plan is made once, and against the store as it is now: no two of them touch the
same bytes, and a digest is that of the bytes which are there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.repair.plans import Action, digest_of, place_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.repair.plans import Edit, Plan
    from rmqtool.store.place import Place

WHOLE = (Action.CREATE, Action.REPLACE)


class Lent(NamedTuple):
    """What a replica lends."""

    edits: list[Edit]  # that bring it, in order
    notes: list[str]  # where it was not used, and why


NOTHING_LENT: Final = Lent([], [])


def settle(plan: Plan, lent: Lent, root: Place) -> None:
    """Make the plan of a store that reads as if it had what is lent one of the store as it is.

    Args:
        plan: its edits and notes change.
        lent: what a replica lends.
        root: of the store as it is.
    """
    plan.edits = folded(lent.edits, plan.edits, root)
    plan.notes += lent.notes


def folded(lent: Iterable[Edit], later: Iterable[Edit], root: Place) -> list[Edit]:
    """Give the edits of both, in order.

    Args:
        lent: what is lent.
        later: edits of the store as `lent` leaves it.
        root: of the store as it is.
    """
    edits = list(lent)
    for edit in later:
        before = [kept for kept in edits if kept.path == edit.path]
        if not before:
            edits.append(edit)
            continue
        edits = [kept for kept in edits if kept.path != edit.path]
        edits += _both(before, edit, root)
    return edits


def _both(before: list[Edit], edit: Edit, root: Place) -> Iterator[Edit]:
    """Give the edits of one file, with one more."""
    if edit.action is Action.REBUILD:
        yield from (*before, edit)
        return
    there = place_of(root, edit.path).stat()
    size = there.size if there is not None else 0
    if edit.action is Action.REMOVE or edit.action in WHOLE:
        if there is None and edit.action is not Action.REMOVE:
            yield replace(edit, action=Action.CREATE, length=0, old="")
        elif there is not None:
            yield replace(edit, length=size, old=digest_of(place_of(root, edit.path), 0, size))
        return
    if edit.action is Action.WRITE and before[0].action in WHOLE:
        yield _overlaid(before[0], edit)
        return
    for earlier in before:
        yield from _without(earlier, edit, root) if edit.action is Action.WRITE else (earlier,)
    yield _against(edit, root, size)


def _overlaid(whole: Edit, edit: Edit) -> Edit:
    """Give a file that comes, with bytes of a later edit."""
    assert whole.content is not None  # noqa: S101 - it brings a file
    assert edit.content is not None  # noqa: S101 - it writes bytes
    content = whole.content.overlaid(edit.position, edit.content)
    end = edit.position + edit.content.size
    reason = f"{whole.reason}; bytes {edit.position} to {end}: {edit.reason}"
    lost = "; ".join(filter(None, (whole.lost, edit.lost)))
    return replace(whole, content=content, new=content.sha256, reason=reason, lost=lost)


def _without(candidate: Edit, edit: Edit, root: Place) -> Iterator[Edit]:
    """Give what is left of bytes that are written, without those that a later edit writes."""
    if candidate.content is None or candidate.action is not Action.WRITE:
        yield candidate
        return
    begin, end = edit.position - candidate.position, edit.position + edit.size - candidate.position
    if end <= 0 or candidate.size <= begin:
        yield candidate
        return
    there = place_of(root, candidate.path).stat()
    for low, high in ((0, begin), (end, candidate.size)):
        if low < high:
            content = candidate.content.part(low, high)
            position = candidate.position + low
            kept = replace(
                candidate, position=position, size=content.size, content=content, new=content.sha256
            )
            yield _against(kept, root, there.size if there is not None else 0)


def _against(edit: Edit, root: Place, size: int) -> Edit:
    """Give an edit with the digest of what is there now.

    Args:
        edit: of bytes, or of a length.
        root: of the store.
        size: bytes of the file now.
    """
    if edit.action is Action.LENGTH:
        position, length = min(size, edit.size), max(size - edit.size, 0)
    else:
        position, length = edit.position, max(0, min(edit.size, size - edit.position))
    old = digest_of(place_of(root, edit.path), position, length) if length else ""
    return replace(edit, position=position, length=length, old=old)
