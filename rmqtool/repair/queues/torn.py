"""Records whose properties are torn: what they say of tags is no reason to change a unit.

The unit was made when the record was whole; what is left of the properties gives another tags code,
mostly none at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.check.queues.queue_state import UNIT
from rmqtool.errors import DecodeError, UnreadablePath
from rmqtool.findings.registry_consume_queue import CQ_TAG
from rmqtool.formats.message import decode
from rmqtool.formats.properties import are_torn
from rmqtool.store.record_heads import LogReader

if TYPE_CHECKING:
    import numpy as np

    from rmqtool.check.inspection import Inspection
    from rmqtool.findings.finding import Finding
    from rmqtool.repair.patches import RepairedQueue
    from rmqtool.repair.writer import EditWriter

KEPT: Final = (
    "the unit keeps the tags code that it got from the whole record; nothing brings the properties "
    "back: consumers get the message without them, and those that filter by tag may drop it"
)


# Damage tears the properties of a few records. Where so many units differ from sound records, the
# units are wrong, and the remaining records are not read for it.
MOST_SOUND_RECORDS: Final = 1 << 14


class TornRecords:
    """Finds them where units and records differ in nothing but the tags code.

    Args:
        inspection: of the store.
    """

    def __init__(self, inspection: Inspection) -> None:
        store = inspection.store
        self._log = LogReader(store.old_commitlog, store.commitlog)
        self._sound = 0
        self._left: dict[tuple[str, int], tuple[int, int]] = {}  # by file and position

    def keeps(self, queue: RepairedQueue, number: int, unit: np.void) -> bool:
        """Tell whether the record of a unit is torn, and take note of it.

        Args:
            queue: whose unit it is.
            number: of the unit.
            unit: as the log wants it.
        """
        if self._sound == MOST_SOUND_RECORDS:
            return False
        offset = int(unit["physical_offset"])
        segment = queue.files.at(number * UNIT)
        if segment is None or not self._is_torn(offset, int(unit["size"])):
            self._sound += 1
            return False
        self._left[segment.path, number * UNIT - segment.start] = number, offset
        return True

    def _is_torn(self, offset: int, size: int) -> bool:
        try:
            return are_torn(decode(self._log.read_at(offset, size)).properties_bytes)
        except (DecodeError, UnreadablePath):
            return False

    def is_said(self, one: Finding) -> bool:
        """Tell whether a finding is about such a unit."""
        return one.code == CQ_TAG and (one.path, one.position) in self._left

    def edit(self, writer: EditWriter) -> None:
        """Take note of them in a plan."""
        for (path, _), (number, offset) in sorted(self._left.items()):
            torn = f"the record at {offset} has torn properties"
            writer.leave(CQ_TAG, path, f"queue offset {number}: {torn}", KEPT)

    def close(self) -> None:
        """Close the files that were read."""
        self._log.__exit__()
