"""Producers of a running broker: single messages, batches, transactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from tests.broker.broker import Broker
from tests.broker.client import Client
from tests.broker.message import Outgoing, Sent, answered, client_properties, sent_message

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject


class Producer(Client):
    """A `DefaultMQProducer`.

    Args:
        broker: where to send.
        group: producer group.
        compression: `ZLIB`, on 5.x also `LZ4` or `ZSTD`; null compresses nothing.
        trace_topic: where traces of what was sent go; null writes none.
    """

    def __init__(
        self,
        broker: Broker,
        group: str,
        compression: str | None = None,
        trace_topic: str | None = None,
    ) -> None:
        tracing = (True, trace_topic) if trace_topic else ()
        kind = broker.jvm.rocketmq("client.producer.DefaultMQProducer")
        super().__init__(broker, kind(group, *tracing))
        self._kind = "normal" if compression is None else "compressed"
        self._last: JavaObject = None
        self._client.setSendMsgTimeout(120_000)
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
            result = self._client.send(message, self.queue(outgoing.topic, queue_id))
        self._last = result
        natural = "delay" if outgoing.delay_level else self._kind
        return sent_message(self.jvm, outgoing, message, result, kind or natural)

    def recall(self, topic: str) -> None:
        """Take back the timer message that was sent last (5.3.2 on)."""
        self._client.recallMessage(topic, self._last.getRecallHandle())

    def send_batch(self, batch: Sequence[Outgoing], queue_id: int) -> list[Sent]:
        """Send several messages of one topic as one multi-message batch."""
        messages = [outgoing.java(self.jvm) for outgoing in batch]
        result = self._client.send(messages, self.queue(batch[0].topic, queue_id))
        status = str(result.getSendStatus())
        identifiers = str(result.getOffsetMsgId()).split(",")
        first = result.getQueueOffset()
        return [
            answered(
                outgoing,
                client_properties(self.jvm, message),
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
        result = self._client.send(joined, self.queue(batch[0].topic, queue_id))
        answer = str(result.getOffsetMsgId()), str(result.getSendStatus())
        return [
            answered(
                outgoing,
                client_properties(self.jvm, message),
                (queue_id, result.getQueueOffset() + at, *answer),
                "inner-batch",
            )
            for at, (outgoing, message) in enumerate(zip(batch, messages, strict=True))
        ]


class TransactionProducer(Client):
    """A `TransactionMQProducer` whose transactions end as the caller says."""

    def __init__(self, broker: Broker, group: str, trace_topic: str | None = None) -> None:
        kind = broker.jvm.rocketmq("client.producer.TransactionMQProducer")
        named = (None, group, None, True, trace_topic) if trace_topic else (group,)
        super().__init__(broker, kind(*named))
        states = self.jvm.rocketmq("client.producer.LocalTransactionState")
        self._listener = _Decisions(
            {
                "committed": states.COMMIT_MESSAGE,
                "rolled-back": states.ROLLBACK_MESSAGE,
                "undecided": states.UNKNOW,
                "discarded": states.UNKNOW,
            }
        )
        self._client.setTransactionListener(self._listener)
        self._answers = _Answers()
        self._client.getDefaultMQProducerImpl().registerSendMessageHook(self._answers)

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
        return sent_message(self.jvm, marked, message, self._answers.last, "half", outcome)


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
