"""What the broker's JSON files say, as rows.

A value of the wrong type becomes None, and an entry that is no object is left out: one bad entry
must not hide the others. Whether that is damage is for a check to say.
Source: TopicConfig, SubscriptionGroupConfig, ConsumerOffsetManager, ConsumerFilterData, 4.9.3 to
5.5.0; observed, 5.3.3 and 5.5.0.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rmqtool.errors import DecodeError
from rmqtool.formats.config import parse_object
from rmqtool.formats.config_names import (
    DELAYS_JSON,
    FILTER_TABLE,
    FILTERS_JSON,
    GROUP_TABLE,
    GROUPS_JSON,
    LIGHT_OFFSETS_JSON,
    MAPPINGS_JSON,
    MODES_JSON,
    OFFSET_TABLE,
    OFFSETS_JSON,
    ORDERS_JSON,
    TOPIC_TABLE,
    TOPICS_JSON,
)
from rmqtool.formats.java import parse_long

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rmqtool.budget import ParseBudget
    from rmqtool.formats.config import Json

    Document = Mapping[str, Any]

# Of each JSON file the object that has an entry for each topic, group or the like.
TABLES: Final = {
    TOPICS_JSON: TOPIC_TABLE,
    GROUPS_JSON: GROUP_TABLE,
    OFFSETS_JSON: OFFSET_TABLE,
    LIGHT_OFFSETS_JSON: OFFSET_TABLE,
    DELAYS_JSON: OFFSET_TABLE,
    FILTERS_JSON: FILTER_TABLE,
    ORDERS_JSON: "table",
    MAPPINGS_JSON: "topicQueueMappingInfoMap",
    MODES_JSON: "messageRequestModeMap",
}
TOPIC_GROUP_SEPARATOR: Final = "@"


class DataVersion(NamedTuple):
    """How often a file's content has changed."""

    counter: int | None = None  # changes
    timestamp: int | None = None  # of the last one, ms since 1970
    state_version: int | None = None  # 5.x; the controller's epoch


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One topic of `topics.json`."""

    topic: str  # its name
    read_queue_nums: int | None = None  # queues that consumers see
    write_queue_nums: int | None = None  # queues that producers see
    perm: int | None = None  # bits 4 read, 2 write, 1 inherit
    order: bool | None = None  # whether producers should keep order
    topic_filter_type: str | None = None  # SINGLE_TAG or MULTI_TAG; dispatch ignores it
    topic_sys_flag: int | None = None  # bits
    # 5.x: `queue.type`, `cleanup.policy`, `message.type` and others
    attributes: dict[str, str] = field(default_factory=dict)

    @property
    def is_batch_queue(self) -> bool:
        """Whether its units are those of batch_queue.py."""
        return self.attributes.get("queue.type") == "BatchCQ"

    @property
    def is_lite(self) -> bool:
        """Whether its messages go to light queues of its own, 5.5.0+."""
        return self.attributes.get("message.type") == "LITE"

    @property
    def is_compaction(self) -> bool:
        """Whether its messages are kept by key."""
        return self.attributes.get("cleanup.policy") == "COMPACTION"


class ConsumerOffset(NamedTuple):
    """How far a group has consumed a queue."""

    topic: str  # what is consumed
    group: str  # who consumes it
    queue_id: int  # of the topic
    queue_offset: int | None  # next unit to be consumed


class ClientOffset(NamedTuple):
    """How far a broadcast client has consumed one queue."""

    broker: str  # name of the broker
    topic: str  # its name
    queue_id: int  # number of the queue
    queue_offset: int  # the next message's


class SubscriptionGroup(NamedTuple):
    """One group of `subscriptionGroup.json`."""

    group: str  # its name
    consume_enable: bool | None  # whether it may consume
    retry_queue_nums: int | None  # queues of its retry topic
    retry_max_times: int | None  # how often a message is tried again before it is a dead letter
    entry: dict[str, Any]  # the whole object as it is stored


class ConsumerFilter(NamedTuple):
    """One SQL92 subscription of `consumerFilter.json`."""

    topic: str  # what is subscribed
    group: str  # who subscribed it
    expression: str | None  # SQL92
    born_time: int | None  # ms since 1970
    dead_time: int | None  # when it was given up, ms since 1970; 0 while it lives
    bit_count: int | None  # bits of the Bloom filter
    bit_positions: tuple[int, ...]  # bits that stand for it


def data_version(document: Document) -> DataVersion:
    """Read `dataVersion` of any of the files."""
    entry = _object(document.get("dataVersion"))
    names = ("counter", "timestamp", "stateVersion")
    return DataVersion(*(_int(entry.get(name)) for name in names))


def topics(document: Document) -> Iterator[TopicConfig]:
    """Read `topics.json`."""
    for topic, entry in _objects(document.get(TOPIC_TABLE)):
        yield topic_config(topic, entry)


def topic_config(topic: str, entry: Document) -> TopicConfig:
    """Read one topic, as `topics.json` and RocksDB metadata hold it."""
    return TopicConfig(
        topic=topic,
        read_queue_nums=_int(entry.get("readQueueNums")),
        write_queue_nums=_int(entry.get("writeQueueNums")),
        perm=_int(entry.get("perm")),
        order=_bool(entry.get("order")),
        topic_filter_type=_str(entry.get("topicFilterType")),
        topic_sys_flag=_int(entry.get("topicSysFlag")),
        attributes={
            name: value
            for name, value in _object(entry.get("attributes")).items()
            if isinstance(value, str)
        },
    )


def parse_file(
    raw: bytes, *, name: str, path: str, budget: ParseBudget | None = None
) -> dict[str, Any]:
    """Read a configuration file as the broker takes it: its table has to be of the right kind.

    Brokers decode a file into a class, and take the `.bak` where that fails. Two files have an
    `offsetTable`: of delay levels, and of queues by topic and group.
    Source: ConfigManager#load, DelayOffsetSerializeWrapper, ConsumerOffsetManager, 4.9.3 to 5.5.0;
    observed, 4.9.3, and fastjson 1.2.76, 1.2.83, fastjson2 2.0.43 and 2.0.59.

    Args:
        raw: all of it.
        name: of the file, without `.bak`.
        path: for the error.
        budget: see `config.parse`.

    Raises:
        DecodeError: it cannot be read, or is of another kind.
    """
    document = parse_object(raw, path=path, budget=budget)
    if name in _FITS:
        table = document.get(OFFSET_TABLE)
        if table is not None and not (isinstance(table, dict) and _FITS[name](table)):
            reason = f"it is not the table of a {name}"
            raise DecodeError(path=path, position=0, field=OFFSET_TABLE, reason=reason)
    return document


def _has_levels(table: dict[str, Any]) -> bool:
    """Tell whether a table leads from numbers to numbers."""
    is_plain = not any(isinstance(offset, dict | list) for offset in table.values())
    return is_plain and all(parse_long(level) is not None for level in table)


def _has_queues(table: dict[str, Any]) -> bool:
    """Tell whether a table leads from names to tables from numbers to numbers."""
    tables = [queues for queues in table.values() if queues is not None]
    return all(isinstance(queues, dict) and _has_levels(queues) for queues in tables)


_FITS: Final = {DELAYS_JSON: _has_levels, OFFSETS_JSON: _has_queues}


def consumer_offsets(document: Document) -> Iterator[ConsumerOffset]:
    """Read `consumerOffset.json`; keys that are not topic, `@`, group are left out."""
    for name, queues in _objects(document.get(OFFSET_TABLE)):
        parts = name.split(TOPIC_GROUP_SEPARATOR)
        if len(parts) == 2:  # noqa: PLR2004 - topic and group
            for number, offset in queues.items():
                if (queue_id := parse_long(number)) is not None:
                    yield ConsumerOffset(parts[0], parts[1], queue_id, _int(offset))


def lmq_consumer_offsets(document: Document) -> Iterator[ConsumerOffset]:
    """Read the light queues of `lmqConsumerOffset.json`, which have no queue but 0."""
    for name, offset in _object(document.get("lmqOffsetTable")).items():
        topic, separator, group = name.partition(TOPIC_GROUP_SEPARATOR)
        if separator:
            yield ConsumerOffset(topic, group, 0, _int(offset))


def client_offsets(document: Document) -> Iterator[ClientOffset]:
    """Read the `offsets.json` of a broadcast client; what is no queue or no offset is left out.

    Source: LocalFileOffsetStore, OffsetSerializeWrapper, 4.9.3 to 5.5.0.
    """
    for key, offset in _object(document.get(OFFSET_TABLE)).items():
        try:
            queue = _object(json.loads(key))
        except ValueError:
            continue
        broker, topic = _str(queue.get("brokerName")), _str(queue.get("topic"))
        number, following = _int(queue.get("queueId")), _int(offset)
        if None not in {broker, topic} and number is not None and following is not None:
            yield ClientOffset(broker or "", topic or "", number, following)


def delay_offsets(document: Document) -> dict[int, int | None]:
    """Read `delayOffset.json`: delay level to the next unit of its queue (level - 1)."""
    table = _object(document.get(OFFSET_TABLE))
    return {
        level: _int(offset)
        for name, offset in table.items()
        if (level := parse_long(name)) is not None
    }


def subscription_groups(document: Document) -> Iterator[SubscriptionGroup]:
    """Read `subscriptionGroup.json`."""
    for group, entry in _objects(document.get(GROUP_TABLE)):
        yield SubscriptionGroup(
            group,
            _bool(entry.get("consumeEnable")),
            _int(entry.get("retryQueueNums")),
            _int(entry.get("retryMaxTimes")),
            entry,
        )


def consumer_filters(document: Document) -> Iterator[ConsumerFilter]:
    """Read `consumerFilter.json`."""
    for topic, by_group in _objects(document.get(FILTER_TABLE)):
        for group, entry in _objects(by_group.get("groupFilterData")):
            bloom = _object(entry.get("bloomFilterData"))
            positions = bloom.get("bitPos")
            yield ConsumerFilter(
                topic,
                group,
                _str(entry.get("expression")),
                _int(entry.get("bornTime")),
                _int(entry.get("deadTime")),
                _int(bloom.get("bitNum")),
                tuple(
                    bit
                    for bit in (positions if isinstance(positions, list) else ())
                    if isinstance(bit, int)
                ),
            )


def _object(value: Json) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: Json) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((name, entry) for name, entry in _object(value).items() if isinstance(entry, dict))


def _int(value: Json) -> int | None:
    """Give a number; fastjson reads one in quotes alike."""
    if isinstance(value, str):
        return parse_long(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _bool(value: Json) -> bool | None:
    return value if isinstance(value, bool) else None


def _str(value: Json) -> str | None:
    return value if isinstance(value, str) else None
