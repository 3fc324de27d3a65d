"""One validation while it runs: what was asked, what has been found out, and what was read.

Checks hand on facts (where the log ends, how long a queue is) through here, so that a later check
does not read again what an earlier one knows, and does not judge what could not be read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import numpy as np

from rmqtool.broker.release import COMMONEST
from rmqtool.broker.rules import Rules
from rmqtool.check.log.lost import LostRanges
from rmqtool.check.report import Account
from rmqtool.errors import DamagedDatabase, UnreadablePath
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_layout import FS_READ
from rmqtool.formats import config_shapes
from rmqtool.queues.discovery import Queues
from rmqtool.store.branch import BranchKind
from rmqtool.store.segment import OddityKind
from rmqtool.store.unread import error_of, has_expired

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from rmqtool.broker.release import Version
    from rmqtool.check.options import ValidateOptions
    from rmqtool.findings.catalogue import Code, Severity
    from rmqtool.findings.finding import Finding
    from rmqtool.queues.units import QueueUnits
    from rmqtool.store.place import Place
    from rmqtool.store.queues import QueueFiles
    from rmqtool.store.rocksdb_database import Database
    from rmqtool.store.segment import MappedFiles, Oddity, Segment
    from rmqtool.store.tree import Store

QueueName = tuple[str, int]
FAMILIES: Final = {
    "queues": BranchKind.CONSUME_QUEUE,
    "batch_queues": BranchKind.BATCH_QUEUE,
    "rocksdb": BranchKind.ROCKSDB,
    "ext_queues": BranchKind.CONSUME_QUEUE_EXT,
    "compaction_logs": BranchKind.COMPACTION_LOG,
    "compaction_queues": BranchKind.COMPACTION_QUEUE,
}
QUEUES: Final = ("consumequeue", "batchconsumequeue")
UnitFamily = Literal["queues", "batch_queues", "rocksdb"]
UNIT_FAMILIES: Final[tuple[UnitFamily, ...]] = ("queues", "batch_queues", "rocksdb")
Queue = TypeVar("Queue", "QueueFiles", "QueueUnits")


@dataclass(slots=True)
class LogFacts:
    """What is known of the commitlog; offsets are physical offsets.

    Attributes:
        start: first byte that is read: of the first segment, but for what is taken over.
        oldest: first byte of the first segment.
        end: behind the last record: where the next one goes.
        last_record: start of the last record; -1 without records.
        newest_time: largest store timestamp of a record, ms; 0 without records.
        is_scanned: every record was read; else only the tail was looked at.
    """

    start: int = 0
    end: int = 0
    last_record: int = -1
    newest_time: int = 0
    is_scanned: bool = False
    oldest: int = 0


@dataclass(slots=True)
class Inspection:
    """The state of one validation.

    Attributes:
        store: what is validated.
        options: what was asked.
        account: what was read.
        log: what is known of the commitlog; None before it was looked at, or without one.
        has_crashed: whether `abort` is there.
        early_checkpoint: length and first bytes of a running broker's checkpoint, by its path, as
            they were before the log was read.
        lost: stretches of the log without records.
        moved: records that lie elsewhere than they say: what they say to where they lie.
        timer_messages: int64, shape (5, n); see `Transactions.timer_messages`.
        more: findings that were only counted.
        compares_queues: whether queues are compared with the log.
        compares_index: whether the index is compared with the log.
        version: release by whose rules records are dispatched.
        newest_unit: largest physical offset of a queue unit; None when the queues were not read.
        bridges: physical offsets of the records that repair has put over damage, in order.
        wanted: queue to the queue offset behind the last record that the log has for it.
        has_rocksdb_queues: whether queues lie in RocksDB.
        compares_rocksdb: whether they are compared with the log.
        light_in_rocksdb: light queues lie in RocksDB and nowhere else.
        opened: the RocksDB databases that can be read, by path.
        taken_over: paths of the segments that are not read again.
        queues: all that the store has.
        proven: units of this part that the observer has compared already, and which are as the
            log wants them: topic, queue id, number of the first, count.
    """

    store: Store
    options: ValidateOptions
    account: Account = field(default_factory=Account)
    log: LogFacts | None = None
    has_crashed: bool = False
    early_checkpoint: dict[str, tuple[int, bytes]] = field(default_factory=dict)

    lost: LostRanges = field(default_factory=LostRanges)
    moved: dict[int, int] = field(default_factory=dict)
    timer_messages: npt.NDArray[np.int64] = field(
        default_factory=lambda: np.empty((5, 0), np.int64)
    )
    more: Counter[tuple[Code, Severity]] = field(default_factory=Counter)
    compares_queues: bool = False
    compares_index: bool = False
    version: Version = COMMONEST
    newest_unit: int | None = None
    has_rocksdb_queues: bool = False
    compares_rocksdb: bool = False
    light_in_rocksdb: bool = False
    opened: dict[str, Database] = field(default_factory=dict)
    bridges: list[int] = field(default_factory=list)
    wanted: dict[QueueName, int] = field(default_factory=dict)
    taken_over: frozenset[str] = frozenset()
    proven: set[tuple[bytes, int, int, int]] = field(default_factory=set)
    queues: Queues = field(init=False)
    _moved_places: set[int] = field(default_factory=set)
    _topics: frozenset[str] | None = None
    _documents: dict[str, tuple[dict[str, Any], str] | None] = field(default_factory=dict)
    _ranges: dict[QueueName, tuple[int, int] | None] = field(default_factory=dict)
    _families: dict[str, dict[QueueName, QueueFiles]] = field(default_factory=dict)
    _units: dict[str, dict[QueueName, QueueUnits]] = field(default_factory=dict)
    _pending: deque[Finding] = field(default_factory=deque)

    @property
    def release(self) -> Rules:
        """What that release does."""
        return Rules(self.version)

    def __post_init__(self) -> None:
        self.queues = Queues(self.store)

    def unread(
        self, path: str, error: UnreadablePath, queue: QueueName | tuple[None, None] = (None, None)
    ) -> Finding:
        """Take note of something that cannot be read; the result is incomplete from now on.

        Args:
            path: what it is.
            error: why not.
            queue: that it belongs to.
        """
        if not self.is_known_unread(path):
            if has_expired(self.store, path, error):
                self.account.expired.add(path)
            else:
                self.account.unread[path] = error
        at = At(path, topic=queue[0], queue_id=queue[1])
        return finding(FS_READ, at, f"cannot be read: {error.reason}", actual=error.reason)

    def is_known_unread(self, path: str) -> bool:
        """Tell whether it was said that a file or directory cannot be read."""
        return path in self.account.unread or path in self.account.expired

    def is_below_unread(self, path: str) -> bool:
        """Tell whether a path, or a directory that it lies in, cannot be read."""
        return any(f"{path}/".startswith(f"{known}/") for known in self._known_unread())

    def is_above_unread(self, path: str) -> bool:
        """Tell whether a path, or something in this directory, cannot be read."""
        return any(f"{known}/".startswith(f"{path}/") for known in self._known_unread())

    def _known_unread(self) -> Iterator[str]:
        return chain(self.account.unread, self.account.expired)

    @property
    def why_no_log(self) -> str:
        """Say why there is no log to compare anything with."""
        logs = self.store.branches_of(BranchKind.COMMITLOG, BranchKind.DLEDGER)
        is_unread = any(self.is_above_unread(log.path) for log in logs)
        return "the commitlog cannot be read" if is_unread else "there is no commitlog"

    def name_unread(self, stretches: Iterable[tuple[Oddity, int, int]]) -> list[tuple[int, int]]:
        """Take note of all that cannot be read of a queue; give where it begins and ends."""
        found = []
        for oddity, start, end in stretches:
            if (error := error_of(oddity)) and not self.is_known_unread(oddity.path):
                self._pending.append(self.unread(oddity.path, error))
            found.append((start, end))
        return found

    def leave_out(self, what: str, why: str) -> None:
        """Take note of something that is not looked at."""
        self.account.left_out.append((what, why))

    def family(self, name: str) -> dict[QueueName, QueueFiles]:
        """Give the queues of one family that holds no units, listed once.

        Args:
            name: `ext_queues` or one of the compaction store's, as `Store` calls them.
        """
        if name not in self._families:
            self._families[name] = self._listed(getattr(self.store, name)())
            self._name_links(FAMILIES[name])
        return self._families[name]

    def units(self, name: UnitFamily) -> dict[QueueName, QueueUnits]:
        """Give the consume queues in files, the batch queues, or those in RocksDB, listed once."""
        if name not in self._units:
            kind = FAMILIES[name]
            (source,) = (one for one in self.queues.sources if one.kind is kind)
            self._units[name] = self._listed(source.queues())
            self._name_links(kind)
        return self._units[name]

    def queue(self, family: UnitFamily, name: QueueName) -> QueueUnits:
        """Give one queue; one without units where it is not there, or cannot be listed."""
        found = self.units(family).get(name)
        if found is not None and self.files_of(found) is not None:
            return found
        return self.queues.missing(FAMILIES[family], name, found.path if found else None)

    def _listed(self, queues: Iterator[Queue]) -> dict[QueueName, Queue]:
        found: dict[QueueName, Queue] = {}
        try:
            for queue in queues:
                if self.options.topic in {None, queue.topic}:
                    found[queue.topic, queue.queue_id] = queue
        except DamagedDatabase as error:  # the check of the databases says so
            self.account.unread[error.path] = error
        except UnreadablePath as error:
            self._pending.append(self.unread(self.path_of(error.path), error))
        return found

    def _name_links(self, kind: BranchKind) -> None:
        """Take note of links in place of topics and queues: what is behind them is not read."""
        family = self.store.family(kind)
        if family is None:
            return
        with suppress(UnreadablePath):  # which has been said
            for oddity in family.oddities():
                topic = oddity.path.removeprefix(f"{family.path}/").split("/")[0]
                error = error_of(oddity) if oddity.kind is OddityKind.LINK else None
                if error is not None and self.options.topic in {None, topic}:
                    self._pending.append(self.unread(oddity.path, error))

    def files_of(self, queue: QueueFiles | QueueUnits) -> MappedFiles | None:
        """Give the files of one queue; None, and a finding later on, when they cannot be listed."""
        try:
            return queue.files
        except UnreadablePath as error:
            if not self.is_known_unread(queue.path):
                name = (queue.topic, queue.queue_id)
                self._pending.append(self.unread(queue.path, error, name))
            return None

    @property
    def has_metadata_2(self) -> bool:
        """Whether topics, groups and offsets lie in RocksDB, of version 2."""
        return "config/rdb" in self.opened

    def document(self, name: str) -> dict[str, Any] | None:
        """Give what the broker would load as one of its JSON files; None for nothing."""
        found = self.document_with_path(name)
        return found[0] if found else None

    def document_with_path(self, name: str) -> tuple[dict[str, Any], str] | None:
        """Give the same with the path it came from, which may be the `.bak`."""
        if name not in self._documents:
            found = self.store.config(name)
            self._documents[name] = (found.document, found.path) if found else None
        return self._documents[name]

    def range_of(self, topic: str, queue_id: int) -> tuple[int, int] | None:
        """Give a queue's first and next queue offset; None when nothing can be said.

        Units that the queue has lost count as there: their own finding says so, and what goes
        by queue offsets is right again when they have been rebuilt.

        Raises:
            UnreadablePath: a file cannot be read.
        """
        name = (topic, queue_id)
        if name not in self._ranges:
            self._ranges[name] = self._find_range(name)
        return self._ranges[name]

    def _find_range(self, name: QueueName) -> tuple[int, int] | None:
        found = self._find_range_on_disk(name)
        if found is not None and name in self.wanted:
            return found[0], max(found[1], self.wanted[name])
        return found

    def _find_range_on_disk(self, name: QueueName) -> tuple[int, int] | None:
        if self.options.topic not in {None, name[0]}:
            return None  # its queues were not listed
        start = self.log.oldest if self.log else 0
        for family in UNIT_FAMILIES:
            if queue := self.units(family).get(name):
                if any(queue.unread()) or (family == "rocksdb" and self._lags()):
                    return None
                found = queue.span(start)
                # Files without a unit of their own hold fillers only: the queue begins behind.
                return (found.min_offset, found.max_offset) if found.last else None
        is_unknown = any(
            self.is_below_unread(f"{directory}/{name[0]}/{name[1]}") for directory in QUEUES
        )
        if self.has_rocksdb_queues and self.is_above_unread("consumequeue"):
            return None
        return None if is_unknown or self._lags() else (0, 0)

    def _lags(self) -> bool:
        """Tell whether queues in RocksDB may go on after all that this run has read of them.

        Without a clean stop the database is as it was at its last flush. The records after that
        tell, if they were read: not at --level quick, nor where they expired or are taken over.
        """
        if not (self.has_rocksdb_queues and self.has_crashed):
            return False
        source = self.queues.database.source if self.compares_rocksdb else None
        if source is None:
            return True
        segments = self.store.commitlog.segments
        known = self.taken_over
        left = [one.end for one in segments if one.path in known or self.is_known_unread(one.path)]
        return (source.dispatched or 0) < max(left, default=self.log.oldest if self.log else 0)

    def pending(self) -> Iterator[Finding]:
        """Give the findings that came up while something was listed, once."""
        while self._pending:
            yield self._pending.popleft()

    @property
    def topics(self) -> frozenset[str] | None:
        """The configured topics; None when topics.json is not there."""
        if self._topics is None:
            if (document := self.document("topics.json")) is None:
                return None
            self._topics = frozenset(topic.topic for topic in config_shapes.topics(document))
        return self._topics

    def put_back(self, topics: Iterable[str]) -> None:
        """Count topics as configured that a repair writes."""
        self._topics = (self.topics or frozenset()) | frozenset(topics)

    def move(self, moved: dict[int, int]) -> None:
        """Note records that do not lie where they say."""
        self.moved.update(moved)
        self._moved_places.update(moved.values())

    @property
    def moved_places(self) -> list[int]:
        """Where such records lie, and where they say they do."""
        return [*self.moved, *self._moved_places]

    def is_moved(self, physical_offset: int) -> bool:
        """Tell whether a record that lies elsewhere than it says is concerned."""
        return physical_offset in self.moved or physical_offset in self._moved_places

    def has_bridges(self, start: int, end: int) -> bool:
        """Tell whether repair has put a bridge over a lost record in [start, end) of the log."""
        number = bisect_left(self.bridges, start)
        return number < len(self.bridges) and self.bridges[number] < end

    def postpone(self, said: Finding) -> None:
        """Keep a finding for `pending`."""
        self._pending.append(said)

    def segment_at(self, physical_offset: int) -> Segment | None:
        """Give the segment that holds a byte of the log."""
        for log in (self.store.commitlog, self.store.old_commitlog):
            if segment := log.at(physical_offset):
                return segment
        return None

    def path_of(self, location: str) -> str:
        """Give a path of the operating system relative to the store root."""
        return location.removeprefix(f"{self.store.root}/")

    def child(self, name: str) -> Place:
        """Give the place of a file below the store root."""
        place = self.store.root
        for part in name.split("/"):
            place = place.child(part)
        return place
