"""Queues in RocksDB that a start leaves as they are, told by columns: see `PlainQueues`.

A queue is plain here when it has no gap, its units are of records in the order of the log, `max` is
the row of the last one, and a broker finds the first one for its minimum, by the row `min` or by
the search without it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.broker.names import name_in_files
from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE
from rmqtool.queues.kinds import are_real
from rmqtool.queues.queue_names import NONE
from rmqtool.startup.plain_queues import PlainQueues
from rmqtool.startup.rocksdb.keyed_queue import KeyedQueue

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqtool.queues.rocks import RocksQueues
    from rmqtool.queues.short import ShortQueues
    from rmqtool.startup.queues import QueueKey


def plain_keyed(
    source: RocksQueues, short: ShortQueues, log_minimum: int
) -> PlainQueues[KeyedQueue]:
    """Give the plain queues of a database.

    Args:
        source: of all queues.
        short: those without a gap.
        log_minimum: first physical offset of the log; -1 without one.

    Raises:
        DamagedDatabase: the rows of their ends cannot be read.
    """
    short = replace(short, units=np.ascontiguousarray(short.units[:, :CQ_UNIT_SIZE]))
    ends = source.ends

    def open_queue(key: QueueKey) -> KeyedQueue:
        topic, queue_id = key
        first, units = plain.units_of(key)
        numbers, rows = (
            np.arange(first, first + len(units)),
            ends.of((name_in_files(topic), key[1])),
        )
        return KeyedQueue(topic, queue_id, *rows, numbers, units)

    plain = PlainQueues(short, _are_plain(source, short, log_minimum), frozenset(), open_queue)
    return plain


def _are_plain(source: RocksQueues, short: ShortQueues, log_minimum: int) -> NDArray[np.bool_]:
    """Tell which are: bool, shape (n,). See `KeyedQueue.minimum` for what a broker does."""
    rows = short.rows.of_names
    (max_place, max_number), (min_place, min_number) = (
        (places[rows], numbers[rows])
        for places, numbers in source.ends.columns(short.rows.names).ends
    )
    units, position = short.units.view(CQ_UNIT.dtype)[:, 0], short.position
    offsets = units["physical_offset"].astype(np.int64)
    follows = np.ones(len(units), np.bool_)
    follows[1:] = offsets[1:] > offsets[:-1]
    follows[position] = True
    odd = np.append(0, np.cumsum(~(follows & are_real(units))))  # among them units of other queues
    last = position + short.end - short.first - 1
    is_sound = (odd[last + 1] == odd[position]) & (short.first >= 0)
    is_sound &= (max_number == short.end - 1) & (max_place == offsets[last])
    is_believed = (min_place != NONE) & (min_place >= log_minimum)
    begin = np.where(min_place == NONE, 0, min_number)
    is_searched = (begin <= short.first) & (offsets[position] >= log_minimum)
    plain: NDArray[np.bool_] = is_sound & np.where(
        is_believed, min_number == short.first, is_searched
    )
    return plain
