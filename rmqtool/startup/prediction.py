"""What a start would do, as data.

Nothing here decides; `predict` fills it, the command line and `repair` read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.store.config_sources import CONFIG

if TYPE_CHECKING:
    from rmqtool.startup.commitlog import Recovered
    from rmqtool.startup.dispatch import Dispatched
    from rmqtool.startup.load import Refusal


@dataclass(frozen=True, slots=True)
class TopicLoss:
    """Messages of one topic.

    Attributes:
        topic: as stored; of a delayed message the topic that it waits in.
        messages: how many.
        first_timestamp: store time of the oldest, ms; None where no record tells.
        last_timestamp: store time of the newest, ms; None where no record tells.
    """

    topic: str
    messages: int
    first_timestamp: int | None = None
    last_timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Loss:
    """Messages that consumers would not get any more.

    Attributes:
        topics: by topic, the most messages first.
    """

    topics: tuple[TopicLoss, ...] = ()

    @property
    def messages(self) -> int:
        """How many, of all topics."""
        return sum(topic.messages for topic in self.topics)

    @property
    def first_timestamp(self) -> int | None:
        """Store time of the oldest, ms; None without messages."""
        times = (topic.first_timestamp for topic in self.topics)
        return min((time for time in times if time is not None), default=None)

    @property
    def last_timestamp(self) -> int | None:
        """Store time of the newest, ms; None without messages."""
        times = (topic.last_timestamp for topic in self.topics)
        return max((time for time in times if time is not None), default=None)


@dataclass(frozen=True, slots=True)
class QueueFate:
    """What would become of one queue.

    Attributes:
        topic: its topic.
        queue_id: its number.
        is_batch: whether it is a batch queue.
        units_before: units on disk now, those for space before the first one left out.
        minimum: smallest queue offset after the start.
        maximum: next queue offset after the start.
        units_cut: units that would go.
        units_appended: units that would come.
        units_shifted: of these, such that would not stand at their record's queue offset.
        readable: messages that a consumer gets who pulls from the minimum on.
        deleted_files: paths of files that would be deleted.
        created_files: paths of files that would be created.
        in_rocksdb: whether it lies in RocksDB; then no file is its own.
    """

    topic: str
    queue_id: int
    is_batch: bool
    units_before: int
    minimum: int
    maximum: int
    units_cut: int
    units_appended: int
    units_shifted: int
    readable: int
    deleted_files: tuple[str, ...] = ()
    created_files: tuple[str, ...] = ()
    in_rocksdb: bool = False

    @property
    def changes(self) -> bool:
        """Whether the start would do anything to it."""
        return bool(self.units_cut or self.units_appended or self.deleted_files)


@dataclass(frozen=True, slots=True)
class IndexFate:
    """What would become of the key index.

    Attributes:
        kept: paths of the files that stay.
        deleted: paths of the files that would be deleted.
        entries_kept: entries in the files that stay, before any is added.
        entries_deleted: entries in those that go.
        entries_added: entries that would be written.
        files_created: files that would be created.
    """

    kept: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    entries_kept: int = 0
    entries_deleted: int = 0
    entries_added: int = 0
    files_created: int = 0


@dataclass(frozen=True, slots=True)
class FurtherStep:
    """What a start does besides to log, queues and index.

    Attributes:
        step: `empty`, `forget`, `repeat`, `start_over`, `unindexed` or `without`.
        path: what it does it to, relative to the store root.
        message: the step in a sentence.
        count: messages that it concerns.
    """

    step: str
    path: str
    message: str
    count: int


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the broker of a version would do if it were started on a store now.

    Attributes:
        version: the release.
        is_proven: whether the tests compare this very release with the real broker.
        refusals: why it would not start; empty when it would.
        stopped_cleanly: whether it recovers normally; there is an `abort` otherwise.
        recovered: how recovery of the log goes; None when it does not come to that.
        segments_kept: commitlog files that stay.
        segments_deleted: commitlog files that would be deleted.
        is_live: whether a broker runs on the store; this is what would be if it died now.
        judged_up_to: physical offset up to which the log was looked at then; None for all of it.
        log_minimum: first physical offset after the start; -1 without a log.
        log_maximum: physical offset of the next record.
        queues: each queue after the start, by topic and number.
        index: the key index.
        dispatched: how dispatch goes on after recovery; None when it does not come to that.
        records_dispatched: records that would be handed to queues and index.
        lost: messages that would be cut off the log for good.
        cut: messages in the log that their queue has now and would not have afterwards.
        unlisted: messages in the log that their queue has not, and would not get.
        deleted_topics: likewise, in topics that are neither configured nor have a queue: most
            likely an administrator deleted them.
        misdelivered: messages that a queue of another topic, or another queue, hands out, by the
            topic of that queue; where their own queue does not, they are out of reach, too.
        unrouted: messages in reach of topics that are not configured: no client finds a route.
        compacted: messages in the log of topics that keep the newest one of each key, and that
            `compaction/` has not and would not get: consumers read these topics from there alone.
        missing: messages that queues point to now and that no file of the log holds whole: they
            are lost already, whatever the start does.
        files_unread: files of the log whose messages nothing has looked at: queues point to all of
            them, and no start changes that.
        light: messages in the log that a light queue would not have, by light queue; one that two
            of them lack counts twice, and its own queue may have it.
        timers: timer messages that wait for their time.
        timers_lost: of these, those that the broker would never deliver.
        failed_topic: a topic that cannot be a directory name; dispatch stops being written at it.
        further: what else would happen, with RocksDB, and where configuration is missing.
        not_foretold: parts of the store that a broker also starts from and this does not look at.
        ignored: lines of its broker.conf that the broker passes over without a word.
    """

    version: str
    is_proven: bool
    refusals: tuple[Refusal, ...]
    stopped_cleanly: bool
    is_live: bool = False
    judged_up_to: int | None = None
    recovered: Recovered | None = None
    segments_kept: tuple[str, ...] = ()
    segments_deleted: tuple[str, ...] = ()
    log_minimum: int = -1
    log_maximum: int = 0
    queues: tuple[QueueFate, ...] = ()
    index: IndexFate = field(default_factory=IndexFate)
    dispatched: Dispatched | None = None
    records_dispatched: int = 0
    lost: Loss = field(default_factory=Loss)
    cut: Loss = field(default_factory=Loss)
    unlisted: Loss = field(default_factory=Loss)
    deleted_topics: Loss = field(default_factory=Loss)
    misdelivered: Loss = field(default_factory=Loss)
    unrouted: Loss = field(default_factory=Loss)
    compacted: Loss = field(default_factory=Loss)
    missing: Loss = field(default_factory=Loss)
    files_unread: int = 0
    light: Loss = field(default_factory=Loss)
    timers: int = 0
    timers_lost: int = 0
    failed_topic: str | None = None
    further: tuple[FurtherStep, ...] = ()
    not_foretold: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def starts(self) -> bool:
        """Whether the broker comes up: it neither refuses nor waits for ever."""
        return not self.refusals and (self.dispatched is None or self.dispatched.hangs_at is None)

    @property
    def unreachable(self) -> int:
        """Messages that would be in the log and reach nobody."""
        return self.cut.messages + self.unlisted.messages + self.compacted.messages

    @property
    def loses(self) -> bool:
        """Whether messages would be lost, or be in the log and reach nobody."""
        lost = self.lost.messages or self.light.messages or self.timers_lost
        return bool(lost or self.unreachable or self.misdelivered.messages)

    @property
    def costs(self) -> bool:
        """Whether the start costs anything: messages, a route to them, or what comes twice."""
        return self.loses or bool(self.unrouted.messages or self.further)

    @property
    def lacks_configuration(self) -> bool:
        """Whether a part of that, or a refusal, is for configuration that is missing or damaged."""
        paths = [*(one.path for one in self.further), *(one.path for one in self.refusals)]
        is_config = any(path.startswith(f"{CONFIG}/") for path in paths)
        return is_config or bool(self.unrouted.messages)

    @property
    def has_no_log(self) -> bool:
        """Whether recovery would find no file of the commitlog."""
        return self.recovered is not None and not self.recovered.first_path

    @property
    def is_whole(self) -> bool:
        """Whether the broker comes up with every message that there ever was a unit for."""
        return self.starts and not (self.costs or self.missing.messages)
