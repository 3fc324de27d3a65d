"""Topics that brokers make for themselves, and what the names of others begin with.

Source: TopicValidator, MixAll, KeyBuilder, TimerMessageStore#TIMER_TOPIC, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

    from rmqtool.formats.config_shapes import Document


class Name(str):
    """A topic, or what topics begin with."""

    __slots__ = ()

    @property
    def raw(self) -> bytes:
        """The bytes that a record has."""
        return self.encode()


SCHEDULE_TOPIC: Final = Name("SCHEDULE_TOPIC_XXXX")  # queue id: delay level - 1
TIMER_TOPIC: Final = Name("rmq_sys_wheel_timer")  # 5.0.0+
HALF_TOPIC: Final = Name("RMQ_SYS_TRANS_HALF_TOPIC")
OP_TOPIC: Final = Name("RMQ_SYS_TRANS_OP_HALF_TOPIC")
ROCKSDB_HALF_TOPIC: Final = Name("RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC")  # 5.4.0+
ROCKSDB_OP_TOPIC: Final = Name("RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC")
CHECK_MAX_TIME_TOPIC: Final = Name("TRANS_CHECK_MAX_TIME_TOPIC")  # halves that were given up
TRACE_TOPIC: Final = Name("RMQ_SYS_TRACE_TOPIC")
TRACE_DATA_PREFIX: Final = Name("rmq_sys_TRACE_DATA_")  # then the region; of AccessChannel.CLOUD

SYSTEM_PREFIX: Final = Name("rmq_sys_")
OLD_SYSTEM_PREFIX: Final = Name("RMQ_SYS_")
RETRY_PREFIX: Final = Name("%RETRY%")
POP_SEPARATORS: Final = ("_", "+")  # between group and topic in retry topics of groups that pop
DLQ_PREFIX: Final = Name("%DLQ%")
LMQ_PREFIX: Final = Name("%LMQ%")
LITE_PREFIX: Final = Name("%LMQ%$")  # light queues of lite topics, 5.5.0+: parent, `$`, child
LMQ_QUEUE_ID: Final = 0

_LITE_EXPIRATION: Final = "lite.topic.expiration"  # attribute of a parent topic, minutes

HALF_TOPICS: Final = frozenset({HALF_TOPIC, ROCKSDB_HALF_TOPIC})
OP_TOPICS: Final = frozenset({OP_TOPIC, ROCKSDB_OP_TOPIC})
_OWN_TOPICS: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        CHECK_MAX_TIME_TOPIC,
        Name("TBW102"),
        Name("SELF_TEST_TOPIC"),
        Name("OFFSET_MOVED_EVENT"),
        Name("BenchmarkTest"),
        Name("CHECKPOINT_TOPIC"),
    }
)
_OWN_GROUPS: Final = ("CID_", "TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP")
_OWN_PREFIXES: Final = (SYSTEM_PREFIX, OLD_SYSTEM_PREFIX, LMQ_PREFIX, RETRY_PREFIX, DLQ_PREFIX)


def topic_text(raw: bytes) -> str:
    """Give the name of a topic as people read it; bytes that are not UTF-8 are escapes."""
    return raw.decode("utf-8", "backslashreplace")


def name_in_files(topic: str) -> bytes:
    """Give a topic, as it is printed, by the name that short queues in files have.

    Any text has one: who asks may have it from a configuration that somebody made up.
    """
    return topic.encode("utf-8", "surrogatepass")


def topic_raw(name: str) -> bytes:
    """Give the bytes of a topic by the name of its directory."""
    return name.encode("utf-8", "surrogateescape")


def is_system_group(group: str) -> bool:
    """Tell whether a broker or its tools use this group, which then nobody configures."""
    return group.startswith(_OWN_GROUPS)


def is_system_topic(topic: str) -> bool:
    """Tell whether brokers never delete this topic. Source: TopicValidator#isSystemTopic."""
    return topic in _OWN_TOPICS or topic.startswith((SYSTEM_PREFIX, OLD_SYSTEM_PREFIX))


def is_trace_topic(topic: str) -> bool:
    """Tell whether clients write traces to this topic unless they are given another one."""
    return topic == TRACE_TOPIC or topic.startswith(TRACE_DATA_PREFIX)


def is_deleted(topic: str, configured: Collection[str] | None, left: Collection[str]) -> bool:
    """Tell whether brokers have deleted the queues of a topic: it is not configured any more.

    They delete all queues of such a topic: where one is left, the configuration was lost. Light
    queues are never deleted so; see `is_deleted_when_idle`.
    Source: DefaultMessageStore#cleanUnusedTopic, #deleteTopics, 4.9.3 to 5.5.0.

    Args:
        topic: of a queue that is not there.
        configured: the topics of the configuration; None or empty where nothing says them.
        left: the topics that have a queue.
    """
    if not configured or topic in configured or topic in left:
        return False
    return not (is_system_topic(topic) or topic.startswith(LMQ_PREFIX))


def is_made_by_brokers(topic: str) -> bool:
    """Tell whether a broker makes this topic for itself, so that topics.json may lack it."""
    return topic in _OWN_TOPICS or topic.startswith(_OWN_PREFIXES)


def light_queue_id(topic: str, queue_id: int, *, has_lmq: bool) -> int:
    """Give the number of a further queue that a record goes to, which its own queue has otherwise.

    Source: ConsumeQueue#multiDispatchLmqQueue, 4.9.3 to 5.5.0.

    Args:
        topic: of the further queue.
        queue_id: of the record.
        has_lmq: enableLmq, with which light queues have one number only.
    """
    return LMQ_QUEUE_ID if has_lmq and topic.startswith(LMQ_PREFIX) else queue_id


def lite_parent(topic: str) -> str:
    """Give the topic whose messages a light queue gets; empty for other queues. 5.5.0+."""
    return (
        topic.removeprefix(LITE_PREFIX).partition("$")[0] if topic.startswith(LITE_PREFIX) else ""
    )


def is_deleted_when_idle(light_queue: str, configuration: Document | None) -> bool:
    """Tell whether brokers may have deleted a light queue that is not there.

    They delete those of lite topics: with the parent topic, or when nothing comes for as long as
    the parent topic allows. Without an expiration nothing does.
    Source: LiteLifecycleManager#isLiteTopicExpired, LiteMetadataUtil#getTopicTtlMap, 5.5.0.

    Args:
        light_queue: its name.
        configuration: what `topics.json` holds; None or empty where nothing tells that they have.
    """
    parent = lite_parent(light_queue)
    if not parent or not configuration:
        return False
    from rmqtool.formats.config_shapes import topics

    configured = [topic for topic in topics(configuration) if topic.topic == parent]
    if not configured:
        return True
    expiration = configured[0].attributes.get(_LITE_EXPIRATION, "")
    is_positive = expiration.isdecimal() and any(digit != "0" for digit in expiration)
    return is_positive and configured[0].is_lite
