"""Judge commitlog records, batch after batch: CL-CRC, CL-PHYOFF, CL-TIME and their like.

What lies between records (fillers, gaps, tails) is judged in check/log/segments.py.
Source: CommitLog#checkMessageAndReturnSize, MessageSysFlag, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.broker import names
from rmqtool.broker.names import topic_text
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_commitlog import (
    BRIDGE_NOTE,
    CL_BATCH,
    CL_CRC,
    CL_LMQ,
    CL_NOPROPCRC,
    CL_PHYOFF,
    CL_PROPCRC,
    CL_PROPS,
    CL_SYSFLAG,
    CL_TIME,
    CL_TOPIC,
    CL_TRANREF,
    CL_TRANTYPE,
    CL_VERSION,
)
from rmqtool.formats import sys_flag
from rmqtool.formats.java import text
from rmqtool.formats.message import MESSAGE_MAGIC_CODE_V2
from rmqtool.judge import kernels_message as has
from rmqtool.judge.bridge import is_bridge
from rmqtool.judge.message_content import UNKNOWN, check_content, check_light_queues, timer_facts
from rmqtool.judge.message_fields import FieldJudge
from rmqtool.scan import columns as row
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.broker.dispatch import DispatchRules
    from rmqtool.findings.finding import Finding
    from rmqtool.scan.batch import Batch

HALF_TOPICS: Final = frozenset(topic.raw for topic in names.HALF_TOPICS)
TIMER_TOPIC: Final = names.TIMER_TOPIC.raw
SPECIAL_TOPICS: Final = HALF_TOPICS | {names.OP_TOPIC.raw, TIMER_TOPIC}
LEGAL_TOPIC: Final = re.compile(rb"[%|a-zA-Z0-9_\-]+")
# What can at least be a directory; a plugin or another protocol may have let it pass. A name with a
# comma stands for two directories, and the first record of its queue ends the writing of all.
POSSIBLE_TOPIC: Final = re.compile(
    r"[^\x00-\x1f,/\x7f\ud800-\udfff]*[^\x00-\x1f,./\x7f\ud800-\udfff]+"
)
UNUSABLE: Final = frozenset({CL_CRC, CL_PROPCRC, CL_TOPIC, CL_PHYOFF, CL_LMQ})
CONTENT: Final = has.COMPRESSED | has.INNER_BATCH
DAMAGE: Final = has.BODY_CRC | has.PLACE | has.PROPERTY_CRC  # what is damage in any record


class RecordOptions(NamedTuple):
    """What is wanted of each record. Picklable."""

    content: bool = False  # decompress bodies, take batches apart, read what properties say (deep)
    property_crc: bool = False  # every record should have a property CRC
    force_property_crc: bool = False  # the broker insists on it
    # records of a compaction log, whose property CRC is made for another place
    is_copy: bool = False
    rules: DispatchRules | None = None  # how brokers dispatch; None when nobody asked
    knows_v2: bool = True  # whether the broker that is to run knows records of version 2
    # what is no damage is not looked for, and nothing is kept for later checks
    damage_only: bool = False

    @property
    def wanted(self) -> int:
        """The bits of interest of `kernels_message.judge`."""
        wanted = DAMAGE if self.damage_only else has.ALWAYS
        if self.content:
            wanted |= CONTENT
        if self.content or (self.rules and self.rules.multi_dispatch):
            wanted |= has.MULTI_DISPATCH
        if self.property_crc or self.force_property_crc:
            wanted |= has.NO_PROPERTY_CRC
        return wanted


class RecordJudge:
    """Judges the batches of one scan. Belongs to one thread.

    Attributes:
        first_time: store timestamp of the first record, ms; -1 for none.
        last_time: store timestamp of the last record, ms; -1 for none.
        newest_time: the largest one.
        moved: field physicalOffset to the place where the record lies, where these differ.
        commits: (place, prepared offset) of each commit record.
        halves: (place, queue offset) of each half record.
        op_offsets: queue offsets of halves that operation records name (deep).
        bridges: a note on each record that repair has put over damage.
        timers: records of the timer topic, see `Transactions.timer_messages`.
        damaged: what makes a record unusable or wrong in place, all of it; for repair.
    """

    def __init__(self, options: RecordOptions) -> None:
        self._options = options
        self._fields = FieldJudge() if options.content else None
        self._numbers = np.empty(0, np.int64)
        self._bits = np.empty(0, np.int64)
        self._known = 0
        self._illegal: list[int] = []
        self._special: dict[bytes, int] = {}
        self.first_time = self.last_time = self.newest_time = -1
        self.moved: dict[int, int] = {}
        self.commits: list[npt.NDArray[np.int64]] = []
        self.halves: list[npt.NDArray[np.int64]] = []
        self.op_offsets: list[int] = []
        self.bridges: list[Finding] = []
        self.timers: list[npt.NDArray[np.int64]] = []
        self.damaged: list[Finding] = []

    def end(self) -> None:
        """Forget the room for what is found in a batch, which would travel with the result."""
        self._numbers = self._bits = np.empty(0, np.int64)

    def judge(self, batch: Batch) -> Iterator[Finding]:
        """Judge the records of one batch."""
        keeps = not self._options.damage_only
        for defect in self._judge(batch):
            if keeps and defect.code in UNUSABLE and defect.severity is Severity.DAMAGE:
                self.damaged.append(defect)
            yield defect

    def _judge(self, batch: Batch) -> Iterator[Finding]:
        self._know_topics(batch)
        if self._numbers.size < batch.matrix.shape[1]:
            self._numbers = np.empty(batch.matrix.shape[1], np.int64)
            self._bits = np.empty_like(self._numbers)
        count = has.judge(
            batch.matrix,
            (batch.count, self._options.wanted, self.last_time, int(batch.has_texts)),
            self._numbers,
            self._bits,
        )
        before = self.last_time
        times = batch.columns[row.STORE_TIMESTAMP]
        if self.first_time < 0:
            self.first_time = int(times[0])
        self.last_time = int(times[-1])
        self.newest_time = max(self.newest_time, int(times.max()))
        if not self._options.damage_only:
            self._collect(batch, count)
        if count:
            yield from self._judge_each(batch, count, before)
        if not self._options.knows_v2:
            for number in np.flatnonzero(
                batch.columns[row.MAGIC_CODE] == MESSAGE_MAGIC_CODE_V2
            ).tolist():
                yield finding(CL_VERSION, at_record(batch, number))
        if self._illegal:
            yield from self._illegal_topics(batch)
        if self._fields is not None and batch.has_texts:
            yield from self._fields.judge(batch, partial(at_record, batch))

    def _know_topics(self, batch: Batch) -> None:
        for number in range(self._known, len(batch.topics)):
            topic = batch.topics[number]
            is_harmless = self._options.damage_only and _is_possible(topic)
            if not is_harmless and not LEGAL_TOPIC.fullmatch(topic):
                self._illegal.append(number)
            if topic in SPECIAL_TOPICS:
                self._special[topic] = number
        self._known = len(batch.topics)

    def _collect(self, batch: Batch, count: int) -> None:
        """Keep what later checks need of the records."""
        columns = batch.columns
        bits = self._bits[:count]
        if count and (commits := self._numbers[:count][bits & has.COMMIT != 0]).size:
            ends = columns[[row.PHYSICAL_OFFSET, row.PREPARED_TRANSACTION_OFFSET]][:, commits]
            # What is stored again (retried, delayed, dead) keeps the flag, but not the offset.
            self.commits.append(ends[:, ends[1] != 0])
        for topic, number in self._special.items():
            rows = np.flatnonzero(columns[row.TOPIC_NUMBER] == number)
            if not rows.size:
                continue
            if topic in HALF_TOPICS:
                self.halves.append(columns[[row.PHYSICAL_OFFSET, row.QUEUE_OFFSET]][:, rows])
            elif topic == TIMER_TOPIC:
                self.timers.append(self._timers(batch, rows))
            elif self._options.content:
                for place in rows.tolist():
                    self.op_offsets += _op_offsets(batch, place)

    def _timers(self, batch: Batch, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Give what timer log records can be compared with, see `Transactions`."""
        timers = np.full((5, len(rows)), UNKNOWN, np.int64)
        timers[:2] = batch.columns[[row.PHYSICAL_OFFSET_FIELD, row.SIZE]][:, rows]
        if self._options.content:
            for number, record in enumerate(rows.tolist()):
                timers[2:, number] = timer_facts(batch, record)
        return timers

    def _illegal_topics(self, batch: Batch) -> Iterator[Finding]:
        numbers = np.isin(batch.columns[row.TOPIC_NUMBER], self._illegal)
        for number in np.flatnonzero(numbers).tolist():
            topic = batch.topics[int(batch.matrix[row.TOPIC_NUMBER, number])]
            yield finding(
                CL_TOPIC,
                at_record(batch, number),
                "the topic has characters that brokers refuse" if topic else "the topic is empty",
                expected="letters, digits and %|_-",
                actual=topic_text(topic),
                severity=Severity.NOTE if _is_possible(topic) else None,
            )

    def _judge_each(self, batch: Batch, count: int, before: int) -> Iterator[Finding]:
        """Say what is wrong with each record that the kernel found."""
        judged = zip(self._numbers[:count].tolist(), self._bits[:count].tolist(), strict=True)
        for number, bits in judged:
            at = at_record(batch, number)
            record = batch.matrix[:, number]
            if bits & has.PLACE:
                field = int(record[row.PHYSICAL_OFFSET_FIELD])
                if not self._options.damage_only:
                    self.moved[field] = int(record[row.PHYSICAL_OFFSET])
                yield finding(CL_PHYOFF, at, expected=at.physical_offset, actual=field)
            if bits & has.TIME:
                earlier = int(batch.matrix[row.STORE_TIMESTAMP, number - 1]) if number else before
                yield _of_time(at, int(record[row.STORE_TIMESTAMP]), earlier)
            yield from _of_body(record, bits, at)
            if bits & has.TRANSACTION_TYPE:
                kind = sys_flag.transaction(int(record[row.SYS_FLAG]))
                if is_bridge(batch, number):  # what points to it is its consequence
                    self.bridges.append(finding(CL_TRANTYPE, at, BRIDGE_NOTE, actual=kind))
                else:
                    message = f"a record of type {kind}, which is in no queue"
                    yield finding(CL_TRANTYPE, at, message, actual=kind)
            yield from _of_flags(record, bits, at)
            yield from self._of_properties(batch, number, bits, at)
            if bits & CONTENT:
                yield from check_content(batch, number, at)
            if bits & has.MULTI_DISPATCH:
                yield from self._of_light_queues(batch, number, at)

    def _of_light_queues(self, batch: Batch, number: int, at: At) -> Iterator[Finding]:
        rules = self._options.rules
        topic = batch.topics[int(batch.matrix[row.TOPIC_NUMBER, number])]
        is_dispatched = rules is not None and rules.multi_dispatches(text(topic))
        is_deep = self._options.content
        yield from check_light_queues(
            batch, number, at, is_dispatched=is_dispatched, is_deep=is_deep
        )

    def _of_properties(self, batch: Batch, number: int, bits: int, at: At) -> Iterator[Finding]:
        record = batch.matrix[:, number]
        if bits & has.PROPERTIES:
            yield _of_marks(record, at)
        if bits & has.PROPERTY_CRC and not bits & has.BODY_CRC:  # it covers the body, too
            yield finding(
                CL_PROPCRC,
                at,
                expected=_number(record[row.PROPERTY_CRC]),
                actual=_number(record[row.PROPERTY_CRC_FOUND]),
                severity=Severity.WARNING if self._options.is_copy else None,
            )
        if bits & has.NO_PROPERTY_CRC and not is_bridge(batch, number):
            forced = self._options.force_property_crc
            yield finding(CL_NOPROPCRC, at, severity=Severity.DAMAGE if forced else None)


