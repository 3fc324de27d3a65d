"""`send`: a file is checked whole, then its messages go to a cluster, one after the other."""

from __future__ import annotations

import re
import time
from collections import deque
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from rmqtool.errors import (
    RemotingError,
    RmqtoolError,
    Trouble,
    UnreadablePath,
    UsageError,
    WriteFailed,
)
from rmqtool.sending.access import access_of
from rmqtool.sending.delays import Delaying, delaying_of
from rmqtool.sending.entries import digest_of, entries
from rmqtool.sending.options import Delays, shown
from rmqtool.sending.outgoing import BadLine, Outgoing
from rmqtool.sending.remoting import Connection, brief
from rmqtool.sending.report import SendContent, SendResult, Turns
from rmqtool.sending.routes import routes_of
from rmqtool.store.address import place_of
from rmqtool.writing.ledger import SentLedger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.sending.access import Access
    from rmqtool.sending.options import SendOptions
    from rmqtool.sending.routes import Route, TargetQueue
    from rmqtool.store.place import OpenFile

    Advance = Callable[[int], None]
    from rmqtool.sending.remoting import RemotingAnswer


_SEGMENT: Final = re.compile(r"[0-9]{20}")
STRETCH: Final = 100  # messages between two waits for the disk


class SendRun:
    """A sending that was asked for; nothing is sent before it runs.

    Args:
        options: what is wanted.

    Attributes:
        total_bytes: of the file.

    Raises:
        UnreadablePath: it is not there, or cannot be read.
    """

    def __init__(self, options: SendOptions) -> None:
        self.options = options
        self._place = place_of(options.file)
        with self._place.open() as file:
            self.total_bytes = file.size

    def check(self, advance: Advance = lambda _: None) -> SendContent:
        """Read the whole file, and say what it holds.

        Args:
            advance: takes the bytes that were read since it was last called.
        """
        checked = SendContent()
        with self._place.open() as file:
            for entry in entries(file, self.options.destination, advance):
                checked.entries += 1
                if isinstance(entry, BadLine):
                    self._note_bad(entry, checked)
                elif self._is_wanted(entry, checked):
                    checked.messages[entry.topic, entry.queue_id] += 1
                    checked.bytes[entry.topic] += len(entry.body)
                    checked.waiting += entry.wait is not None
            checked.digest = digest_of(file)
        return checked

    def run(self, checked: SendContent, advance: Advance = lambda _: None) -> SendResult:
        """Send what was checked; of a dry run only say where it would go.

        Args:
            checked: what the file holds.
            advance: takes the messages that were passed since it was last called.

        Raises:
            RemotingError: no name server answers.
            UsageError: a topic is not there, or the file is one of a store; nothing was sent.
            RepairError: the ledger cannot be used; nothing was sent.
        """
        options, outcome = self.options, SendResult(checked)
        if not checked.total or (checked.bad_count and not options.skip_bad):
            return outcome
        if not options.name_servers:
            return outcome
        access = access_of(options)
        routes = routes_of(options, access, checked.queues)
        outcome.planned = checked.by_queue(routes)
        if options.dry_run:
            return outcome
        if options.ledger is None and _SEGMENT.fullmatch(self._place.name):
            raise UsageError(
                option="FILE",
                reason=f"{options.file} is a file of a store, where nothing is written",
                step="--ledger FILE: where to keep what was sent",
            )
        facts = {
            "file": options.file,
            "bytes": self.total_bytes,
            "sha256": checked.digest,
            "name_server": options.cluster,
            "to_topic": options.destination.whole,
        }
        began = time.monotonic()
        with (
            self._place.open() as file,
            SentLedger(options.ledger_path, facts, checked.entries) as ledger,
            Brokers(options.timeout, access) as brokers,
        ):
            chosen = self._chosen(file, routes, checked.total)
            _Sender(options, ledger, brokers, outcome).send(chosen, advance)
        outcome.seconds = time.monotonic() - began
        return outcome

    def _chosen(
        self, file: OpenFile, routes: dict[str, Route], total: int
    ) -> Iterator[tuple[Outgoing, TargetQueue]]:
        """Yield the messages that are to be sent, each with its queue.

        Raises:
            UnreadablePath: they are not those that were checked.
        """
        turns, passed, count = Turns(routes), SendContent(), 0
        for entry in entries(file, self.options.destination):
            if isinstance(entry, Outgoing) and self._is_wanted(entry, passed):
                count += 1
                if entry.topic not in routes:
                    break
                yield entry, turns.queue_of(entry)
        if count != total:
            reason = "was changed while its messages were sent"
            raise UnreadablePath(path=self.options.file, reason=reason, trouble=Trouble.EXPLAINED)

    def _note_bad(self, bad: BadLine, checked: SendContent) -> None:
        """Note what cannot be sent, unless nobody asked for its topic."""
        topics = self.options.topics
        if topics and bad.topic is not None and bad.topic not in topics:
            checked.others += 1
        else:
            checked.add_bad(bad)

    def _is_wanted(self, message: Outgoing, checked: SendContent) -> bool:
        """Say whether a message is to be sent; count it where it is not."""
        options = self.options
        if options.topics and message.own_topic not in options.topics:
            checked.others += 1
        elif message.is_held and not options.held:
            checked.held += 1
        elif message.is_system and not options.system_topics:
            checked.system += 1
        else:
            return True
        return False


