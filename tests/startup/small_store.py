"""Stores of many tiny files, written by the message store of the version at hand.

Fourteen segments of 16 KiB, so that "the third-last" and "the ten newest" are different files;
queue files of 20 units and index files of 400 entries, so that there are several of each.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.broker.bare_store import BareStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from py4j.java_gateway import JavaObject

    from tests.broker.jvm import Jvm

SETTINGS: Final[dict[str, object]] = {
    "mappedFileSizeCommitLog": 16384,
    "mappedFileSizeConsumeQueue": 400,
    "maxHashSlotNum": 100,
    "maxIndexNum": 400,
    "maxMessageSize": 8192,
    "timerWheelEnable": False,
    "messageDelayLevel": "1h 2h",
    "maxTransferBytesOnMessageInMemory": 1 << 27,
    "maxTransferCountOnMessageInMemory": 100000,
    "maxTransferBytesOnMessageInDisk": 1 << 27,
    "maxTransferCountOnMessageInDisk": 100000,
    "haListenPort": 0,  # any that is free
}
_MESSAGES: Final = 700
_PREPARED, _COMMIT, _ROLLBACK = 0x4, 0x8, 0xC
_PORT: Final = 10911


@dataclass(frozen=True, slots=True)
class Outline:
    """One message to be put."""

    topic: str
    queue_id: int
    body: bytes
    properties: dict[str, str]
    sys_flag: int = 0
    is_ipv6: bool = False


def outlines(count: int = _MESSAGES) -> Iterator[Outline]:
    """Yield messages of all kinds that dispatch tells apart, the same ones every time."""
    for number in range(count):
        body = bytes((number * 31 + at * 7) & 0xFF for at in range(40 + number * 37 % 240))
        properties = {
            "UNIQ_KEY": f"7F000001{number:024X}",
            "KEYS": f"order-{number} all",
            "TAGS": f"tag{number % 5}",
        }
        if number % 97 == 50:
            yield Outline("halves", 0, body, properties, _PREPARED)
        elif number % 97 == 60:
            yield Outline("orders", 1, body, properties, _ROLLBACK)
        elif number % 41 == 7:
            yield Outline("committed", number % 2, body, properties, _COMMIT)
        elif number % 53 == 11:
            yield Outline("SCHEDULE_TOPIC_XXXX", 1, body, properties | {"DELAY": "2"})
        elif number % 61 == 20:
            yield Outline("empty", 0, b"", {"UNIQ_KEY": properties["UNIQ_KEY"]})
        elif number % 10 == 3:
            yield Outline("rare", 0, body, properties, is_ipv6=number % 20 == 3)
        else:
            yield Outline("orders", number % 4, body, properties)


def write_small_store(
    jvm: Jvm,
    into: Path,
    messages: Iterable[Outline] | None = None,
    settings: Mapping[str, object] = SETTINGS,
) -> dict[str, Path]:
    """Write a store; give it as it is after a clean stop, and as it was before, with `abort`.

    Args:
        jvm: of the version that writes.
        into: an existing directory.
        messages: what is put; null puts those of `outlines`.
        settings: of its broker.conf.
    """
    root = into / "clean"
    bare = BareStore(jvm, root, settings)
    assert bare.load()
    bare.start()
    for outline in messages or outlines():
        result = bare.store.putMessage(inner(jvm, outline))
        status = str(result.getPutMessageStatus())
        assert status == "PUT_OK", status
    while bare.store.dispatchBehindBytes() > 0:
        time.sleep(0.01)
    bare.store.flush()
    crashed = into / "crashed"
    shutil.copytree(root, crashed)
    bare.stop()
    return {"clean": root, "crashed": crashed}


def inner(jvm: Jvm, outline: Outline) -> JavaObject:
    """Give Java's message of an outline, ready to be put."""
    package = "common.message" if jvm.is_five else "store"
    inner = jvm.rocketmq(f"{package}.MessageExtBrokerInner")()
    inner.setTopic(outline.topic)
    inner.setQueueId(outline.queue_id)
    inner.setBody(outline.body)
    inner.setSysFlag(outline.sys_flag)
    properties = "".join(f"{name}\x01{value}\x02" for name, value in outline.properties.items())
    inner.setPropertiesString(properties)
    read = jvm.rocketmq("common.message.MessageDecoder").string2messageProperties(properties)
    jvm.rocketmq("common.message.MessageAccessor").setProperties(inner, read)
    inner.setBornTimestamp(int(time.time() * 1000))
    address = jvm.java("java.net.InetSocketAddress")
    host = address("::1" if outline.is_ipv6 else "127.0.0.1", _PORT)
    inner.setBornHost(host)
    inner.setStoreHost(host)
    return inner
