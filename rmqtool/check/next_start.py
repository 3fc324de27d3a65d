"""What the next start of a broker dispatches again, as far as a validation has to know it."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from rmqtool.broker.conf import CHECKPOINT_MARGIN_MS, RECHECKS_QUEUES
from rmqtool.broker.rules import AbnormalStart, Rules
from rmqtool.errors import Truncated
from rmqtool.findings.catalogue import Severity

if TYPE_CHECKING:
    from rmqtool.check.inspection import Inspection
    from rmqtool.check.queues.ranges import QueueFacts
    from rmqtool.store.record_heads import LogReader


class NextStart:
    """From which record on the next start writes units and keys that are missing.

    Args:
        inspection: of the store.
        queue_facts: what was learned of all its queues.
        log: open.
    """

    def __init__(self, inspection: Inspection, queue_facts: QueueFacts, log: LogReader) -> None:
        self._inspection, self._queue_facts, self._log = inspection, queue_facts, log
        self._rules = Rules(inspection.scope.version)

    def dispatches_from(self, first: int) -> bool:
        """Tell whether it hands out a record, and all after it: dispatch was late, nothing is lost.

        Where it hands out newer ones only, their units take the places of those that are missing.

        Args:
            first: physical offset of the first record without a unit in its queue, or without keys.
        """
        newest, inspection = self._queue_facts.newest_unit, self._inspection
        if newest is None:
            return False
        rechecks = RECHECKS_QUEUES.of(inspection.store.broker_conf, inspection.scope.version)
        if (self._rules.dispatches_from_queues or rechecks) and first > newest:
            return True
        if inspection.scope.has_crashed:
            return first >= self._recovered_from
        return self._rules.normal_dispatches and first > self._handed_out(newest)

    @property
    def severity(self) -> Severity | None:
        """Of a lag: a clean stop waits for dispatch; None is that of the code."""
        return None if self._inspection.scope.has_crashed else Severity.WARNING

    def _handed_out(self, newest: int) -> int:
        """Give the physical offset up to which no record is new to recovery after a clean stop.

        It is the end of the newest record that has a unit, and so the next one stays without; of
        batch queues its start. Source: CommitLog#recoverNormally, ConsumeQueue#recover,
        BatchConsumeQueue#recover, 5.3.2 to 5.5.0.
        """
        head = self._log.head_at(newest)
        is_batch = newest == self._queue_facts.newest_batch
        return newest if head is None or is_batch else head.end

    @cached_property
    def _recovered_from(self) -> int:
        """Physical offset from which on a start after a crash dispatches again.

        Units of older records that are missing stay so, and newer ones take their places.
        Source: CommitLog#isMappedFileMatchedRecover, StoreCheckpoint#getMinTimestamp, 4.9.3 to
        5.5.0; ConsumeQueueStore#getDispatchFromPhyOffset, 5.5.0.
        """
        store, checkpoint = self._inspection.store, None
        with suppress(Truncated):  # brokers extend it with zeros
            checkpoint = store.checkpoint()
        if not checkpoint:
            return 0
        offset, written = (
            checkpoint[f"logics_{name}"] for name in ("physical_offset", "msg_timestamp")
        )
        limit = min(written, checkpoint["physic_msg_timestamp"]) - CHECKPOINT_MARGIN_MS
        if self._rules.abnormal_start is AbnormalStart.QUEUED_OFFSET:
            if offset > 0:
                starts = [
                    segment.start for segment in store.commitlog.segments if segment.start <= offset
                ]
                return max(starts, default=0)
            limit = written
        for segment in reversed(store.commitlog.segments):
            head = self._log.head_at(segment.start)
            if head is not None and 0 < head.store_timestamp <= limit:
                return segment.start
        return 0
