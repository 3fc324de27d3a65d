"""Judge units that differ from the wanted ones in nothing but their tags code: CQ-TAG, CQ-EXTADDR.

Source: ConsumeQueue#putMessagePositionInfoWrapper, ConsumeQueueExt#get, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.check.queues.ext_units import ExtUnits
from rmqtool.check.queues.queue_state import UNIT, at_unit
from rmqtool.derive.delays import tags_fit
from rmqtool.errors import UnreadablePath
from rmqtool.findings.finding import finding
from rmqtool.findings.registry_consume_queue import CQ_EXTADDR, CQ_TAG
from rmqtool.formats.consume_queue_ext import LARGEST_ADDRESS
from rmqtool.store.record_heads import LogReader
from rmqtool.store.unread import unread_stretches

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    import numpy.typing as npt

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.lost import LostRanges
    from rmqtool.check.queues.queue_state import QueueState
    from rmqtool.findings.finding import Finding

    Numbers = npt.NDArray[np.int64]


class TagJudge:
    """Judges tags codes: hashes, delivery times, and addresses of the extension."""

    def __init__(self, inspection: Inspection, lost: LostRanges) -> None:
        self._inspection, self._lost = inspection, lost
        self._ext: dict[tuple[str, int], ExtUnits | None] = {}
        self._unread: set[tuple[str, int]] = set()
        store = inspection.store
        self._log = LogReader(store.old_commitlog, store.commitlog)

    def close(self) -> None:
        """Close the files of the log."""
        self._log.__exit__()

    def judge(
        self,
        state: QueueState,
        start: int,
        units: tuple[Numbers, npt.NDArray[np.void], npt.NDArray[np.void]],
    ) -> Iterator[Finding]:
        """Judge some units of a run.

        Args:
            state: of the queue.
            start: number of the first unit of the run.
            units: rows to be judged; units as wanted; units as found.
        """
        rows, want, have = units
        stored = have["tags_code"][rows].astype(np.int64)
        computed = want["tags_code"][rows].astype(np.int64)
        offsets = want["physical_offset"][rows].astype(np.int64)
        is_address = stored <= LARGEST_ADDRESS
        wrong = ~is_address & ~tags_fit(state.topic, computed, stored)
        if is_address.any():
            wrong |= is_address & (yield from self._wrong_addresses(state, stored, computed))
        lost = self._lost.mask(offsets)
        self._lost.count_units(offsets[lost])
        for number in np.flatnonzero(wrong & ~lost).tolist():
            place = start + int(rows[number])
            at = at_unit(state.units, place, UNIT, int(offsets[number]))
            expected, actual = int(computed[number]), int(stored[number])
            code = CQ_EXTADDR if is_address[number] else CQ_TAG
            yield finding(code, at, expected=expected, actual=actual)
        if self._inspection.options.level.is_deep:
            right = np.flatnonzero(~wrong & ~lost)
            numbers = start + rows[right]
            yield from self._times(state, numbers, stored[right], offsets[right])

    def _wrong_addresses(
        self, state: QueueState, stored: Numbers, computed: Numbers
    ) -> Generator[Finding, None, npt.NDArray[np.bool_]]:
        """Tell which addresses lead to no unit with the wanted tags code."""
        try:
            ext = self._ext_units(state)
        except UnreadablePath as error:
            path = self._inspection.path_of(error.path)
            if not self._inspection.is_known_unread(path):
                yield self._inspection.unread(path, error, (state.topic, state.queue_id))
            self._ext[state.topic, state.queue_id] = None
            self._unread.add((state.topic, state.queue_id))
            return np.zeros(len(stored), bool)
        if ext is None:
            path = f"consumequeue_ext/{state.topic}/{state.queue_id}"
            return np.full(len(stored), not self._is_unread(state, path))
        return ~ext.match(state.topic, stored, computed)

    def _is_unread(self, state: QueueState, path: str) -> bool:
        name = (state.topic, state.queue_id)
        return name in self._unread or self._inspection.is_below_unread(path)

    def _ext_units(self, state: QueueState) -> ExtUnits | None:
        """Give the extension of a queue; None when it has none."""
        name = (state.topic, state.queue_id)
        if name not in self._ext:
            queue = self._inspection.family("ext_queues").get(name)
            files = self._inspection.files_of(queue) if queue else None
            if files is not None and self._inspection.name_unread(unread_stretches(files)):
                self._unread.add(name)
                files = None
            self._ext[name] = ExtUnits.of(files) if files else None
        return self._ext[name]

    def _times(
        self, state: QueueState, numbers: Numbers, addresses: Numbers, offsets: Numbers
    ) -> Iterator[Finding]:
        """Compare the store times of extension units with those of the records."""
        ext = self._ext.get((state.topic, state.queue_id))
        if ext is None or not numbers.size:
            return
        times = ext.times_at(addresses).tolist()
        units = zip(numbers.tolist(), offsets.tolist(), times, strict=True)
        for number, offset, time in units:
            try:
                head = self._log.head_at(offset)
            except UnreadablePath:
                continue  # the log's own check says so
            if head is not None and head.store_timestamp != time:
                message = "the extension unit does not have the store time of the record"
                at = at_unit(state.units, number, UNIT, offset)
                yield finding(CQ_EXTADDR, at, message, expected=head.store_timestamp, actual=time)
