"""Judge transactions across the log: commits without their half, halves without an end.

Only the broker that ends a transaction sets preparedTransactionOffset. A committed message that is
stored again, when it is retried, revived, delayed, due or dead, keeps its flag with an offset of 0.
Source: TransactionalMessageBridge, EndTransactionProcessor#processRequest,
AbstractSendMessageProcessor#consumerSendMsgBack, ScheduleMessageService, PopReviveService,
TimerMessageStore#convert, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.errors import UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_commitlog import CL_TRANREF
from rmqtool.machine.arrays import is_in
from rmqtool.store.record_heads import LogReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.findings.finding import Finding
    from rmqtool.judge.message import RecordJudge


class Transactions:
    """Collects halves and ends while the log goes by; 16 bytes for each."""

    def __init__(self) -> None:
        self._commits: list[npt.NDArray[np.int64]] = []
        self._halves: list[npt.NDArray[np.int64]] = []
        self._ended: set[int] = set()
        self.timers: list[npt.NDArray[np.int64]] = []

    def take(self, judge: RecordJudge) -> None:
        """Take what one part has."""
        self._commits += judge.commits
        self._halves += judge.halves
        self._ended.update(judge.op_offsets)
        self.timers += judge.timers

    def timer_messages(self) -> npt.NDArray[np.int64]:
        """Give all timer messages: int64, shape (5, n), in the order of the log.

        Rows: physical offset, size, hash of the topic, due time in ms, 1 for one that takes
        another back; the last three are `UNKNOWN` where nobody looked.
        """
        return np.concatenate(self.timers, axis=1) if self.timers else np.empty((5, 0), np.int64)

    def check(self, inspection: Inspection, facts: LogFacts) -> Iterator[Finding]:
        """Compare both sides."""
        yield from self._check_commits(inspection, facts)
        if inspection.options.level.is_deep:
            yield from self._check_halves()

    def _check_commits(self, inspection: Inspection, facts: LogFacts) -> Iterator[Finding]:
        if not self._commits or not facts.is_known:
            return
        commits = np.concatenate(self._commits, axis=1)
        halves = np.concatenate(self._halves, axis=1)[0] if self._halves else np.empty(0, np.int64)
        prepared = commits[1]
        # One in front of the log has expired; a negative one was never right.
        has_expired = (prepared >= 0) & (prepared < facts.start)
        is_lone = ~has_expired & ~is_in(prepared, np.sort(halves))
        is_lone &= ~facts.lost.mask(prepared)
        # Records that were moved are known by what they say of themselves.
        moved = np.array(sorted(facts.moved), np.int64)
        is_lone &= ~is_in(prepared, moved)
        store = inspection.store
        with LogReader(store.old_commitlog, store.commitlog) as log:
            for place, offset in commits[:, is_lone].T.tolist():
                message = "no half record lies where preparedTransactionOffset points to"
                yield finding(CL_TRANREF, _at(log, place), message, actual=offset)

    def _check_halves(self) -> Iterator[Finding]:
        if not self._halves:
            return
        offsets = np.concatenate(self._halves, axis=1)[1]
        ended = np.array(sorted(self._ended), np.int64)
        count = int((~is_in(offsets, ended)).sum())
        if count:
            message = f"{count:,} of {len(offsets):,} half records have no end yet"
            yield finding(CL_TRANREF, At("commitlog"), message, severity=Severity.NOTE)


def _at(log: LogReader, place: int) -> At:
    """Say where a record lies, and in which queue it belongs."""
    segment = log.segment_at(place)
    if segment is None:
        return At("commitlog", physical_offset=place)
    at = At(segment.path, place - segment.start, None, place)
    try:
        head = log.head_at(place)
        queue = head and (log.topic_of(head), head.queue_id, head.queue_offset)
    except UnreadablePath:
        return at
    return At(at.path, at.position, None, place, *queue) if queue else at
