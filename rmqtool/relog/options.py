"""What a rebuild of the log is asked. Light: `--help` reads it, too."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from rmqtool.broker.release import Version
from rmqtool.errors import UsageError
from rmqtool.tables.selection import Selection

SMALLEST_SEGMENT = 4096


class Positions(enum.StrEnum):
    """Where records go."""

    PACK = "pack"  # one after the other
    KEEP = "keep"  # at their physical offsets; bridges stand for what is not there


class QueueOffsets(enum.StrEnum):
    """Which queue offsets messages have."""

    KEEP = "keep"
    RENUMBER = "renumber"  # from 0 on, in the order of the new log


class RecordVersion(enum.StrEnum):
    """Which version records have."""

    FIRST = "1"  # the length of the topic has one byte
    SECOND = "2"  # two


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What `rebuild-log` was asked."""

    sources: tuple[str, ...]  # stores, and files of records (`.rmq`)
    output: str | None = None  # the new store
    dry_run: bool = False  # say what would be written
    positions: Positions = Positions.PACK  # where records go
    queue_offsets: QueueOffsets = QueueOffsets.KEEP  # which queue offsets they have
    segment_size: int | None = None  # bytes of a commitlog file; None is as in the first store
    # address and port that each record names as its broker; empty leaves them
    store_host: bytes = b""
    record_version: RecordVersion | None = None  # which version records are to have; None leaves it
    # which records, by what is stored in them
    selection: Selection = field(default_factory=Selection)
    # records that a broker would delete as expired at this time, ms since 1970, are left out; None
    # leaves out none. Each counts by its own store time.
    expired_at: int | None = None
    # release that is to run on it; None is whoever wrote the first store
    broker_version: str | None = None
    broker_conf: str | None = None  # the configuration file of that broker
    jobs: int | None = None  # threads; None is one for each processor

    def __post_init__(self) -> None:
        """Refuse what cannot be meant, before any file is opened."""
        if bool(self.output) == self.dry_run:
            raise UsageError(option="--output", reason="choose one of --output DIR and --dry-run")
        if self.segment_size is not None and self.segment_size < SMALLEST_SEGMENT:
            reason = f"{self.segment_size} is too small: at least {SMALLEST_SEGMENT}"
            raise UsageError(option="--segment-size", reason=reason)
        if self.record_version is not None and self.positions is Positions.KEEP:
            reason = "changes the length of records: take --positions pack"
            raise UsageError(option="--record-version", reason=reason)
        if self.broker_version is not None:
            Version.parse(self.broker_version)
        self.selection.refuse_impossible()

    @property
    def keeps_all(self) -> bool:
        """Whether each record of one source keeps its place and its number: files name both."""
        return (
            len(self.sources) == 1
            and self.positions is Positions.KEEP
            and self.queue_offsets is QueueOffsets.KEEP
            and self.selection == Selection()
            and self.expired_at is None
        )
