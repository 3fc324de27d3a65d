"""Dispatch runs as they will be once the log is repaired.

What a bridge covers dispatches nothing; a record whose place is put right is dispatched with it.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE, QueueKind
from rmqtool.formats.consume_queue_ext import is_ext_address
from rmqtool.machine.arrays import distinct, is_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from rmqtool.derive.queue_runs import QueueRun, QueueRuns
    from rmqtool.repair.log.stretches import Stretches
    from rmqtool.repair.queues.wrong_queue_fields import WrongQueue

DTYPES: Final = {
    QueueKind.CONSUME_QUEUE: CQ_UNIT.dtype,
    QueueKind.BATCH_QUEUE: BATCH_CQ_UNIT.dtype,
}


@dataclass(frozen=True, slots=True)
class WrongOffset:
    """A record that names another place than the one where it lies."""

    physical_offset: int  # where it lies
    field: int  # what it says
    unit: tuple[bytes, int, int]  # topic, queue id and queue offset
    size: int  # bytes of the record
    multi_dispatch: tuple[bytes, ...] = ()  # topics of the further queues that it names
    # whether it is moved to where it says, as the one there is to its place
    is_put_back: bool = False

    @property
    def place(self) -> int:
        """Where it will lie."""
        return self.field if self.is_put_back else self.physical_offset


def mended(
    runs: QueueRuns | Iterable[QueueRun],
    damaged: Stretches,
    moved: Sequence[WrongOffset],
    lost: Sequence[WrongOffset] = (),
) -> Iterator[QueueRun]:
    """Yield runs without what is lost, and with true places.

    Args:
        runs: of a part of the log.
        damaged: what of the log is bridged.
        moved: records of the part that are made true.
        lost: records of the part that are bridged, and whose units do not tell: they name another
            place.
    """
    moved_records, lost_records = _MovedRecords(moved), _LostRecords(lost)
    for run in runs:
        units = np.frombuffer(run.units, DTYPES[run.kind]).copy()
        own = moved_records.put_true(run, units)
        offsets = units["physical_offset"].astype(np.int64)
        is_lost = damaged.mask(offsets)
        if lost:
            is_lost |= lost_records.name(run, units)
        kept = ~is_lost | own
        if kept.all() and not own.any():
            yield run
            continue
        yield from replace(run, units=memoryview(units.tobytes())).parts(kept)


def put_back(runs: Iterable[QueueRun], wrong_queues: Sequence[WrongQueue]) -> Iterator[QueueRun]:
    """Yield runs with the units of misplaced records in their own queues."""
    known = {record.physical_offset: record for record in wrong_queues}
    places = np.array(sorted(known), np.int64)
    for run in runs:
        if run.kind is not QueueKind.CONSUME_QUEUE:
            yield run
            continue
        kept = np.ones(run.count, np.bool_)
        offsets = np.frombuffer(run.units, CQ_UNIT.dtype)["physical_offset"].astype(np.int64)
        for row in np.flatnonzero(is_in(offsets, places)).tolist():
            moved = _put_back(run, row, known[int(offsets[row])])
            if moved is not None:
                kept[row] = False
                yield moved
        yield from run.parts(kept)


def _put_back(run: QueueRun, row: int, record: WrongQueue) -> QueueRun | None:
    """Give the run of a record's unit in the queue that it belongs in; None where it stays."""
    topic, queue_id, number = record.own
    here = run.queue_offset + row
    wanted = run.units[row * CQ_UNIT_SIZE :][:CQ_UNIT_SIZE]
    if run.topic in record.multi_dispatch and run.queue_id == record.claimed[1]:
        return replace(run, queue_id=queue_id, queue_offset=here, units=wanted, count=1)
    if (run.topic, run.queue_id, here) != record.claimed:
        return None
    is_address = is_ext_address(CQ_UNIT["tags_code"].of(record.unit))  # judged as any address is
    if record.has_unit and not is_address:
        wanted = memoryview(record.unit)
    return replace(run, topic=topic, queue_id=queue_id, queue_offset=number, units=wanted, count=1)


