"""What a report tells, found out and counted, before anything is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rmqtool import __version__
from rmqtool.check.manifest.circumstances import Circumstances, circumstances
from rmqtool.check.manifest.manifest_ledger import DigestTask, digest
from rmqtool.errors import UnreadablePath
from rmqtool.store.entry import EntryKind, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from rmqtool.check.log.traffic import TimeGrid
    from rmqtool.check.report import Summary
    from rmqtool.findings.finding import Finding
    from rmqtool.startup.prediction import Prediction
    from rmqtool.store.place import Place
    from rmqtool.store.tree import Store


@dataclass(slots=True)
class SegmentTiling:
    """One commitlog file, tiled."""

    path: str  # relative to the store root
    start: int  # its first physical offset
    size: int  # bytes
    records: int = 0  # how many begin in it
    # what is no record: (kind, position, length), in file order; kinds are filler, gap, unused and
    # unread
    stretches: list[tuple[str, int, int]] = field(default_factory=list)

    def bytes_of(self, kind: str) -> int:
        """Give how many bytes are of a kind; of records it is what no other kind has."""
        if kind == "record":
            return self.size - sum(length for _, _, length in self.stretches)
        return sum(length for what, _, length in self.stretches if what == kind)


@dataclass(frozen=True, slots=True)
class TopicTraffic:
    """One topic over time."""

    topic: str | None  # its name; None for all topics that are not counted one by one
    # int64, shape (2, steps + 2): records and bytes, first and last those outside of the grid
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
    """One queue in the log and in its files; ranges are half open, None where there is nothing."""

    topic: str  # of the queue
    queue_id: int  # of the topic
    in_log: tuple[int, int] | None  # queue offsets of the records that the log still has
    in_files: tuple[int, int] | None  # queue offsets of the units that its files have
    lost: int = 0  # messages that no record of the log holds any more

    @property
    def missing(self) -> int:
        """Messages that consumers do not get: lost ones, and those of the log without a unit."""
        if self.in_log is None:
            return self.lost
        first, end = self.in_log
        if self.in_files is None:
            return max(end - first, self.lost)
        outside = max(min(self.in_files[0], end) - first, 0) + max(
            end - max(self.in_files[1], first), 0
        )
        return outside + self.lost

    @property
    def ahead(self) -> int:
        """Units after the last record that the log has for this queue."""
        if self.in_log is None or self.in_files is None:
            return 0
        return max(self.in_files[1] - self.in_log[1], 0)


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a report shows."""

    location: str  # absolute path of the store root
    summary: Summary  # of the validation
    exit_code: int  # of the validation
    # in the order in which they were found; of each kind the first ones
    findings: Sequence[Finding]
    segments: Sequence[SegmentTiling]  # of the log, in order
    grid: TimeGrid | None  # the time axis; None when no record tells a time
    traffic: Sequence[TopicTraffic]  # topics, the one with the most records first
    coverage: Sequence[QueueCoverage]  # queues in the log and in their files
    compares_queues: bool  # whether the log was read for them
    sections: Mapping[str, Sequence[Any]]  # rows of the overview, by section
    lost: Sequence[Mapping[str, Any]] = ()  # rows of `tables/lost_messages.py`
    messages_lost: int = 0  # already, whatever a start does
    prediction: Prediction | None = None  # of a start, where something was found
    evidence: Evidence | None = None  # digests of all files, where they are wanted


# What makes a report evidence: the digest of each file, and who looked, where, when and with what.
#
# Files are read whole, once more than the validation reads them. What cannot be read is said.


@dataclass(frozen=True, slots=True)
class DigestedFile:
    """A file of the store."""

    path: str  # relative to the store root, printable; absolute where it lies elsewhere
    size: int  # bytes
    sha256: str = ""  # hex digits; empty where it could not be read
    problem: str = ""  # why not; empty otherwise


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a report has beside its facts."""

    made: Circumstances
    files: tuple[DigestedFile, ...]  # by path


def evidence(store: Store, words: Sequence[str]) -> Evidence:
    """Digest every file of a store, and take down the circumstances.

    Args:
        store: whose files.
        words: the command line, without the program's name.

    Raises:
        UnreadablePath: the store root cannot be listed.
    """
    roots = [(store.root, "")]
    roots += [
        (artefact.place, artefact.path)
        for artefact in store.branches
        if artefact.path.startswith("/")
    ]
    return Evidence(
        circumstances(words, __version__),
        tuple(file for place, path in roots for file in _files(place, path)),
    )


def _files(place: Place, path: str) -> Iterator[DigestedFile]:
    """Yield the files below a directory, by name."""
    for entry in sorted(place.entries(), key=lambda entry: entry.name):
        below = f"{path}/{entry.name}" if path else entry.name
        child = place.child(entry.name)
        if entry.kind is EntryKind.DIRECTORY:
            try:
                yield from _files(child, below)
            except UnreadablePath as error:
                yield DigestedFile(printable(below), 0, problem=error.reason)
        elif entry.kind is EntryKind.FILE:
            yield _digested(child, below)


def _digested(place: Place, path: str) -> DigestedFile:
    now = digest(DigestTask(place, is_whole=True))
    problem = "" if now.unread is None else now.unread.reason
    if not problem and not now.sha256:
        problem = f"{now.holes:,} bytes of it are holes, which takes hours to hash"
    return DigestedFile(printable(path), now.size, now.sha256, problem)
