"""What a rebuild is asked, and what it answers."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.broker.release import Version
from rmqtool.errors import UsageError
from rmqtool.store.address import is_inside
from rmqtool.store.place import is_remote
from rmqtool.times import zone_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import tzinfo

    from rmqtool.broker.dispatch import DispatchRules
    from rmqtool.rebuild.comparing import Difference
    from rmqtool.rebuild.pieces import QueueResult


class Target(enum.Enum):
    """What is to be rebuilt."""

    QUEUES = "consume queues"
    INDEX = "index"
    ALL = "consume queues and index"

    @property
    def has_queues(self) -> bool:
        """Whether consume queues are."""
        return self is not Target.INDEX

    @property
    def has_index(self) -> bool:
        """Whether the index is."""
        return self is not Target.QUEUES


class StoreType(enum.StrEnum):
    """What queues are kept in; a combined store has both."""

    FILES = "files"
    ROCKSDB = "rocksdb"


class Mode(enum.Enum):
    """What becomes of the rebuilt files."""

    OUTPUT = "output"
    IN_PLACE = "in place"
    CHECK = "check"
    DRY_RUN = "dry run"


@dataclass(frozen=True, slots=True)
class RebuildOptions:
    """What was asked."""

    store: str  # the store root
    target: Target = Target.ALL  # queues, index or both
    output: str | None = None  # a new directory
    in_place: bool = False  # replace what the store has
    check: bool = False  # compare with what the store has; write nothing
    dry_run: bool = False  # say what would be written
    topic: str | None = None  # the only topic whose queues are rebuilt; None is all
    queue_id: int | None = None  # the only queue of it; None is all
    # tells whether a topic was deleted, and its queues are left out; None is of none
    is_deleted: Callable[[str], bool] | None = None
    like_broker: bool = False  # shift units over holes, as a broker does
    ext: bool = False  # let units point into a rebuilt `consumequeue_ext`
    broker_version: str | None = None  # whose rules; None is whoever wrote the store
    broker_conf: str | None = None  # the broker's configuration file
    time_zone: str = "UTC"  # of the broker's JVM, for names of index files
    jobs: int | None = None  # threads; None is one for each processor
    # what queues, or the index alone, are written as; None is what the store has, which may be both
    store_type: StoreType | None = None
    # by which the log is dispatched, and who says so; None is as the store tells
    rules: tuple[DispatchRules, str] | None = None
    # queue offsets were judged before: none is impossible, whatever comes before it
    proven: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be meant, before any file is opened."""
        chosen = [bool(self.output), self.in_place, self.check, self.dry_run]
        if sum(chosen) != 1:
            reason = "choose one of --output DIR, --in-place, --check and --dry-run"
            raise UsageError(option="--output", reason=reason)
        if self.in_place and (is_remote(self.store) or is_inside(self.store)):
            reason = "no files can be swapped there: rebuild with --output, then copy"
            raise UsageError(option="--in-place", reason=reason)
        if self.queue_id is not None and self.topic is None:
            raise UsageError(option="--queue", reason="needs --topic")
        if self.topic is not None and self.target is not Target.QUEUES:
            reason = "only consume queues can be rebuilt by topic: use rebuild-cq"
            raise UsageError(option="--topic", reason=reason)
        if self.ext and (self.check or self.target is Target.INDEX):
            reason = "is for queues that are written: --check compares what units mean"
            raise UsageError(option="--ext", reason=reason)
        if self.broker_version is not None:
            Version.parse(self.broker_version)
        self.zone()

    @property
    def mode(self) -> Mode:
        """What becomes of the rebuilt files."""
        if self.output:
            return Mode.OUTPUT
        if self.in_place:
            return Mode.IN_PLACE
        return Mode.CHECK if self.check else Mode.DRY_RUN

    def zone(self) -> tzinfo:
        """Give the time zone. Raises UsageError: nobody knows it."""
        try:
            return zone_of(self.time_zone)
        except ValueError as error:
            raise UsageError(option="--time-zone", reason=str(error)) from error


class LostRange(NamedTuple):
    """A stretch of the log from which nothing could be derived."""

    path: str  # segment, relative to the store root
    physical_offset: int  # first byte
    length: int  # bytes
    code: str  # finding code, `unreadable`, or `missing` where no file holds it


@dataclass(slots=True)
class RebuildResult:
    """What was done."""

    mode: Mode  # what became of the files
    rules: DispatchRules  # by which the log was dispatched
    why_rules: str  # who says so
    # what no file and no configuration tells, and what was taken instead
    assumed: list[str] = field(default_factory=list)
    bytes: int = 0  # of the log that were read
    records: int = 0  # found in it
    units: int = 0  # of queues
    queues: list[QueueResult] = field(default_factory=list)  # what became of each
    entries: int = 0  # of the index
    index_files: int = 0  # how many
    # what the index is written as; nothing without one
    index_types: frozenset[StoreType] = frozenset()
    rocksdb_entries: int = 0  # of the index in RocksDB
    # stretches of the log from which nothing was derived
    lost: list[LostRange] = field(default_factory=list)
    # physical offsets of records that no broker can dispatch
    undispatched: list[int] = field(default_factory=list)
    # with `check`, where the store has something else
    differences: list[Difference] = field(default_factory=list)
    # with `check`, why a file could not be read, by its path
    unread: dict[str, str] = field(default_factory=dict)
    last_physical_offset: int = -1  # of the last record; -1 without records
    last_store_timestamp: int = 0  # of it, ms
    index_end: int = 0  # store time of the last index entry, ms
    # SQL92 expressions that any message may fulfil, as far as is known here
    not_understood: int = 0
    # what was said of interrupted runs that were finished first
    resumed: list[str] = field(default_factory=list)
    undo: str = ""  # name of the directory that takes an edit in place back; empty without
    fsync_seconds: float = 0.0  # spent waiting for the disk
    seconds: float = 0.0  # all of it
    # with `check`, physical offset up to which a running broker's files were compared
    cut: int | None = None

    @property
    def is_complete(self) -> bool:
        """Whether all could be read, and every queue be written."""
        left_out = any(queue.left_out or not queue.tally.is_whole for queue in self.queues)
        return not (self.lost or self.unread or self.undispatched or left_out)
