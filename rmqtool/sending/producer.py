"""Sends messages to brokers, and judges their answers.

Source: SendMessageRequestHeaderV2, SendMessageProcessor#handlePutMessageResult, ResponseCode,
NettyRemotingAbstract#processRequestCommand, BrokerFastFailure, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from rmqtool.errors import RemotingError
from rmqtool.sending.delays import Delaying, delaying_of
from rmqtool.sending.options import shown
from rmqtool.sending.remoting import Connection, brief

if TYPE_CHECKING:
    from rmqtool.sending.access import Access
    from rmqtool.sending.outgoing import Outgoing
    from rmqtool.sending.remoting import RemotingAnswer
    from rmqtool.sending.routes import TargetQueue

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
BUSY: Final = frozenset({2, 215})  # SYSTEM_BUSY, FLOW_CONTROL: not stored, and soon better
TRIES: Final = 8
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

    def post(
        self, message: Outgoing, queue: TargetQueue, delay: str = ""
    ) -> tuple[Connection, int]:
        """Make the request that stores a message; its connection sends it with `flush`.

        Args:
            message: to be sent.
            queue: where to.
            delay: the property that says when it is due; empty where it is due now.

        Returns:
            The connection, and the number that the answer will have there.

        Raises:
            RemotingError: the broker cannot be reached.
        """
        connection = self._to(queue.broker.address)
        fields = _header(message, queue, delay)
        return connection, connection.post(SEND_MESSAGE_V2, fields, message.body)

    def delaying(self, queue: TargetQueue) -> Delaying:
        """Say how a broker delays messages.

        Raises:
            RemotingError: it does not say so.
        """
        address = queue.broker.address
        if address not in self._delaying:
            with Connection(address, self._timeout, self._access) as connection:
                self._delaying[address] = delaying_of(connection)
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
        if connection is not None and (connection.is_busy or connection.is_open):
            return connection
        if connection is not None:
            connection.close()
        connection = Connection(address, self._timeout, self._access)
        self._connections[address] = connection
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


def done_of(answer: RemotingAnswer, queue: TargetQueue) -> Done:
    """Judge an answer.

    Raises:
        Refused: the broker did not store the message.
        RemotingError: it does not say which ID the message has.
    """
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
