"""Queues that end before the log does: CQ-LAG, or CQ-GAP and CQ-LMQ."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final

from rmqtool.broker.names import LMQ_PREFIX, is_deleted, is_deleted_when_idle
from rmqtool.broker.rules import AbnormalStart, Rules
from rmqtool.check.queues.queue_state import UNIT, at_unit
from rmqtool.errors import Truncated
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import finding, of_deleted
from rmqtool.findings.registry_consume_queue import CQ_GAP, CQ_LAG, CQ_LMQ
from rmqtool.formats.config_names import TOPICS_JSON
from rmqtool.plural import counted
from rmqtool.store.record_heads import LogReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.queues.queue_state import QueueState
    from rmqtool.check.queues.ranges import QueueFacts
    from rmqtool.findings.finding import Finding

GONE: Final = "the topic is not configured any more"
MARGIN_MS: Final = 3000  # that brokers leave for what was not flushed yet


def is_reached_by_name(log: LogReader, newest: int, topic: str) -> bool:
    """Tell whether the newest record of a queue is of another topic and names this one.

    Nobody has to configure such a topic, so that it is in no `topics.json` does not mean that it
    was deleted. Source: CommitLogDispatcherBuildConsumeQueue, ConsumeQueue#multiDispatchLmqQueue,
    4.9.3 to 5.3.1.

    Args:
        log: that the record lies in.
        newest: physical offset of the record; negative for none.
        topic: of the queue.
    """
    head = log.head_at(newest) if newest >= 0 else None
    return head is not None and log.topic_of(head) != topic


def _has_later_file(state: QueueState, start: int) -> bool:
    """Tell whether a unit has no file, and a later file is there: brokers append to that one.

    Source: MappedFileQueue#getLastMappedFile, ConsumeQueue#putMessagePositionInfo, 4.9.3 to 5.5.0.
    """
    files = state.files
    return files.at(start * UNIT) is None and any(file.start > start * UNIT for file in files)


class Tails:
    """Queues that end before the log does: dispatch was after, or units are lost."""

    def __init__(self, inspection: Inspection, queue_facts: QueueFacts, log: LogReader) -> None:
        self._inspection, self._queue_facts, self._log = inspection, queue_facts, log
        self._short: list[tuple[QueueState, int]] = []
        self._lost: list[tuple[QueueState, int]] = []
        self._deleted: list[tuple[QueueState, int]] = []

    def add(self, state: QueueState, start: int, first: int) -> bool:
        """Take a queue whose last units are missing.

        Args:
            state: the queue.
            start: number of the first missing unit.
            first: physical offset of its record.

        Returns:
            Whether they should be there: not those of a queue that brokers have deleted.
        """
        if not state.units.is_there and self._is_deleted(state):
            self._deleted.append((state, start))
            return False
        lags = self._lags(first, state.placement.last_physical_offset)
        if lags and not _has_later_file(state, start):
            self._short.append((state, start))
        else:
            self._lost.append((state, start))
        return True

    def _lags(self, first: int, last: int) -> bool:
        """Tell whether dispatch was after, by the first and last record without a unit.

        After a crash that needs a start that dispatches the first of them, too: else the units of
        the next ones take their places.
        """
        newest = self._queue_facts.newest_unit
        if newest is None:
            return False
        if not self._inspection.scope.has_crashed:
            return last > newest
        goes_on = Rules(self._inspection.scope.version).dispatches_from_queues and first > newest
        return goes_on or first >= self._recovered_from

    @cached_property
    def _recovered_from(self) -> int:
        """Physical offset from which on a start after a crash dispatches again.

        Units of older records that are missing stay so, and newer ones take their places.
        Source: CommitLog#isMappedFileMatchedRecover, StoreCheckpoint#getMinTimestamp, 4.9.3 to
        5.5.0; ConsumeQueueStore#getDispatchFromPhyOffset, 5.5.0.
        """
        store, rules = self._inspection.store, Rules(self._inspection.scope.version)
        checkpoint = None
        with suppress(Truncated):  # brokers extend it with zeros
            checkpoint = store.checkpoint()
        if not self._inspection.scope.has_crashed or not checkpoint:
            return 0
        offset, written = (
            checkpoint[f"logics_{name}"] for name in ("physical_offset", "msg_timestamp")
        )
        limit = min(written, checkpoint["physic_msg_timestamp"]) - MARGIN_MS
        if rules.abnormal_start is AbnormalStart.QUEUED_OFFSET:
            if offset > 0:
                starts = [
                    segment.start for segment in store.commitlog.segments if segment.start <= offset
                ]
                return max(starts, default=0)
            limit = written
        with LogReader(store.old_commitlog, store.commitlog) as log:
            for segment in reversed(store.commitlog.segments):
                head = log.head_at(segment.start)
                if head is not None and 0 < head.store_timestamp <= limit:
                    return segment.start
        return 0

    def _is_deleted(self, state: QueueState) -> bool:
        """Tell whether brokers have deleted the queue; of light queues, that of a lite topic."""
        if state.topic.startswith(LMQ_PREFIX):
            return is_deleted_when_idle(state.topic, self._inspection.document(TOPICS_JSON))
        left = self._inspection.queue_topics("queues")
        if not is_deleted(state.topic, self._inspection.topics, left):
            return False
        return not is_reached_by_name(self._log, state.placement.last_physical_offset, state.topic)

    def findings(self) -> Iterator[Finding]:
        """Say which queues end too early."""
        if self._short:
            count = sum(state.placement.next - start for state, start in self._short)
            state, start = self._short[0]
            at = at_unit(state.units, start)
            message = f"{count:,} units of {len(self._short):,} queues are missing at the log's end"
            crashed = self._inspection.scope.has_crashed
            severity = None if crashed else Severity.WARNING
            yield finding(CQ_LAG, at, message, severity=severity)
        # The queue that has lost most is the first that a reader sees.
        self._lost.sort(key=lambda lost: lost[1] - lost[0].placement.next)
        for state, start in self._lost:
            count = state.placement.next - start
            code = CQ_LMQ if state.topic.startswith(LMQ_PREFIX) else CQ_GAP
            messages = counted(count, "message")
            which = f"last {messages}" if start > state.placement.first else messages
            message = f"the queue's units are missing: consumers cannot read its {which}"
            yield finding(code, at_unit(state.units, start, count * UNIT), message)
        for state, start in self._deleted:
            count = state.placement.next - start
            is_light = state.topic.startswith(LMQ_PREFIX)
            why = "brokers delete those of idle lite topics" if is_light else GONE
            message = f"{count:,} records have no queue; {why}"
            at = at_unit(state.units, start)._replace(position=None)
            yield of_deleted(finding(CQ_GAP, at, message, severity=Severity.NOTE))
