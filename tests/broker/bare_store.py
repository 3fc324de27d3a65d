"""A `DefaultMessageStore` without a broker around it: recovery and dispatch, nothing else.

`load` is the recovery of a starting broker; what it leaves says whether a broker would accept
the store, and how much of it.

    with Jvm("5.3.3", home) as jvm:
        store = BareStore(jvm, root, settings)
        assert store.load()
        assert store.physical_offsets() == (0, 1234)
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.broker.jvm import Jvm
from tests.broker.message import Received, all_received
from tests.broker.ports import free_ports
from tests.broker.stopping import stop

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

_DISPATCH_SECONDS: Final = 600
_PULL_COUNT: Final = 32
YEARS_IN_HOURS: Final = 500_000  # fileReservedTime: or what was written long ago is deleted
_QUIET: Final = {"diskMaxUsedSpaceRatio": 99, "warmMapedFileEnable": False}


class BareStore:
    """RocketMQ's message store on a directory.

    Args:
        jvm: of the version that is to open it.
        root: the store; it is written to, so give it a copy.
        settings: of `broker.conf`; at least the geometry of the store's files.
    """

    def __init__(self, jvm: Jvm, root: Path, settings: Mapping[str, object]) -> None:
        self.jvm = jvm
        self.root = root
        places = {
            "storePathRootDir": root,
            "storePathCommitLog": root / "commitlog",
            "haListenPort": free_ports()[0],  # `start` listens there
        }
        properties = jvm.properties({**_QUIET, **settings, **places})
        config = jvm.rocketmq("store.config.MessageStoreConfig")()
        broker_config = jvm.rocketmq("common.BrokerConfig")()
        mix = jvm.rocketmq("common.MixAll")
        mix.properties2Object(properties, config)
        mix.properties2Object(properties, broker_config)
        broker_config.setLongPollingEnable(False)  # there is no listener for arriving messages
        statistics = jvm.rocketmq("store.stats.BrokerStatsManager")("bare", True)
        takes_topics = jvm.is_five and jvm.version not in {"5.0.0", "5.1.0"}
        rest = (self._topics(),) if takes_topics else ()
        is_rocksdb = settings.get("storeType") == "defaultRocksDB"
        store = jvm.rocketmq(f"store.{'RocksDB' if is_rocksdb else 'Default'}MessageStore")
        self.store: JavaObject = store(config, statistics, None, broker_config, *rest)
        if jvm.is_five and not takes_topics:
            self.store.setTopicConfigTable(self._topics())
        if jvm.version == "5.3.3" and settings.get("rocksdbCQDoubleWriteEnable"):
            self.store.enableRocksdbCQWrite()  # as the broker does; newer stores do it themselves
        if not jvm.is_five:
            self._hold_delayed()
        self._started = False

    def _hold_delayed(self) -> None:
        """Keep the store of 4.9 from delivering delayed messages, which brokers of 5.x do instead.

        One second after the start it would append copies of those that are due.
        """
        service = self.store.getScheduleMessageService()
        started = service.getClass().getDeclaredField("started")
        started.setAccessible(True)
        started.get(service).set(True)

    def load(self) -> bool:
        """Recover, as a broker does at start; false means that a broker would refuse to start."""
        return bool(self.store.load())

    def start(self) -> None:
        """Take the lock, write `abort`, dispatch, and wait until dispatch has caught up."""
        self._started = True
        self.store.start()
        deadline = time.monotonic() + _DISPATCH_SECONDS
        while self.store.dispatchBehindBytes() > 0:
            if time.monotonic() > deadline:
                reason = "dispatch does not catch up"
                raise TimeoutError(reason)
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop in order, if it was started; the files are then as after a clean stop."""
        if self._started:
            stop(self.jvm, self.store)
            self._started = False

    def physical_offsets(self) -> tuple[int, int]:
        """Return the smallest physical offset and the end of the log."""
        return int(self.store.getMinPhyOffset()), int(self.store.getMaxPhyOffset())

    def queue_offsets(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Return smallest and (exclusive) largest queue offset of each topic and queue."""
        return {
            (topic, queue_id): (
                int(self.store.getMinOffsetInQueue(topic, queue_id)),
                int(self.store.getMaxOffsetInQueue(topic, queue_id)),
            )
            for topic, queues in sorted(self.store.getConsumeQueueTable().items())
            for queue_id in sorted(queues)
        }

    def messages(self, topic: str, queue_id: int, start: int | None = None) -> Iterator[Received]:
        """Yield what `getMessage` delivers of a queue, from an offset (its smallest) to its end."""
        decoder = self.jvm.rocketmq("common.message.MessageDecoder")
        end = self.store.getMaxOffsetInQueue(topic, queue_id)
        smallest = self.store.getMinOffsetInQueue(topic, queue_id)
        position = smallest if start is None else start
        while position < end:
            result = self.store.getMessage("bare", topic, queue_id, position, _PULL_COUNT, None)
            if result is None:
                return
            messages = self.jvm.java("java.util.ArrayList")()
            for buffer in result.getMessageBufferList():
                messages.add(decoder.decode(buffer))
            result.release()
            yield from all_received(self.jvm, messages)
            if result.getNextBeginOffset() <= position:
                return
            position = result.getNextBeginOffset()

    def files(self) -> dict[str, int]:
        """Return path, relative to the store, and length of each file there is now."""
        return {
            path.relative_to(self.root).as_posix(): path.stat().st_size
            for path in sorted(self.root.rglob("*"))
            if path.is_file()
        }

    def _topics(self) -> JavaObject:
        """Return the topics of the store's `topics.json`: attributes decide on queue types."""
        table = self.jvm.java("java.util.concurrent.ConcurrentHashMap")()
        for name, entry in self.configured_topics().items():
            config = self.jvm.rocketmq("common.TopicConfig")(name)
            config.setAttributes(dict(entry.get("attributes", {})))
            table.put(name, config)
        return table

    def configured_topics(self) -> dict[str, dict[str, dict[str, str]]]:
        """Read `topics.json`, else its copy, as a broker does; nothing where neither is JSON.

        Zeros past the end, as a crash leaves them, are no error to it.
        """
        for name in ("topics.json", "topics.json.bak"):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                text = (self.root / "config" / name).read_text(encoding="utf-8").rstrip("\0")
                found: dict[str, dict[str, dict[str, str]]]
                found = json.loads(text).get("topicConfigTable", {})
                return found
        return {}
