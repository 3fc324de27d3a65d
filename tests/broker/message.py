"""What goes into a broker and what comes out of it, as plain Python values."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from tests.broker.jars import jar_directory

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

    from tests.broker.jvm import Jvm

UNIQUE_KEY: Final = "UNIQ_KEY"
_NOT_STORED: Final = {"WAIT"}  # between client and broker only
_ANSWER: Final = re.compile(
    r"SendResult \[sendStatus=(\w+), msgId=.*, offsetMsgId=(\w+), "
    r"messageQueue=MessageQueue \[.*, queueId=(\d+)\], queueOffset=(\d+)"
)
_ASKED: Final = (
    *("topic", "queueId", "queueOffset", "commitLogOffset", "storeSize", "properties", "body"),
    *("flag", "reconsumeTimes", "storeTimestamp", "msgId"),
)
_WRITERS: Final[WeakKeyDictionary[Jvm, tuple[JavaObject, ...]]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message as an application gives it to a producer.

    `reserved` are properties that `putUserProperty` refuses, as `INNER_MULTI_DISPATCH`.
    """

    topic: str
    body: bytes
    tags: str | None = None
    keys: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    flag: int = 0
    delay_level: int = 0
    reserved: Mapping[str, str] = field(default_factory=dict)

    def java(self, jvm: Jvm) -> JavaObject:
        """Return it as RocketMQ's `Message`."""
        message = jvm.rocketmq("common.message.Message")(self.topic, self.body)
        if self.tags is not None:
            message.setTags(self.tags)
        if self.keys:
            message.setKeys(" ".join(self.keys))
        if self.flag:
            message.setFlag(self.flag)
        if self.delay_level:
            message.setDelayTimeLevel(self.delay_level)
        for name, value in self.properties.items():
            message.putUserProperty(name, value)
        accessor = jvm.rocketmq("common.message.MessageAccessor")
        for name, value in self.reserved.items():
            accessor.putProperty(message, name, value)
        return message


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that a producer sent, and what the broker answered.

    Attributes:
        topic: as the application named it; half, delay and timer messages are stored elsewhere.
        queue_id: of the record that the answer names.
        queue_offset: of the same record, in its own queue.
        tags: as given, null without.
        keys: as given, one by one.
        properties: all that the client set (its own, too), save what is never stored.
        user_properties: those that the application set.
        body: as the application gave it, not compressed.
        flag: the application's number.
        unique_key: the client's ID.
        offset_message_id: the broker's ID.
        physical_offset: where the record that the answer names begins.
        status: `SEND_OK` and the like.
        kind: `normal`, `compressed`, `batch`, `inner-batch`, `delay`, `timer`, `half`, `lmq`,
            `direct` (put into the store without a client).
        outcome: of transactions, what happened in the end, else null.
    """

    topic: str
    queue_id: int
    queue_offset: int
    tags: str | None
    keys: tuple[str, ...]
    properties: dict[str, str]
    user_properties: dict[str, str]
    body: bytes
    flag: int
    unique_key: str | None
    offset_message_id: str
    physical_offset: int
    status: str
    kind: str
    outcome: str | None = None

    def row(self) -> dict[str, Any]:
        """Return it as a line of `sent.jsonl`: the body in base64."""
        row = asdict(self)
        row["keys"] = list(self.keys)
        row["body_b64"] = base64.b64encode(row.pop("body")).decode("ascii")
        return row


def sent_message(
    jvm: Jvm,
    outgoing: Outgoing,
    message: JavaObject,
    result: JavaObject,
    kind: str,
    outcome: str | None = None,
) -> Sent:
    """Return what was sent from Java's message and the broker's answer.

    Args:
        jvm: in which it is.
        outgoing: as the application gave it.
        message: Java's `Message` after sending, with what the client added.
        result: Java's `SendResult`.
        kind: see `Sent`.
        outcome: of a transaction.
    """
    found = _ANSWER.match(str(result))  # one call, where each field takes one or two
    assert found is not None, str(result)
    status, offset_message_id, queue_id, queue_offset = found.groups()
    return answered(
        outgoing,
        client_properties(jvm, message),
        (int(queue_id), int(queue_offset), offset_message_id, status),
        kind,
        outcome,
    )


def answered(
    outgoing: Outgoing,
    properties: dict[str, str],
    answer: tuple[int, int, str, str],
    kind: str,
    outcome: str | None = None,
) -> Sent:
    """Return what was sent; `answer` is queue, queue offset, offset message ID and status."""
    queue_id, queue_offset, offset_message_id, status = answer
    return Sent(
        topic=outgoing.topic,
        queue_id=queue_id,
        queue_offset=queue_offset,
        tags=outgoing.tags,
        keys=outgoing.keys,
        properties=properties,
        user_properties=dict(outgoing.properties),
        body=outgoing.body,
        flag=outgoing.flag,
        unique_key=properties.get(UNIQUE_KEY),
        offset_message_id=offset_message_id,
        physical_offset=int(offset_message_id[-16:], 16),
        status=status,
        kind=kind,
        outcome=outcome,
    )


def properties_of(jvm: Jvm, message: JavaObject) -> dict[str, str]:
    """Return the properties of Java's message: by one call, where each of a map takes four."""
    decoder = jvm.rocketmq("common.message.MessageDecoder")
    text = str(decoder.messageProperties2String(message.getProperties()))
    pairs = (one.partition("\x01") for one in text.split("\x02") if one)
    return {name: value for name, _, value in pairs}


