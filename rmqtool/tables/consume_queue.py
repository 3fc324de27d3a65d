"""The table of consume queue units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from rmqtool.broker.names import SCHEDULE_TOPIC
from rmqtool.findings.registry_consume_queue import CQ_HOLE
from rmqtool.formats import java
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.consume_queue_ext import LARGEST_ADDRESS
from rmqtool.tables import arrow
from rmqtool.tables.fixed import FILLER, INVALID, VALUE, Fixed, by_physical_offset, queue_kinds
from rmqtool.tables.unit_tables import CONSUME_QUEUE

if TYPE_CHECKING:
    import numpy.typing as npt

    from rmqtool.tables.inputs import FilePart
    from rmqtool.tables.selection import Selection
    from rmqtool.tables.units import FileUnits

    Bools: TypeAlias = npt.NDArray[np.bool_]
    Int64s: TypeAlias = npt.NDArray[np.int64]

NOTHING, NO_TAG, TAG_HASH, DELIVER_TIME, EXT_ADDRESS, PRE_BLANK = range(6)
MEANINGS: Final = (None, "no tag", "tag hash", "deliver time", "ext address", "filler")


def _wanted(units: FileUnits, kinds: Int64s, selection: Selection) -> Bools:
    found = by_physical_offset(units, kinds, selection)
    if selection.tag is not None:
        found &= units.column("tags_code") == java.string_hash(selection.tag)
        found &= kinds == VALUE
    return found


def _columns(part: FilePart, units: FileUnits, numbers: Int64s) -> dict[str, pa.Array]:
    tags_codes = units.column("tags_code")
    meanings = _meanings(part.topic, tags_codes, queue_kinds(units))
    return {
        "topic": arrow.constant(part.topic, numbers.size),
        "queue_id": arrow.numbers(np.full(numbers.size, part.queue_id), pa.int32()),
        "queue_offset": pa.array(numbers),
        "physical_offset": pa.array(units.column("physical_offset")),
        "size": arrow.numbers(units.column("size"), pa.int32()),
        "tags_code": pa.array(tags_codes),
        "meaning": arrow.words(meanings, MEANINGS),
        "deliver_time": arrow.times(tags_codes, meanings != DELIVER_TIME),
        "ext_position": pa.array(tags_codes - np.int64(-(2**63)), mask=meanings != EXT_ADDRESS),
    }


def _meanings(topic: str, tags_codes: Int64s, kinds: Int64s) -> Int64s:
    """Say what each tags code means.

    Source: ConsumeQueue#putMessagePositionInfoWrapper, ConsumeQueueExt#isExtAddr, 4.9.3 to 5.5.0.
    """
    usual = DELIVER_TIME if topic == SCHEDULE_TOPIC else TAG_HASH
    meanings = np.where(tags_codes == 0, NO_TAG, usual)
    meanings = np.where(tags_codes <= LARGEST_ADDRESS, EXT_ADDRESS, meanings)
    meanings = np.where(kinds == FILLER, PRE_BLANK, meanings)
    return np.where(kinds >= INVALID, NOTHING, meanings)


UNITS: Final = Fixed(CQ_UNIT, CONSUME_QUEUE, queue_kinds, _columns, _wanted, code=CQ_HOLE)
