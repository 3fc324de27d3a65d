"""Put the runs of a store in the order of its log, and keep what comes twice once.

A run that no other one overlaps goes on as it is. Of the others, records are compared one by one:
the same record at the same place is kept once; different records that claim the same place are
both kept, as only a person can tell which of them the broker wrote last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.scan import columns as row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    import numpy.typing as npt

    from rmqtool.carve.reading import Reader
    from rmqtool.carve.runs import CarvedRuns, Run

    Int64s: TypeAlias = npt.NDArray[np.int64]

SLICE_BYTES: Final = 16 << 20  # of a log, in which overlapping records are compared at once
_KEPT: Final = 6  # numbers that are kept of a record that is compared
PLACE, SIZE, SUM, IMAGE, POSITION, RUN = range(_KEPT)


@dataclass(slots=True)
class Overlaps:
    """What was found out about records that overlap."""

    duplicates: int = 0  # records that were there already
    conflicts: int = 0  # records that claim a place that another one claims


def in_order(runs: CarvedRuns, numbers: Int64s) -> Iterator[list[Run]]:
    """Yield the runs of one store by physical offset: those that overlap together.

    Args:
        runs: all there are.
        numbers: int64, shape (n,); those of the store.
    """
    offsets, lengths = runs.offsets[numbers], runs.lengths[numbers]
    order = np.lexsort((runs.positions[numbers], runs.images[numbers], offsets))
    begins, ends = offsets[order], (offsets + lengths)[order]
    if not order.size:
        return
    borders = np.flatnonzero(begins[1:] >= np.maximum.accumulate(ends)[:-1]) + 1
    first = 0
    for border in [*borders.tolist(), order.size]:
        yield [runs.run(int(numbers[one])) for one in order[first:border]]
        first = border


def settled(group: Sequence[Run], reader: Reader, found: Overlaps) -> Iterator[Run]:
    """Yield what is to be written of runs that overlap, each record once.

    Args:
        group: by physical offset.
        reader: reads records.
        found: counted on.

    Raises:
        UnreadablePath: the image changed.
    """
    if len(group) == 1:
        yield group[0]
        return
    waiting = list(reversed(group))
    active: list[Run] = []
    reached = -1  # past the last byte of the log that a kept record claims
    while waiting or active:
        begin = min([one.offset for one in active] or [waiting[-1].offset])
        end = begin + SLICE_BYTES
        while waiting and waiting[-1].offset < end:
            active.append(waiting.pop())
        rows, rest = [], []
        for number, run in enumerate(active):
            some, left = _facts(run, number, end, reader)
            rows.append(some)
            rest += left
        kept, reached = _kept(np.concatenate(rows, axis=1), reached, found)
        yield from _stretches(kept, active)
        active = rest


def _facts(run: Run, number: int, end: int, reader: Reader) -> tuple[Int64s, list[Run]]:
    """Give what is compared of the records of a run before an offset, and the rest of the run."""
    pieces = [np.empty((_KEPT, 0), np.int64)]
    seen = 0
    for some in reader.records(run):
        offsets = some.columns[row.PHYSICAL_OFFSET]
        count = int(np.searchsorted(offsets, end))
        if count:
            facts = np.empty((_KEPT, count), np.int64)
            facts[PLACE], facts[SIZE] = offsets[:count], some.columns[row.SIZE, :count]
            facts[SUM], facts[IMAGE] = some.sums()[:count], run.image
            facts[POSITION], facts[RUN] = some.columns[row.POSITION, :count], number
            pieces.append(facts)
            seen += count
        if count < offsets.size:
            skipped = int(offsets[count]) - run.offset
            return np.concatenate(pieces, axis=1), [_from(run, skipped, run.records - seen)]
    return np.concatenate(pieces, axis=1), []


def _from(run: Run, skipped: int, count: int) -> Run:
    """Give a run without its first bytes."""
    return run._replace(
        position=run.position + skipped,
        offset=run.offset + skipped,
        length=run.length - skipped,
        records=count,
    )


def _kept(facts: Int64s, reached: int, found: Overlaps) -> tuple[Int64s, int]:
    """Give the records to write, in order, and how far they reach.

    Args:
        facts: int64, shape (6, n).
        reached: past the last byte that records before these claim.
        found: counted on.
    """
    keys = (POSITION, IMAGE, SUM, SIZE, PLACE)  # the last one is the first that counts
    facts = facts[:, np.lexsort([facts[key] for key in keys])]
    is_same = np.zeros(facts.shape[1], np.bool_)
    is_same[1:] = (facts[[PLACE, SIZE, SUM], 1:] == facts[[PLACE, SIZE, SUM], :-1]).all(axis=0)
    kept = facts[:, ~is_same]
    found.duplicates += int(is_same.sum())
    ends = np.maximum.accumulate(np.append(reached, kept[PLACE] + kept[SIZE]))
    found.conflicts += int((kept[PLACE] < ends[:-1]).sum())
    return kept, int(ends[-1])


def _stretches(facts: Int64s, runs: Sequence[Run]) -> Iterator[Run]:
    """Put kept records together where they follow each other in one run."""
    if not facts.shape[1]:
        return
    strides = np.array([run.stride for run in runs], np.int64)[facts[RUN, :-1]]
    after = facts[POSITION, :-1] + facts[SIZE, :-1] + strides
    breaks = (facts[RUN, 1:] != facts[RUN, :-1]) | (facts[POSITION, 1:] != after)
    first = 0
    for border in [*(np.flatnonzero(breaks) + 1).tolist(), facts.shape[1]]:
        one, last = facts[:, first], facts[:, border - 1]
        yield runs[int(one[RUN])]._replace(
            position=int(one[POSITION]),
            offset=int(one[PLACE]),
            length=int(last[POSITION] + last[SIZE] - one[POSITION]),
            records=border - first,
        )
        first = border
