"""Tell of a unit of a consume queue whether a record of the repaired log stands after it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.names import LMQ_PREFIX, topic_raw
from rmqtool.check.queues.queue_state import UNIT
from rmqtool.errors import DecodeError
from rmqtool.findings.registry_commitlog import CL_QOFF_GAP
from rmqtool.formats.consume_queue import PHYSICAL_OFFSET
from rmqtool.formats.message import SMALLEST_RECORD, decode
from rmqtool.formats.properties import INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET
from rmqtool.queues.reach import may_name
from rmqtool.repair.patches import Patch, RepairedQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.repair.log.stretches import Damaged, Stretches
    from rmqtool.store.record_heads import LogReader, RecordHead

REPEATED: Final = "a neighbouring message; consumers receive it again"


class LostUnits:
    """Knows what is damaged of a log, and what stands at its end.

    Attributes:
        tail: stretch at the end of the log that holds no record; the queues tell whether records
            were there. None when the log ends as it should.
        tail_end: after the last record there that a queue knows; 0 for none.
        smallest_bridge: bytes that the bridge over these has at least.
        queue_of: gives what a queue should hold, as far as it was compared.

    Args:
        inspection: of the store.
        facts: of its log.
        damaged: stretches of the log that are bridged.
        early: blanks under which records may have been.
    """

    def __init__(
        self, inspection: Inspection, facts: LogFacts, damaged: Stretches, early: Stretches
    ) -> None:
        self.tail: Damaged | None = None
        self.tail_end = self.smallest_bridge = 0
        self.queue_of: Callable[[bytes, int], RepairedQueue | None] = lambda _topic, _id: None
        self._inspection, self._facts = inspection, facts
        self._damaged, self._early = damaged, early
        commitlog = inspection.store.commitlog
        self._log_start, self._segment_length = commitlog.start, commitlog.file_length

    @property
    def log_end(self) -> int:
        """Physical offset after the last record."""
        return self._facts.end

    def is_after_the_log(self, offset: int) -> bool:
        """Tell whether no record stays at an offset, or after it: zeros go over the tail.

        What a running broker appends meanwhile stays.
        """
        if self._inspection.store.moment.is_live:
            return False
        is_in_tail = self.tail is not None and self.tail.start <= offset < self.tail.end
        return is_in_tail or offset >= self.log_end

    def lost(self, offset: int, size: int) -> Damaged | None:
        """Give the stretch that a unit points into; a tail counts if the broker had stopped."""
        tail = self.tail
        if tail is not None and tail.start <= offset < tail.end:
            # A record that would not end within the log's file was cut off with those after it.
            if self._inspection.scope.has_crashed or size <= 0 or offset + size > tail.end:
                return None
            self.tail_end = max(self.tail_end, offset + size, tail.start + self.smallest_bridge)
            return tail
        return self.damaged_at(offset, size) if size > 0 else None

    def bridged(self, damaged: Damaged) -> Damaged:
        """Give what of a stretch a bridge will cover: of the tail, up to its last known record."""
        return replace(damaged, end=self.tail_end) if damaged is self.tail else damaged

    def damaged_at(self, offset: int, size: int) -> Damaged | None:
        """Give the stretch that holds what a unit points to.

        A blank that whole records would fit into covers them; a unit by which a repair or a rebuild
        passes over a lost record points to its end.
        """
        early = self._early.at(offset)
        if early is not None and size >= SMALLEST_RECORD and offset + size <= early.end:
            early.given_up = 1
            return early
        return self._damaged.at(offset)

    def has_lost(self, start: int, end: int) -> bool:
        """Tell whether messages may be lost in a stretch of the log."""
        return any(stretches.between(start, end) for stretches in (self._damaged, self._early))

    def are_lost(self, units: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
        """Tell of each unit whether it points into a damaged stretch: bool, shape (n,)."""
        offsets, is_used = units["physical_offset"].astype(np.int64), units["size"] > 0
        lost: npt.NDArray[np.bool_] = self._damaged.mask(offsets) & is_used
        for row in np.flatnonzero(self._early.mask(offsets) & is_used & ~lost).tolist():
            lost[row] = self.damaged_at(int(offsets[row]), int(units["size"][row])) is not None
        return lost

    def is_own(
        self, queue: RepairedQueue, number: int, physical_offset: int, size: int, log: LogReader
    ) -> bool:
        """Tell whether a unit is that of a sound record of this queue."""
        if size <= 0 or self.damaged_at(physical_offset, size) is not None:
            return False
        if self.is_after_the_log(physical_offset):
            return False
        length = self._segment_length
        if length and (physical_offset + 1 - self._log_start) % length == 0:
            return True  # no record begins at a file's last byte: it stands for a lost one
        is_inside = self._log_start <= physical_offset < self.log_end
        if is_inside and self._inspection.segment_at(physical_offset) is None:
            return True  # its segment is missing, and may come back from a backup
        head = log.head_at(physical_offset)
        if head is None or head.size != size:
            return False
        return self._is_of(queue, number, head, log)

    def _is_of(self, queue: RepairedQueue, number: int, head: RecordHead, log: LogReader) -> bool:
        """Tell whether a record is that of a unit; further queues number for themselves."""
        try:
            message = decode(log.read_at(head.physical_offset, head.size))
        except DecodeError:
            return False
        own = (message.topic, head.queue_id, head.queue_offset)
        if own == (queue.topic, queue.queue_id, number):
            return True
        names = message.properties.get(INNER_MULTI_DISPATCH, "").split(",")
        numbers = message.properties.get(INNER_MULTI_QUEUE_OFFSET, "").split(",")
        places = dict(zip(names, numbers, strict=False))
        if not queue.topic.startswith(LMQ_PREFIX) or queue.topic in names:
            other_place = places.get(queue.topic, "")
            is_elsewhere = other_place != str(number) and self._will_have(
                queue.topic, other_place, head.physical_offset
            )
            return queue.topic in names and not is_elsewhere
        # A name that another queue has, with a number that is not this one, is not damaged. Neither
        # are names of queues that all have the record at its number.
        known = self._inspection.units("queues")
        if str(number) not in numbers and all((name, 0) in known for name in names):
            return False
        if all(self._will_have(*place, head.physical_offset) for place in places.items()):
            return False
        return may_name(message.properties_bytes, queue.topic.encode())

    def _will_have(self, name: str, number: str, physical_offset: int) -> bool:
        """Tell whether a light queue has a record at its number once the queues are repaired."""
        queue = self.queue_of(topic_raw(name), 0)
        if queue is None or not number.isdecimal():
            return False
        return PHYSICAL_OFFSET.of(queue.will_be(int(number))) == physical_offset

    def filler(
        self,
        queue: RepairedQueue,
        number: int,
        raw: bytes,
        have: npt.NDArray[np.void],
        how: str = REPEATED,
    ) -> Patch:
        """Word units that stand in for lost ones.

        Args:
            queue: whose they are.
            number: of the first one.
            raw: their bytes.
            have: what is there now.
            how: what consumers then get for it.
        """
        pairs = zip(have["physical_offset"].tolist(), have["size"].tolist(), strict=True)
        known = [damaged for pair in pairs if (damaged := self.damaged_at(*pair))]
        count = len(raw) // UNIT
        what = (
            "this lost message's queue offset now points to"
            if count == 1
            else f"{count:,} lost queue offsets now point to"
        )
        last = f" to {number + count - 1}" if count > 1 else ""
        return Patch(
            number,
            raw,
            known[0].code if known else CL_QOFF_GAP,
            f"{what} {how}",
            f"{queue.topic} queue {queue.queue_id}, queue offset {number}{last}",
        )