class _Sender:
    """Sends messages, and keeps the ledger."""

    def __init__(
        self, options: SendOptions, ledger: SentLedger, brokers: Brokers, outcome: SendResult
    ) -> None:
        self._ledger, self._brokers, self._outcome = ledger, brokers, outcome
        self._keeps_delays = options.delays is Delays.KEEP
        self._pause = 1 / options.rate if options.rate else 0.0
        self._stretch = min(STRETCH, options.rate or STRETCH)
        self._next = time.monotonic()

    def send(self, chosen: Iterator[tuple[Outgoing, TargetQueue]], advance: Advance) -> None:
        """Send until nothing is left, or something stands in the way."""
        left = self._unsent(chosen, advance)
        unsure, reason = None, "interrupted"
        try:
            while stretch := deque(islice(left, self._stretch)):
                self._ledger.begin(stretch[0][0].number, stretch[-1][0].number)
                while stretch:
                    message, queue = stretch.popleft()
                    self._wait()
                    unsure = message.number
                    self._send_message(message, queue)
                    unsure = None
                    advance(1)
            reason = ""
        except RmqtoolError as error:
            self._outcome.stopped, reason = error, str(error)
            if isinstance(error, RemotingError) and not error.is_unsure:
                unsure = None
        finally:
            self._outcome.unsure = unsure
            with suppress(WriteFailed):  # a full disk: then the open stretch tells the same
                self._ledger.end(unsure, reason)

    def _unsent(
        self, chosen: Iterator[tuple[Outgoing, TargetQueue]], advance: Advance
    ) -> Iterator[tuple[Outgoing, TargetQueue]]:
        for message, queue in chosen:
            if self._ledger.sent[message.number]:
                self._outcome.sent_before[message.topic, queue] += 1
                advance(1)
            else:
                yield message, queue

    def _wait(self) -> None:
        if self._pause:
            now = time.monotonic()
            time.sleep(max(0.0, self._next - now))
            self._next = max(self._next, now) + self._pause

    def _send_message(self, message: Outgoing, queue: TargetQueue) -> None:
        """Send a message and note what became of it.

        Raises:
            RemotingError: the broker does not take any more.
            WriteFailed: the ledger cannot be written.
        """
        outcome, is_again = self._outcome, self._ledger.may_have_sent(message.number)
        if is_again:
            outcome.twice.append(message.number)
        delay = self._delay_of(message, queue)
        try:
            done = self._brokers.send(message, queue, delay)
        except Refused as refused:
            says = f"{refused.address} answers {refused.code}: {refused.remark}"
            if not refused.is_of_message:
                reason = f"refuses message {message.number}: {refused.code}: {refused.remark}"
                step = self._brokers.step_after(refused)
                raise RemotingError(address=refused.address, reason=reason, step=step) from refused
            outcome.refused.append(BadLine(message.line, 0, says))
            self._ledger.append(
                {"number": message.number, "refused": refused.code, "reason": refused.remark}
            )
            return
        line = {
            "number": message.number,
            "id": done.message_id,
            "broker": done.broker,
            "queue_id": done.queue_id,
            "queue_offset": done.queue_offset,
        }
        if done.status:
            outcome.half_stored += 1
            line["status"] = done.status
        if is_again:
            line["again"] = True
        self._ledger.append(line)
        outcome.sent[message.topic, queue] += 1
        outcome.waits_again += bool(delay)

    def _delay_of(self, message: Outgoing, queue: TargetQueue) -> str:
        """Give the property that keeps what is left of a delay; empty where nothing is.

        Raises:
            RemotingError: the broker does not say how it delays.
        """
        if message.wait is None or not self._keeps_delays:
            return ""
        delay, late_ms = self._brokers.delaying(queue).property_for(message.wait)
        self._outcome.late_ms = max(self._outcome.late_ms, late_ms)
        return delay


# Sends messages to brokers, one at a time, and judges their answers.
#
# See SendMessageRequestHeaderV2, SendMessageProcessor#handlePutMessageResult, ResponseCode,
# NettyRemotingAbstract#processRequestCommand, BrokerFastFailure, 4.9.3 to 5.5.0.


SEND_MESSAGE_V2: Final = 310
GROUP: Final = "rmqtool"
MESSAGE_ILLEGAL: Final = 13
NO_PERMISSION: Final = 16
# What Java adds to a reason: the class of an exception, and the line that threw it.
_JAVA: Final = re.compile(r"^[\w.$]+Exception: |, org\.apache\.[\w.$]+\([\w.]+:\d+\)$")
_OF_ACCESS: Final = re.compile(r"accesskey|signature|authenticat|authoriz", re.IGNORECASE)
_SUCCESS: Final = 0
# Stored, though not everywhere where it should be.
_STORED: Final = {
    10: "flush_disk_timeout",
    11: "slave_not_available",
    12: "flush_slave_timeout",
}
_BUSY: Final = frozenset({2, 215})  # SYSTEM_BUSY, FLOW_CONTROL: not stored, and soon better
_TRIES: Final = 8
FIRST_WAIT: Final = 0.1  # seconds; twice as long after each try: 12.7 s in all


