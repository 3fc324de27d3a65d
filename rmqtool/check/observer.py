"""Callbacks for report, repair and manifests during a validation, and for its progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from rmqtool.ledger.walk import NONE_PROVEN

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.check.log.part import PartReport
    from rmqtool.check.log.traffic import TimeGrid
    from rmqtool.check.manifest.manifest_ledger import Ledger
    from rmqtool.check.queues.ranges import QueueFacts
    from rmqtool.ledger.walk import Proven
    from rmqtool.store.segment import SegmentPart


class Observer(Protocol):
    """Looks on; it must not change what it is shown, nor raise because of content."""

    # the stretches of time in which traffic is to be counted; None for no counting
    grid: TimeGrid | None

    def begin(self, inspection: Inspection, facts: LogFacts, queues: QueueFacts) -> None:
        """Take note of the validation that begins; its facts are known when it ends."""

    def take(self, part: SegmentPart, report: PartReport) -> Proven:
        """See one part of the log, in the order of the log; nothing of it is kept by others.

        Returns:
            Runs of its queues that are proven to lie where the log wants them.
        """


class Observers(NamedTuple):
    """All who look on at one validation."""

    watch: Callable[[int], None]  # takes the bytes of the commitlog done since it was last called
    observer: Observer | None = None  # sees what is read; None for nobody
    ledger: Ledger | None = None  # keeps book for a manifest; None without

    @property
    def grid(self) -> TimeGrid | None:
        """The stretches of time in which traffic is to be counted."""
        return self.observer.grid if self.observer else None

    def take(self, part: SegmentPart, report: PartReport) -> Proven:
        """Show one part of the log; give the runs that nobody needs to compare any more."""
        if self.ledger is not None:
            self.ledger.take(part, report)
        return NONE_PROVEN if self.observer is None else self.observer.take(part, report)
