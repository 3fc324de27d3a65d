"""The timer log: its records, their chains, and the timer messages that they name: TL-*.

Source: TimerLog#append, TimerMessageStore#doEnqueue, #recoverAndRevise, 5.0.0 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_state import TL_REC, TL_REF
from rmqtool.formats.timer import (
    BLANK_MAGIC,
    MAGIC_BITS,
    MAGIC_DEFAULT,
    MAGIC_DELETE,
    MAGIC_ROLL,
    NO_POSITION,
    TIMER_BLANK,
    TIMER_LOG_RECORD,
)
from rmqtool.judge.message_content import UNKNOWN
from rmqtool.store.used import used_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.findings.finding import Finding
    from rmqtool.store.segment import Segment

    Numbers = npt.NDArray[np.int64]

RECORD: Final = TIMER_LOG_RECORD.size
MOST: Final = MAGIC_DEFAULT | MAGIC_ROLL | MAGIC_DELETE


def _none() -> Numbers:
    return np.empty(0, np.int64)


@dataclass(slots=True)
class TimerLog:
    """The records of the timer log; all arrays are int64, shape (n,)."""

    starts: Numbers = field(default_factory=_none)  # where each lies in the log, increasing
    times: Numbers = field(default_factory=_none)  # when each is due, ms
    # where each says that the one before it in its slot lies
    previous: Numbers = field(default_factory=_none)
    # 1, or -1 for one that takes a message off its slot
    counts: Numbers = field(default_factory=_none)
    messages: Numbers = field(default_factory=_none)  # physical offset of the message of each
    start: int = 0  # first byte of the log
    end: int = 0  # after the last record, and after a blank that closes the last file
    segments: tuple[Segment, ...] = ()  # its files

    def add(self, start: int, records: npt.NDArray[np.void]) -> None:
        """Add the records that one file begins with."""
        starts = start + RECORD * np.arange(len(records), dtype=np.int64)
        due = records["curr_write_time"].astype(np.int64) + records["delayed_time"]
        counts = np.where(records["magic"] & MAGIC_DELETE, -1, 1)
        self.starts = np.concatenate([self.starts, starts])
        self.times = np.concatenate([self.times, due])
        self.previous = np.concatenate([self.previous, records["prev_pos"].astype(np.int64)])
        self.counts = np.concatenate([self.counts, counts])
        offsets = records["physical_offset"].astype(np.int64)
        self.messages = np.concatenate([self.messages, offsets])
        self.end = start + len(records) * RECORD

    def at(self, number: int) -> At:
        """Say where a record lies."""
        start = int(self.starts[number])
        segment = next(segment for segment in self.segments if segment.start <= start < segment.end)
        return At(segment.path, start - segment.start, RECORD)


def timer_log_of(segments: Sequence[Segment]) -> TimerLog:
    """Read the records of some files, as a broker does: up to the first bad one.

    Raises:
        UnreadablePath: a file cannot be read.
    """
    log = TimerLog(segments=tuple(segments))
    for segment in segments:
        raw, records = _read(segment)
        log.add(segment.start, records)
        if TIMER_BLANK["magic"].of(raw[len(records) * RECORD :]) != BLANK_MAGIC:
            break
    return log


def _read(segment: Segment) -> tuple[bytes, npt.NDArray[np.void]]:
    """Give what a file holds, and the records that it begins with."""
    with segment.open() as file:
        raw = file.read_at(0, used_bytes(file, RECORD))
    records = np.frombuffer(raw, TIMER_LOG_RECORD.dtype, len(raw) // RECORD)
    good = (records["size"] == RECORD) & (records["magic"] & ~MAGIC_BITS == 0)
    return raw, records if good.all() else records[: int(np.argmin(good))]


def read_segment(
    inspection: Inspection, facts: LogFacts, segment: Segment, log: TimerLog, *, is_last: bool
) -> Iterator[Finding]:
    """Judge the records of one file, and add them to the log.

    Raises:
        UnreadablePath: the file cannot be read.
    """
    raw, records = _read(segment)
    inspection.account.files += 1
    inspection.account.bytes += segment.size
    count = len(records)
    log.add(segment.start, records)
    for row in np.flatnonzero(records["reserved"]).tolist():
        at = At(segment.path, row * RECORD, RECORD)
        message = "the reserved field is set"
        yield finding(TL_REC, at, message, expected=0, severity=Severity.WARNING)
    yield from _references(inspection, facts, segment, records)
    rest = raw[count * RECORD :]
    if TIMER_BLANK["magic"].of(rest) == BLANK_MAGIC:
        log.end = segment.start + segment.size
        return
    if any(rest):
        at = At(segment.path, count * RECORD, len(rest))
        yield finding(TL_REC, at, "no record of 52 bytes with a known magic lies here")
    elif not is_last and count:
        at = At(segment.path, count * RECORD, segment.size - count * RECORD)
        yield finding(TL_REC, at, "the file ends without a blank although another follows")


def check_chains(inspection: Inspection, log: TimerLog, precision: int) -> Iterator[Finding]:
    """Compare each record's link with the one before it in its slot.

    What points forward is damage to any reader. A link to another record back in the log is
    followed by the broker; what the chain leaves out is not delivered.
    """
    slots = log.times // precision
    order = np.lexsort((log.starts, slots))
    expected = np.full(len(order), NO_POSITION, np.int64)
    follows = np.flatnonzero(np.diff(slots[order]) == 0) + 1
    expected[order[follows]] = log.starts[order[follows - 1]]
    forward = (log.previous >= log.starts) | (log.previous < NO_POSITION)
    is_expired = (expected == NO_POSITION) & (log.previous < log.start)
    for number in np.flatnonzero(forward).tolist():
        message = "prevPos does not point back"
        limit = f"below {log.starts[number]}"
        actual = log.previous[number]
        yield finding(TL_REC, log.at(number), message, expected=limit, actual=actual)
    severity = Severity.NOTE if inspection.scope.has_crashed else Severity.WARNING
    for number in np.flatnonzero((log.previous != expected) & ~forward & ~is_expired).tolist():
        yield finding(
            TL_REC,
            log.at(number),
            "prevPos is not the record before it in its slot",
            expected=expected[number],
            actual=log.previous[number],
            severity=severity,
        )


def _references(
    inspection: Inspection, facts: LogFacts, segment: Segment, records: npt.NDArray[np.void]
) -> Iterator[Finding]:
    """Compare records with the timer messages of the commitlog."""
    if not facts.is_scanned:
        return
    offsets = records["physical_offset"].astype(np.int64)
    messages = facts.timer_messages
    numbers = np.searchsorted(messages[0], offsets)
    is_record = np.zeros(len(offsets), bool)
    inside = numbers < messages.shape[1]
    is_record[inside] = (messages[0][numbers[inside]] == offsets[inside]) & (
        messages[1][numbers[inside]] == records["record_size"][inside]
    )
    wrong = ~is_record & ((offsets >= facts.start) | (offsets < 0)) & ~facts.lost.mask(offsets)
    for row in np.flatnonzero(wrong).tolist():
        at = At(segment.path, row * RECORD, RECORD, int(offsets[row]))
        is_ahead = inspection.scope.has_crashed and offsets[row] >= facts.end
        yield finding(
            TL_REF,
            at,
            actual=f"{int(records['record_size'][row]):,} bytes at {int(offsets[row])}",
            severity=Severity.NOTE if is_ahead else None,
        )
    rows = np.flatnonzero(is_record)
    yield from _facts(segment, rows, records[rows], messages[:, numbers[rows]])


def _facts(
    segment: Segment, rows: Numbers, records: npt.NDArray[np.void], messages: Numbers
) -> Iterator[Finding]:
    """Compare topic and time of records with what their messages say (level deep)."""
    due = records["curr_write_time"].astype(np.int64) + records["delayed_time"]
    magic = records["magic"]
    is_rolled = magic & MAGIC_ROLL != 0  # it comes round before the message is due
    topics, times, deletes = messages[2:]
    wrong = {
        "topicHash": (topics, records["topic_hash"], topics != records["topic_hash"]),
        "time": (times, due, np.where(is_rolled, due >= times, due != times)),
        "magic": (
            deletes,
            magic,
            (deletes != (magic & MAGIC_DELETE != 0))
            | (magic & MAGIC_DEFAULT == 0)
            | (magic > MOST),
        ),
    }
    for what, (wanted, stored, differs) in wrong.items():
        for number in np.flatnonzero(differs & (wanted != UNKNOWN)).tolist():
            at = At(segment.path, int(rows[number]) * RECORD, RECORD, int(messages[0, number]))
            message = f"the record's {what} differs from its message's"
            actual = int(stored[number])
            yield finding(TL_REF, at, message, expected=int(wanted[number]), actual=actual)
