"""One message that is to be sent: what of it goes along, where to, and why it cannot be sent.

Source: MessageConst, SendMessageProcessor#sendMessage, TopicValidator, HookUtils#checkBefore-
PutMessage, MessageDecoder#string2messageProperties, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.broker import names
from rmqtool.formats import java, properties
from rmqtool.formats.message import LONGEST_PROPERTIES
from rmqtool.formats.timer import DEFAULT_PRECISION_MS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rmqtool.sending.options import Destination

TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
OLD_ID: Final = "RMQTOOL_OLD_ID"
"""Property that each message gets: the offsetMsgId that it had in its old store."""

# Names that clients and brokers give a meaning. These do no harm in another cluster.
_HARMLESS: Final = frozenset(
    {
        *(properties.KEYS, properties.TAGS, properties.UNIQ_KEY, properties.INNER_MULTI_DISPATCH),
        *("WAIT", "BUYER_ID", "INSTANCE_ID", "__SHARDINGKEY", "TRACE_CONTEXT"),
        *("CORRELATION_ID", "REPLY_TO_CLIENT", "TTL", "MSG_TYPE"),
    }
)
# These would make a broker wait, ask for a transaction's end or count retries, or they tell of the
# old cluster.
_LEFT: Final = frozenset(
    {
        *(properties.DELAY, properties.REAL_TOPIC, properties.REAL_QID, properties.CRC32),
        *(properties.INNER_NUM, properties.INNER_BASE, properties.INNER_MULTI_QUEUE_OFFSET),
        *(
            properties.RETRY_TOPIC,
            "TRAN_MSG",
            "PGROUP",
            "MIN_OFFSET",
            "MAX_OFFSET",
            properties.ORIGIN_MESSAGE_ID,
        ),
        *("TRANSFER_FLAG", "CORRECTION_FLAG", "MQ2_FLAG", "RECONSUME_TIME", "MSG_REGION"),
        *("TRACE_ON", "EXTEND_UNIQ_INFO", "MAX_RECONSUME_TIMES", "CONSUME_START_TIME"),
        *("CHECK_IMMUNITY_TIME_IN_SECONDS", "TRAN_PREPARED_QUEUE_OFFSET", "__transactionId__"),
        *("TRANSACTION_CHECK_TIMES", "ARRIVE_TIME", "PUSH_REPLY_TIME", "CLUSTER", "POP_CK"),
        *("POP_CK_OFFSET", "1ST_POP_TIME", "PROPERTY_FORWARD_QUEUE_ID", "REDIRECT"),
        *(
            "__BORNHOST",
            "BORN_TIMESTAMP",
            properties.DLQ_ORIGIN_TOPIC,
            properties.DLQ_ORIGIN_MESSAGE_ID,
            OLD_ID,
        ),
    }
)
_LEFT_PREFIXES: Final = ("TIMER_", "__RMQ.TRANSIENT.")
_HELD: Final = frozenset({*names.HALF_TOPICS, names.TIMER_TOPIC, names.CHECK_MAX_TIME_TOPIC})
_HELD_TRANSACTIONS: Final = frozenset({"prepared", "rollback"})
_TOPIC: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
_LONGEST_TOPIC: Final = 127
LARGEST_BODY: Final = (16 << 20) - (256 << 10)  # a frame has 16 MiB, and the header is in it


class BadMessage(ValueError):
    """A message of the file cannot be sent; the text says why."""


class BadLine(NamedTuple):
    """What of the file cannot be sent."""

    line: int  # number of the line or of the record, from 1 on
    position: int  # of its first byte in the file
    reason: str  # why not
    topic: str | None = None  # that the message was sent to; None where nobody knows


@dataclass(frozen=True, slots=True)
class Stored:
    """A message as the file has it."""

    stored_topic: str  # of the record in the log
    topic: str  # that it was sent to, as far as the record itself says
    queue_id: int | None  # of that topic; None where it has none
    flag: int  # the application's own
    born_ms: int | None  # epoch ms; None where the file does not say
    properties: Mapping[str, str]  # all
    body: bytes  # decompressed
    transaction: str  # none, prepared, commit or rollback
    old_id: str | None  # its offsetMsgId, or what else names it
    damage: str = ""  # why its body or its texts are not those that were sent; empty when they are
    stored_ms: int | None = None  # epoch ms; None where the file does not say

    @property
    def place(self) -> tuple[str, int | None]:
        """Topic and queue that the message was sent to, before brokers moved it."""
        topic, queue_id = self.topic, self.queue_id
        if topic == names.SCHEDULE_TOPIC or topic in _HELD:
            topic = self.properties.get(properties.REAL_TOPIC, topic)
            queue_id = java.parse_long(self.properties.get(properties.REAL_QID, ""))
        if topic.startswith((names.RETRY_PREFIX, names.DLQ_PREFIX)):
            topic, queue_id = properties.origin(self.properties)[0] or topic, None
        return topic, queue_id


class Wait(NamedTuple):
    """What a message waited for."""

    due_ms: int | None  # epoch ms, of a timer
    level: int  # of a delay level; 0 of a timer
    stored_ms: int  # epoch ms, when the level began to count

    def due(self, levels_ms: Sequence[int]) -> int:
        """Say when it is due, epoch ms.

        Args:
            levels_ms: delay of level 1, 2, …; levels above them count as the last one.
        """
        if self.due_ms is not None or not levels_ms:
            return self.due_ms or 0
        return self.stored_ms + levels_ms[min(self.level, len(levels_ms)) - 1]


class Outgoing(NamedTuple):
    """A message that can be sent."""

    number: int  # in the file, from 1 on; the ledger has it
    line: int  # number of its line or record
    own_topic: str  # that it was sent to
    topic: str  # where it goes to
    queue_id: int | None  # that it had; None where it had none in this topic
    flag: int  # the application's own
    born_ms: int | None  # epoch ms; None where the file does not say
    properties: str  # as a record has them
    body: bytes  # bytes
    is_held: bool  # a copy that brokers hold back: nobody knows whether it goes on
    is_system: bool  # brokers alone write to its topic
    wait: Wait | None = None  # for its time; None where it did not wait


def outgoing(stored: Stored, number: int, line: int, to: Destination) -> Outgoing:
    """Make a message ready to be sent.

    Args:
        stored: as the file has it.
        number: of the message.
        line: of its line or record.
        to: where it goes instead of its own topic.

    Raises:
        BadMessage: it cannot be sent.
    """
    own_topic, queue_id = stored.place
    topic = own_topic if to.whole is None else to.whole
    if stored.damage:
        raise BadMessage(stored.damage)
    if to.group is not None and own_topic.startswith((names.RETRY_PREFIX, names.DLQ_PREFIX)):
        reason = f"its first topic is not known, only {own_topic[:_LONGEST_TOPIC]!r}"
        raise BadMessage(reason)
    if len(topic) > _LONGEST_TOPIC or _TOPIC.fullmatch(topic) is None:
        reason = f"no broker takes the topic {topic[:_LONGEST_TOPIC]!r}"
        raise BadMessage(reason)
    if not stored.body:
        reason = "the body is empty, and brokers refuse such a message"
        raise BadMessage(reason)
    if len(stored.body) > LARGEST_BODY:
        reason = f"the body has {len(stored.body):,} bytes, and no request holds more than 16 MiB"
        raise BadMessage(reason)
    if java.to_int32(stored.flag) != stored.flag:
        reason = f"flag {stored.flag} has more than 32 bits"
        raise BadMessage(reason)
    return Outgoing(
        number,
        line,
        own_topic,
        topic,
        queue_id if to.group is None else None,
        stored.flag,
        stored.born_ms,
        _carried(stored, {} if to.group is None else _retried(stored, own_topic)),
        stored.body,
        stored.stored_topic in _HELD or stored.transaction in _HELD_TRANSACTIONS,
        names.is_made_by_brokers(topic if to.group is None else own_topic),
        _wait(stored),
    )


def _wait(stored: Stored) -> Wait | None:
    """Say what a message waited for, by the topic that it lay in."""
    if stored.stored_topic == names.TIMER_TOPIC:
        due = _timer_due(stored.properties)
        return None if due is None else Wait(due, 0, 0)
    if stored.stored_topic != names.SCHEDULE_TOPIC or stored.stored_ms is None:
        return None
    level = java.parse_long(stored.properties.get(properties.DELAY, ""))
    return None if level is None or level <= 0 else Wait(None, level, stored.stored_ms)


def _timer_due(texts: Mapping[str, str]) -> int | None:
    """Say when a timer is due: up to one step of the wheel after TIMER_OUT_MS, a whole step itself.

    Source: HookUtils#transformTimerMessage, 5.0.0 to 5.5.1.
    """
    out = java.parse_long(texts.get(properties.TIMER_OUT_MS, ""))
    if out is None:
        return None
    asked = java.parse_long(texts.get(TIMER_DELIVER_MS, ""))
    latest = out + DEFAULT_PRECISION_MS
    return asked if asked is not None and out < asked <= latest else latest


def _retried(stored: Stored, own_topic: str) -> dict[str, str]:
    """Give what a listener of a retry topic sees the first topic by, as brokers write it.

    Source: SendMessageProcessor#consumerSendMsgBack, DefaultMQPushConsumerImpl#resetRetryAnd-
    Namespace, 4.9.3 to 5.5.0.
    """
    origin = properties.origin(stored.properties)[1] or stored.old_id
    changed = {properties.RETRY_TOPIC: own_topic}
    return {**changed, properties.ORIGIN_MESSAGE_ID: origin} if origin else changed


def _carried(stored: Stored, more: Mapping[str, str]) -> str:
    """Give the properties that go along, as a record has them.

    Args:
        stored: the message.
        more: properties that it did not have.

    Raises:
        BadMessage: they cannot be written so.
    """
    kept = {
        name: value
        for name, value in stored.properties.items()
        if name and value and (name in _HARMLESS or not _is_left(name))
    }
    kept |= more
    if stored.old_id:
        kept[OLD_ID] = stored.old_id
    for name, value in kept.items():
        if "\x01" in name or "\x02" in name or "\x02" in value:
            reason = f"property {name!r} holds a separator of properties"
            raise BadMessage(reason)
    raw = properties.encode(kept)
    if len(raw) > LONGEST_PROPERTIES:
        reason = f"properties of {len(raw):,} bytes; brokers take {LONGEST_PROPERTIES:,}"
        raise BadMessage(reason)
    return raw.decode()


def _is_left(name: str) -> bool:
    return name in _LEFT or name.startswith(_LEFT_PREFIXES)
