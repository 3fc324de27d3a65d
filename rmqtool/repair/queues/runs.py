"""Dispatch runs as they will be once the log is repaired.

What a bridge covers dispatches nothing; a record whose place is put right is dispatched with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.derive.queue_runs import QueueKind
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.consume_queue import CQ_UNIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from rmqtool.derive.queue_runs import QueueRun, QueueRuns
    from rmqtool.repair.log.stretches import Stretches

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
    runs: QueueRuns | Iterable[QueueRun], damaged: Stretches, moved: Sequence[WrongOffset]
) -> Iterator[QueueRun]:
    """Yield runs without what is lost, and with true places."""
    fields = {record.field for record in moved}
    for run in runs:
        units = np.frombuffer(run.units, DTYPES[run.kind]).copy()
        own = _true_places(run, units, [record for record in moved if record.field in fields])
        offsets = units["physical_offset"].astype(np.int64)
        kept = ~damaged.mask(offsets) | own
        if kept.all() and not own.any():
            yield run
            continue
        yield from replace(run, units=memoryview(units.tobytes())).parts(kept)


def in_order(runs: Iterable[QueueRun], queues: set[tuple[bytes, int]]) -> Iterator[QueueRun]:
    """Yield runs, those of some queues by queue offset: their records lie in another order."""
    others: list[QueueRun] = []
    for run in runs:
        if (run.topic, run.queue_id) in queues:
            others.append(run)
        else:
            yield run
    yield from sorted(others, key=lambda run: (run.topic, run.queue_id, run.queue_offset))


def _true_places(
    run: QueueRun, units: npt.NDArray[np.void], moved: Sequence[WrongOffset]
) -> npt.NDArray[np.bool_]:
    """Put the true places of moved records in; tell which units these are."""
    own = np.zeros(len(units), bool)
    for record in moved:
        rows = np.flatnonzero(
            (units["physical_offset"] == record.field) & (units["size"] == record.size)
        )
        for row in rows.tolist():
            is_its = (run.topic, run.queue_id, run.queue_offset + row) == record.unit
            may_be = run.topic in record.multi_dispatch or run.kind is QueueKind.BATCH_QUEUE
            if is_its or (may_be and _lies_at(units, row, record.physical_offset)):
                units["physical_offset"][row] = record.place
                own[row] = True
    return own


def _lies_at(units: npt.NDArray[np.void], row: int, physical_offset: int) -> bool:
    """Tell whether a record may lie there: between those of the units beside its own."""
    before = [int(unit) for unit in units["physical_offset"][max(row - 1, 0) : row]]
    after = [int(unit) for unit in units["physical_offset"][row + 1 : row + 2]]
    return all(offset < physical_offset for offset in before) and all(
        offset > physical_offset for offset in after
    )
