"""Which queues and which index entries a record gets: said plainly, one record at a time.

This is the reference. A starting broker is imitated with it; the kernels of `derive`, which do the
same for millions of records, are compared with it over all releases.
Source: CommitLog#checkMessageAndReturnSize, CommitLogDispatcherBuildConsumeQueue#dispatch,
ConsumeQueue#multiDispatchLmqQueue, BatchConsumeQueue#putMessagePositionInfoWrapper,
IndexService#buildIndex, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from rmqtool.broker import names
from rmqtool.broker.rules import NotMultiDispatched
from rmqtool.formats import java, properties
from rmqtool.formats.sys_flag import SysFlag

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rmqtool.broker.rules import Rules
    from rmqtool.formats.message import Message

FILE_SEPARATOR: Final = "/"
LARGEST_SHORT: Final = 2**15 - 1
LARGEST_INT: Final = 2**31 - 1
UNLISTED_DELAY_MS: Final = 1000  # of a level whose text is no delay
TAG_KEY: Final = "T#"  # MessageConst#INDEX_TAG_TYPE
TRANSACTION: Final = SysFlag.TRANSACTION_ROLLBACK_TYPE  # both bits: also the mask
QUEUED_TYPES: Final = frozenset({SysFlag.TRANSACTION_NOT_TYPE, SysFlag.TRANSACTION_COMMIT_TYPE})
_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def is_queued(sys_flag: int) -> bool:
    """Tell whether a record is one that queues have: no half message, and no rollback of one."""
    return sys_flag & TRANSACTION in QUEUED_TYPES


class Record(Protocol):
    """What of a record matters: `formats.message.Message` has it, and so have others."""

    @property
    def topic(self) -> str:
        """Decoded as Java does."""

    @property
    def queue_id(self) -> int:
        """The field."""

    @property
    def queue_offset(self) -> int:
        """The field."""

    @property
    def sys_flag(self) -> int:
        """The field."""

    @property
    def store_timestamp(self) -> int:
        """The field, ms."""

    @property
    def properties(self) -> Mapping[str, str]:
        """Names and values as the broker's reader gives them."""

    @property
    def has_properties(self) -> bool:
        """Whether it has bytes of properties, though they may name none: else Java has null."""


class QueuePlace(NamedTuple):
    """Where a unit belongs."""

    topic: str  # of the queue
    queue_id: int  # of the topic
    queue_offset: int  # of the unit; in a batch queue of its first message
    batch_size: int | None = None  # messages, in a batch queue; None in a consume queue


class DispatchThrows(Exception):
    """Java throws at a record: dispatch never gets past it. Nothing of it is shown to a user."""


