"""Many messages on their way at once: of each queue one, so that its order stays.

1. A stretch of the file is read: some messages, in their order. The ledger has it first.
2. Its messages wait in lanes, one for each queue of the cluster. The first one of a lane is sent,
   the next one when its answer is there. A broker stores requests of one connection in several
   threads, in any order: two messages of one queue on their way could change places.
3. The ledger names what is sent before it is sent, and each answer when it comes.
4. Nothing is on its way when the next stretch begins.

Source: BrokerController#registerProcessor, BrokerConfig#sendMessageThreadPoolNums, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import select
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from rmqtool.errors import RemotingError, RmqtoolError, WriteFailed
from rmqtool.sending import producer
from rmqtool.sending.outgoing import BadLine
from rmqtool.sending.producer import BUSY, TRIES, Refused, done_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.sending.options import SendOptions
    from rmqtool.sending.outgoing import Outgoing
    from rmqtool.sending.producer import Brokers, Done
    from rmqtool.sending.remoting import Connection, RemotingAnswer
    from rmqtool.sending.report import SendResult
    from rmqtool.sending.routes import TargetQueue
    from rmqtool.writing.ledger import SentLedger

    Advance = Callable[[int], None]
    Chosen = tuple[Outgoing, TargetQueue]

STRETCH: Final = 1000  # messages between two waits for the disk
STRETCH_BYTES: Final = 32 << 20  # of their bodies, which are held in memory
# Bytes of bodies that are on their way, unless a single one has more: over a slow line all of them
# take their time before the first answer, and an answer has a deadline.
WAY_BYTES: Final = 1 << 20
_READ_SECONDS: Final = 0.05  # that the rest of a TLS record may take


@dataclass(slots=True, eq=False)
class _Flight:
    """A message that is sent, until its last answer."""

    message: Outgoing
    lane: deque[Chosen]  # messages of the same queue that follow it
    queue: TargetQueue
    delay: str  # the property that says when it is due
    tries: int = 0  # how often it was sent
    deadline: float = 0.0  # monotonic seconds, of its answer


class Pipeline:
    """Sends messages, and keeps the ledger.

    Args:
        options: of the sending.
        ledger: open.
        brokers: open.
        outcome: takes what becomes of the messages.
    """

    def __init__(
        self, options: SendOptions, ledger: SentLedger, brokers: Brokers, outcome: SendResult
    ) -> None:
        self._options, self._ledger = options, ledger
        self._brokers, self._outcome = brokers, outcome
        self._pause = 1 / options.rate if options.rate else 0.0
        self._stretch = min(STRETCH, options.rate or STRETCH)
        self._next = time.monotonic()
        # A heap of lanes whose first message may be sent, by the number of that message: the file
        # is sent in its order, but for queues that wait.
        self._ready: list[tuple[int, deque[Chosen]]] = []
        # What is on its way: by connection, and there by the number of the answer.
        self._flights: dict[Connection, dict[int, _Flight]] = {}
        self._count = 0  # of flights; those that wait for a busy broker are among them
        self._bytes = 0  # of their bodies
        self._later: list[tuple[float, int, _Flight]] = []  # a heap of those, by their time
        self._unsure: set[int] = set()  # numbers of messages that may be stored
        self._error: RmqtoolError | None = None  # why nothing more is sent

    def send(self, chosen: Iterator[Chosen], advance: Advance) -> None:
        """Send until nothing is left, or something stands in the way."""
        left, reason = self._unsent(chosen, advance), "interrupted"
        try:
            while stretch := self._taken(left):
                self._ledger.begin(stretch[0][0].number, stretch[-1][0].number)
                self._send(stretch, advance)
                if self._error is not None:
                    raise self._error
            reason = ""
        except RmqtoolError as error:
            self._outcome.stopped, reason = error, str(error)
        finally:
            self._outcome.unsure = sorted(self._unsure)
            with suppress(WriteFailed):  # a full disk: then the open stretch tells the same
                self._ledger.end(self._outcome.unsure, reason)

    def _unsent(self, chosen: Iterator[Chosen], advance: Advance) -> Iterator[Chosen]:
        for message, queue in chosen:
            if self._ledger.sent[message.number]:
                self._outcome.sent_before[message.topic, queue] += 1
                advance(1)
            else:
                yield message, queue

    def _taken(self, left: Iterator[Chosen]) -> list[Chosen]:
        """Take the messages of a stretch."""
        stretch: list[Chosen] = []
        size = 0
        while len(stretch) < self._stretch and size < STRETCH_BYTES:
            following = next(left, None)
            if following is None:
                break
            stretch.append(following)
            size += len(following[0].body)
        return stretch

    def _send(self, stretch: list[Chosen], advance: Advance) -> None:
        """Send a stretch; after an error only wait for what is on its way."""
        lanes: dict[tuple[str, TargetQueue], deque[Chosen]] = {}
        for message, queue in stretch:
            lanes.setdefault((message.topic, queue), deque()).append((message, queue))
        self._ready = [(lane[0][0].number, lane) for lane in lanes.values()]
        heapify(self._ready)
        while True:
            if self._error is None:
                self._start()
            if not self._flights and (self._error is not None or not self._is_left):
                return
            for flight, answer in self._answers():
                advance(self._take(flight, answer))

    @property
    def _is_left(self) -> bool:
        return bool(self._ready or self._later)

    @property
    def _has_room(self) -> bool:
        return self._count < self._options.window and self._bytes < WAY_BYTES

    def _start(self) -> None:
        """Send what may be sent now: as much as the window and the rate allow."""
        now, flights = time.monotonic(), list[_Flight]()
        while self._later and self._later[0][0] <= now:
            flights.append(heappop(self._later)[2])
        while self._ready and self._has_room and self._next <= now:
            if self._pause:
                self._next = max(self._next, now) + self._pause
            _, lane = heappop(self._ready)
            message, queue = lane.popleft()
            flights.append(_Flight(message, lane, queue, self._delay_of(message, queue)))
            self._count += 1
            self._bytes += len(message.body)
        if not flights:
            return
        self._ledger.append({"on_way": [flight.message.number for flight in flights]})
        connections: dict[Connection, None] = {}
        for flight in flights:
            try:
                connections[self._post(flight)] = None
            except RemotingError as error:
                self._fail(error)
                break
        for connection in connections:
            try:
                connection.flush()
            except RemotingError as error:
                self._lose(connection, error)

    def _post(self, flight: _Flight) -> Connection:
        number = flight.message.number
        if not flight.tries and self._ledger.may_have_sent(number):
            self._outcome.twice.append(number)
        connection, opaque = self._brokers.post(flight.message, flight.queue, flight.delay)
        flight.tries += 1
        flight.deadline = time.monotonic() + self._options.timeout
        self._unsure.add(number)
        self._flights.setdefault(connection, {})[opaque] = flight
        return connection

    def _answers(self) -> Iterator[tuple[_Flight, RemotingAnswer]]:
        """Wait until answers came, are late, or the next message may be sent; yield those answers.

        Whoever takes them may find that the broker was busy: nothing is sent meanwhile.
        """
        poll = select.poll()
        by_handle = {connection.fileno(): connection for connection in self._flights}
        for handle in by_handle:
            poll.register(handle, select.POLLIN)
        left = min(self._times(), default=0.0) - time.monotonic()
        for handle, _ in poll.poll(max(0.0, left) * 1000):
            connection = by_handle[handle]
            try:
                answers = connection.received(_READ_SECONDS)
            except RemotingError as error:
                self._lose(connection, error)
                continue
            flights = self._flights[connection]
            for opaque, answer in answers:
                yield flights.pop(opaque), answer
            if not flights:
                del self._flights[connection]
        now = time.monotonic()
        for connection, flights in [*self._flights.items()]:
            if next(iter(flights.values())).deadline <= now:
                self._lose(connection, connection.silence())

    def _times(self) -> Iterator[float]:
        """Yield the times at which something is to be done, though no answer came."""
        for flights in self._flights.values():
            yield next(iter(flights.values())).deadline  # they are in the order of their deadlines
        if self._error is None and self._later:
            yield self._later[0][0]
        if self._error is None and self._ready and self._has_room:
            yield self._next

    def _lose(self, connection: Connection, error: RemotingError) -> None:
        """Give up a connection: what is on its way there may be stored."""
        self._flights.pop(connection, None)
        connection.close()
        self._fail(error)

    def _fail(self, error: RmqtoolError) -> None:
        """Send nothing more, for the first of all reasons."""
        if self._error is None:
            self._error = error

    def _take(self, flight: _Flight, answer: RemotingAnswer) -> int:
        """Note an answer. Return how many messages are done.

        Raises:
            WriteFailed: the ledger cannot be written.
        """
        number = flight.message.number
        if answer.code in BUSY and flight.tries < TRIES and self._error is None:
            self._unsure.remove(number)
            due = time.monotonic() + producer.FIRST_WAIT * 2 ** (flight.tries - 1)
            heappush(self._later, (due, number, flight))
            return 0
        self._count -= 1
        self._bytes -= len(flight.message.body)
        if flight.lane:
            heappush(self._ready, (flight.lane[0][0].number, flight.lane))
        try:
            self._note(flight, done_of(answer, flight.queue))
        except Refused as refused:
            self._unsure.remove(number)
            if not refused.is_of_message:
                reason = f"refuses message {number}: {refused.code}: {refused.remark}"
                step = self._brokers.step_after(refused)
                self._fail(RemotingError(address=refused.address, reason=reason, step=step))
                return 0
            says = f"{refused.address} answers {refused.code}: {refused.remark}"
            self._outcome.refused.append(BadLine(flight.message.line, 0, says))
            self._ledger.append(
                {"number": number, "refused": refused.code, "reason": refused.remark}
            )
        except RemotingError as error:  # it may be stored
            self._fail(error)
            return 0
        return 1

    def _note(self, flight: _Flight, done: Done) -> None:
        message, outcome = flight.message, self._outcome
        line: dict[str, object] = {
            "number": message.number,
            "id": done.message_id,
            "broker": done.broker,
            "queue_id": done.queue_id,
            "queue_offset": done.queue_offset,
        }
        if done.status:
            outcome.half_stored += 1
            line["status"] = done.status
        if self._ledger.may_have_sent(message.number):
            line["again"] = True
        self._ledger.append(line)
        self._unsure.remove(message.number)
        outcome.sent[message.topic, flight.queue] += 1
        outcome.waits_again += bool(flight.delay)

    def _delay_of(self, message: Outgoing, queue: TargetQueue) -> str:
        """Give the property that keeps what is left of a delay; empty where nothing is.

        Raises:
            RemotingError: the broker does not say how it delays.
        """
        if message.wait is None or not self._options.keeps_delays:
            return ""
        delay, late_ms = self._brokers.delaying(queue).property_for(message.wait)
        self._outcome.late_ms = max(self._outcome.late_ms, late_ms)
        return delay
