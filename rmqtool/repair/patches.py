"""What is to be written into a queue: units that differ, and why."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Self

from rmqtool.broker.rules import counts_zeros
from rmqtool.check.queues.queue_state import UNIT
from rmqtool.ledger.differences import difference_of
from rmqtool.ledger.walk import WalkedQueue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.findings.catalogue import Code
    from rmqtool.queues.kinds import Units
    from rmqtool.repair.queues.queue_place import BridgedPlacement
    from rmqtool.store.segment import Segment

CUT_REASON: Final = "the log has no such message any more"


@dataclass(frozen=True, slots=True)
class Patch:
    """Units that are to be written."""

    number: int  # of the first one
    raw: bytes  # their bytes
    code: Code  # of the finding
    reason: str  # why, with {units} for how many: it may be joined with others, and split by files
    lost: str = ""  # what they stand in for; empty when they are what the log wants
    is_cut: bool = False  # the queue ends before them

    @classmethod
    def cut(cls, number: int, raw: bytes, code: Code) -> Self:
        """Let a queue end."""
        return cls(number, raw, code, CUT_REASON, is_cut=True)

    @classmethod
    def of(cls, number: int, want: Units, have: Units) -> Self:
        """Put units in the place of those that differ."""
        difference = difference_of(want, have)
        return cls(number, want.tobytes(), difference.code, difference.fixed)

    @property
    def end(self) -> int:
        """Number after the last one."""
        return self.number + len(self.raw) // UNIT

    @property
    def sentence(self) -> str:
        """Why, for as many units as these are."""
        count = len(self.raw) // UNIT
        units = "the unit" if count == 1 else f"{count:,} units"
        return self.reason.replace("{units}", units)

    def without(self, start: int, end: int) -> Iterator[Patch]:
        """Yield what is left of it without the units in [start, end)."""
        for first, last in ((self.number, min(start, self.end)), (max(end, self.number), self.end)):
            if first < last:
                raw = self.raw[(first - self.number) * UNIT : (last - self.number) * UNIT]
                yield replace(self, number=first, raw=raw)


@dataclass(slots=True)
class RepairedQueue(WalkedQueue):
    """One queue while it is compared."""

    placement: BridgedPlacement  # where units belong
    # what differs, in the order in which it was found
    patches: list[Patch] = field(default_factory=list)
    is_unread: bool = False  # whether something of it cannot be read; then it stays as it is
    # sound messages that its edits would have put out of reach, so that it stays as it is; 0 where
    # they put none
    kept_messages: int = 0

    def will_be(self, number: int) -> bytes:
        """Give the unit that will stand at a number; zeros for none."""
        for patch in reversed(self.patches):
            if patch.number <= number < patch.end:
                return patch.raw[(number - patch.number) * UNIT :][:UNIT]
        return self.units.packed(number, 1)

    def starts_without_units(self) -> list[int]:
        """Give the starts of the newest files, as far as they have no unit and get none.

        One without a byte is never loaded as it should be; of zeros see `counts_zeros`.
        """
        end = max((patch.end * UNIT for patch in self.patches if any(patch.raw)), default=0)
        newest: list[Segment] = []
        for segment in reversed(self.files.segments):
            first = -(-segment.start // UNIT)
            is_kept = bool(segment.size) and any(self.units.packed(first, 1))
            if segment.start < end or is_kept:
                break
            newest.append(segment)
        first = newest[-1].start if newest else self.files.start
        is_first = first == self.files.start
        if not counts_zeros(None if is_first else self.will_be(first // UNIT - 1)):
            newest = [segment for segment in newest if not segment.size]
        return [segment.start for segment in newest]
