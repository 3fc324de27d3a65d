"""What a rebuild of the log did."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rmqtool.relog.chunk import Reason
from rmqtool.relog.segments import LogTally

if TYPE_CHECKING:
    from rmqtool.errors import StoreError
    from rmqtool.findings.finding import Finding
    from rmqtool.rebuild.options import RebuildResult
    from rmqtool.relog.chunk import Gap


LOST: Final = (Reason.DAMAGED, Reason.LONG_TOPIC, Reason.OVERLAP, Reason.NUMBER)


@dataclass(slots=True)
class LogResult:
    """What became of the records."""

    messages: int = 0  # records in the new log, bridges aside
    bytes: int = 0  # of them
    log: LogTally = field(default_factory=LogTally)  # its files
    # records that are not in it, by reason
    left_out: Counter[Reason] = field(default_factory=Counter)
    second_version: int = 0  # records in the new log with a topic length of two bytes
    # age from which records were left out as expired; None when none was
    reserved_hours: int | None = None
    gaps: list[Gap] = field(default_factory=list)  # what in the sources is no record
    # codes of records in the new log that are damaged in the source, but not in body and
    # properties; and of files of the sources
    source_defects: Counter[str] = field(default_factory=Counter)
    lone_commits: int = 0  # committed messages whose half message is not in the new log
    offsets: int = 0  # of consumers, that were carried along
    built: RebuildResult | None = None  # queues and index; None when nothing was written
    # what a validation of the new store found that is worse than a note
    defects: list[Finding] = field(default_factory=list)
    knows_release: bool = False  # whether a store was read, whose files tell who wrote it
    unread: list[StoreError] = field(default_factory=list)  # what could not be read
    # files that a running broker deleted before they were read
    expired: set[str] = field(default_factory=set)
    seconds: float = 0.0  # all of it
    fsync_seconds: float = 0.0  # spent waiting for the disk

    @property
    def unreadable(self) -> int:
        """Records of version 2 where the release that is to run on the log does not know it."""
        knows = self.built is None or self.built.rules.release.has_v2
        return 0 if knows else self.second_version

    @property
    def is_damaged(self) -> bool:
        """Whether a source has damage, or a message of the new log cannot be dispatched."""
        lost = self.gaps or self.source_defects or any(self.left_out[one] for one in LOST)
        undispatched = self.built is not None and self.built.undispatched
        return bool(lost or undispatched or self.defects)