def in_order(runs: Iterable[QueueRun], queues: set[tuple[bytes, int]]) -> Iterator[QueueRun]:
    """Yield runs, those of some queues by queue offset: their records lie in another order."""
    others: list[QueueRun] = []
    for run in runs:
        if (run.topic, run.queue_id) in queues:
            others.append(run)
        else:
            yield run
    yield from sorted(others, key=lambda run: (run.topic, run.queue_id, run.queue_offset))


class _LostRecords:
    """Records that are bridged, by the place that each says it has."""

    def __init__(self, lost: Sequence[WrongOffset]) -> None:
        self._fields = distinct(np.array([record.field for record in lost], np.int64))
        self._units: dict[tuple[int, int], set[tuple[bytes, int, int]]] = {}
        self._queues: dict[tuple[int, int], set[tuple[bytes, int]]] = {}
        for record in lost:
            stated = record.field, record.size
            self._units.setdefault(stated, set()).add(record.unit)
            self._queues.setdefault(stated, set()).add(record.unit[:2])

    def name(self, run: QueueRun, units: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
        """Tell which units are theirs: bool, shape (n,). Other queues number for themselves."""
        named = is_in(units["physical_offset"].astype(np.int64), self._fields)
        queue = run.topic, run.queue_id
        is_counted = run.kind is QueueKind.CONSUME_QUEUE  # a unit for each queue offset
        for row in np.flatnonzero(named).tolist():
            stated = _stated(units, row)
            is_numbered = is_counted and queue in self._queues.get(stated, ())
            is_own = (*queue, run.queue_offset + row) in self._units.get(stated, ())
            named[row] = is_own if is_numbered else stated in self._units
        return named


class _MovedRecords:
    """Moved records by the place that each says it has."""

    def __init__(self, moved: Sequence[WrongOffset]) -> None:
        self._moved = moved
        self._fields = np.unique(np.array([record.field for record in moved], np.int64))
        self._numbers: dict[tuple[int, int], list[int]] = {}
        for number, record in enumerate(moved):
            self._numbers.setdefault((record.field, record.size), []).append(number)

    def put_true(self, run: QueueRun, units: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
        """Put the true places of moved records into units; tell which units these are.

        Each record in the order of the log takes the units that name its place by then.
        """
        own = np.zeros(len(units), bool)
        offsets = units["physical_offset"].astype(np.int64)
        waiting = [
            (number, row)
            for row in np.flatnonzero(np.isin(offsets, self._fields)).tolist()
            for number in self._numbers.get(_stated(units, row), ())
        ]
        heapq.heapify(waiting)
        while waiting:
            number, row = heapq.heappop(waiting)
            record = self._moved[number]
            if _stated(units, row) != (record.field, record.size):
                continue  # an earlier record has taken it
            is_its = (run.topic, run.queue_id, run.queue_offset + row) == record.unit
            may_be = run.topic in record.multi_dispatch or run.kind is QueueKind.BATCH_QUEUE
            if is_its or (may_be and _lies_at(units, row, record.physical_offset)):
                units["physical_offset"][row] = record.place
                own[row] = True
                for later in self._numbers.get((record.place, record.size), ()):
                    if later > number:
                        heapq.heappush(waiting, (later, row))
        return own


def _stated(units: npt.NDArray[np.void], row: int) -> tuple[int, int]:
    """Give place and size that a unit states."""
    return int(units["physical_offset"][row]), int(units["size"][row])


def _lies_at(units: npt.NDArray[np.void], row: int, physical_offset: int) -> bool:
    """Tell whether a record may lie there: between those of the units beside its own."""
    before = [int(unit) for unit in units["physical_offset"][max(row - 1, 0) : row]]
    after = [int(unit) for unit in units["physical_offset"][row + 1 : row + 2]]
    return all(offset < physical_offset for offset in before) and all(
        offset > physical_offset for offset in after
    )
