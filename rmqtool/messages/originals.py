"""Retried and dead messages whose first record is written, too: a copy of them is left out.

A broker stores what a group gives back once more, in its retry topic, then among its dead letters;
each copy names the record that it began with. Pop retries of 5.x do not.
Source: SendMessageProcessor#consumerSendMsgBack, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from rmqtool.broker import names
from rmqtool.errors import DecodeError
from rmqtool.formats import java, properties
from rmqtool.formats.message import decode
from rmqtool.formats.message_id import OffsetMessageId, recognise
from rmqtool.scan import columns as row
from rmqtool.store.record_heads import LogReader
from rmqtool.tables.record_columns import stretches

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.formats.message import Message
    from rmqtool.messages.wanted import Wanted
    from rmqtool.scan.batch import Batch
    from rmqtool.store.tree import Store
    from rmqtool.tables.selection import Range

    Int64s: TypeAlias = npt.NDArray[np.int64]
    Bools: TypeAlias = npt.NDArray[np.bool_]

_RETRIED: Final = (names.RETRY_PREFIX, names.DLQ_PREFIX)


def may_repeat(topic: str) -> bool:
    """Tell whether records of a topic may be copies of messages of others."""
    return topic.startswith(_RETRIED) or topic == names.SCHEDULE_TOPIC


def repeated(
    batch: Batch, columns: Int64s, looked_at: Bools, wanted: Wanted, store: Store
) -> Bools:
    """Mark copies whose first record is undamaged, and is written: bool, shape (n,).

    Args:
        batch: of a scan.
        columns: int64, shape (ROWS, n); some of its records.
        looked_at: bool, shape (n,); which of them.
        wanted: which messages; a first record has to be one of them.
        store: that they are of.
    """
    mask: Bools = np.zeros(columns.shape[1], np.bool_)
    numbers = columns[row.TOPIC_NUMBER]
    some = [n for n in range(len(batch.topics)) if may_repeat(java.text(batch.topics[n]))]
    looked_up = np.flatnonzero(looked_at & np.isin(numbers, some))
    if not looked_up.size:
        return mask
    stored = stretches(batch, columns, row.PROPERTIES_START)
    with LogReader(*filter(None, (store.old_commitlog, store.commitlog))) as log:
        for number in looked_up.tolist():
            texts = properties.decode(stored.raw(number))
            topic, identifier = properties.origin(texts)
            place = recognise(identifier or "")
            if topic is None or not isinstance(place, OffsetMessageId):
                continue
            first = _record_at(log, place.physical_offset)
            if first is not None and first.crc_matches is not False:
                same = _facts(columns, number) == (first.born_timestamp, first.body_crc)
                is_same = same and first.unique_key == texts.get(properties.UNIQ_KEY)
                mask[number] = is_same and first.topic == topic and _is_wanted(first, wanted)
    return mask


def _record_at(log: LogReader, physical_offset: int) -> Message | None:
    segment = log.segment_at(physical_offset)
    head = log.head_at(physical_offset)
    if segment is None or head is None:
        return None
    position = physical_offset - segment.start
    try:
        raw = log.file_of(segment).read_at(position, head.size)
        return decode(raw, path=segment.path, position=position)
    except DecodeError:
        return None


def _facts(columns: Int64s, number: int) -> tuple[int, int]:
    return int(columns[row.BORN_TIMESTAMP, number]), int(columns[row.BODY_CRC, number])


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
