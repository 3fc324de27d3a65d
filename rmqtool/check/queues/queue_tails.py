"""Queues that end before the log does: CQ-LAG, or CQ-GAP and CQ-LMQ."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final

from rmqtool.broker.conf import CHECKPOINT_MARGIN_MS, RECHECKS_QUEUES
from rmqtool.broker.names import LMQ_PREFIX, is_deleted, is_deleted_when_idle
from rmqtool.broker.rules import AbnormalStart, Rules
from rmqtool.check.queues.queue_state import UNIT, at_unit
from rmqtool.errors import Truncated
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import finding, of_deleted
from rmqtool.findings.registry_consume_queue import CQ_GAP, CQ_LAG, CQ_LMQ
from rmqtool.formats.config_names import TOPICS_JSON
from rmqtool.plural import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.queues.queue_state import QueueState
    from rmqtool.check.queues.ranges import QueueFacts
    from rmqtool.findings.finding import Finding
    from rmqtool.store.record_heads import LogReader

GONE: Final = "the topic is not configured any more"


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


def _records_from(state: QueueState, start: int) -> int:
    """Count the records of a queue from a queue offset on: no offset that none has counts."""
    gaps = (gap.end - max(gap.start, start) for gap in state.placement.breaks if gap.end > start)
    return state.placement.next - start - sum(gaps)


class NextStart:
    """From which record on the next start writes units that are missing.

    Args:
        inspection: of the store.
        queue_facts: what was learned of all its queues.
        log: open.
    """

    def __init__(self, inspection: Inspection, queue_facts: QueueFacts, log: LogReader) -> None:
        self._inspection, self._queue_facts, self._log = inspection, queue_facts, log
        self._rules = Rules(inspection.scope.version)

    def writes_units_from(self, first: int) -> bool:
        """Tell whether it hands out a record, and all after it: dispatch was late, no unit is lost.

        Where it hands out newer ones only, their units take the places of those that are missing.

        Args:
            first: physical offset of the first record without a unit in its queue.
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


class Tails:
    """Queues that end before the log does: dispatch was after, or units are lost."""

    def __init__(self, inspection: Inspection, queue_facts: QueueFacts, log: LogReader) -> None:
        self._inspection, self._log = inspection, log
        self._start = NextStart(inspection, queue_facts, log)
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
        if self._start.writes_units_from(first) and not _has_later_file(state, start):
            self._short.append((state, start))
        else:
            self._lost.append((state, start))
        return True

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
            count = sum(_records_from(*short) for short in self._short)
            state, start = self._short[0]
            at = at_unit(state.units, start)
            queues = counted(len(self._short), "queue")
            message = f"{counted(count, 'unit')} of {queues} missing at the log's end"
            yield finding(CQ_LAG, at, message, severity=self._start.severity)
        # The queue that has lost most is the first that a reader sees.
        self._lost.sort(key=lambda lost: -_records_from(*lost))
        for state, start in self._lost:
            count = _records_from(state, start)
            code = CQ_LMQ if state.topic.startswith(LMQ_PREFIX) else CQ_GAP
            messages = counted(count, "message")
            if start > state.placement.first:
                messages = "last message" if count == 1 else f"last {messages}"
            message = f"the queue's units are missing: consumers cannot read its {messages}"
            yield finding(code, at_unit(state.units, start, count * UNIT), message)
        for state, start in self._deleted:
            count = _records_from(state, start)
            is_light = state.topic.startswith(LMQ_PREFIX)
            why = "brokers delete those of idle lite topics" if is_light else GONE
            message = f"{counted(count, 'record')} without a queue; {why}"
            at = at_unit(state.units, start)._replace(position=None)
            yield of_deleted(finding(CQ_GAP, at, message, severity=Severity.NOTE))
