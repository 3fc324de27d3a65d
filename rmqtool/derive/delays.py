"""The delay of each level, read off the queues of delayed messages where no broker.conf tells.

The unit of a delayed message, or its unit in the extension, holds its deliver time, and its
record the time it was stored: their difference is the delay of its level, whatever
`messageDelayLevel` was.
Source: ConsumeQueue and ScheduleMessageService#computeDeliverTimestamp, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.names import SCHEDULE_TOPIC
from rmqtool.errors import UnreadablePath
from rmqtool.formats.consume_queue_ext import EXT_UNIT, is_ext_address, real_offset
from rmqtool.queues.discovery import Queues
from rmqtool.queues.kinds import are_real
from rmqtool.store.record_heads import HEAD_BYTES, head_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from rmqtool.queues.kinds import Units
    from rmqtool.queues.units import QueueUnits
    from rmqtool.store.tree import Store

    Numbers = npt.NDArray[np.int64]

SAMPLED_UNITS: Final = 32
MOST_LEVELS: Final = 64
LEVEL_STEP_MS: Final = 1000  # levels are given in whole seconds
LONGEST_DELAY_MS: Final = 366 * 86_400_000


def tags_fit(topic: str, wanted: Numbers, delays: Numbers) -> npt.NDArray[np.bool_]:
    """Tell which tags codes are right: bool, shape (n,).

    A delayed message keeps the deliver time of the levels that were configured when it was stored:
    with others it would have been earlier or later by whole seconds. No flipped bit is.

    Args:
        topic: of the queue.
        wanted: int64, shape (n,); by the levels that are known.
        delays: int64, shape (n,).
    """
    right: npt.NDArray[np.bool_] = delays == wanted
    if topic == SCHEDULE_TOPIC:
        step = np.abs(delays - wanted)
        right |= (delays > 0) & (step % LEVEL_STEP_MS == 0) & (step <= LONGEST_DELAY_MS)
    return right


def observed_delays(store: Store, usual: Sequence[int]) -> tuple[int, ...]:
    """Give the delay of each level, ms: as most units show it, else the usual one.

    Args:
        store: whose queues are looked at.
        usual: delays of level 1, 2, … that hold where a queue shows none.
    """
    with Queues(store) as queues:
        there = (queues.files.queue(SCHEDULE_TOPIC, number) for number in range(MOST_LEVELS))
        observed = [_observed(store, queue) if queue else None for queue in there]
    last = max((number for number, delay in enumerate(observed) if delay is not None), default=-1)
    count = max(last + 1, len(usual))
    levels = [*usual, *[1000] * (count - len(usual))]  # a level without an entry counts 1 s
    return tuple(
        levels[number] if observed[number] is None else int(observed[number] or 0)
        for number in range(min(count, MOST_LEVELS))
    )


def _observed(store: Store, queue: QueueUnits) -> int | None:
    """Give the delay that most units of a level show; None when none can be judged."""
    delays: Counter[int] = Counter()
    try:
        span = queue.span(store.commitlog.start)
        if span.first is not None and span.last is not None:
            oldest, newest = span.first.number, span.last.number + 1 - SAMPLED_UNITS
            for number in {oldest, max(newest, oldest)}:
                units = queue.read(number, SAMPLED_UNITS)
                delays.update(_delays(store, units, queue.queue_id))
    except UnreadablePath:
        return None  # whoever reads that queue will be told
    return delays.most_common(1)[0][0] if delays else None


def _delays(store: Store, units: Units, queue_id: int) -> Iterator[int]:
    """Yield what units say, as far as their records are there."""
    for physical_offset, _, stored in units[are_real(units)].tolist():
        tags_code = _of_extension(store, queue_id, stored) if is_ext_address(stored) else stored
        if not store.commitlog.start <= physical_offset < store.commitlog.end:
            continue
        head = head_of(store.commitlog.read_at(physical_offset, HEAD_BYTES), 0, physical_offset)
        if head is not None and tags_code >= head.store_timestamp:
            yield tags_code - head.store_timestamp


def _of_extension(store: Store, queue_id: int, address: int) -> int:
    """Read the tags code of a unit of the extension; -1 where there is not one."""
    queue = store.ext_queue(SCHEDULE_TOPIC, queue_id)
    raw = queue.files.read_at(real_offset(address), EXT_UNIT.size) if queue else b""
    return EXT_UNIT.parse(raw)["tags_code"] if len(raw) == EXT_UNIT.size else -1