class Done(NamedTuple):
    """What a broker answered to a message that it stored."""

    message_id: str  # offsetMsgId in its new store
    broker: str  # its name
    queue_id: int  # where it is
    queue_offset: str  # where it is there
    status: str  # what was not as it should be; empty when all was


class Refused(Exception):
    """A broker did not take a message.

    Attributes:
        code: of the answer.
        remark: why not.
        address: of the broker.
    """

    def __init__(self, code: int, remark: str, address: tuple[str, int]) -> None:
        super().__init__(code, remark, address)
        self.code, self.address = code, shown(*address)
        self.remark = _JAVA.sub("", brief(remark))

    @property
    def is_of_message(self) -> bool:
        """Whether the message is refused for itself: others may be taken."""
        return self.code == MESSAGE_ILLEGAL

    @property
    def is_of_access(self) -> bool:
        """Whether the access key, or the lack of one, is what the broker refuses."""
        return self.code == NO_PERMISSION or _OF_ACCESS.search(self.remark) is not None


class Brokers:
    """Connections to the brokers of a cluster; a context manager.

    Args:
        timeout: seconds that connecting and an answer may take.
        access: how requests are made.
    """

    def __init__(self, timeout: float, access: Access) -> None:
        self._timeout, self._access = timeout, access
        self._delaying: dict[tuple[str, int], Delaying] = {}
        self._connections: dict[tuple[str, int], Connection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._connections.values():
            connection.close()

    def send(self, message: Outgoing, queue: TargetQueue, delay: str = "") -> Done:
        """Send a message; a broker that is busy is asked again, for some seconds.

        Args:
            message: to be sent.
            queue: where to.
            delay: the property that says when it is due; empty where it is due now.

        Raises:
            Refused: the broker did not store it.
            RemotingError: nobody answers; `is_unsure` tells whether it may be stored.
        """
        fields, wait = _header(message, queue, delay), FIRST_WAIT
        for _ in range(_TRIES - 1):
            answer = self._to(queue.broker.address).ask(SEND_MESSAGE_V2, fields, message.body)
            if answer.code not in _BUSY:
                break
            time.sleep(wait)
            wait *= 2
        else:
            answer = self._to(queue.broker.address).ask(SEND_MESSAGE_V2, fields, message.body)
        return _judged(answer, queue)

    def delaying(self, queue: TargetQueue) -> Delaying:
        """Say how a broker delays messages.

        Raises:
            RemotingError: it does not say so.
        """
        address = queue.broker.address
        if address not in self._delaying:
            self._delaying[address] = delaying_of(self._to(address))
        return self._delaying[address]

    def step_after(self, refused: Refused) -> str:
        """Say what to try after a refusal that is about access; empty for others."""
        if not refused.is_of_access:
            return ""
        if self._access.credentials is None:
            return "--credentials FILE: the cluster asks for an access key"
        name = self._access.credentials.access_key
        return f"check the secret and the permissions of access key {name}, to PUB on the topic"

    def _to(self, address: tuple[str, int]) -> Connection:
        """Give an open connection; brokers close those that were idle for two minutes."""
        connection = self._connections.get(address)
        if connection is None or not connection.is_open:
            if connection is not None:
                connection.close()
            connection = self._connections[address] = Connection(
                address, self._timeout, self._access
            )
        return connection


def _header(message: Outgoing, queue: TargetQueue, delay: str) -> dict[str, str]:
    """Give the fields of a request, under the names of one letter that brokers read quickest."""
    born = int(time.time() * 1000) if message.born_ms is None else message.born_ms
    return {
        "a": GROUP,  # producerGroup
        "b": message.topic,
        "c": "TBW102",  # defaultTopic
        "d": "4",  # defaultTopicQueueNums
        "e": str(queue.queue_id),
        "f": "0",  # sysFlag: neither compressed nor of a transaction
        "g": str(born),  # bornTimestamp
        "h": str(message.flag),
        "i": delay + message.properties,
        "j": "0",  # reconsumeTimes: a retried message gets all its tries again
        "k": "false",  # unitMode
        "m": "false",  # batch
        "n": queue.broker.name,
    }


def _judged(answer: RemotingAnswer, queue: TargetQueue) -> Done:
    address = queue.broker.address
    if answer.code != _SUCCESS and answer.code not in _STORED:
        raise Refused(answer.code, answer.remark, address)
    identifier = answer.fields.get("msgId", "")
    if not identifier:
        reason = "answers without the ID of the message"
        raise RemotingError(address=shown(*address), reason=reason, is_unsure=True)
    return Done(
        brief(identifier),
        queue.broker.name,
        queue.queue_id,
        brief(answer.fields.get("queueOffset", "")),
        _STORED.get(answer.code, ""),
    )