def _is_possible(topic: bytes) -> bool:
    return bool(POSSIBLE_TOPIC.fullmatch(topic.decode("utf-8", "surrogateescape")))


def at_record(batch: Batch, number: int) -> At:
    """Say where a record of a batch lies."""
    record = batch.matrix[:, number]
    topic = batch.topics[int(record[row.TOPIC_NUMBER])] if batch.has_texts else None
    return At(
        batch.segment.path,
        int(record[row.POSITION]),
        int(record[row.SIZE]),
        int(record[row.PHYSICAL_OFFSET]),
        None if topic is None else topic_text(topic),
        int(record[row.QUEUE_ID]),
        int(record[row.QUEUE_OFFSET]),
    )


def _of_time(at: At, stored: int, before: int) -> Finding:
    if stored <= 0:
        return finding(CL_TIME, at, "storeTimestamp is not set", actual=stored)
    return finding(
        CL_TIME,
        at,
        f"storeTimestamp is {before - stored} ms before the previous record's",
        expected=f"{iso_time(before)} or later",
        actual=iso_time(stored),
    )


def _of_body(record: npt.NDArray[np.int64], bits: int, at: At) -> Iterator[Finding]:
    if bits & has.BODY_CRC:
        stored, computed = int(record[row.BODY_CRC]), int(record[row.BODY_CRC_FOUND])
        yield finding(CL_CRC, at, expected=stored, actual=computed)


