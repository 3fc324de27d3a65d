"""Producers, consumers and the admin client of a running broker.

Each is a context manager that starts on entry and shuts down on exit, and speaks in the plain
values of `tests.broker.message`.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Final, Self

from tests.broker.broker import Broker
from tests.broker.message import (
    Outgoing,
    Received,
    Sent,
    answered,
    client_properties,
    received,
    sent_message,
)

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

_PULL_COUNT: Final = 32
_ROUTE_SECONDS: Final = 30
_INSTANCES: Final = itertools.count()


class _Client:
    """A client of RocketMQ with a start and an end."""

    def __init__(self, broker: Broker, client: JavaObject) -> None:
        self.broker = broker
        self.jvm = broker.jvm
        self._client = client
        client.setNamesrvAddr(broker.names.address)
        client.setInstanceName(f"client-{next(_INSTANCES)}")
        client.setVipChannelEnabled(False)

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

    def _queue(self, topic: str, queue_id: int) -> JavaObject:
        queue = self.jvm.rocketmq("common.message.MessageQueue")
        return queue(topic, self.broker.settings["brokerName"], queue_id)


class Producer(_Client):
    """A `DefaultMQProducer`.

    Args:
        broker: where to send.
        group: producer group.
        compression: `ZLIB`, on 5.x also `LZ4` or `ZSTD`; null compresses nothing.
    """

    def __init__(self, broker: Broker, group: str, compression: str | None = None) -> None:
        super().__init__(broker, broker.jvm.rocketmq("client.producer.DefaultMQProducer")(group))
        self._kind = "normal" if compression is None else "compressed"
        self._last: JavaObject = None
        self._client.setSendMsgTimeout(20000)
        # Without a compression asked for no body may be compressed, whatever its length.
        self._client.setCompressMsgBodyOverHowmuch(2**31 - 1 if compression is None else 1024)
        if compression is not None and self.jvm.is_five:
            types = self.jvm.rocketmq("common.compression.CompressionType")
            self._client.setCompressType(types.valueOf(compression))

    def send(self, outgoing: Outgoing, queue_id: int | None = None, kind: str = "") -> Sent:
        """Send one message and wait for the answer; `kind` overrides what `Sent` says."""
        message = outgoing.java(self.jvm)
        if queue_id is None:
            result = self._client.send(message)
        else:
            result = self._client.send(message, self._queue(outgoing.topic, queue_id))
        self._last = result
        natural = "delay" if outgoing.delay_level else self._kind
        return sent_message(outgoing, message, result, kind or natural)

    def recall(self, topic: str) -> None:
        """Take back the timer message that was sent last (5.3.2 on)."""
        self._client.recallMessage(topic, self._last.getRecallHandle())

    def send_batch(self, batch: Sequence[Outgoing], queue_id: int) -> list[Sent]:
        """Send several messages of one topic as one multi-message batch."""
        messages = [outgoing.java(self.jvm) for outgoing in batch]
        result = self._client.send(messages, self._queue(batch[0].topic, queue_id))
        status = str(result.getSendStatus())
        identifiers = str(result.getOffsetMsgId()).split(",")
        first = result.getQueueOffset()
        return [
            answered(
                outgoing,
                client_properties(message),
                (queue_id, first + at, identifier, status),
                "batch",
            )
            for at, (outgoing, message, identifier) in enumerate(
                zip(batch, messages, identifiers, strict=True)
            )
        ]

    def send_inner_batch(self, batch: Sequence[Outgoing], queue_id: int) -> list[Sent]:
        """Send several messages that the broker stores as one record (topics of BatchCQ).

        The broker keeps them together when the batch itself has a unique key, which no public
        method of the client gives it.
        """
        setter = self.jvm.rocketmq("common.message.MessageClientIDSetter")
        messages = [outgoing.java(self.jvm) for outgoing in batch]
        for message in messages:
            setter.setUniqID(message)
        joined = self.jvm.rocketmq("common.message.MessageBatch").generateFromList(messages)
        setter.setUniqID(joined)
        joined.setBody(joined.encode())
        result = self._client.send(joined, self._queue(batch[0].topic, queue_id))
        answer = str(result.getOffsetMsgId()), str(result.getSendStatus())
        return [
            answered(
                outgoing,
                client_properties(message),
                (queue_id, result.getQueueOffset() + at, *answer),
                "inner-batch",
            )
            for at, (outgoing, message) in enumerate(zip(batch, messages, strict=True))
        ]


class TransactionProducer(_Client):
    """A `TransactionMQProducer` whose transactions end as the caller says."""

    def __init__(self, broker: Broker, group: str) -> None:
        client = broker.jvm.rocketmq("client.producer.TransactionMQProducer")(group)
        super().__init__(broker, client)
        states = self.jvm.rocketmq("client.producer.LocalTransactionState")
        self._listener = _Decisions(
            {
                "committed": states.COMMIT_MESSAGE,
                "rolled-back": states.ROLLBACK_MESSAGE,
                "undecided": states.UNKNOW,
                "discarded": states.UNKNOW,
            }
        )
        client.setTransactionListener(self._listener)
        self._answers = _Answers()
        client.getDefaultMQProducerImpl().registerSendMessageHook(self._answers)

    def send(self, outgoing: Outgoing, first: str, later: str = "undecided") -> Sent:
        """Send a half message.

        Args:
            outgoing: the message.
            first: `committed`, `rolled-back` or `undecided`, right after sending.
            later: the same, for when the broker comes back to ask; `discarded` never decides, and
                is what the broker does in the end.
        """
        decision = f"{outgoing.topic} {' '.join(outgoing.keys)}"
        marked = replace(outgoing, properties={**outgoing.properties, "decision": decision})
        message = marked.java(self.jvm)
        self._listener.first = first
        self._listener.later[decision] = later
        self._client.sendMessageInTransaction(message, None)
        outcome = first if first != "undecided" else later
        return sent_message(marked, message, self._answers.last, "half", outcome)


class _Answers:
    """Keeps the broker's answer: a transaction's own result lacks the offset message ID."""

    class Java:
        """What py4j implements with this object."""

        implements: ClassVar = ["org.apache.rocketmq.client.hook.SendMessageHook"]

    def __init__(self) -> None:
        self.last: JavaObject = None

    def hookName(self) -> str:  # noqa: N802
        """Return a name for logs; Java's name."""
        return "answers"

    def sendMessageBefore(self, context: JavaObject) -> None:  # noqa: N802
        """Do nothing; Java's name."""

    def sendMessageAfter(self, context: JavaObject) -> None:  # noqa: N802
        """Keep the answer; Java's name."""
        self.last = context.getSendResult()


