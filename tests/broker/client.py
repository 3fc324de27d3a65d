"""What clients of a running broker have in common, and the admin client.

Producers are in `tests.broker.producer`, consumers in `tests.broker.consumer`. All speak in the
plain values of `tests.broker.message`.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from py4j.protocol import Py4JJavaError

from tests.broker.broker import Broker
from tests.broker.message import Received, all_received, received

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

_WAIT_SECONDS: Final = 600  # patience, on a busy machine
_ASKS_AGAIN_MS: Final = 1000  # for new topics; half a minute by itself
_MOST_UNIQUE: Final = 32  # as the client's own
_NO_MESSAGE: Final = "but no message"
_INSTANCES: Final = itertools.count()


class Client:
    """A client of RocketMQ: starts on entry, shuts down on exit."""

    def __init__(self, broker: Broker, client: JavaObject) -> None:
        self.broker = broker
        self.jvm = broker.jvm
        self._client = client
        self._queues: dict[tuple[str, int], JavaObject] = {}
        client.setNamesrvAddr(broker.names.address)
        client.setInstanceName(f"client-{next(_INSTANCES)}")
        client.setVipChannelEnabled(False)
        client.setMqClientApiTimeout(_WAIT_SECONDS * 1000)
        client.setPollNameServerInterval(_ASKS_AGAIN_MS)

    def __enter__(self) -> Self:
        self._client.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.jvm.is_running:
            self._client.shutdown()

    def queue(self, topic: str, queue_id: int) -> JavaObject:
        """Return Java's `MessageQueue` of this broker."""
        if (topic, queue_id) not in self._queues:
            queue = self.jvm.rocketmq("common.message.MessageQueue")
            made = queue(topic, self.broker.settings["brokerName"], queue_id)
            self._queues[topic, queue_id] = made
        return self._queues[topic, queue_id]


class Admin(Client):
    """A `DefaultMQAdminExt`: looks messages up as the command line tools do.

    To the client an answer that comes too late, after 18 s, is the same as that there is no message
    (`MQAdminImpl#queryMessage`): this one waits for longer.
    """

    def __init__(self, broker: Broker) -> None:
        kind = broker.jvm.rocketmq("tools.admin.DefaultMQAdminExt")
        super().__init__(broker, kind(_WAIT_SECONDS * 1000))

    def __enter__(self) -> Self:
        super().__enter__()
        manager = self.jvm.rocketmq("client.impl.MQClientManager").getInstance()
        started = manager.getOrCreateMQClientInstance(self._client)
        started.getMQAdminImpl().setTimeoutMillis(_WAIT_SECONDS * 1000)
        return self

    def query(
        self, topic: str, key: str, most: int = 64, begin: int = 0, end: int = 2**63 - 1
    ) -> list[Received]:
        """Find messages of a topic by key, in the order of the broker's answer.

        Args:
            topic: stored topic.
            key: a key or a unique key.
            most: at most so many.
            begin: earliest store time, epoch ms.
            end: latest store time, epoch ms.
        """
        return self._found(lambda: self._client.queryMessage(topic, key, most, begin, end))

    def query_unique(self, topic: str, unique_key: str) -> list[Received]:
        """Find the message that `viewMessage` finds by a unique key: of several the first stored.

        `viewMessage` itself asks for the time in the key, which has no month, as one of the last
        31 days: a test that relies on that fails a month later.
        """
        where = (self.broker.settings["brokerClusterName"],) if self.jvm.is_five else ()
        span = (_MOST_UNIQUE, 0, 2**63 - 1)
        query = self._client.queryMessageByUniqKey
        return self._found(lambda: query(*where, topic, unique_key, *span))

    def _found(self, ask: Callable[[], JavaObject]) -> list[Received]:
        """Give the messages of an answer; that there are none is an exception to RocketMQ."""
        try:
            messages = ask().getMessageList()
        except Py4JJavaError as error:
            if _NO_MESSAGE in str(error.java_exception.getMessage()):
                return []
            raise
        return all_received(self.jvm, messages)

    def view(self, topic: str, physical_offset: int) -> Received:
        """Read the message at a physical offset.

        An offset message ID names the broker by address, and a copied store runs elsewhere, so
        the ID is made anew for the address of this broker.
        """
        decoder = self.jvm.rocketmq("common.message.MessageDecoder")
        address = self.jvm.java("java.net.InetSocketAddress")
        host, _, port = self.broker.address.rpartition(":")
        identifier = decoder.createMessageId(address(host, int(port)), physical_offset)
        return received(self.jvm, self._client.viewMessage(topic, identifier))

    def delete_topic(self, topic: str) -> None:
        """Have the broker delete a topic: its configuration at once, then its queues.

        A 5.x without a timer wheel has done so when it fails to look for its timers (observed).
        """
        addresses = self.jvm.java("java.util.HashSet")()
        addresses.add(self.broker.address)
        try:
            self._client.deleteTopicInBroker(addresses, topic)
        except Py4JJavaError as error:
            if "getTimerMetrics" not in str(error.java_exception.getMessage()):
                raise

    def search_offset(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """Return the queue offset that the broker finds for a store time."""
        return int(self._client.searchOffset(self.queue(topic, queue_id), timestamp_ms))

    def let_pop(self, topic: str, group: str) -> None:
        """Let a group pop messages of a topic (5.x)."""
        mode = self.jvm.rocketmq("common.message.MessageRequestMode").POP
        every = 0  # queues of other consumers that one gets messages of, too
        where = self.broker.address, topic, group
        self._client.setMessageRequestMode(*where, mode, every, _WAIT_SECONDS * 1000)

    def offsets(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return a queue's smallest and (exclusive) largest queue offset."""
        queue = self.queue(topic, queue_id)
        return int(self._client.minOffset(queue)), int(self._client.maxOffset(queue))


def wait_until(claim: Callable[[], bool], what: str, seconds: float = _WAIT_SECONDS) -> None:
    """Wait until something holds.

    Raises:
        TimeoutError: it does not within that time.
    """
    deadline = time.monotonic() + seconds
    while not claim():
        if time.monotonic() > deadline:
            reason = f"not within {seconds} s: {what}"
            raise TimeoutError(reason)
        time.sleep(0.1)
