"""Queues of a small RocksDB database, read at once into columns, as `short` does with files.

They have units at all numbers from their first one to their last one. Where a row of the database
is of no known shape, or the rows are not kept in memory, there are none of them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.formats.rocksdb_databases import DEFAULT
from rmqtool.formats.rocksdb_queue import (
    CONTROL,
    CQ_KEY_HEAD,
    CQ_KEY_TAIL,
    ROCKSDB_CQ_UNIT,
    queue_of_unit,
)
from rmqtool.queues.short import ShortQueues, ShortRows

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.queues.rocks import RocksQueues
    from rmqtool.store.rocksdb_kept import KeptRows

    Int64s = npt.NDArray[np.int64]
    UInt8s = npt.NDArray[np.uint8]
    Mask = npt.NDArray[np.bool_]

FIXED: Final = CQ_KEY_HEAD.size + CQ_KEY_TAIL.size  # bytes of a key, without the topic
VALUE: Final = ROCKSDB_CQ_UNIT.size
NO_VALUE: Final = bytes(VALUE)
AT_CONTROL_QUEUE_ID: Final = CQ_KEY_TAIL.positions["control_queue_id"] - CQ_KEY_TAIL.size
AT_CONTROL_OFFSET: Final = CQ_KEY_TAIL.positions["control_queue_offset"] - CQ_KEY_TAIL.size
AT_OFFSET: Final = CQ_KEY_TAIL.positions["queue_offset"] - CQ_KEY_TAIL.size
ROWS: Final = 1 << 16  # whose keys are looked at together


def short_rocks(source: RocksQueues) -> ShortQueues | None:
    """Give the queues whose units have no gap, each unit with its store time; None where unknown.

    Raises:
        DamagedDatabase: the names of its queues cannot be read.
    """
    return source.database.once("short queues", lambda: _read(source))


def _read(source: RocksQueues) -> ShortQueues | None:
    kept = source.database.kept(DEFAULT) if len(source.ends) else None  # they are, of many queues
    if kept is None or not len(kept) or len(kept.values) != VALUE * len(kept):
        return None
    if (np.diff(_ends(kept)[1]) != VALUE).any():
        return None
    numbers, begins = np.empty(len(kept), np.int64), np.empty(len(kept), np.bool_)
    for first in range(0, len(kept), ROWS):
        end = min(first + ROWS, len(kept))
        columns = _columns(kept, first, end)
        if columns is None:
            return None
        numbers[first:end], begins[first:end] = columns
    firsts = np.flatnonzero(begins)
    counts = np.diff(np.append(firsts, len(kept)))
    next_ = numbers[firsts + counts - 1] + 1
    is_whole = (next_ - numbers[firsts] == counts) & (numbers[firsts] >= 0)
    firsts, next_ = firsts[is_whole], next_[is_whole]
    keys, ends, names = kept.keys, kept.key_ends, source.names
    of_names = np.empty(len(firsts), np.int64)
    for short, at in enumerate(firsts.tolist()):
        topic, queue_id = queue_of_unit(bytes(keys[ends[at] : ends[at + 1]]), NO_VALUE)
        of_names[short] = names.row(topic, queue_id)
    if (of_names < 0).any():  # a queue that is not listed
        return None
    units = np.frombuffer(kept.values, np.uint8).reshape(-1, VALUE)
    return ShortQueues(ShortRows(names, of_names), numbers[firsts], next_, firsts, units)


def _ends(kept: KeptRows) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    return np.frombuffer(kept.key_ends, np.uint32), np.frombuffer(kept.value_ends, np.uint32)


def _columns(kept: KeptRows, first: int, end: int) -> tuple[Int64s, Mask] | None:
    """Read keys of units; None where one is of no known shape.

    Returns:
        Queue offsets: int64, shape (n,). Which unit is the first one of its queue: bool, shape (n,)
    """
    ends = _ends(kept)[0][first : end + 1].astype(np.int64)
    lengths = np.diff(ends)
    keys = np.frombuffer(kept.keys, np.uint8)
    numbers, begins = np.empty(end - first, np.int64), np.ones(end - first, np.bool_)
    edges = [0, *(np.flatnonzero(np.diff(lengths)) + 1).tolist(), len(lengths)]
    for low, high in pairwise(edges):  # keys of one length
        length = int(lengths[low])
        if length < FIXED:
            return None
        rows = keys[ends[low] : ends[high]].reshape(-1, length)
        fields = {"topic_length": length - FIXED, "control": CONTROL[0]}
        head = np.frombuffer(CQ_KEY_HEAD.build(fields), np.uint8)
        controls = rows[:, [AT_CONTROL_QUEUE_ID, AT_CONTROL_OFFSET]]
        if (rows[:, : CQ_KEY_HEAD.size] != head).any() or (controls != CONTROL[0]).any():
            return None
        numbers[low:high] = CQ_KEY_TAIL["queue_offset"].column(rows[:, -CQ_KEY_TAIL.size :])
        prefixes = np.ascontiguousarray(rows[:, :AT_OFFSET])
        begins[low + 1 : high] = (prefixes[1:] != prefixes[:-1]).any(axis=1)
    if first:  # a queue may go on over the edge
        before = bytes(kept.keys[kept.key_ends[first - 1] : kept.key_ends[first]])
        this = bytes(kept.keys[kept.key_ends[first] : kept.key_ends[first + 1]])
        begins[0] = before[:AT_OFFSET] != this[:AT_OFFSET]
    return numbers, begins
