"""Runs that waited for those of later parts are the same units in the same order, in fewer runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.derive import run_pool
from rmqtool.derive.queue_runs import QueueRuns, RunQueues
from rmqtool.derive.run_pool import SHORT_RUN, RunPool
from rmqtool.formats.consume_queue import CQ_UNIT_SIZE, QueueKind

FILE_UNITS: Final = 5
Run = tuple[int, int, int]  # queue, queue offset, units
PARTS: Final = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12), st.integers(1, 4)), max_size=6),
    max_size=5,
)


def runs_of(part: list[Run], first_unit: int) -> QueueRuns:
    """Make runs as a part gives them: by queue, each queue's in log order; units are numbered."""
    queues = tuple(dict.fromkeys(queue for queue, _, _ in part))
    ordered = sorted(part, key=lambda run: queues.index(run[0]))
    counts = np.array([count for _, _, count in ordered], np.int64)
    total = int(counts.sum())
    units = np.zeros((total, CQ_UNIT_SIZE), np.uint8)
    units[:, :8] = np.arange(first_unit, first_unit + total, dtype=">i8")[:, None].view(np.uint8)
    return QueueRuns(
        QueueKind.CONSUME_QUEUE,
        RunQueues.of((b"topic%d" % queue, queue) for queue in queues),
        units,
        np.array([queues.index(queue) for queue, _, _ in ordered], np.int64),
        np.array([offset for _, offset, _ in ordered], np.int64),
        np.cumsum(counts) - counts,
        counts,
        np.arange(first_unit, first_unit + len(ordered), dtype=np.int64),
    )


def units_of(found: Iterable[QueueRuns]) -> dict[int, list[tuple[int, bytes]]]:
    """Give queue offset and bytes of each unit of each queue, in order."""
    queues: dict[int, list[tuple[int, bytes]]] = {}
    for runs in found:
        for run in runs:
            assert run.topic == b"topic%d" % run.queue_id
            for number in range(run.count):
                unit = bytes(run.units[number * CQ_UNIT_SIZE :][:CQ_UNIT_SIZE])
                queues.setdefault(run.queue_id, []).append((run.queue_offset + number, unit))
    return queues


@given(PARTS, st.sampled_from([0, 200, 1 << 30]), st.sampled_from([1, 4, 1 << 20]))
def test_same_units(parts: list[list[Run]], largest: int, at_a_time: int) -> None:
    """Whenever the pool is emptied, each queue has its units in log order, and none is lost.

    So it is when runs were joined while they waited, and when some queues are given at a time.
    """
    given_runs, number = [], 0
    for part in parts:
        given_runs.append(runs_of(part, number))
        number += sum(count for _, _, count in part)
    pool = RunPool(FILE_UNITS, largest=largest)
    found: list[QueueRuns] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_pool, "JOINED_RUNS", at_a_time)
        patch.setattr(run_pool, "UNITS_AT_A_TIME", at_a_time)
        for runs in given_runs:
            found += pool.add(runs)
        rest = [*pool.rest()]
    assert units_of(given_runs) == units_of([*found, *rest])
    queues = [name for runs in rest for name in runs.queues]
    assert len(queues) == len(set(queues))  # all of one at once
    assert [] == [*pool.rest()]


def test_one_run_a_file() -> None:
    """What goes on in the next part is one run, up to where a file ends."""
    pool = RunPool(FILE_UNITS)
    assert [] == [*pool.add(runs_of([(0, 1, 2), (1, 0, 1)], 0))]
    assert [] == [*pool.add(runs_of([(1, 1, 1), (0, 3, 2), (0, 5, 2)], 3))]
    (runs,) = pool.rest()
    assert [(0, 1, 4), (0, 5, 2), (1, 0, 2)] == sorted(
        (run.queue_id, run.queue_offset, run.count) for run in runs
    )


def test_long_runs_do_not_wait() -> None:
    """Runs that are worth opening a file for pass, behind all that came before them."""
    pool = RunPool(0)
    short, long = runs_of([(0, 0, 1)], 0), runs_of([(0, 1, SHORT_RUN // CQ_UNIT_SIZE + 1)], 1)
    assert [] == [*pool.add(short)]
    first, second = pool.add(long)
    assert (1, long) == (len(first), second)