class DispatchRules(NamedTuple):
    """How brokers of one release with one configuration dispatch. Picklable."""

    release: Rules  # what it does
    delay_levels_ms: tuple[int, ...] = ()  # delay of level 1, 2, … (messageDelayLevel)
    # records go to the light queues that they name, too (enableMultiDispatch)
    multi_dispatch: bool = False
    lmq: bool = False  # names with the LMQ prefix have queue 0 only (enableLmq)
    # topics with batch queues; None where the configuration is not known: then a record that says
    # it is an inner batch goes to one
    batch_topics: frozenset[str] | None = None
    # topics that the configuration has lost, and that have batch queues
    seen_batch_topics: frozenset[str] = frozenset()

    def is_refused(self, topic: str, values: Mapping[str, str]) -> bool:
        """Tell whether the record check refuses a record for what its properties say.

        Such a record reaches neither queue nor index.
        """
        return has_bad_delay(topic, values) or has_bad_batch_numbers(self.release, values)

    def tags_code(self, record: Record) -> int:
        """Give the tags code of a unit: hash of the tags, or the deliver time of a delayed message.

        Light queues have the latter, too.
        """
        values = record.properties
        if self.has_deliver_time(record.topic):
            level = _integer(values.get(properties.DELAY, "0")) or 0
            if level > 0:
                delay = self.delay_levels_ms[min(level, len(self.delay_levels_ms)) - 1]
                return java.to_int64(record.store_timestamp + delay)
        return tags_hash(values.get(properties.TAGS))

    def has_deliver_time(self, topic: str) -> bool:
        """Tell whether messages of a topic have their deliver time as tags code, if they wait."""
        return topic == names.SCHEDULE_TOPIC and bool(self.delay_levels_ms)

    def places(self, record: Record) -> Iterator[QueuePlace]:
        """Yield where the units of a record belong: its own queue first, then light queues.

        Args:
            record: one that is not refused.

        Raises:
            DispatchThrows: Java throws; what was yielded before has been written.
        """
        if not is_queued(record.sys_flag):
            return
        if (
            self.multi_dispatch
            and not record.has_properties
            and not self.release.dispatches_without_properties
        ):
            reason = "a record without properties"
            raise DispatchThrows(reason)
        if self._goes_to_batch_queue(record):
            yield from _batch_place(record)
            return
        own = QueuePlace(record.topic, record.queue_id, record.queue_offset)
        yield own
        done = {own[:2]}
        for place in self._light_places(record):
            if place[:2] not in done:  # a queue takes no record twice
                done.add(place[:2])
                yield place

    def multi_dispatches(self, topic: str) -> bool:
        """Tell whether records of a topic go to light queues, if they name any.

        Writers leave out more topics than this, but consumers copy the properties.
        """
        left_out = self.release.not_multi_dispatched
        if not self.multi_dispatch:
            return False
        if left_out >= NotMultiDispatched.RETRIES and topic.startswith(names.RETRY_PREFIX):
            return False
        if left_out >= NotMultiDispatched.AND_SYSTEM and topic.startswith(names.SYSTEM_PREFIX):
            return False
        is_waiting = topic in {names.SCHEDULE_TOPIC, names.TIMER_TOPIC}
        return not (left_out >= NotMultiDispatched.AND_WAITING and is_waiting)

    def has_batch_queue(self, topic: str) -> bool | None:
        """Tell whether a topic's records go to a batch queue; None where only the record can."""
        if not self.release.has_batch_queues:
            return False
        if topic in self.seen_batch_topics:
            return True
        return None if self.batch_topics is None else topic in self.batch_topics

    def _goes_to_batch_queue(self, record: Record) -> bool:
        has_queue = self.has_batch_queue(record.topic)
        is_inner = bool(record.sys_flag & SysFlag.INNER_BATCH_FLAG)
        return (
            is_inner and _has_batch_numbers(record.properties) if has_queue is None else has_queue
        )

    def _light_places(self, record: Record) -> Iterator[QueuePlace]:
        if not self.multi_dispatches(record.topic):
            return
        topics, offsets = light_queues(record.properties)
        for topic, text in zip(topics, offsets, strict=True):
            if self.release.skips_separators and FILE_SEPARATOR in topic:
                continue
            number = java.parse_long(text)
            if number is None:
                reason = f"no queue offset: {text!r}"
                raise DispatchThrows(reason)
            queue_id = names.light_queue_id(topic, record.queue_id, has_lmq=self.lmq)
            yield QueuePlace(topic, queue_id, number)


def tags_hash(tags: str | None) -> int:
    """Give the tags code of a message that does not wait."""
    return java.string_hash(tags or "")


def has_bad_delay(topic: str, values: Mapping[str, str]) -> bool:
    """Tell whether a delayed message has a level that is no number: Java throws."""
    level = values.get(properties.DELAY)
    return topic == names.SCHEDULE_TOPIC and level is not None and _integer(level) is None


def has_bad_batch_numbers(release: Rules, values: Mapping[str, str]) -> bool:
    """Tell whether one of the numbers of an inner batch is not one: Java throws.

    Source: CommitLog#setBatchSizeIfNeeded.
    """
    if not release.reads_batch_numbers or not _has_batch_numbers(values):
        return False
    base, size = values[properties.INNER_BASE], values[properties.INNER_NUM]
    return java.parse_long(base) is None or _integer(size, LARGEST_SHORT) is None


