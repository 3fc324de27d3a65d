"""What a file holds to send, as it was found out before anything is sent; and what became of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rmqtool.errors import RmqtoolError
    from rmqtool.sending.outgoing import BadLine, Outgoing
    from rmqtool.sending.routes import Route, TargetQueue

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
    others: int = 0  # messages of topics that were not asked for
    digest: str = ""  # SHA-256 of the file

    @property
    def topics(self) -> list[str]:
        """Where messages go to, in order."""
        return sorted({topic for topic, _ in self.messages})

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
        found: Counter[tuple[str, TargetQueue]] = Counter()
        for (topic, queue_id), count in self.messages.items():
            route = routes[topic]
            if queue_id is not None:
                found[topic, route.queue_of(queue_id, 0)] += count
                continue
            total = sum(master.queues for master in route.masters)
            for turn in range(min(total, count)):  # they take turns
                share = (count - turn + total - 1) // total
                found[topic, route.queue_of(None, turn)] += share
        return found


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
    half_stored: int = 0  # messages that are stored, but not everywhere where they should be
    # numbers of messages that may have been sent twice
    twice: list[int] = field(default_factory=list)
    stopped: RmqtoolError | None = None  # why not all was tried
    unsure: int | None = None  # number of the message that was on its way then
    seconds: float = 0.0  # that sending took
