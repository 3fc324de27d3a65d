"""The table of batch queue units, and of those of the compaction store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from rmqtool.findings.registry_consume_queue import BQ_UNIT
from rmqtool.formats import java
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.tables import arrow
from rmqtool.tables.fixed import VALUE, Fixed, by_physical_offset, queue_kinds
from rmqtool.tables.unit_tables import BATCH_QUEUE
from rmqtool.tables.units import overlaps

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.tables.inputs import FilePart
    from rmqtool.tables.selection import Selection
    from rmqtool.tables.units import FileUnits

    Bools: TypeAlias = npt.NDArray[np.bool_]
    Int64s: TypeAlias = npt.NDArray[np.int64]


def _wanted(units: FileUnits, kinds: Int64s, selection: Selection) -> Bools:
    times = units.column("store_timestamp")
    found = by_physical_offset(units, kinds, selection)
    found &= overlaps(times, np.ones_like(times), selection.store_time)
    if selection.tag is not None:
        found &= units.column("tags_code") == java.string_hash(selection.tag)
        found &= kinds == VALUE
    return found


def _columns(part: FilePart, units: FileUnits, numbers: Int64s) -> dict[str, pa.Array]:
    return {
        "topic": arrow.constant(part.topic, numbers.size),
        "queue_id": arrow.numbers(np.full(numbers.size, part.queue_id), pa.int32()),
        "number": pa.array(numbers),
        "store_time": arrow.times(units.column("store_timestamp")),
    } | {
        name: arrow.numbers(units.column(name), BATCH_QUEUE.arrow.field(name).type)
        for name in BATCH_CQ_UNIT.positions
        if name in BATCH_QUEUE.names
    }


UNITS: Final = Fixed(BATCH_CQ_UNIT, BATCH_QUEUE, queue_kinds, _columns, _wanted, code=BQ_UNIT)
