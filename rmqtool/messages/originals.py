"""Messages that brokers stored more than once: which records are copies of others.

A broker stores what a group gives back once more, in its retry topic, then among its dead letters;
each copy names the record that it began with. Pop retries of 5.x do not: the key index knows the
first record, by its topic, which is in the name of the retry topic, and its unique key. So it knows
the record of a delayed message that was delivered just before the broker stopped, and that
delayOffset.json still calls waiting. Without an index both are written.
Source: SendMessageProcessor#consumerSendMsgBack, PopReviveService#reviveRetry, PopConsumerService,
KeyBuilder#buildPopRetryTopic, DeliverDelayedMessageTimerTask, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final, Self, TypeAlias

import numpy as np

from rmqtool.broker import names
from rmqtool.errors import DecodeError, UnreadablePath
from rmqtool.formats import java, properties
from rmqtool.formats.message import decode
from rmqtool.formats.message_id import OffsetMessageId, recognise
from rmqtool.scan import columns as row
from rmqtool.store.record_heads import LogReader
from rmqtool.tables.record_columns import stretches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy.typing as npt

    from rmqtool.formats.message import Message
    from rmqtool.messages.wanted import Wanted
    from rmqtool.query.log import Log, LogRange
    from rmqtool.query.lookup import Lookup
    from rmqtool.scan.batch import Batch
    from rmqtool.store.tree import Store
    from rmqtool.tables.selection import Range

    Int64s: TypeAlias = npt.NDArray[np.int64]
    Bools: TypeAlias = npt.NDArray[np.bool_]

# Entries of the index that one batch may cost: of chains that somebody made long.
MOST_WALKED: Final = 1_000_000
# Bytes of the log that the index does not cover, and that are read once for the copies of a batch:
# a broker that stops has not yet dispatched its last records.
MOST_SEARCHED: Final = 4 << 20
_RETRIED: Final = (names.RETRY_PREFIX, names.DLQ_PREFIX)


def may_repeat(topic: str) -> bool:
    """Tell whether records of a topic may be copies of messages of others."""
    return topic.startswith(_RETRIED) or topic == names.SCHEDULE_TOPIC


def repeated(
    batch: Batch, columns: Int64s, looked_at: Bools, wanted: Wanted, store: Store
) -> tuple[Bools, int]:
    """Mark copies whose first record is undamaged, and is written: bool, shape (n,).

    Returns:
        The marks, and how many others may be copies: nothing tells.

    Args:
        batch: of a scan.
        columns: int64, shape (ROWS, n); some of its records.
        looked_at: bool, shape (n,); which of them.
        wanted: which messages; a first record has to be one of them.
        store: that they are of.
    """
    mask: Bools = np.zeros(columns.shape[1], np.bool_)
    numbers = columns[row.TOPIC_NUMBER]
    topics = [java.text(batch.topics[number]) for number in range(len(batch.topics))]
    some = [number for number, topic in enumerate(topics) if may_repeat(topic)]
    retried = np.flatnonzero(looked_at & np.isin(numbers, some))
    if not retried.size:
        return mask, 0
    stored, unknown = stretches(batch, columns, row.PROPERTIES_START), 0
    with _Records(store) as records:
        for number in retried.tolist():
            texts = properties.decode(stored.raw(number))
            place = int(columns[row.PHYSICAL_OFFSET, number])
            records.is_complete = True
            mask[number] = any(
                _is_same(record, columns, number, texts) and _is_wanted(record, wanted)
                for record in records.first(topics[int(numbers[number])], texts, place)
            )
            unknown += not (records.is_complete or mask[number])
    return mask, unknown


def delivered(batch: Batch, columns: Int64s, looked_at: Bools, store: Store) -> Bools:
    """Mark delayed copies whose message is in its own topic, too: bool, shape (n,).

    Args:
        batch: of a scan.
        columns: int64, shape (ROWS, n); some of its records.
        looked_at: bool, shape (n,); which of them.
        store: that they are of.
    """
    mask: Bools = np.zeros(columns.shape[1], np.bool_)
    if not looked_at.any():
        return mask
    stored = stretches(batch, columns, row.PROPERTIES_START)
    with _Records(store) as records:
        for number in np.flatnonzero(looked_at).tolist():
            texts = properties.decode(stored.raw(number))
            place = int(columns[row.PHYSICAL_OFFSET, number])
            mask[number] = any(
                record.physical_offset > place and _is_same(record, columns, number, texts)
                for record in records.by_key(texts.get(properties.REAL_TOPIC, ""), texts)
            )
    return mask


class _Records:
    """Records of a store, by place and by unique key; a context manager.

    Attributes:
        is_complete: whether index and log have told all since it was set.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.is_complete = True
        self._walked = 0  # entries of the index
        self._lookup: Lookup | None = None
        # Physical offsets by unique key, of what the index does not cover, where that is little.
        self._uncovered: dict[str, list[int]] = {}
        self._is_whole = True  # whether index and that tell of all records
        self._keep = ExitStack()

    def __enter__(self) -> Self:
        files = filter(None, (self._store.old_commitlog, self._store.commitlog))
        self._log = self._keep.enter_context(LogReader(*files))
        return self

    def __exit__(self, *_: object) -> None:
        self._keep.close()

    def first(self, topic: str, texts: Mapping[str, str], place: int) -> Iterator[Message]:
        """Yield records that a copy may have begun with.

        Args:
            topic: of the copy.
            texts: its properties.
            place: its physical offset.
        """
        origin, identifier = properties.origin(texts)
        named = recognise(identifier or "")
        if origin is not None and isinstance(named, OffsetMessageId):
            record = self._at(named.physical_offset)
            if record is not None and record.topic == origin:
                yield record
            return
        if topic == names.SCHEDULE_TOPIC:
            topic = texts.get(properties.REAL_TOPIC, "")
        for name in _popped(topic):
            for record in self.by_key(name, texts):
                if record.physical_offset < place and record.topic == name:
                    yield record

    def by_key(self, topic: str, texts: Mapping[str, str]) -> Iterator[Message]:
        """Yield undamaged records of a topic that have the unique key of a message."""
        unique_key = texts.get(properties.UNIQ_KEY)
        if not unique_key or not topic:
            return
        if self._walked > MOST_WALKED:
            self.is_complete = False
            return
        with suppress(UnreadablePath):  # the extract itself tells of it
            for record in self._looked_up(topic, unique_key):
                if record.crc_matches is not False:
                    yield record

    def _looked_up(self, topic: str, unique_key: str) -> Iterator[Message]:
        from rmqtool.query.log import LogRecord  # few extracts need it
        from rmqtool.query.lookup import Lookup

        if self._lookup is None:
            self._lookup = self._keep.enter_context(Lookup(self._store))
            uncovered = self._lookup.uncovered()
            self._is_whole = sum(stretch.length for stretch in uncovered) <= MOST_SEARCHED
            if self._is_whole:
                self._uncovered = _places_by_key(self._lookup.log, uncovered)
        self.is_complete &= self._is_whole
        places = self._uncovered.get(unique_key, [])
        for chain in self._lookup.index.chains(java.key_hash(topic, unique_key)):
            self._walked += chain.walked
            places = [*places, *chain.offsets]
        for place in places:
            record = self._lookup.log.record_at(place)
            if isinstance(record, LogRecord) and record.message.topic == topic:
                yield record.message

    def _at(self, physical_offset: int) -> Message | None:
        segment = self._log.segment_at(physical_offset)
        head = self._log.head_at(physical_offset)
        if segment is None or head is None:
            return None
        position = physical_offset - segment.start
        try:
            raw = self._log.file_of(segment).read_at(position, head.size)
            record = decode(raw, path=segment.path, position=position)
        except DecodeError:
            return None
        return None if record.crc_matches is False else record


