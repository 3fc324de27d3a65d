"""Let a file or directory of the store and one in the undo directory change places.

A swap is its own inverse; where one of the two does not exist, it is a creation or a removal. The
wanted side is reached from any state in which a kill may have left the two, as inodes tell which
is which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rmqtool.errors import PlanMismatch
from rmqtool.writing.system_calls import exchange, rename_new
from rmqtool.writing.workplace import fingerprint

if TYPE_CHECKING:
    from rmqtool.writing.directory import Spot
    from rmqtool.writing.staging import DiskSync
    from rmqtool.writing.workplace import Workplace

# The place that the outgoing side has for a moment, in a swap of three renames.
_BETWEEN: Final = ".between"


class Swap(NamedTuple):
    """A file or directory that changes places with one in the undo directory."""

    number: int  # of the operation
    path: str  # of the store
    aside: str  # where the other side is; `Workplace.aside` places it
    what: str  # replace, create or remove
    reason: str  # why, for people

    def lines(self) -> list[dict[str, Any]]:
        """Give its lines for the journal."""
        facts = {"path": self.path, "aside": self.aside, "what": self.what, "reason": self.reason}
        return [{"number": self.number, "operation": "swap", **facts}]

    def inodes(self, work: Workplace) -> list[int | None]:
        """Give the inodes [in the store, aside]: which side is where, when names cannot tell."""
        with work.spot(self.path) as spot, work.aside(self.aside) as aside:
            return [spot.inode(), aside.inode()]

    def fingerprints(self, work: Workplace) -> list[str | None]:
        """Give the fingerprints [in the store, aside]."""
        with work.spot(self.path) as spot, work.aside(self.aside) as aside:
            return [fingerprint(spot), fingerprint(aside)]

    def sides(self, work: Workplace, prints: list[str | None]) -> list[int | None]:
        """Give the inodes [old, new] by fingerprints, when a copy of the store has others.

        Raises:
            PlanMismatch: the two sides look the same, or one is missing.
        """
        with work.spot(self.path) as spot, work.aside(self.aside) as aside:
            places = (spot, aside, aside.beside(_BETWEEN))
            sides: dict[str | None, int | None]
            sides = {fingerprint(place): place.inode() for place in places}
        sides[None] = None
        if prints[0] == prints[1] or sides.keys() != {None, *prints}:
            raise PlanMismatch(path=str(spot), reason="it cannot be told which side is where")
        return [sides[side] for side in prints]

    def settle(
        self, work: Workplace, wanted: int | None, other: int | None, sync: DiskSync | None
    ) -> None:
        """Bring one side to its place in the store, from whatever state a kill left.

        Args:
            work: where.
            wanted: inode that shall be in the store; None when nothing shall.
            other: inode that shall not; None when that side is nothing.
            sync: brings the change to the disk; None leaves that for later.

        Raises:
            PlanMismatch: something else is in the store.
            WriteFailed: the system refused.
        """
        with work.spot(self.path) as spot, work.aside(self.aside) as aside:
            between = aside.beside(_BETWEEN)
            here = spot.inode()
            if here is not None and here not in {wanted, other}:
                raise PlanMismatch(path=str(spot), reason="was replaced by something else")
            if wanted is None:
                if here is not None:
                    rename_new(spot, aside)
            elif here != wanted:
                source = between if between.inode() == wanted else aside
                if source.inode() != wanted:
                    raise PlanMismatch(path=str(spot), reason=f"{source} is missing or replaced")
                _bring(source, spot, aside if source == between else between)
            if between.inode() is not None:
                rename_new(between, aside)
            if sync is not None:
                sync.handle(spot.directory.handle)
                sync.handle(aside.directory.handle)


def _bring(source: Spot, spot: Spot, free: Spot) -> None:
    """Put a thing in its place; what was there goes to `source`, or to `free` on the way."""
    if spot.inode() is None:
        rename_new(source, spot)
    elif not exchange(source, spot):
        rename_new(spot, free)
        rename_new(source, spot)
