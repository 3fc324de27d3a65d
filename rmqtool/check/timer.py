"""Judge the timer: wheel, log, checkpoint, and that each record names a timer message.

Source: TimerWheel, TimerLog, TimerMessageStore#recoverAndRevise, TimerCheckpoint, 5.0.0 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.check.grouping import grouped
from rmqtool.check.registry import At, finding
from rmqtool.errors import DecodeError, UnreadablePath
from rmqtool.findings import Severity
from rmqtool.formats.timer import (
    BLANK_MAGIC,
    DEFAULT_PRECISION_MS,
    DEFAULT_WHEEL_LENGTH,
    MAGIC_BITS,
    NO_POSITION,
    TIMER_CHECK,
    TIMER_LOG_RECORD,
    TIMER_SLOT,
)
from rmqtool.store.queue_range import used_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rmqtool.check.inspection import Inspection
    from rmqtool.findings import Finding
    from rmqtool.store.branch import Branch
    from rmqtool.store.segment import Segment

RECORD: Final = TIMER_LOG_RECORD.size
SLOT: Final = TIMER_SLOT.size
CHUNK_SLOTS: Final = 1 << 15
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
CHECK_PATH: Final = "config/timercheck"


@dataclass(slots=True)
class TimerLog:
    """The records of the timer log.

    Attributes:
        starts: int64, shape (n,), increasing: where each lies in the log.
        times: int64, shape (n,): when each is due, ms.
        start: first byte of the log.
        end: behind the last record, and behind a blank that closes the last file.
    """

    starts: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]
    start: int = 0
    end: int = 0


@grouped
def check(inspection: Inspection) -> Iterator[Finding]:
    """Judge timer log, wheel and checkpoint against each other and the commitlog."""
    store = inspection.store
    try:
        segments = store.timer_log.segments
        values = store.timer_check()
    except (UnreadablePath, DecodeError) as error:
        if isinstance(error, UnreadablePath):
            yield inspection.unread(inspection.path_of(error.path), error)
        else:
            yield finding("TC-AHEAD", At(CHECK_PATH), "timercheck is too short to be read")
        return
    log = TimerLog(np.empty(0, np.int64), np.empty(0, np.int64))
    if segments:
        log.start = log.end = segments[0].start
    for number, segment in enumerate(segments):
        try:
            yield from _segment(inspection, segment, log, is_last=number == len(segments) - 1)
        except UnreadablePath as error:
            yield inspection.unread(segment.path, error)
            return
    for branch in store.timer_wheels():
        try:
            yield from _wheel(inspection, branch, log, values)
        except UnreadablePath as error:
            yield inspection.unread(branch.path, error)
    if values is not None:
        yield from _checkpoint(inspection, values, log)


def _segment(
    inspection: Inspection, segment: Segment, log: TimerLog, *, is_last: bool
) -> Iterator[Finding]:
    """Judge the records of one file, and add them to the log."""
    with segment.open() as file:
        raw = file.read_at(0, used_bytes(file, RECORD))
    inspection.account.files += 1
    inspection.account.bytes += segment.size
    records = np.frombuffer(raw, TIMER_LOG_RECORD.dtype, len(raw) // RECORD)
    good = (records["size"] == RECORD) & (records["magic"] & ~MAGIC_BITS == 0)
    count = len(good) if good.all() else int(np.argmin(good))
    records = records[:count]
    starts = segment.start + RECORD * np.arange(count, dtype=np.int64)
    previous = records["prev_pos"].astype(np.int64)
    for row in np.flatnonzero((previous >= starts) | (previous < NO_POSITION)).tolist():
        at = At(segment.path, row * RECORD, RECORD)
        message = "prevPos does not point back"
        yield finding("TL-REC", at, message, expected=f"below {starts[row]}", actual=previous[row])
    due = records["curr_write_time"].astype(np.int64) + records["delayed_time"]
    log.starts = np.concatenate([log.starts, starts])
    log.times = np.concatenate([log.times, due])
    log.end = segment.start + count * RECORD
    yield from _references(inspection, segment, records)
    rest = raw[count * RECORD :]
    if int.from_bytes(rest[12:16], "big", signed=True) == BLANK_MAGIC:
        log.end = segment.start + segment.size
        return
    if any(rest):
        at = At(segment.path, count * RECORD, len(rest))
        yield finding("TL-REC", at, "no record of 52 bytes with a known magic lies here")
    elif not is_last and count:
        at = At(segment.path, count * RECORD, segment.size - count * RECORD)
        yield finding("TL-REC", at, "the file ends without a blank although another follows")


def _references(
    inspection: Inspection, segment: Segment, records: npt.NDArray[np.void]
) -> Iterator[Finding]:
    """Compare records with the timer messages of the commitlog."""
    log = inspection.log
    if log is None or not log.is_scanned:
        return
    known = inspection.transactions.timers
    joined = np.concatenate(known, axis=1) if known else np.empty((2, 0), np.int64)
    offsets = records["physical_offset"].astype(np.int64)
    numbers = np.searchsorted(joined[0], offsets)
    found = np.zeros(len(offsets), bool)
    inside = numbers < joined.shape[1]
    found[inside] = (joined[0][numbers[inside]] == offsets[inside]) & (
        joined[1][numbers[inside]] == records["record_size"][inside]
    )
    wrong = ~found & (offsets >= log.start) & ~inspection.lost.mask(offsets)
    for row in np.flatnonzero(wrong).tolist():
        at = At(segment.path, row * RECORD, RECORD, int(offsets[row]))
        is_ahead = inspection.has_crashed and offsets[row] >= log.end
        yield finding(
            "TL-REF",
            at,
            actual=f"{int(records['record_size'][row])} bytes at {int(offsets[row])}",
            severity=Severity.NOTE if is_ahead else None,
        )


def _wheel(
    inspection: Inspection, branch: Branch, log: TimerLog, values: dict[str, int] | None
) -> Iterator[Finding]:
    """Judge the slots that are still to come."""
    with branch.place.open() as file:
        inspection.account.files += 1
        inspection.account.bytes += file.size
        if file.size not in {0, DEFAULT_WHEEL_LENGTH}:
            expected = DEFAULT_WHEEL_LENGTH
            yield finding("TW-LEN", At(branch.path), expected=expected, actual=file.size)
        precision = _precision(inspection)
        read_until = (values or {}).get("last_read_time_ms", 0) // precision
        position = 0
        while (found := file.next_data(position)) is not None and found < file.size:
            position = found // SLOT * SLOT
            raw = file.read_at(position, CHUNK_SLOTS * SLOT)
            slots = np.frombuffer(raw, TIMER_SLOT.dtype, len(raw) // SLOT)
            if not slots.size:
                break
            pending = (slots["time"] > read_until) & (slots["num"] > 0)
            for row in np.flatnonzero(pending).tolist():
                at = At(branch.path, position + row * SLOT, SLOT)
                yield from _slot(inspection, slots[row], at, log, precision)
            position += slots.size * SLOT


def _precision(inspection: Inspection) -> int:
    conf = inspection.store.broker_conf
    return (conf.integer("timerPrecisionMs") if conf else None) or DEFAULT_PRECISION_MS


def _slot(
    inspection: Inspection, slot: np.void, at: At, log: TimerLog, precision: int
) -> Iterator[Finding]:
    """Judge where one slot points to."""
    for name in ("first_pos", "last_pos"):
        place = int(slot[name])
        number = int(np.searchsorted(log.starts, place))
        is_record = number < log.starts.size and int(log.starts[number]) == place
        if is_record and int(log.times[number]) // precision == int(slot["time"]):
            continue
        if not is_record and (place < log.start or place == NO_POSITION):
            continue  # the file has expired; the broker takes the newer records
        is_ahead = inspection.has_crashed and place >= log.end
        yield finding(
            "TW-POS",
            at,
            f"{name} of the slot of time {int(slot['time'])} is no record of that time",
            actual=place,
            severity=Severity.NOTE if is_ahead else None,
        )


def _checkpoint(inspection: Inspection, values: dict[str, int], log: TimerLog) -> Iterator[Finding]:
    """Judge timercheck against timer log and timer queue."""
    flushed = values["last_timer_log_flush_pos"]
    positions = TIMER_CHECK.positions
    if flushed > log.end:
        at = At(CHECK_PATH, positions["last_timer_log_flush_pos"], 8)
        message = "lastTimerLogFlushPos lies behind the timer log"
        yield finding("TC-AHEAD", at, message, expected=f"at most {log.end}", actual=flushed)
    found = inspection.range_of(TIMER_TOPIC, 0) if inspection.log else None
    offset = values["last_timer_queue_offset"]
    if found is not None and offset > found[1]:
        at = At(CHECK_PATH, positions["last_timer_queue_offset"], 8)
        message = "lastTimerQueueOffset lies behind the queue of the timer topic"
        yield finding("TC-AHEAD", at, message, expected=f"at most {found[1]}", actual=offset)
