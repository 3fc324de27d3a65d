"""What becomes of queues in RocksDB: what consumers reach of them before a start and after it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from rmqtool.broker.release import Version
from rmqtool.machine.arrays import is_in
from rmqtool.startup.coverage import join
from rmqtool.startup.fates import Before, queue_fates
from rmqtool.startup.prediction import QueueFate
from rmqtool.startup.pull import LogExtent, Pull

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from rmqtool.queues.kinds import Units
    from rmqtool.startup.fates import Pointers
    from rmqtool.startup.model import Model, QueueKey
    from rmqtool.startup.rocksdb.keyed_queue import KeyedQueue
    from rmqtool.startup.rocksdb.model import RocksModel

    Int64s = NDArray[np.int64]

READ_AT_ONCE: Final = 32  # messages that a pull of a consumer asks for
THROWS_AT_HOLES: Final = Version(5, 4, 0)  # for all of them; observed, 5.5.0


@dataclass(frozen=True, slots=True)
class RocksBefore(Before):
    """The store before the start."""

    # numbers and units of each queue in RocksDB that consumers reach
    keyed: dict[QueueKey, tuple[Int64s, Units]]

    @classmethod
    def with_keyed(cls, model: RocksModel) -> Self:
        """Take down what there is.

        Raises:
            UnreadablePath: a file may not be read.
        """
        plain = Before.of(model)
        keyed = {key: _reached(queue, model) for key, queue in model.keyed.items()}
        for key, (_, units) in keyed.items():
            if is_asked(model, key):
                plain.coverage.add(key, join([units]))
        return cls(plain.log, plain.queues, plain.counts, plain.coverage, keyed)

    def pointers(self, model: Model) -> Iterator[Pointers]:
        """See `Before`."""
        yield from Before.pointers(self, model)
        for (topic, _), (_, units) in self.keyed.items():
            yield topic, partial(_messages, units)


def is_asked(model: RocksModel, key: QueueKey) -> bool:
    """Tell whether consumers get what RocksDB has of a queue."""
    return model.rocksdb_settings.rocksdb_is_read or (
        model.rocksdb_settings.has_light_alone and key not in model.queues
    )


def rocks_fates(model: RocksModel, before: RocksBefore) -> Iterator[QueueFate]:
    """Give what becomes of each queue, those in files first, and tell the coverage what changes.

    Raises:
        UnreadablePath: a file may not be read.
    """
    yield from queue_fates(model, before)
    log = LogExtent(model.commitlog)
    for key, queue in sorted(model.keyed.items()):
        numbers, units = _reached(queue, model)
        was_numbers, was = before.keyed.get(key, (numbers[:0], units[:0]))
        if is_asked(model, key):
            before.coverage.change(key, join([was]), join([units]))
        minimum = queue.minimum(model.commitlog.minimum)
        yield QueueFate(
            topic=queue.topic,
            queue_id=queue.queue_id,
            is_batch=False,
            units_before=len(was),
            minimum=minimum,
            maximum=queue.next_offset,
            units_cut=int((~is_in(was_numbers, np.sort(numbers))).sum()),
            units_appended=int((~is_in(numbers, np.sort(was_numbers))).sum()),
            units_shifted=0,
            readable=_readable(numbers, units, log, minimum, queue, model),
            in_rocksdb=True,
        )


def _readable(
    numbers: Int64s,
    units: Units,
    log: LogExtent,
    minimum: int,
    queue: KeyedQueue,
    model: RocksModel,
) -> int:
    """Give the messages that a consumer gets who pulls from the minimum on.

    At a hole 5.3.3 sends consumers back to 0, over and over; newer releases throw for all units
    that are read together with it.
    Source: DefaultMessageStore#getMessage, RocksDBConsumeQueueTable#rangeQuery; observed, 5.3.3 and
    5.5.0.
    """
    expected = np.arange(minimum, minimum + len(numbers))
    holes = np.flatnonzero(numbers != expected)
    end = int(holes[0]) if holes.size else len(numbers)
    if minimum + end < queue.next_offset and model.rules.version >= THROWS_AT_HOLES:
        end = end // READ_AT_ONCE * READ_AT_ONCE
    pull = Pull(log, READ_AT_ONCE)
    pull.add(units[:end])
    return pull.delivered


def _reached(queue: KeyedQueue, model: RocksModel) -> tuple[Int64s, Units]:
    """Give numbers and units from the minimum to the maximum."""
    return queue.between(queue.minimum(model.commitlog.minimum), queue.next_offset)


def _messages(units: Units) -> tuple[Int64s, Int64s]:
    offsets, _ = join([units])
    return offsets, np.ones(len(offsets), np.int64)