def client_properties(jvm: Jvm, message: JavaObject) -> dict[str, str]:
    """Return the properties of Java's message that travel into the store, in sorted order."""
    items = properties_of(jvm, message)
    return {name: items[name] for name in sorted(items.keys() - _NOT_STORED)}


@dataclass(frozen=True, slots=True)
class Received:
    """A message as a broker hands it out, its body decompressed."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    size: int
    tags: str | None
    keys: tuple[str, ...]
    properties: dict[str, str]
    body: bytes
    flag: int
    reconsume_times: int
    store_timestamp: int
    message_id: str


def received(jvm: Jvm, message: JavaObject) -> Received:
    """Return Java's `MessageExt` as a plain value."""
    return _plain(json.loads(_json(jvm, message)))


def all_received(jvm: Jvm, messages: JavaObject) -> list[Received]:
    """Return a Java list of `MessageExt` as plain values: by one call, whatever it holds."""
    return [_plain(one) for one in json.loads(_json(jvm, messages))]


def _json(jvm: Jvm, found: JavaObject) -> str:
    if jvm not in _WRITERS:
        # 5.5.1 was the first release without the older of the two.
        is_older = any(jar_directory(jvm.version).glob("fastjson-1*"))
        _WRITERS[jvm] = (_writer if is_older else _newer_writer)(jvm)
    writer, asked, wanted = _WRITERS[jvm]
    # Not toJSONString: JSON objects have a method of that name, and py4j may find that one first.
    return bytes(writer.toJSONBytes(found, asked, wanted)).decode()


def _writer(jvm: Jvm) -> tuple[JavaObject, ...]:
    package = "com.alibaba.fastjson"
    features = jvm.java(f"{package}.serializer.SerializerFeature")
    wanted = jvm.gateway.new_array(features, 1)
    wanted[0] = features.DisableCircularReferenceDetect
    asked = jvm.java(f"{package}.serializer.SimplePropertyPreFilter")
    return jvm.java(f"{package}.JSON"), _asked(jvm, asked), wanted


def _newer_writer(jvm: Jvm) -> tuple[JavaObject, ...]:
    package = "com.alibaba.fastjson2"
    features = jvm.java(f"{package}.JSONWriter$Feature")
    wanted = jvm.gateway.new_array(features, 1)
    wanted[0] = features.WriteByteArrayAsBase64
    filters = jvm.gateway.new_array(jvm.java(f"{package}.filter.Filter"), 1)
    filters[0] = _asked(jvm, jvm.java(f"{package}.filter.SimplePropertyPreFilter"))
    return jvm.java(f"{package}.JSON"), filters, wanted


def _asked(jvm: Jvm, kind: JavaObject) -> JavaObject:
    """Ask for some fields only: the name of a host would be looked up in the network."""
    message = jvm.java("java.lang.Class").forName("org.apache.rocketmq.common.message.MessageExt")
    return kind(message, jvm.strings(_ASKED))


def _plain(found: Mapping[str, Any]) -> Received:
    properties: dict[str, str] = found.get("properties", {})
    return Received(
        topic=found["topic"],
        queue_id=found["queueId"],
        queue_offset=found["queueOffset"],
        physical_offset=found["commitLogOffset"],
        size=found["storeSize"],
        tags=properties.get("TAGS"),
        keys=tuple(key for key in properties.get("KEYS", "").split(" ") if key),
        properties=properties,
        body=base64.b64decode(found.get("body", ""), validate=True),
        flag=found["flag"],
        reconsume_times=found["reconsumeTimes"],
        store_timestamp=found["storeTimestamp"],
        message_id=found["msgId"],
    )
