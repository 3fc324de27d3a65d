"""The seat of whoever looks on while a log is read: a report draws what the checks see anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.part import PartReport
    from rmqtool.check.log.traffic import TimeGrid
    from rmqtool.store.segment import SegmentPart


class Observer(Protocol):
    """Looks on; it must not change what it is shown, nor raise because of content.

    Attributes:
        grid: the stretches of time in which traffic is to be counted; None for no counting.
    """

    grid: TimeGrid | None

    def begin(self, inspection: Inspection) -> None:
        """Take note of the validation that begins; its facts are known when it ends."""

    def take(self, part: SegmentPart, report: PartReport) -> None:
        """See one part of the log, in the order of the log; nothing of it is kept by others."""
