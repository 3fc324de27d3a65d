"""What every check of one validation is given: the store, what was asked, what can be read.

What is listed or parsed here is so once for all checks, and none judges what could not be read.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rmqtool.broker.release import COMMONEST
from rmqtool.broker.rules import Rules
from rmqtool.derive.placement import ALL_IN_BOTH, QueuePlacement
from rmqtool.errors import DamagedDatabase, UnreadablePath
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_layout import FS_ORPHAN, FS_READ
from rmqtool.formats import config_shapes
from rmqtool.formats.config_names import TOPICS_JSON
from rmqtool.queues.discovery import QueuesInFiles, UnitFamily, by_topic
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.queues import NOT_LISTED
from rmqtool.store.segment import OddityKind
from rmqtool.store.unread import error_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from rmqtool.broker.release import Version
    from rmqtool.check.options import ValidateOptions
    from rmqtool.check.report import Account
    from rmqtool.findings.finding import Finding
    from rmqtool.ledger.sound import UnitsHeld
    from rmqtool.queues.discovery import FileSource, Queues
    from rmqtool.queues.short import ShortQueues
    from rmqtool.queues.units import QueueUnits
    from rmqtool.store.place import Place
    from rmqtool.store.queues import QueueFiles, TopicListing
    from rmqtool.store.segment import MappedFiles, Oddity, Segment
    from rmqtool.store.tree import Store

QueueName = tuple[str, int]
FAMILIES: Final = {
    "queues": ArtefactKind.CONSUME_QUEUE,
    "batch_queues": ArtefactKind.BATCH_QUEUE,
    "rocksdb": ArtefactKind.ROCKSDB,
    "ext_queues": ArtefactKind.CONSUME_QUEUE_EXT,
    "compaction_logs": ArtefactKind.COMPACTION_LOG,
    "compaction_queues": ArtefactKind.COMPACTION_QUEUE,
}
Queue = TypeVar("Queue", "QueueFiles", "QueueUnits")


@dataclass(frozen=True, slots=True)
class CheckScope:
    """What is settled before the log is read: how a broker left the store, and what is compared."""

    version: Version = COMMONEST  # release by whose rules records are dispatched
    is_release_known: bool = True  # it was asked for, or files tell at least its major line
    has_crashed: bool = False  # whether `abort` is there
    compares_queues: bool = False  # whether queues in files are compared with the log
    compares_index: bool = False  # whether the index is compared with the log
    has_rocksdb_queues: bool = False  # whether queues lie in RocksDB
    compares_rocksdb: bool = False  # whether they are compared with the log
    # whether they cannot be read, or hold nothing: the log alone tells of their queue offsets
    numbers_unread: bool = False
    placement: QueuePlacement = ALL_IN_BOTH  # which queues are in files, and which in RocksDB
    has_metadata_2: bool = False  # whether topics, groups and offsets lie in RocksDB, of version 2
    taken_over: frozenset[str] = frozenset()  # paths of the segments that are not read again

    @property
    def release(self) -> Rules:
        """What that release does."""
        return Rules(self.version)


@dataclass(frozen=True, slots=True)
class Inspection:
    """What every check of one validation is given.

    It takes note of what was read, and of what cannot be. What is found out about log and queues
    is no part of it: who needs that is given it.
    """

    store: Store  # what is validated
    options: ValidateOptions  # what was asked
    account: Account  # what was read
    queues: Queues  # all that the store has
    scope: CheckScope = CheckScope()  # what is settled before the log is read
    _documents: dict[str, tuple[dict[str, Any], str] | None] = field(default_factory=dict)
    _families: dict[str, dict[QueueName, QueueFiles]] = field(default_factory=dict)
    _units: dict[str, Mapping[QueueName, QueueUnits]] = field(default_factory=dict)
    _names: dict[str, frozenset[str]] = field(default_factory=dict)
    _pending: deque[Finding] = field(default_factory=deque)
    _short: list[ShortQueues] = field(default_factory=list)  # none until they are asked for
    _held: list[UnitsHeld] = field(default_factory=list)  # likewise

    def of_scope(self, scope: CheckScope) -> Inspection:
        """Give the same, with what is settled by now; both take note in the same place."""
        return replace(self, scope=scope)

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
            if self.store.moment.is_gone(path, error):
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

    def is_of_deleted(self, defect: Finding) -> bool:
        """Tell whether a finding is about a queue that a running broker deleted meanwhile.

        It takes a topic out of its configuration first: its queues are about to go.
        """
        has_no_queue = self.store.moment.has_no_queue
        if defect.code == FS_ORPHAN:  # which only queues that were listed have
            while self.store.waits and not has_no_queue(defect.path):
                time.sleep(self.store.waits.pop())
            return has_no_queue(defect.path)
        queue = defect.topic or "", defect.queue_id or 0
        names: Iterable[Container[QueueName]] = chain(self._units.values(), self._families.values())
        return any(queue in listed for listed in names) and has_no_queue(defect.path)

    def _known_unread(self) -> Iterator[str]:
        return chain(self.account.unread, self.account.expired)

    @property
    def why_no_log(self) -> str:
        """Say why there is no log to compare anything with."""
        logs = self.store.branches_of(ArtefactKind.COMMITLOG, ArtefactKind.DLEDGER)
        is_unread = any(self.is_above_unread(log.path) for log in logs)
        return "the commitlog cannot be read" if is_unread else "there is no commitlog"

    def name_unread(self, stretches: Iterable[tuple[Oddity, int, int]]) -> list[tuple[int, int]]:
        """Take note of all that cannot be read of a queue; give where it begins and ends."""
        unread = []
        for oddity, start, end in stretches:
            if (error := error_of(oddity)) and not self.is_known_unread(oddity.path):
                self._pending.append(self.unread(oddity.path, error))
            unread.append((start, end))
        return unread

    def leave_out(self, what: str, why: str) -> None:
        """Take note, once, of something that is not looked at."""
        if (what, why) not in self.account.left_out:
            self.account.left_out.append((what, why))

    def short_queues(self) -> ShortQueues:
        """Give the short consume queues in files, read once."""
        if not self._short:
            from rmqtool.queues.short import NO_QUEUES, short_queues

            try:
                self._short.append(
                    short_queues(self.queues.files.family, self.options.topic, self.options.jobs)
                )
            except UnreadablePath:  # the listing of the queues says so
                self._short.append(NO_QUEUES)
        return self._short[0]

    def units_held(self) -> UnitsHeld:
        """Give what compares units with those of the short queues, one for all who do."""
        if not self._held:
            from rmqtool.ledger.sound import UnitsHeld

            self._held.append(UnitsHeld(self.short_queues()))
        return self._held[0]

    def family(self, name: str) -> dict[QueueName, QueueFiles]:
        """Give the queues of one family that holds no units, listed once.

        Args:
            name: `ext_queues` or one of the compaction store's, as `Store` calls them.
        """
        if name not in self._families:
            self._families[name] = self._listed(getattr(self.store, name)())
            self._name_links(FAMILIES[name])
        return self._families[name]

    def units(self, name: UnitFamily) -> Mapping[QueueName, QueueUnits]:
        """Give the consume queues in files, the batch queues, or those in RocksDB, listed once."""
        if name not in self._units:
            kind = FAMILIES[name]
            in_files = {source.kind: source for source in (self.queues.files, self.queues.batches)}
            source = in_files.get(kind)
            self._units[name] = self._in_files(source) if source else self._in_database()
            self._name_links(kind)
        return self._units[name]

    def queue_topics(self, family: UnitFamily) -> frozenset[str]:
        """Give the topics that have a queue of one family."""
        if family not in self._names:
            listed = by_topic(self.units(family))
            self._names[family] = frozenset(topic for topic, _ in listed)
        return self._names[family]

    def queue(self, family: UnitFamily, name: QueueName) -> QueueUnits:
        """Give one queue; one without units where it is not there, or cannot be listed."""
        units = self.units(family).get(name)
        if units is not None and self.files_of(units) is not None:
            return units
        return self.queues.missing(FAMILIES[family], name, units.path if units else None)

    def _in_database(self) -> Mapping[QueueName, QueueUnits]:
        """Give the queues in RocksDB; none, and a note, where they cannot be listed."""
        try:
            return self.queues.database.by_name(self.options.topic)
        except UnreadablePath as error:
            self._note_unlisted(error)
            return {}

    def _in_files(self, source: FileSource) -> Mapping[QueueName, QueueUnits]:
        """Give queues in files; some are missing, with a note, where not all can be listed."""
        try:
            queues = source.by_name(self.options.topic)
        except UnreadablePath as error:
            self._note_unlisted(error)
            return {}
        if queues is None:
            return self._listed(source.queues())
        if queues.problem is not None:
            self._note_unlisted(queues.problem)
        return queues

    def _listed(self, queues: Iterator[Queue]) -> dict[QueueName, Queue]:
        by_name: dict[QueueName, Queue] = {}
        try:
            for queue in queues:
                if self.options.topic in {None, queue.topic}:
                    by_name[queue.topic, queue.queue_id] = queue
        except UnreadablePath as error:
            self._note_unlisted(error)
        return by_name

    def _note_unlisted(self, error: UnreadablePath) -> None:
        if isinstance(error, DamagedDatabase):  # the check of the databases says so
            self.account.unread[error.path] = error
        else:
            self._pending.append(self.unread(self.path_of(error.path), error))

    def listings(self, kind: ArtefactKind) -> Mapping[str, TopicListing]:
        """Give what lies in the topics of a family, as far as they were listed already."""
        units = next((self._units.get(name) for name, of in FAMILIES.items() if of is kind), None)
        return units.listings if isinstance(units, QueuesInFiles) else NOT_LISTED

    def _name_links(self, kind: ArtefactKind) -> None:
        """Take note of links in place of topics and queues: what is after them is not read."""
        family = self.store.family(kind)
        if family is None:
            return
        with suppress(UnreadablePath):  # which has been said
            for oddity in family.oddities(self.listings(kind)):
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

    def document(self, name: str) -> dict[str, Any] | None:
        """Give what the broker would load as one of its JSON files; None for nothing."""
        document = self.document_with_path(name)
        return document[0] if document else None

    def document_with_path(self, name: str) -> tuple[dict[str, Any], str] | None:
        """Give the same with the path it came from, which may be the `.bak`."""
        if name not in self._documents:
            document = self.store.config(name)
            self._documents[name] = (document.document, document.path) if document else None
        return self._documents[name]

    def pending(self) -> Iterator[Finding]:
        """Give the findings that came up while something was listed, once."""
        while self._pending:
            yield self._pending.popleft()

    @property
    def topics(self) -> frozenset[str] | None:
        """The configured topics; None when topics.json is not there."""
        if "topics" not in self._names:
            if (document := self.document(TOPICS_JSON)) is None:
                return None
            self._names["topics"] = frozenset(
                topic.topic for topic in config_shapes.topics(document)
            )
        return self._names["topics"]

    def postpone(self, defect: Finding) -> None:
        """Keep a finding for `pending`."""
        self._pending.append(defect)

    def segment_at(self, physical_offset: int) -> Segment | None:
        """Give the segment that holds a byte of the log."""
        for log in (self.store.commitlog, self.store.old_commitlog):
            if segment := log.at(physical_offset):
                return segment
        return None

    def at_record(self, place: int, queue: tuple[str, int, int], length: int | None = None) -> At:
        """Say where a record of a queue is in the log, for a finding."""
        segment = self.segment_at(place)
        path, position = (segment.path, place - segment.start) if segment else ("commitlog", None)
        return At(path, position, length, place, *queue)

    def path_of(self, location: str) -> str:
        """Give a path of the operating system relative to the store root."""
        return location.removeprefix(f"{self.store.root}/")

    def child(self, name: str) -> Place:
        """Give the place of a file below the store root."""
        place = self.store.root
        for part in name.split("/"):
            place = place.child(part)
        return place
