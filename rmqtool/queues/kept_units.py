"""Units of queues in a small RocksDB database, whose rows are in memory, by columns."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.formats.rocksdb_queue import CONTROL, CQ_KEY_HEAD, CQ_KEY_TAIL, ROCKSDB_CQ_UNIT
from rmqtool.queues.queue_names import NameList

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.queues.queue_names import QueueNames
    from rmqtool.store.rocksdb_kept import KeptRows

    Int64s = npt.NDArray[np.int64]

FIXED: Final = CQ_KEY_HEAD.size + CQ_KEY_TAIL.size  # bytes of a key, without the topic
VALUE: Final = ROCKSDB_CQ_UNIT.size
AT_CONTROL_QUEUE_ID: Final = CQ_KEY_TAIL.positions["control_queue_id"] - CQ_KEY_TAIL.size
AT_CONTROL_OFFSET: Final = CQ_KEY_TAIL.positions["control_queue_offset"] - CQ_KEY_TAIL.size
AT_OFFSET: Final = CQ_KEY_TAIL.positions["queue_offset"] - CQ_KEY_TAIL.size
ROWS: Final = 1 << 16  # whose keys are looked at together


class KeptUnits(NamedTuple):
    """All units of a database."""

    numbers: Int64s  # int64, shape (units,): queue offsets, queue by queue
    firsts: Int64s  # int64, shape (queues,): which unit is the first one of each queue
    names: NameList  # of the queues, in the same order

    def rows_in(self, names: QueueNames) -> Int64s:
        """Give which of some names each queue has: int64, shape (queues,); -1 for none."""
        known = np.array([*map(names.topic_number, self.names.topics)], np.int64)
        numbers = np.array(self.names.numbers, np.int64)
        return names.rows_of(known[numbers], np.array(self.names.queue_ids, np.int64))


def kept_units(kept: KeptRows | None) -> KeptUnits | None:
    """Read the keys of units; None where rows are not in memory, or one is of no known shape."""
    if kept is None or kept.value_ends != range(0, VALUE * len(kept) + 1, VALUE):
        return None
    numbers, firsts, names = np.empty(len(kept), np.int64), [], NameList()
    before = b""
    for first in range(0, len(kept), ROWS):
        end = min(first + ROWS, len(kept))
        ends = np.frombuffer(kept.key_ends, np.uint32)[first : end + 1].astype(np.int64)
        lengths = np.diff(ends)
        edges = [0, *(np.flatnonzero(np.diff(lengths)) + 1).tolist(), len(lengths)]
        for low, high in pairwise(edges):  # keys of one length
            keys = np.frombuffer(kept.keys, np.uint8)[ends[low] : ends[high]]
            rows = keys.reshape(high - low, -1)
            if not _are_units(rows):
                return None
            number = CQ_KEY_TAIL["queue_offset"].column(rows[:, -CQ_KEY_TAIL.size :])
            numbers[first + low : first + high] = number
            prefixes = np.ascontiguousarray(rows[:, :AT_OFFSET])
            is_new = np.append(True, (prefixes[1:] != prefixes[:-1]).any(axis=1))
            is_new[0] = prefixes[0].tobytes() != before  # a queue may go on over the edge
            before = prefixes[-1].tobytes()
            firsts.append(first + low + np.flatnonzero(is_new))
            _name(rows[is_new], names)
    return KeptUnits(numbers, np.concatenate(firsts), names)


def _are_units(rows: npt.NDArray[np.uint8]) -> bool:
    """Tell whether keys of one length are those of units."""
    length = rows.shape[1]
    if length < FIXED:
        return False
    fields = {"topic_length": length - FIXED, "control": CONTROL[0]}
    head = np.frombuffer(CQ_KEY_HEAD.build(fields), np.uint8)
    controls = rows[:, [AT_CONTROL_QUEUE_ID, AT_CONTROL_OFFSET]]
    return bool((rows[:, : len(head)] == head).all() and (controls == CONTROL[0]).all())


def _name(rows: npt.NDArray[np.uint8], names: NameList) -> None:
    """Add the names in keys of one length, the first ones of their queues."""
    topics = np.ascontiguousarray(rows[:, CQ_KEY_HEAD.size : -CQ_KEY_TAIL.size])
    queue_ids = CQ_KEY_TAIL["queue_id"].column(rows[:, -CQ_KEY_TAIL.size :]).tolist()
    changes = np.flatnonzero((topics[1:] != topics[:-1]).any(axis=1)) + 1
    for low, high in pairwise([0, *changes.tolist(), len(topics)]):
        if low < high:
            names.extend(topics[low].tobytes(), queue_ids[low:high])
