"""Consumer groups: how far each queue is consumed, as offsets that brokers keep tell.

The difference that a broker states is `lag` + `expired`: it counts what it deleted, too.
Source: ConsumerOffsetManager, AdminBrokerProcessor#getConsumeStats, MixAll#getRetryTopic,
#getDLQTopic, KeyBuilder#buildPopRetryTopic, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.broker.names import DLQ_PREFIX, POP_SEPARATORS, RETRY_PREFIX
from rmqtool.errors import DecodeError, UnreadablePath, UsageError
from rmqtool.formats import config_shapes
from rmqtool.formats.config import parse_object
from rmqtool.formats.config_names import GROUPS_JSON, OFFSETS_JSON
from rmqtool.formats.config_shapes import ClientOffset, client_offsets
from rmqtool.plural import counted, meant
from rmqtool.query.log import LogRecord
from rmqtool.store.address import place_of
from rmqtool.store.config_files import BACKUP, CLIENT_OFFSETS, LARGEST_CONFIG
from rmqtool.store.config_sources import committed_offsets
from rmqtool.table import Column, Table, Type
from rmqtool.tables.record_tables import MESSAGES
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.broker.conf import BrokerConf
    from rmqtool.query.consume_queue import Queue
    from rmqtool.query.sources import Sources
    from rmqtool.store.tree import Store


COMMITTED: Final = Column(
    "committed_offset",
    Type.INT64,
    "queue offset that the group consumes next; null where the broker keeps none",
    is_optional=True,
    aliases=("consumerOffset",),
)
GROUP_QUEUES: Final = Table(
    "group",
    "how far a consumer group has consumed one queue",
    (
        Column("group", Type.TEXT, "consumer group"),
        MESSAGES["topic"],
        MESSAGES["queue_id"],
        COMMITTED,
        Column(
            "min_offset", Type.INT64, "queue offset of the first message", aliases=("minOffset",)
        ),
        Column(
            "max_offset", Type.INT64, "queue offset of the next message", aliases=("maxOffset",)
        ),
        Column(
            "lag",
            Type.INT64,
            "messages that are there and not consumed; null without a committed offset",
            is_optional=True,
            aliases=("diff",),
        ),
        Column("expired", Type.INT64, "messages that were deleted before they were consumed"),
        Column(
            "lag_since",
            Type.TIME,
            "store time of the first message that is not consumed",
            is_optional=True,
        ),
        Column(
            "state", Type.TEXT, "consumed, lag, expired, ahead, no offset, no queue or dead letters"
        ),
    ),
)
CONSUMED: Final = Table(
    "consumed",
    "whether a consumer group has consumed a message",
    (
        Column("group", Type.TEXT, "consumer group"),
        Column("consumed", Type.TEXT, "yes, no or not known"),
        Column("reason", Type.TEXT, "the evidence, or the obstacle"),
        MESSAGES["topic"],
        MESSAGES["queue_id"],
        MESSAGES["queue_offset"],
        COMMITTED,
        MESSAGES["physical_offset"],
        MESSAGES["store_time"],
        MESSAGES["unique_key"],
    ),
)


def known_groups(store: Store) -> list[str]:
    """Give every group that has offsets or is configured, sorted."""
    groups = {offset.group for offset in committed_offsets(store)}
    configured = store.config(GROUPS_JSON).document
    return sorted(groups | {group.group for group in config_shapes.subscription_groups(configured)})


class ConsumerGroup:
    """One consumer group of a store.

    Attributes:
        name: of the group.
        committed: queue offset that is consumed next, by topic and queue.
        is_client: whether the offsets are those of one client, which broadcasts.

    Args:
        sources: the store.
        name: of the group, or the path of the `offsets.json` of a broadcast client.

    Raises:
        DecodeError: the client's file cannot be parsed.
        UnreadablePath: it cannot be read.
        UsageError: it is about several brokers.
    """

    def __init__(self, sources: Sources, name: str) -> None:
        self.name, self._sources = name, sources
        self.is_client = is_client_file(name)
        if self.is_client:
            self.name, self.committed = read_client_offsets(name, sources.store.broker_conf)
            return
        self.committed = {
            (offset.topic, offset.queue_id): offset.queue_offset
            for offset in committed_offsets(sources.store)
            if offset.group == name and offset.queue_offset is not None
        }

    @property
    def retry_topic(self) -> str:
        """Topic of messages that consumers of the group gave back."""
        return RETRY_PREFIX + self.name

    @property
    def dead_letter_topic(self) -> str:
        """Topic of messages that the group gave up."""
        return DLQ_PREFIX + self.name

    def pop_topic(self, topic: str) -> str | None:
        """Give the retry topic of pop consumers of a topic; None without one."""
        names = (f"{self.retry_topic}{separator}{topic}" for separator in POP_SEPARATORS)
        return next((name for name in names if name in self._sources.topics), None)

    def require(self) -> None:
        """Refuse a group of which the store knows nothing. Raises UsageError: it is one."""
        if self.is_client:
            return
        store = self._sources.store
        topics = {self.retry_topic, self.dead_letter_topic} & {*self._sources.queue_topics}
        known = known_groups(store)
        if self.committed or topics or self.name in known:
            return
        problems = [problem.says for problem in store.config(OFFSETS_JSON).problems]
        if not store.config(OFFSETS_JSON):
            problems.append("there is no consumerOffset.json, so no committed offset")
        hint = meant(self.name, known) if known else "no group is known"
        reason = "; ".join([f"nothing is known of group {self.name!r}", hint, *problems])
        raise UsageError(option="--group", reason=reason)

    def rows(self, topics: Sequence[str] = ()) -> Iterator[dict[str, object]]:
        """Yield a row of GROUP_QUEUES for each queue, by topic and queue.

        Args:
            topics: only these; empty is all that the group has offsets for, then its retry topics
                and its dead letters.

        Raises:
            UnreadablePath: a queue may not be read.
        """
        names = topics or self._topics()
        for topic in names:
            queues = {queue.units.queue_id: queue for queue in self._sources.queues_of(topic)}
            numbers = {number for name, number in self.committed if name == topic} | {*queues}
            for queue_id in sorted(numbers):
                yield self._row(topic, queue_id, queues.get(queue_id))

    def _topics(self) -> list[str]:
        topics = sorted({topic for topic, _ in self.committed} - {self.retry_topic})
        pop = [name for topic in topics if (name := self.pop_topic(topic)) and name not in topics]
        last = [self.retry_topic, self.dead_letter_topic]
        there = {*self._sources.queue_topics, *(topic for topic, _ in self.committed)}
        return [*topics, *pop, *(name for name in last if name in there)]

    def _row(self, topic: str, queue_id: int, queue: Queue | None) -> dict[str, object]:
        committed = self.committed.get((topic, queue_id))
        row: dict[str, object] = {
            "group": self.name,
            "topic": topic,
            "queue_id": queue_id,
            "committed_offset": committed,
        }
        if queue is None:
            return row | {"state": "no queue"}
        first, end = queue.span.min_offset, queue.span.max_offset
        row |= {"min_offset": first, "max_offset": end}
        if committed is None:
            is_dead = topic == self.dead_letter_topic
            return row | {"state": "dead letters" if is_dead else "no offset"}
        following = max(committed, first)
        lag = max(end - following, 0)
        row |= {"lag": lag, "expired": following - committed}
        if not lag:
            state = "expired" if following > committed else "consumed"
            return row | {"state": "ahead" if committed > end else state}
        return row | {"lag_since": self._time(queue, following), "state": "lag"}

    def _time(self, queue: Queue, queue_offset: int) -> str | None:
        place = queue.units.find(queue_offset)
        if place is None or place.unit is None:
            return None
        record = self._sources.log.record_at(place.unit.physical_offset)
        return iso_time(record.message.store_timestamp) if isinstance(record, LogRecord) else None


def summary(name: str, rows: Sequence[dict[str, object]]) -> str:
    """Say in one sentence how far a group is."""
    lags = [row for row in rows if row.get("lag")]
    waiting = sum(int(str(lag["lag"])) for lag in lags)
    dead = sum(
        int(str(row["max_offset"])) - int(str(row["min_offset"]))
        for row in rows
        if row["state"] == "dead letters"
    )
    since = min((str(lag["lag_since"]) for lag in lags if lag.get("lag_since")), default="")
    queues = counted(len(lags), "queue")
    problems = [
        f"group {name}: {counted(waiting, 'message')} in {queues} not consumed",
        f"the first was stored at {since}" if since else "",
        counted(dead, "dead letter"),
    ]
    unknown = sum(row["state"] == "no offset" for row in rows)
    if unknown:
        problems.append(f"{counted(unknown, 'queue')} without a committed offset")
    return "; ".join(filter(None, problems))


# How far a broadcast client has consumed: it keeps its offsets itself, in a file of its machine.
#
# `~/.rocketmq_offsets/CLIENT_ID/GROUP/offsets.json`; where that is empty or cannot be parsed, the
# client takes the `.bak` beside it.
# See LocalFileOffsetStore#readLocalOffset, #readLocalOffsetBak, 4.9.3 to 5.5.0.


BROKER_NAME: Final = "brokerName"


class ClientOffsets(NamedTuple):
    """Offsets of one client."""

    group: str  # its consumer group, which the directory is named by
    committed: dict[tuple[str, int], int]  # queue offset that is consumed next, by topic and queue


def is_client_file(text: str) -> bool:
    """Tell whether the name of a group is the path of such a file."""
    return (
        PurePath(text).name in {CLIENT_OFFSETS, f"{CLIENT_OFFSETS}{BACKUP}"}
        and PurePath(text).name != text
    )


def read_client_offsets(path: str, broker_conf: BrokerConf | None) -> ClientOffsets:
    """Read the offsets of a client, as it would itself at its next start.

    Args:
        path: of `offsets.json`, or of its `.bak`.
        broker_conf: of the broker that is meant; without its name the file must know one broker.

    Raises:
        DecodeError: neither the file nor its `.bak` can be parsed.
        UnreadablePath: neither can be read.
        UsageError: it is not clear which broker is meant.
    """
    entries = _entries(path)
    brokers = sorted({entry.broker for entry in entries})
    name = broker_conf.text(BROKER_NAME) if broker_conf else None
    if name is None and len(brokers) > 1:
        reason = f"{path} is about {', '.join(brokers)}; a --broker-conf with brokerName tells"
        raise UsageError(option="--group", reason=reason)
    committed = {
        (entry.topic, entry.queue_id): entry.queue_offset
        for entry in entries
        if name in {None, entry.broker}
    }
    return ClientOffsets(PurePath(path).parent.name, committed)


def _entries(path: str) -> list[ClientOffset]:
    """Read the file; its `.bak` in place of one that is gone, empty or torn."""
    try:
        return _parsed(path)
    except (DecodeError, UnreadablePath) as error:
        if path.endswith(BACKUP):
            raise
        with suppress(DecodeError, UnreadablePath):
            return _parsed(f"{path}{BACKUP}")
        raise error from None


def _parsed(path: str) -> list[ClientOffset]:
    raw = place_of(path).read_whole(LARGEST_CONFIG)
    if not raw.strip(b"\0"):
        raise DecodeError(path=path, position=0, field="json", reason="it is empty")
    return list(client_offsets(parse_object(raw, path=path)))
