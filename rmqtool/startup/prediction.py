"""What a start would do, as data.

Nothing here decides; `predict` fills it, the command line and `repair` read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.startup.queue_outcomes import QueueOutcomes
from rmqtool.store.config_sources import CONFIG

if TYPE_CHECKING:
    from rmqtool.ledger.numbers import LostNumbers
    from rmqtool.startup.commitlog import Recovered
    from rmqtool.startup.dispatch import Dispatched
    from rmqtool.startup.load import Refusal
    from rmqtool.startup.retention import Retention


@dataclass(frozen=True, slots=True)
class TopicLoss:
    """Messages of one topic."""

    topic: str  # as stored; of a delayed message the topic that it waits in
    messages: int  # how many
    # ms, of the oldest and of the newest; None where no record tells
    first_store_timestamp: int | None = None
    last_store_timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Loss:
    """Messages that consumers would not get any more."""

    topics: tuple[TopicLoss, ...] = ()  # by topic, the most messages first

    @property
    def messages(self) -> int:
        """How many, of all topics."""
        return sum(topic.messages for topic in self.topics)

    @property
    def first_store_timestamp(self) -> int | None:
        """Store time of the oldest, ms; None without messages."""
        times = (topic.first_store_timestamp for topic in self.topics)
        return min((time for time in times if time is not None), default=None)

    @property
    def last_store_timestamp(self) -> int | None:
        """Store time of the newest, ms; None without messages."""
        times = (topic.last_store_timestamp for topic in self.topics)
        return max((time for time in times if time is not None), default=None)


@dataclass(frozen=True, slots=True)
class IndexFate:
    """What would become of the key index."""

    kept: tuple[str, ...] = ()  # paths of the files that stay
    deleted: tuple[str, ...] = ()  # paths of the files that would be deleted
    entries_kept: int = 0  # entries in the files that stay, before any is added
    entries_deleted: int = 0  # entries in those that go
    entries_added: int = 0  # entries that would be written
    files_created: int = 0  # files that would be created


@dataclass(frozen=True, slots=True)
class LaterStep:
    """What a start does besides to log, queues and index."""

    # `empty`, `forget`, `repeat`, `start_over`, `undelivered`, `unindexed` or `without`
    step: str
    path: str  # what it does it to, relative to the store root
    message: str  # the step in a sentence
    count: int  # messages that it concerns


@dataclass(frozen=True, slots=True)
class Unread:
    """A part of a store that a start does not read, or not in full."""

    part: str  # what it is, a noun; `not known` where nothing says whether it is read
    path: str  # where it is, relative to the store root
    count: int | None  # messages, topics or rows; None where they are not counted
    message: str  # what stays unread and what follows, in a sentence
    before: str  # what to do before, while the release that wrote it runs; empty for nothing


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the broker of a version would do if it were started on a store now."""

    version: str  # the release
    rules_of: str  # the release whose rules were applied; another where that one is not known
    is_proven: bool  # whether the tests compare this very release with the real broker
    refusals: tuple[Refusal, ...]  # why it would not start; empty when it would
    stopped_cleanly: bool  # whether it recovers normally; there is an `abort` otherwise
    # whether a broker runs on the store; this is what would be if it died now
    is_live: bool = False
    # physical offset up to which the log was looked at then; None for all of it
    judged_up_to: int | None = None
    # how recovery of the log goes; None when it does not come to that
    recovered: Recovered | None = None
    segments_kept: tuple[str, ...] = ()  # commitlog files that stay
    segments_deleted: tuple[str, ...] = ()  # commitlog files that would be deleted
    log_minimum: int = -1  # first physical offset after the start; -1 without a log
    log_maximum: int = 0  # physical offset of the next record
    queues: QueueOutcomes = field(default_factory=QueueOutcomes)  # each queue after the start
    index: IndexFate = field(default_factory=IndexFate)  # the key index
    # how dispatch goes on after recovery; None when it does not come to that
    dispatched: Dispatched | None = None
    records_dispatched: int = 0  # records that would be handed to queues and index
    lost: Loss = field(default_factory=Loss)  # messages that would be cut off the log for good
    # messages in the log that their queue has now and would not have afterwards
    cut: Loss = field(default_factory=Loss)
    # messages in the log that their queue has not, and would not get
    unlisted: Loss = field(default_factory=Loss)
    # likewise, in topics that are neither configured nor have a queue: most likely an administrator
    # deleted them
    deleted_topics: Loss = field(default_factory=Loss)
    # messages that a queue of another topic, or another queue, hands out, by the topic of that
    # queue; where their own queue does not, they are out of reach, too
    misdelivered: Loss = field(default_factory=Loss)
    # messages in reach of topics that are not configured: no client finds a route
    unrouted: Loss = field(default_factory=Loss)
    # messages in the log of topics that keep the newest one of each key, and that `compaction/` has
    # not and would not get: consumers read these topics from there alone
    compacted: Loss = field(default_factory=Loss)
    # messages that queues have a place for and that no file of the log holds whole: they are lost
    # already, whatever the start does
    missing: Loss = field(default_factory=Loss)
    # their queue offsets; a light queue's messages are not among them
    lost_numbers: tuple[LostNumbers, ...] = ()
    # of the missing ones, those that units lead to: no repair lets consumers pass them yet
    unpassed: int = 0
    # files of the log whose messages nothing has looked at: queues point to all of them, and no
    # start changes that
    files_unread: int = 0
    # messages in the log that a light queue would not have, by light queue; one that two of them
    # lack counts twice, and its own queue may have it
    light: Loss = field(default_factory=Loss)
    timers: int = 0  # timer messages that wait for their time
    timers_lost: int = 0  # of these, those that the broker would never deliver
    timers_gone: int = 0  # others whose record the log does not have any more
    # what it deletes of the log in its first day; None for nothing, and beside a running broker
    retention: Retention | None = None
    # a topic that cannot be a directory name; dispatch stops being written at it
    failed_topic: str | None = None
    # what else would happen, with RocksDB, and where configuration is missing
    later_steps: tuple[LaterStep, ...] = ()
    # parts of the store that a broker also starts from and this does not look at
    not_modelled: tuple[str, ...] = ()
    unread: tuple[Unread, ...] = ()  # what it does not read of the store
    # bugs of the release that may cost messages of this store; nobody can count them
    cautions: tuple[str, ...] = ()
    # lines of its broker.conf that the broker passes over without a word
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
    def messages_costed(self) -> int:
        """Messages that consumers do not get after the start, or not where they look for them."""
        losses = (self.lost, self.misdelivered, self.unrouted, self.light)
        return sum(loss.messages for loss in losses) + self.unreachable + self.timers_lost

    @property
    def costs(self) -> bool:
        """Whether the start costs anything: messages, a route to them, or what comes twice."""
        return self.loses or bool(self.unrouted.messages or self.later_steps or self.unread)

    @property
    def lacks_configuration(self) -> bool:
        """Whether a part of that, or a refusal, is for configuration that is missing or damaged."""
        paths = [
            *(step.path for step in self.later_steps),
            *(refusal.path for refusal in self.refusals),
        ]
        is_config = any(path.startswith(f"{CONFIG}/") for path in paths)
        return is_config or bool(self.unrouted.messages)

    @property
    def has_no_log(self) -> bool:
        """Whether recovery would find no file of the commitlog."""
        return self.recovered is not None and not self.recovered.first_path

    @property
    def is_whole(self) -> bool:
        """Whether the broker comes up, and consumers get or pass every message of the queues."""
        return self.starts and not (self.costs or self.unpassed)
