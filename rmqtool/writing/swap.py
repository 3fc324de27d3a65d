"""Let a file or directory of the store and one in the undo directory change places.

A swap is its own inverse; where one of the two does not exist, it is a creation or a removal. The
wanted side is reached from any state in which a kill may have left the two, as inodes tell which
is which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rmqtool.errors import PlanMismatch
from rmqtool.writing.staging import write_errors
from rmqtool.writing.system_calls import exchange, rename_new
from rmqtool.writing.workplace import Workplace, fingerprint, inode

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Swap:
    """A file or directory that changes places with one in the undo directory.

    Attributes:
        number: of the operation.
        path: of the store.
        aside: where the other side is; `Workplace.aside` places it.
        what: replace, create or remove.
        reason: why, for people.
    """

    number: int
    path: str
    aside: str
    what: str
    reason: str

    def lines(self) -> list[dict[str, Any]]:
        """Give its lines for the journal."""
        facts = {"path": self.path, "aside": self.aside, "what": self.what, "reason": self.reason}
        return [{"number": self.number, "operation": "swap", **facts}]

    def inodes(self, work: Workplace) -> list[int | None]:
        """Give the inodes [in the store, aside]: which side is where, when names cannot tell."""
        return [inode(work.target(self.path)), inode(work.aside(self.aside))]

    def sides(self, work: Workplace, prints: list[str | None]) -> list[int | None]:
        """Give the inodes [old, new] by fingerprints, when a copy of the store has others.

        Raises:
            PlanMismatch: the two sides look the same, or one is missing.
        """
        path, aside = work.target(self.path), work.aside(self.aside)
        places = (path, aside, _between(aside))
        found: dict[str | None, int | None] = {fingerprint(place): inode(place) for place in places}
        found[None] = None
        if prints[0] == prints[1] or found.keys() != {None, *prints}:
            raise PlanMismatch(path=str(path), reason="it cannot be told which side is where")
        return [found[side] for side in prints]

    def directories(self, work: Workplace) -> set[Path]:
        """Give the directories whose entries it changes."""
        return {work.target(self.path).parent, work.aside(self.aside).parent}

    def settle(self, work: Workplace, wanted: int | None, other: int | None) -> None:
        """Bring one side to its place in the store, from whatever state a kill left.

        Args:
            work: where.
            wanted: inode that shall be in the store; None when nothing shall.
            other: inode that shall not; None when that side is nothing.

        Raises:
            PlanMismatch: something else is in the store.
            WriteFailed: the system refused.
        """
        path, aside = work.target(self.path), work.aside(self.aside)
        between = _between(aside)
        with write_errors(path):
            here = inode(path)
            if here is not None and here not in {wanted, other}:
                raise PlanMismatch(path=str(path), reason="was replaced by something else")
            if wanted is None:
                if here is not None:
                    rename_new(path, aside)
            elif here != wanted:
                source = between if inode(between) == wanted else aside
                if inode(source) != wanted:
                    raise PlanMismatch(path=str(path), reason=f"{source} is missing or replaced")
                _bring(source, path, aside if source == between else between)
            if inode(between) is not None:
                rename_new(between, aside)

    def fingerprints(self, work: Workplace) -> list[str | None]:
        """Give the fingerprints [in the store, aside]."""
        return [fingerprint(work.target(self.path)), fingerprint(work.aside(self.aside))]


def _between(aside: Path) -> Path:
    """Give the place that the outgoing side has for a moment, in a swap of three renames."""
    return aside.with_name(aside.name + ".between")


def _bring(source: Path, path: Path, free: Path) -> None:
    """Put a thing in its place; what was there goes to `source`, or to `free` on the way."""
    if inode(path) is None:
        rename_new(source, path)
    elif not exchange(source, path):
        rename_new(path, free)
        rename_new(source, path)
