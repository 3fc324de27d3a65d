"""A sending as rows and as sentences."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rmqtool.plural import counted
from rmqtool.sending.options import shown
from rmqtool.table import Column, Table, Type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.errors import RmqtoolError
    from rmqtool.rows import Row, Rows
    from rmqtool.sending.options import SendOptions
    from rmqtool.sending.outgoing import BadLine, Outgoing
    from rmqtool.sending.routes import Route, TargetQueue


SENDING: Final = Table(
    "sending",
    "messages of a file that go to one queue of a cluster",
    (
        Column("topic", Type.TEXT, "topic that they go to", has_few=True),
        Column("broker", Type.TEXT, "name of the broker; null where no name server was asked"),
        Column("address", Type.TEXT, "address of its master, as the name server told"),
        Column("queue_id", Type.INT32, "queue of the topic there; null where any will do"),
        Column("messages", Type.INT64, "messages of the file that go there", "messages"),
        Column("sent_before", Type.INT64, "messages that earlier runs sent", "messages"),
        Column("sent", Type.INT64, "messages that this run sent", "messages"),
    ),
)
NOT_SENT: Final = Table(
    "not_sent",
    "a message of a file that cannot be sent, or that a broker refused",
    (
        Column("line", Type.INT64, "number of the line or of the record, from 1 on"),
        Column("position", Type.INT64, "its first byte in the file", "bytes"),
        Column("reason", Type.TEXT, "why not"),
    ),
    below=("reason",),
)
_NAMED: Final = 5


def kinds(outcome: SendResult) -> list[Rows]:
    """Give the rows of both kinds; the second one only where there are any."""
    refused = [*outcome.checked.bad, *outcome.refused]
    tables = [SENDING.rows([_queues(outcome)])]
    if refused:
        rows: list[Row] = [line._asdict() for line in refused]
        tables.append(NOT_SENT.rows([rows]))
    return tables


def _queues(outcome: SendResult) -> list[Row]:
    if outcome.planned:
        return [
            {
                "topic": topic,
                "broker": queue.broker.name,
                "address": shown(*queue.broker.address),
                "queue_id": queue.queue_id,
                "messages": count,
                "sent_before": outcome.sent_before[topic, queue],
                "sent": outcome.sent[topic, queue],
            }
            for (topic, queue), count in sorted(outcome.planned.items())
        ]
    places = sorted(
        outcome.checked.messages.items(),
        key=lambda item: (item[0][0], -1 if item[0][1] is None else item[0][1]),
    )
    return [
        SENDING.row(None, topic=topic, queue_id=queue_id, messages=count, sent=0)
        for (topic, queue_id), count in places
    ]


def sentences(options: SendOptions, outcome: SendResult) -> Iterator[str]:
    """Give what the rows do not say."""
    checked = outcome.checked
    yield from _left_out(checked)
    if checked.bad_count:
        bad = counted(checked.bad_count, "message")
        named = f"; the first {MOST_BAD:,} are named" if checked.bad_count > MOST_BAD else ""
        if options.skip_bad:
            yield f"{bad} cannot be sent{named}"
        else:
            yield f"{bad} cannot be sent, so nothing is{named}; --skip-bad sends the others"
            return
    if not checked.total:
        yield "nothing to send"
        return
    if checked.waiting and not options.keeps_delays:
        what = counted(checked.waiting, "message that waits", "messages that wait")
        yield f"{what} for a time: sent without delay; --delays keep keeps what is left of it"
    if options.dry_run:
        size = sum(checked.bytes.values())
        what = counted(checked.total, "message")
        yield f"{what}, {size:,} bytes of bodies; nothing was sent"
        if not options.name_servers:
            yield "queues are those of the file; --name-server tells which ones the cluster has"
        return
    yield from _of_run(outcome)
    if outcome.stopped is not None:
        yield "next: the same command; it goes on where this one stopped"
    yield f"ledger: {options.ledger_path}"


def _of_run(outcome: SendResult) -> Iterator[str]:
    sent, before = outcome.sent.total(), outcome.sent_before.total()
    yield f"sent {counted(sent, 'message')} in {outcome.seconds:.2f} s"
    if outcome.waits_again:
        late = f", up to {outcome.late_ms / 1000:g} s late by its levels" if outcome.late_ms else ""
        what = counted(outcome.waits_again, "message")
        yield f"{what} sent with the rest of their delay{late}"
    if before:
        yield f"{counted(before, 'message')} had been sent before"
    if outcome.half_stored:
        what = counted(outcome.half_stored, "message")
        yield f"{what} stored on the master alone, or not yet on the disk; the ledger names them"
    if outcome.twice:
        yield (
            f"may have been sent twice: {_named(outcome.twice)}; an earlier run ended before the "
            "answer"
        )
    if len(outcome.unsure) == 1:
        yield f"message {outcome.unsure[0]} was on its way, and may be stored: it goes again"
    elif outcome.unsure:
        what = _named(outcome.unsure)
        yield f"{what} were on their way, and may be stored: they go again"


def _named(numbers: Sequence[int]) -> str:
    """Name messages, the first ones by number; the ledger has the others."""
    shown_numbers = ", ".join(map(str, numbers[:_NAMED]))
    more = f" and {len(numbers) - _NAMED:,} more" if len(numbers) > _NAMED else ""
    return f"{'message' if len(numbers) == 1 else 'messages'} {shown_numbers}{more}"


def _left_out(checked: SendContent) -> Iterator[str]:
    if checked.held:
        what = counted(checked.held, "half message or timer copy", "half messages and timer copies")
        yield f"left out: {what}; --pending sends timers, --held all of them"
    if checked.system:
        what = counted(checked.system, "message")
        yield f"left out: {what} of brokers' own topics; --system-topics sends them"
    if checked.others:
        yield f"left out: {counted(checked.others, 'message')} of other topics"


# What a file holds to send, as it was found out before anything is sent; and what became of it.


MOST_BAD: Final = 1000  # that are named


@dataclass(slots=True)
class SendContent:
    """What a file holds."""

    entries: int = 0  # messages, and lines that cannot be sent
    # to be sent, by topic and by the queue that they had (None for none)
    messages: Counter[tuple[str, int | None]] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)  # of their bodies, by topic
    bad: list[BadLine] = field(default_factory=list)  # what cannot be sent, the first ones of it
    bad_count: int = 0  # how many there are
    held: int = 0  # half messages and timer copies, left out
    system: int = 0  # messages of brokers' own topics, left out
    waiting: int = 0  # of those to be sent, how many waited for their time
    others: int = 0  # messages of topics that were not asked for
    digest: str = ""  # SHA-256 of the file

    @property
    def queues(self) -> dict[str, int]:
        """The topics that messages go to, in order, and how many queues each needs for them."""
        counts: dict[str, int] = {}
        for topic, queue_id in sorted(self.messages, key=lambda name: name[0]):
            counts[topic] = max(counts.get(topic, 1), (queue_id or 0) + 1)
        return counts

    @property
    def total(self) -> int:
        """Messages to be sent."""
        return self.messages.total()

    def add_bad(self, line: BadLine) -> None:
        """Note what cannot be sent."""
        self.bad_count += 1
        if len(self.bad) < MOST_BAD:
            self.bad.append(line)

    def by_queue(self, routes: dict[str, Route]) -> Counter[tuple[str, TargetQueue]]:
        """Give how many messages go to each queue."""
        counts: Counter[tuple[str, TargetQueue]] = Counter()
        for (topic, queue_id), count in self.messages.items():
            route = routes[topic]
            if queue_id is not None:
                counts[topic, route.queue_of(queue_id, 0)] += count
                continue
            total = sum(master.queues for master in route.masters)
            for turn in range(min(total, count)):  # they take turns
                share = (count - turn + total - 1) // total
                counts[topic, route.queue_of(None, turn)] += share
        return counts


@dataclass(slots=True)
class Turns:
    """Chooses queues; who asks in the same order gets the same ones."""

    routes: dict[str, Route]  # of all topics
    _turns: Counter[str] = field(default_factory=Counter)

    def queue_of(self, message: Outgoing) -> TargetQueue:
        """Choose the queue of the next message."""
        turn = self._turns[message.topic]
        if message.queue_id is None:
            self._turns[message.topic] += 1
        return self.routes[message.topic].queue_of(message.queue_id, turn)


@dataclass(slots=True)
class SendResult:
    """What a sending did."""

    checked: SendContent  # what the file holds
    # messages that go to each queue; empty without a name server
    planned: Counter[tuple[str, TargetQueue]] = field(default_factory=Counter)
    # messages that this run sent, by topic and queue
    sent: Counter[tuple[str, TargetQueue]] = field(default_factory=Counter)
    # messages that earlier runs sent, likewise
    sent_before: Counter[tuple[str, TargetQueue]] = field(default_factory=Counter)
    # messages that a broker refused for themselves
    refused: list[BadLine] = field(default_factory=list)
    waits_again: int = 0  # messages that this run sent with what is left of their delay
    late_ms: int = 0  # how much later than due one of them comes at most, as levels are few
    half_stored: int = 0  # messages that are stored, but not everywhere where they should be
    # numbers of messages that may have been sent twice
    twice: list[int] = field(default_factory=list)
    stopped: RmqtoolError | None = None  # why not all was tried
    # numbers of the messages that were on their way then
    unsure: list[int] = field(default_factory=list)
    seconds: float = 0.0  # that sending took
