"""Consumers of a running broker: pushed to, and pulling."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar, Final

from tests.broker.broker import Broker
from tests.broker.client import Client
from tests.broker.message import Received, all_received

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

    from tests.broker.jvm import Jvm

_PULL_COUNT: Final = 32
_PATIENCE_MS: Final = 600_000  # on a busy machine


class PushConsumer(Client):
    """A `DefaultMQPushConsumer` from the first message on, which may refuse messages.

    Args:
        broker: where to consume.
        group: consumer group.
        topic: topic.
        expression: tags, or an SQL92 expression if `sql`.
        sql: whether `expression` is SQL92.
        refuse: true for messages whose consumption fails; null consumes all.
        most_retries: after so many a message is a dead letter.
        orderly: whether each queue is consumed in order, and waits for what fails.
        pops: whether the broker hands messages out to any consumer, for so many ms (5.x).
        trace_topic: where traces of what was consumed go; null writes none.
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
        orderly: bool = False,
        pops: int = 0,
        trace_topic: str | None = None,
    ) -> None:
        tracing = (True, trace_topic) if trace_topic else ()
        kind = broker.jvm.rocketmq("client.consumer.DefaultMQPushConsumer")
        super().__init__(broker, kind(group, *tracing))
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
        if pops:
            self._client.setClientRebalance(False)
            self._client.setPopInvisibleTime(pops)
        listener = "client.consumer.listener.Consume"
        refused = refuse or (lambda _: False)
        if orderly:
            answers = self.jvm.rocketmq(f"{listener}OrderlyStatus")
            again = answers.SUSPEND_CURRENT_QUEUE_A_MOMENT
            self._listener: _Listener = _OrderlyListener(self.jvm, refused, answers.SUCCESS, again)
        else:
            answers = self.jvm.rocketmq(f"{listener}ConcurrentlyStatus")
            again = answers.RECONSUME_LATER
            self._listener = _Listener(self.jvm, refused, answers.CONSUME_SUCCESS, again)
        self._client.registerMessageListener(self._listener)

    def wait(self, count: int, seconds: float = 600) -> list[Received]:
        """Wait until so many messages were consumed, retries counted; return all so far.

        Raises:
            TimeoutError: for so many seconds none came.
        """
        return self._listener.wait(count, seconds)


class _Listener:
    """A consumer's application, called by Java."""

    class Java:
        """What py4j implements with this object."""

        implements: ClassVar = [
            "org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently"
        ]

    def __init__(
        self, jvm: Jvm, refuse: Callable[[Received], bool], done: JavaObject, later: JavaObject
    ) -> None:
        self._jvm = jvm
        self._refuse, self._done, self._later = refuse, done, later
        self._messages: list[Received] = []
        self._arrived = threading.Condition()

    def consumeMessage(self, messages: JavaObject, context: JavaObject) -> JavaObject:  # noqa: N802, ARG002
        """Consume one message (the client's default batch); Java's name."""
        batch = all_received(self._jvm, messages)
        with self._arrived:
            self._messages.extend(batch)
            self._arrived.notify_all()
        return self._later if any(self._refuse(message) for message in batch) else self._done

    def wait(self, count: int, seconds: float) -> list[Received]:
        """Wait for so many messages, for as long as they come."""
        with self._arrived:
            while (there := len(self._messages)) < count:
                if not self._arrived.wait_for(lambda: len(self._messages) > there, seconds):
                    reason = f"{there} of {count} messages, and no other for {seconds} s"
                    raise TimeoutError(reason)
            return list(self._messages)


class _OrderlyListener(_Listener):
    """The same of one that consumes in order."""

    class Java:
        """What py4j implements with this object."""

        implements: ClassVar = [
            "org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly"
        ]


class PullConsumer(Client):
    """A `DefaultMQPullConsumer`: reads queues from an offset on, commits what it is told."""

    def __init__(self, broker: Broker, group: str) -> None:
        super().__init__(
            broker, broker.jvm.rocketmq("client.consumer.DefaultMQPullConsumer")(group)
        )
        self._client.setConsumerPullTimeoutMillis(_PATIENCE_MS)
        # Made known at once: 5.x refuses offsets of a group that has not sent a heartbeat yet.
        broker.controller.getSubscriptionGroupManager().findSubscriptionGroupConfig(group)

    def read(
        self, topic: str, queue_id: int, start: int = 0, tags: str = "*"
    ) -> Iterator[Received]:
        """Yield the messages of a queue from an offset to its end, of some tags only if asked."""
        queue = self.queue(topic, queue_id)
        while True:
            result = self._client.pull(queue, tags, start, _PULL_COUNT)
            found = result.getMsgFoundList()
            if found is not None:
                yield from all_received(self.jvm, found)
            following = result.getNextBeginOffset()
            if following <= start:
                return
            start = following

    def committed(self, topic: str, queue_id: int) -> int:
        """Ask the broker where this group goes on; negative without an offset."""
        return int(self._client.fetchConsumeOffset(self.queue(topic, queue_id), True))

    def commit(self, topic: str, queue_id: int, queue_offset: int) -> None:
        """Commit an offset for this group."""
        store = self._client.getDefaultMQPullConsumerImpl().getOffsetStore()
        store.updateConsumeOffsetToBroker(self.queue(topic, queue_id), queue_offset, False)
