"""Whether a record is what was asked for, and as what: judged on the record alone.

An index, a queue or a search by bytes only proposes; what is here decides.
Source: MQAdminImpl#queryMessage, IndexService#buildIndex, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.errors import DecodeError
from rmqtool.formats import java, properties
from rmqtool.formats.sys_flag import SysFlag
from rmqtool.query.consume_queue import claims

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.formats.inner_batch import ClientMessage
    from rmqtool.formats.message import Message
    from rmqtool.query.requests import ByQueueOffset

TRANSACTION_ID: Final = "__transactionId__"
UNIQUE_KEY: Final = "unique key"
KEY: Final = "key"
HIDDEN: Final = "unique key, hidden by another one after it"
IN_BATCH: Final = "unique key of a message in this batch"
KEY_IN_BATCH: Final = "key of a message in this batch"
TRANSACTION: Final = "transaction ID"
PLACE: Final = "place in the queue"
SUPERFICIAL: Final = frozenset({HIDDEN, IN_BATCH, KEY_IN_BATCH})  # what no broker finds


class RecordNeed(NamedTuple):
    """What a record must have."""

    text: str  # key, unique key or transaction ID
    as_key: bool = False  # a key of the application is as good as a unique key
    as_transaction: bool = False  # a transaction ID is as good as a unique key
    topics: tuple[str, ...] = ()  # of the record; empty for any

    def match(self, message: Message) -> str:
        """Say as what a record has the text; empty when it has not."""
        if self.topics and message.topic not in self.topics:
            return ""
        decoded = message.properties
        if decoded.get(properties.UNIQ_KEY) == self.text:
            return UNIQUE_KEY
        if self.as_key and self.text in properties.keys(decoded):
            return KEY
        if self.as_transaction and decoded.get(TRANSACTION_ID) == self.text:
            return TRANSACTION
        return self._match_deeper(message)

    def _match_deeper(self, message: Message) -> str:
        """Look where brokers do not: after a later unique key, and into inner batches."""
        raw = self.text.encode("utf-8", "surrogatepass")
        if raw not in message.properties_bytes and raw not in message.body:
            return ""
        for item in properties.items(message.properties_bytes):
            if item.is_kept and item.name == properties.UNIQ_KEY.encode() and item.value == raw:
                return HIDDEN
        for member in members(message):
            if member.properties.get(properties.UNIQ_KEY) == self.text:
                return IN_BATCH
            if self.as_key and self.text in properties.keys(member.properties):
                return KEY_IN_BATCH
        return ""


def members(message: Message) -> Iterator[ClientMessage]:
    """Give the messages of an inner batch, up to the first that cannot be read; else nothing."""
    if not message.sys_flag & SysFlag.INNER_BATCH_FLAG:
        return
    from rmqtool.formats import inner_batch

    try:
        yield from inner_batch.messages(message.body)
    except DecodeError:
        return


def at_place(message: Message, place: ByQueueOffset) -> str:
    """Say that a record belongs to a place of a queue; empty when it does not."""
    fits = claims(message, place.topic, place.queue_id, place.queue_offset)
    return PLACE if fits else ""


def hash_collision(message: Message, key_hash: int) -> str:
    """Name the key of a record that has a hash; empty when none has."""
    decoded = message.properties
    names = [decoded.get(properties.UNIQ_KEY, ""), *properties.keys(decoded)]
    if tags := decoded.get(properties.TAGS):
        names.append(f"T#{tags}")
    for name in filter(None, names):
        if java.key_hash(message.topic, name) == key_hash:
            return f"{message.topic}#{name}"
    return ""
