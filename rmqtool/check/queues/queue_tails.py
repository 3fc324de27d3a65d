"""Queues that end before the log does: CQ-LAG, or CQ-GAP and CQ-LMQ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.broker.names import LMQ_PREFIX, is_deleted, is_deleted_when_idle
from rmqtool.check.next_start import NextStart
from rmqtool.check.queues.queue_state import UNIT, at_unit
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
        if self._start.dispatches_from(first) and not _has_later_file(state, start):
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