def _of_flags(record: npt.NDArray[np.int64], bits: int, at: At) -> Iterator[Finding]:
    flags = int(record[row.SYS_FLAG])
    if bits & has.SYS_FLAG:
        unknown = flags & ~sys_flag.ASSIGNED_BITS & 0xFFFFFFFF
        message = (
            "sysFlag has bits that no release assigns"
            if unknown
            else ("sysFlag has a compression type that is unknown, or no compression to go with it")
        )
        yield finding(CL_SYSFLAG, at, message, actual=f"{flags & 0xFFFFFFFF:#x}")
    if bits & has.BATCH:
        yield finding(
            CL_BATCH,
            at,
            expected=f"both batch bits, INNER_BASE {int(record[row.QUEUE_OFFSET])}",
            actual=f"sysFlag {flags:#x}, INNER_NUM {_number(record[row.INNER_NUM])}, "
            f"INNER_BASE {_number(record[row.INNER_BASE])}",
        )
    if bits & has.PREPARED_OFFSET:
        yield finding(
            CL_TRANREF,
            at,
            "preparedTransactionOffset is set, but the record is not a commit",
            expected=0,
            actual=int(record[row.PREPARED_TRANSACTION_OFFSET]),
        )


def _number(value: int) -> str:
    return {row.ABSENT: "absent", row.UNPARSABLE: "no number"}.get(value, str(value))


def _of_marks(record: npt.NDArray[np.int64], at: At) -> Finding:
    marks = int(record[row.MARKS])
    problems = [
        words
        for mark, words in (
            (row.MARK_DROPPED_ITEM, "an item without name or value, which readers drop"),
            (row.MARK_DUPLICATE, "a system property twice; the later one counts"),
            (row.MARK_MALFORMED, "text that is not UTF-8"),
        )
        if marks & mark
    ]
    if int(record[row.DELAY_LEVEL]) == row.UNPARSABLE:
        problems.append("a DELAY that is not a number")
    is_wrong = marks & row.MARK_MALFORMED or int(record[row.DELAY_LEVEL]) == row.UNPARSABLE
    severity = None if is_wrong else Severity.NOTE
    return finding(CL_PROPS, at, f"the properties hold {' and '.join(problems)}", severity=severity)


def _op_offsets(batch: Batch, number: int) -> list[int]:
    """Read the queue offsets of half records off the body of an operation record."""
    record = batch.matrix[:, number]
    start = int(record[row.BODY_START])
    if start < 0:
        return []
    body = batch.text(start, int(record[row.BODY_LENGTH]))
    return [int(part) for part in body.split(b",") if part.isdigit()]
