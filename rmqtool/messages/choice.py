"""Which records of a batch hold wanted messages, and where those were sent to."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from rmqtool.formats import java, properties
from rmqtool.formats.sys_flag import SysFlag
from rmqtool.judge.bridge import BRIDGE_TOPIC
from rmqtool.machine.arrays import distinct, is_in
from rmqtool.messages.originals import delivered, may_repeat, repeated
from rmqtool.messages.wanted import Holds, Wanted, holds
from rmqtool.plural import counted
from rmqtool.scan import columns as row
from rmqtool.tables.record_columns import stretches
from rmqtool.times import iso_time, ms_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.scan.batch import Batch
    from rmqtool.store.tree import Store

    Int64s: TypeAlias = npt.NDArray[np.int64]
    Bools: TypeAlias = npt.NDArray[np.bool_]
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from rmqtool.relog.sources import LogSource
    from rmqtool.rows import Row


class Choice(NamedTuple):
    """The wanted ones of some records."""

    numbers: Int64s  # int64, shape (n,); which of them
    # number of a record that lies elsewhere to the topic and queue it was sent to
    sent_to: dict[int, tuple[str, int]]
    delivered: int  # delayed copies that were left out, as their messages lie in their topics
    held: int  # half messages and timer copies that were left out
    own: int  # records of brokers' own topics
    bridges: int  # records that a repair has put over damage
    # queues that the group has no offset for, with wanted messages
    without_offset: frozenset[tuple[str, int]]
    repeated: int = 0  # copies of retried and dead messages that were left out
    unknown_copies: int = 0  # retried messages that were written, and may be copies


def chosen(batch: Batch, columns: Int64s, wanted: Wanted) -> Choice:
    """Choose records.

    Args:
        batch: of a scan.
        columns: int64, shape (ROWS, n); some of its records.
        wanted: which messages.
    """
    numbers = columns[row.TOPIC_NUMBER]
    topics: dict[int, str] = {}
    # By the topics' numbers: a batch may have as many topics as records.
    kind_of = np.zeros(len(batch.topics), np.int8)
    is_wanted, bridges = np.ones(len(batch.topics), np.bool_), 0
    for number in np.flatnonzero(np.bincount(numbers)).tolist():
        topics[number] = topic = java.text(batch.topics[number])
        kind = holds(topic)
        kind_of[number] = kind.value
        if kind in {Holds.MESSAGES, Holds.NOTES}:
            is_wanted[number] = wanted.is_topic(topic)
        if batch.topics[number] == BRIDGE_TOPIC:
            is_wanted[number], bridges = False, int((numbers == number).sum())
    ends = columns[row.SYS_FLAG] & SysFlag.TRANSACTION_ROLLBACK_TYPE
    has_copies = wanted.is_everything and any(map(may_repeat, topics.values()))
    is_all = wanted.is_all and not has_copies and not ends.any() and is_wanted.all()
    if is_all and all(kind_of[number] == Holds.MESSAGES.value for number in topics):
        return Choice(np.arange(len(numbers)), {}, 0, 0, 0, 0, frozenset())
    of_records, is_kept = kind_of[numbers], is_wanted[numbers]
    kinds: dict[Holds, Bools] = {kind: of_records == kind.value for kind in Holds}
    own = int((kinds[Holds.NOTES] & ~is_kept).sum())
    lies_elsewhere = kinds[Holds.DELAYED] | kinds[Holds.HELD]
    # A record that no queue has: a half message where there was no topic of its own for them.
    is_half = (ends == SysFlag.TRANSACTION_PREPARED_TYPE) | (
        ends == SysFlag.TRANSACTION_ROLLBACK_TYPE
    )
    kinds[Holds.HELD] |= is_half
    is_kept &= lies_elsewhere | _is_in_queues(columns, wanted)
    in_queues = is_kept & ~lies_elsewhere & ~is_half
    if wanted.unconsumed is not None:
        light = wanted.unconsumed.in_light_queues(batch, columns)
        light &= ~lies_elsewhere & ~is_half & _is_in_queues(columns, wanted)
        is_kept |= light
        in_queues &= ~light  # wanted, whatever the group consumed of the record's own queue
    without_offset = _leave_consumed(columns, topics, wanted, in_queues, is_kept)
    sent_to = _resolved(batch, columns, wanted, np.flatnonzero(lies_elsewhere & is_kept), is_kept)
    is_delivered = _delivered(batch, columns, kinds[Holds.DELAYED] & is_kept, wanted)
    is_kept &= ~is_delivered
    if wanted.waiting is not None:
        is_kept &= lies_elsewhere | kinds[Holds.HELD]
        is_kept &= is_in(columns[row.PHYSICAL_OFFSET], wanted.waiting)
    if wanted.known is not None:
        is_kept &= ~is_in(hashes(batch, columns), wanted.known)
    _leave_unlike(batch, columns, wanted, is_kept)
    is_held = kinds[Holds.HELD] & is_kept & (not wanted.held)
    is_kept &= ~is_held
    copies = unknown = 0
    if wanted.store is not None and wanted.is_everything:
        is_copy, unknown = repeated(batch, columns, is_kept, wanted, wanted.store)
        copies = int(is_copy.sum())
        is_kept &= ~is_copy
    return Choice(
        np.flatnonzero(is_kept),
        sent_to,
        int(is_delivered.sum()),
        int(is_held.sum()),
        own,
        bridges,
        without_offset,
        copies,
        unknown,
    )


def _delivered(batch: Batch, columns: Int64s, delayed: Bools, wanted: Wanted) -> Bools:
    """Mark those of the delayed copies whose message is in its own topic: bool, shape (n,)."""
    mask = delayed.copy()
    for number in np.flatnonzero(delayed).tolist():
        waits = wanted.delivered.get(int(columns[row.QUEUE_ID, number]), 0)
        mask[number] = columns[row.QUEUE_OFFSET, number] < waits
    # Of some, brokers do not know it: a group gets them again.
    if wanted.store is not None and not wanted.held and wanted.unconsumed is None:
        mask |= delivered(batch, columns, delayed & ~mask, wanted.store)
    return mask


def _is_in_queues(columns: Int64s, wanted: Wanted) -> Bools:
    """Mark records by queue and queue offset."""
    mask = np.ones(columns.shape[1], np.bool_)
    start, end = wanted.queue_offsets
    if wanted.queue_id is not None:
        mask &= columns[row.QUEUE_ID] == wanted.queue_id
    if start is not None:
        mask &= columns[row.QUEUE_OFFSET] >= start
    if end is not None:
        mask &= columns[row.QUEUE_OFFSET] < end
    return mask


def _leave_consumed(
    columns: Int64s, topics: dict[int, str], wanted: Wanted, looked_at: Bools, is_kept: Bools
) -> frozenset[tuple[str, int]]:
    """Clear the mask of what a group has consumed; give the queues that nothing is known of."""
    if wanted.unconsumed is None:
        return frozenset()
    unknown = set()
    queues = columns[[row.TOPIC_NUMBER, row.QUEUE_ID]][:, looked_at]
    for number, queue_id in np.unique(queues, axis=1).T.tolist():
        queue = topics[number], queue_id
        if queue not in wanted.unconsumed.committed:
            unknown.add(queue)
            continue
        is_queue = columns[row.TOPIC_NUMBER] == number
        is_queue &= (columns[row.QUEUE_ID] == queue_id) & looked_at
        consumed = wanted.unconsumed.consumed(queue, columns[row.QUEUE_OFFSET, is_queue])
        is_kept[np.flatnonzero(is_queue)[consumed]] = False
    return frozenset(unknown)


def _leave_unlike(batch: Batch, columns: Int64s, wanted: Wanted, is_kept: Bools) -> None:
    """Clear the mask of those whose properties do not fulfil the expression."""
    if wanted.where is None:
        return
    stored = stretches(batch, columns, row.PROPERTIES_START)
    for number in np.flatnonzero(is_kept).tolist():
        is_kept[number] = wanted.where.matches(properties.decode(stored.raw(number)))


def _resolved(
    batch: Batch, columns: Int64s, wanted: Wanted, numbers: Int64s, is_kept: Bools
) -> dict[int, tuple[str, int]]:
    """Find out where copies were sent to; clear the mask of those that are not wanted.

    Source: MessageAccessor, MessageConst.PROPERTY_REAL_TOPIC and PROPERTY_REAL_QUEUE_ID.
    """
    places = {}
    stored = stretches(batch, columns, row.PROPERTIES_START)
    # What waits has no offset in its own queue yet.
    has_offsets = wanted.queue_offsets != (None, None)
    for number in numbers.tolist():
        texts = properties.decode(stored.raw(number))
        queue_id = java.parse_long(texts.get(properties.REAL_QID, ""))
        topic = texts.get(properties.REAL_TOPIC)
        own = int(columns[row.TOPIC_NUMBER, number])
        place = (
            java.text(batch.topics[own]) if topic is None else topic,
            int(columns[row.QUEUE_ID, number]) if queue_id is None else queue_id,
        )
        is_queue = wanted.queue_id in {None, place[1]}
        is_topic = wanted.topics is None if topic is None else wanted.is_topic(topic)
        if has_offsets or not is_queue or not is_topic:
            is_kept[number] = False
        else:
            places[number] = place
    return places


# What is in another store, and which half messages are open: what a choice of messages asks for.
#
# Messages are the same by topic and unique key, else by topic, queue, queue offset, store time and
# checksum of the body, as `rebuild-log` has it.


def hashes(batch: Batch, columns: Int64s) -> Int64s:
    """Give what tells records of a batch apart from those of other stores: int64, shape (n,)."""
    from rmqtool.relog import kernels  # few name other stores
    from rmqtool.relog.chunk import KEY_ROWS

    key_hashes = np.empty(columns.shape[1], np.int64)
    kernels.hash_keys(batch.window, np.ascontiguousarray(columns[KEY_ROWS]), key_hashes)
    return key_hashes


def open_other(path: str) -> LogSource:
    """Open the store, or the file of records, that messages may be in.

    Raises:
        StoreError: it is not one, or cannot be read.
    """
    from rmqtool.relog.sources import source_of

    return source_of(path, None)


def known_in(
    other: LogSource, advance: Callable[[int], None], jobs: int | None
) -> tuple[Int64s, int]:
    """Give the hashes of its undamaged messages, sorted, and how many bytes are no record.

    Raises:
        UnreadablePath: it cannot be read to its end: what is lost in it is then unknown.
    """
    from rmqtool.relog.fields import KEY
    from rmqtool.relog.order import concatenated
    from rmqtool.relog.take import TakeOptions

    keys, gap_bytes = [], 0
    for chunk in other.chunks(TakeOptions(keys=True, copies=False), advance, jobs):
        if chunk.unread is not None:
            raise chunk.unread
        keys.append(chunk.fields[KEY])
        gap_bytes += sum(gap.length for gap in chunk.gaps)
    return distinct(concatenated(keys)), gap_bytes


def waiting_messages(store: Store) -> list[Row]:
    """Give the messages that wait for their time, the newest record of each."""
    from rmqtool.tables.pending import pending_timers

    newest: dict[object, Row] = {}  # a timer that waits long is stored again and again
    # in the order of the log, so that the newest counts
    waiting = (timer for timer in pending_timers(store) if timer.get("extent") is None)
    for message in sorted(waiting, key=lambda message: int(str(message["physical_offset"]))):
        newest[message["topic"], message["unique_key"] or message["physical_offset"]] = message
    return list(newest.values())


def places_of(transactions: Sequence[Row], others: Sequence[Row] = ()) -> Int64s:
    """Give the physical offsets of half messages, the newest record of each, and others, sorted."""
    places = [transaction["last_physical_offset"] for transaction in transactions]
    places += [message["physical_offset"] for message in others]
    return np.array(sorted(place for place in places if isinstance(place, int)), np.int64)


def decisions(transactions: Sequence[Row]) -> Iterator[str]:
    """Say what a person has to decide, a sentence for each producer group."""
    groups: dict[str, list[Row]] = {}
    for transaction in transactions:
        groups.setdefault(str(transaction["producer_group"] or "unknown"), []).append(transaction)
    for group, some in sorted(groups.items()):
        moments = [message["first_store_time"] for message in some]
        times = [ms_of(moment) for moment in moments if isinstance(moment, datetime)]
        since = f", the oldest of {iso_time(min(times))}" if times else ""
        what = counted(len(some), "open transaction")
        yield f"producer group {group}: {what}{since}; its application knows: commit or roll back"