def _places_by_key(log: Log, stretches: Iterable[LogRange]) -> dict[str, list[int]]:
    """Give the physical offsets of records by their unique keys."""
    from rmqtool.query.log import LogRecord

    places: dict[str, list[int]] = defaultdict(list)
    for stretch in stretches:
        head = log.next_record(stretch.start)
        while head is not None and head.physical_offset < stretch.end:
            record = log.record_at(head.physical_offset)
            if isinstance(record, LogRecord) and record.message.unique_key:
                places[record.message.unique_key].append(head.physical_offset)
            head = log.next_record(head.physical_offset + max(head.size, 1))
    return places


def _popped(topic: str) -> Iterator[str]:
    """Yield the topics that a retry topic of a group that pops may be about.

    Names of groups and topics may have the separator in them, too.
    """
    if topic.startswith(names.RETRY_PREFIX):
        name = topic.removeprefix(names.RETRY_PREFIX)
        for position, letter in enumerate(name):
            if letter in names.POP_SEPARATORS:
                yield name[position + 1 :]


def _is_same(record: Message, columns: Int64s, number: int, texts: Mapping[str, str]) -> bool:
    """Tell whether a record has the message of another one.

    A client that cannot give a message back sends it to the retry topic itself: the copy is born
    then, and names the first record as others do.
    Source: DefaultMQPushConsumerImpl#sendMessageBack, 4.9.3 to 5.5.0.
    """
    unique_key = texts.get(properties.UNIQ_KEY)
    is_named = bool(unique_key) and properties.origin(texts)[1] == record.message_id
    is_born_then = int(columns[row.BORN_TIMESTAMP, number]) == record.born_timestamp
    return (
        (is_born_then or is_named)
        and int(columns[row.BODY_CRC, number]) == record.body_crc
        and record.unique_key == unique_key
    )


def _is_wanted(first: Message, wanted: Wanted) -> bool:
    selection = wanted.selection
    return (
        _is_in(first.physical_offset, selection.offsets)
        and _is_in(first.store_timestamp, selection.store_time)
        and (wanted.where is None or wanted.where.matches(first.properties))
    )


def _is_in(number: int, wanted: Range) -> bool:
    start, end = wanted
    return (start is None or number >= start) and (end is None or number < end)