class _Decisions:
    """The application's side of a transaction, called by Java."""

    class Java:
        """What py4j implements with this object."""

        implements: ClassVar = ["org.apache.rocketmq.client.producer.TransactionListener"]

    def __init__(self, states: dict[str, JavaObject]) -> None:
        self._states = states
        self.first = "undecided"
        self.later: dict[str, str] = {}

    def executeLocalTransaction(self, message: JavaObject, argument: JavaObject) -> JavaObject:  # noqa: N802, ARG002
        """Answer right after the half message was stored; Java's name."""
        return self._states[self.first]

    def checkLocalTransaction(self, message: JavaObject) -> JavaObject:  # noqa: N802
        """Answer when the broker asks; Java's name."""
        decision = str(message.getUserProperty("decision"))
        return self._states[self.later.get(decision, "undecided")]


class PushConsumer(_Client):
    """A `DefaultMQPushConsumer` from the first message on, which may refuse messages.

    Args:
        broker: where to consume.
        group: consumer group.
        topic: topic.
        expression: tags, or an SQL92 expression if `sql`.
        sql: whether `expression` is SQL92.
        refuse: true for messages whose consumption fails; null consumes all.
    """

    def __init__(  # noqa: PLR0913 - a subscription has that many parts
        self,
        broker: Broker,
        group: str,
        topic: str,
        *,
        expression: str = "*",
        sql: bool = False,
        refuse: Callable[[Received], bool] | None = None,
        most_retries: int = 2,
    ) -> None:
        super().__init__(
            broker, broker.jvm.rocketmq("client.consumer.DefaultMQPushConsumer")(group)
        )
        where = "common.consumer.ConsumeFromWhere"
        first = self.jvm.rocketmq(where).CONSUME_FROM_FIRST_OFFSET
        self._client.setConsumeFromWhere(first)
        self._client.setMaxReconsumeTimes(most_retries)
        self._client.setConsumeThreadMin(1)
        self._client.setConsumeThreadMax(1)
        if sql:
            selector = self.jvm.rocketmq("client.consumer.MessageSelector").bySql(expression)
            self._client.subscribe(topic, selector)
        else:
            self._client.subscribe(topic, expression)
        answers = self.jvm.rocketmq("client.consumer.listener.ConsumeConcurrentlyStatus")
        self._listener = _Listener(
            refuse or (lambda _: False), answers.CONSUME_SUCCESS, answers.RECONSUME_LATER
        )
        self._client.registerMessageListener(self._listener)

    def wait(self, count: int, seconds: float = 60) -> list[Received]:
        """Wait until so many messages were consumed, retries counted; return all so far."""
        return self._listener.wait(count, seconds)


