"""Sends messages to brokers, one at a time, and judges their answers.

Source: SendMessageRequestHeaderV2, SendMessageProcessor#handlePutMessageResult, ResponseCode,
NettyRemotingAbstract#processRequestCommand, BrokerFastFailure, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from rmqtool.errors import RemotingError
from rmqtool.sending.options import shown
from rmqtool.sending.remoting import Connection, brief

if TYPE_CHECKING:
    from rmqtool.sending.outgoing import Outgoing
    from rmqtool.sending.remoting import RemotingAnswer
    from rmqtool.sending.routes import TargetQueue

SEND_MESSAGE_V2: Final = 310
GROUP: Final = "rmqtool"
MESSAGE_ILLEGAL: Final = 13
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
        self.code, self.remark, self.address = code, brief(remark), shown(*address)

    @property
    def is_of_message(self) -> bool:
        """Whether the message is refused for itself: others may be taken."""
        return self.code == MESSAGE_ILLEGAL


class Brokers:
    """Connections to the brokers of a cluster; a context manager.

    Args:
        timeout: seconds that connecting and an answer may take.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._connections: dict[tuple[str, int], Connection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._connections.values():
            connection.close()

    def send(self, message: Outgoing, queue: TargetQueue) -> Done:
        """Send a message; a broker that is busy is asked again, for some seconds.

        Raises:
            Refused: the broker did not store it.
            RemotingError: nobody answers; `is_unsure` tells whether it may be stored.
        """
        fields, wait = _header(message, queue), FIRST_WAIT
        for _ in range(_TRIES - 1):
            answer = self._to(queue.broker.address).ask(SEND_MESSAGE_V2, fields, message.body)
            if answer.code not in _BUSY:
                break
            time.sleep(wait)
            wait *= 2
        else:
            answer = self._to(queue.broker.address).ask(SEND_MESSAGE_V2, fields, message.body)
        return _judged(answer, queue)

    def _to(self, address: tuple[str, int]) -> Connection:
        """Give an open connection; brokers close those that were idle for two minutes."""
        found = self._connections.get(address)
        if found is None or not found.is_open:
            if found is not None:
                found.close()
            found = self._connections[address] = Connection(address, self._timeout)
        return found


def _header(message: Outgoing, queue: TargetQueue) -> dict[str, str]:
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
        "i": message.properties,
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