def index_keys(release: Rules, record: Record) -> Iterator[str]:
    """Yield what the key index has of a record, in its order; `java.key_hash` takes it."""
    if record.sys_flag & TRANSACTION == TRANSACTION:
        return
    values = record.properties
    if properties.UNIQ_KEY in values:
        yield values[properties.UNIQ_KEY]
    yield from properties.keys(values)
    if release.indexes_tags and properties.TAGS in values:
        yield TAG_KEY + values[properties.TAGS]


def light_queues(values: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Give the names of the light queues that a record goes to, and the texts of its offsets there.

    Both are empty where a broker passes them over: blank, or not as many of one as of the other.
    """
    topics, offsets = light_queue_texts(values)
    return (topics, offsets) if len(topics) == len(offsets) else ([], [])


def light_queue_texts(values: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Give both lists as they are; empty when one of the properties is blank."""
    topics = values.get(properties.INNER_MULTI_DISPATCH, "")
    offsets = values.get(properties.INNER_MULTI_QUEUE_OFFSET, "")
    if java.is_blank(topics) or java.is_blank(offsets):
        return [], []
    return java.split(topics, ","), java.split(offsets, ",")


def claimed_places(message: Message) -> list[tuple[str, int, int, int]]:
    """Give the places of queues that a record claims: topic, queue id, first offset, count."""
    values = message.properties
    base, count = message.queue_offset, 1
    if properties.INNER_NUM in values and properties.INNER_BASE in values:
        base = _number(values[properties.INNER_BASE], base)
        count = max(_number(values[properties.INNER_NUM], 1), 1)
    places = [(message.topic, message.queue_id, base, count)]
    for name, number in zip(*light_queues(values), strict=True):
        # Other names keep the record's queue, but 4.9.3 without LMQ puts all of them there.
        queue_ids = {
            names.light_queue_id(name, message.queue_id, has_lmq=has_lmq)
            for has_lmq in (False, True)
        }
        offset = _number(number, -1)
        places += [(name, queue_id, offset, 1) for queue_id in sorted(queue_ids)]
    return places


def _number(text: str, otherwise: int) -> int:
    value = java.parse_long(text)
    return otherwise if value is None else value


def parse_delay_levels(levels: str) -> tuple[int, ...]:
    """Read messageDelayLevel: the delays of level 1, 2, … in ms.

    Java stops at the first text that is no delay. That level exists, unless its text is empty, but
    has no delay of its own. A broker does not start then; a message store alone does.
    Source: ScheduleMessageService#parseDelayLevel, later DefaultMessageStore, 4.9.3 to 5.5.0.
    """
    delays: list[int] = []
    for text in java.split(levels, " "):
        if not text:
            break
        number = java.parse_long(text[:-1])
        if number is None or text[-1] not in _UNIT_MS:
            delays.append(UNLISTED_DELAY_MS)
            break
        delays.append(java.to_int64(number * _UNIT_MS[text[-1]]))
    return tuple(delays)


def _has_batch_numbers(values: Mapping[str, str]) -> bool:
    return properties.INNER_BASE in values and properties.INNER_NUM in values


def _batch_place(record: Record) -> Iterator[QueuePlace]:
    """Yield the place of a record in its batch queue; one in no batch is a batch of one."""
    values, base, size = record.properties, record.queue_offset, 1
    if _has_batch_numbers(values):
        base = java.parse_long(values[properties.INNER_BASE]) or 0
        size = _integer(values[properties.INNER_NUM], LARGEST_SHORT) or 0
    if base >= 0 and size >= 0:
        yield QueuePlace(record.topic, record.queue_id, base, size)


def _integer(text: str, largest: int = LARGEST_INT) -> int | None:
    """Read a number as `Integer#parseInt` or `Short#parseShort` does; None where that throws."""
    number = java.parse_long(text)
    return None if number is None or not -largest - 1 <= number <= largest else number
