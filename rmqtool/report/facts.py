"""What a report tells, found out and counted, before anything is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from rmqtool.check.log.traffic import TimeGrid
    from rmqtool.check.report import Summary
    from rmqtool.findings.finding import Finding
    from rmqtool.report.evidence import Evidence


@dataclass(slots=True)
class SegmentTiling:
    """One commitlog file, tiled.

    Attributes:
        path: relative to the store root.
        start: its first physical offset.
        size: bytes.
        records: how many begin in it.
        stretches: what is no record: (kind, position, length), in file order; kinds are filler,
            gap, unused and unread.
    """

    path: str
    start: int
    size: int
    records: int = 0
    stretches: list[tuple[str, int, int]] = field(default_factory=list)

    def bytes_of(self, kind: str) -> int:
        """Give how many bytes are of a kind; of records it is what no other kind has."""
        if kind == "record":
            return self.size - sum(length for _, _, length in self.stretches)
        return sum(length for one, _, length in self.stretches if one == kind)


@dataclass(frozen=True, slots=True)
class TopicTraffic:
    """One topic over time.

    Attributes:
        topic: its name; None for all topics that are not counted one by one.
        counts: int64, shape (2, steps + 2): records and bytes, first and last those outside of
            the grid.
    """

    topic: str | None
    counts: npt.NDArray[np.int64]

    @property
    def records(self) -> int:
        """How many."""
        return int(self.counts[0].sum())

    @property
    def size(self) -> int:
        """Their bytes."""
        return int(self.counts[1].sum())

    @property
    def outside(self) -> int:
        """Records whose store time is far from that of all others."""
        return int(self.counts[0, 0] + self.counts[0, -1])

    @property
    def series(self) -> list[int]:
        """Records in each step of the grid."""
        return [int(count) for count in self.counts[0, 1:-1]]


@dataclass(frozen=True, slots=True)
class QueueCoverage:
    """One queue in the log and in its files; ranges are half open, None where there is nothing.

    Attributes:
        topic: of the queue.
        queue_id: of the topic.
        in_log: queue offsets of the records that the log still has.
        in_files: queue offsets of the units that its files have.
    """

    topic: str
    queue_id: int
    in_log: tuple[int, int] | None
    in_files: tuple[int, int] | None

    @property
    def missing(self) -> int:
        """Messages of the log that lie outside of the files."""
        if self.in_log is None:
            return 0
        first, end = self.in_log
        if self.in_files is None:
            return end - first
        return max(min(self.in_files[0], end) - first, 0) + max(
            end - max(self.in_files[1], first), 0
        )

    @property
    def ahead(self) -> int:
        """Units behind the last record that the log has for this queue."""
        if self.in_log is None or self.in_files is None:
            return 0
        return max(self.in_files[1] - self.in_log[1], 0)


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a report shows.

    Attributes:
        location: absolute path of the store root.
        summary: of the validation.
        exit_code: of the validation.
        findings: in the order in which they were found; of each kind the first ones.
        segments: of the log, in order.
        grid: the time axis; None when no record tells a time.
        traffic: topics, the one with the most records first.
        coverage: queues in the log and in their files.
        compares_queues: whether the log was read for them.
        sections: rows of the overview, by section.
        evidence: digests of all files, where they are wanted.
        lost: rows of `tables/lost_messages.py`.
    """

    location: str
    summary: Summary
    exit_code: int
    findings: Sequence[Finding]
    segments: Sequence[SegmentTiling]
    grid: TimeGrid | None
    traffic: Sequence[TopicTraffic]
    coverage: Sequence[QueueCoverage]
    compares_queues: bool
    sections: Mapping[str, Sequence[Any]]
    lost: Sequence[Mapping[str, Any]] = ()
    evidence: Evidence | None = None