class _Listener:
    """A consumer's application, called by Java."""

    class Java:
        """What py4j implements with this object."""

        implements: ClassVar = [
            "org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently"
        ]

    def __init__(
        self, refuse: Callable[[Received], bool], done: JavaObject, later: JavaObject
    ) -> None:
        self._refuse, self._done, self._later = refuse, done, later
        self._messages: list[Received] = []
        self._arrived = threading.Condition()

    def consumeMessage(self, messages: JavaObject, context: JavaObject) -> JavaObject:  # noqa: N802, ARG002
        """Consume one message (the client's default batch); Java's name."""
        batch = [received(message) for message in messages]
        with self._arrived:
            self._messages.extend(batch)
            self._arrived.notify_all()
        return self._later if any(self._refuse(message) for message in batch) else self._done

    def wait(self, count: int, seconds: float) -> list[Received]:
        """Wait for so many messages."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self._messages) >= count, seconds):
                reason = f"{len(self._messages)} of {count} messages within {seconds} s"
                raise TimeoutError(reason)
            return list(self._messages)


class PullConsumer(_Client):
    """A `DefaultMQPullConsumer`: reads queues from an offset on, commits what it is told."""

    def __init__(self, broker: Broker, group: str) -> None:
        super().__init__(
            broker, broker.jvm.rocketmq("client.consumer.DefaultMQPullConsumer")(group)
        )
        # Made known at once: 5.x refuses offsets of a group that has not sent a heartbeat yet.
        broker.controller.getSubscriptionGroupManager().findSubscriptionGroupConfig(group)

    def read(self, topic: str, queue_id: int, start: int = 0) -> Iterator[Received]:
        """Yield the messages of a queue from an offset to its end."""
        queue = self._queue(topic, queue_id)
        while True:
            result = self._client.pull(queue, "*", start, _PULL_COUNT)
            found = result.getMsgFoundList()
            for message in found if found is not None else ():
                yield received(message)
            following = result.getNextBeginOffset()
            if following <= start:
                return
            start = following

    def commit(self, topic: str, queue_id: int, queue_offset: int) -> None:
        """Commit an offset for this group."""
        store = self._client.getDefaultMQPullConsumerImpl().getOffsetStore()
        store.updateConsumeOffsetToBroker(self._queue(topic, queue_id), queue_offset, False)


class Admin(_Client):
    """A `DefaultMQAdminExt`: looks messages up as the command line tools do."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker, broker.jvm.rocketmq("tools.admin.DefaultMQAdminExt")())

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
        result = self._client.queryMessage(topic, key, most, begin, end)
        return [received(message) for message in result.getMessageList()]

    def view(self, topic: str, physical_offset: int) -> Received:
        """Read the message at a physical offset.

        An offset message ID names the broker by address, and a copied store runs elsewhere, so
        the ID is made anew for the address of this broker.
        """
        decoder = self.jvm.rocketmq("common.message.MessageDecoder")
        address = self.jvm.java("java.net.InetSocketAddress")
        host, _, port = self.broker.address.rpartition(":")
        identifier = decoder.createMessageId(address(host, int(port)), physical_offset)
        return received(self._client.viewMessage(topic, identifier))

    def search_offset(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """Return the queue offset that the broker finds for a store time."""
        return int(self._client.searchOffset(self._queue(topic, queue_id), timestamp_ms))

    def offsets(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return a queue's smallest and (exclusive) largest queue offset."""
        queue = self._queue(topic, queue_id)
        return int(self._client.minOffset(queue)), int(self._client.maxOffset(queue))


def wait_until(claim: Callable[[], bool], what: str, seconds: float = _ROUTE_SECONDS) -> None:
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
