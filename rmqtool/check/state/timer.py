"""Judge the timer's wheel and checkpoint against its log: TW-*, TC-AHEAD.

Source: TimerWheel, TimerMessageStore#recoverAndRevise, TimerCheckpoint, 5.0.0 to 5.5.0.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.broker.conf import TIMER_PRECISION_MS
from rmqtool.broker.names import TIMER_TOPIC
from rmqtool.check.queues.grouping import grouped
from rmqtool.check.state.timer_log import TimerLog, check_chains, read_segment
from rmqtool.errors import DecodeError, UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_state import TC_AHEAD, TW_LEN, TW_LOST, TW_POS
from rmqtool.formats import properties
from rmqtool.formats.message import decode
from rmqtool.formats.properties import TIMER_DEL_UNIQKEY, TIMER_OUT_MS
from rmqtool.formats.rocksdb_databases import MESSAGE_STORE
from rmqtool.formats.timer import (
    DEFAULT_WHEEL_LENGTH,
    NO_POSITION,
    SLOTS_TOTAL,
    TIMER_CHECK,
    TIMER_SLOT,
)
from rmqtool.judge.message_content import LONGEST_TIME
from rmqtool.plural import counted
from rmqtool.queues.discovery import Queues
from rmqtool.store.record_heads import LogReader
from rmqtool.store.unread import unread_stretches
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.check.queues.ranges import QueueRanges
    from rmqtool.findings.finding import Finding
    from rmqtool.formats.message import Message
    from rmqtool.store.artefact import Artefact
    from rmqtool.store.tree import Store


SLOT: Final = TIMER_SLOT.size
CHUNK_SLOTS: Final = 1 << 15
CHECK_PATH: Final = "config/timercheck"
CLOCK_TOLERANCE_MS: Final = 3_600_000
BLANK_SLOTS: Final = 60  # TIMER_BLANK_SLOTS
MS_NS: Final = 1_000_000


@grouped
def check(inspection: Inspection, facts: LogFacts, ranges: QueueRanges) -> Iterator[Finding]:
    """Judge timer log, wheel and checkpoint against each other and the commitlog."""
    store = inspection.store
    try:
        segments = store.timer_log.segments
        values = store.timer_check()
    except (UnreadablePath, DecodeError) as error:
        if isinstance(error, UnreadablePath):
            yield inspection.unread(inspection.path_of(error.path), error)
        else:
            yield finding(TC_AHEAD, At(CHECK_PATH), "timercheck is too short to be read")
        return
    log = TimerLog(segments=tuple(segments))
    if segments:
        log.start = log.end = segments[0].start
    for number, segment in enumerate(segments):
        try:
            is_last = number == len(segments) - 1
            yield from read_segment(inspection, facts, segment, log, is_last=is_last)
        except UnreadablePath as error:
            yield inspection.unread(segment.path, error)
            return
    if inspection.name_unread(unread_stretches(store.timer_log)) or inspection.is_known_unread(
        "timerlog"
    ):
        inspection.leave_out("chains and slots of the timer", "a part of the timer log is unread")
        yield from inspection.pending()
        return
    yield from check_chains(inspection, log, _precision(inspection))
    for artefact in store.timer_wheels():
        try:
            yield from _wheel(inspection, artefact, log, values)
        except UnreadablePath as error:
            yield inspection.unread(artefact.path, error)
            return
    if values is not None:
        yield from _lost(inspection, log, values)
        end = None
        with suppress(UnreadablePath):  # the queue's own check says so
            end = ranges.of(TIMER_TOPIC, 0) if facts.is_known else None
        yield from _checkpoint(inspection, values, log, end)


def _wheel(
    inspection: Inspection, artefact: Artefact, log: TimerLog, values: dict[str, int] | None
) -> Iterator[Finding]:
    """Judge the slots that are still to come."""
    with artefact.place.open() as file:
        inspection.account.files += 1
        inspection.account.bytes += file.size
        if file.size not in {0, DEFAULT_WHEEL_LENGTH}:
            expected = DEFAULT_WHEEL_LENGTH
            yield finding(TW_LEN, At(artefact.path), expected=expected, actual=file.size)
        precision = _precision(inspection)
        read_until = max((values or {}).get("last_read_time_ms", 0) // precision, 1)
        position = 0
        while (data_at := file.next_data(position)) is not None and data_at < file.size:
            position = data_at // SLOT * SLOT
            raw = file.read_at(position, CHUNK_SLOTS * SLOT)
            slots = np.frombuffer(raw, TIMER_SLOT.dtype, len(raw) // SLOT)
            if not slots.size:
                break
            numbers = position // SLOT + np.arange(len(slots))
            is_misplaced = (slots["time"] % SLOTS_TOTAL != numbers) & (slots["time"] != 0)
            for row in np.flatnonzero(is_misplaced | (slots["magic"] != 0)).tolist():
                at = At(artefact.path, position + row * SLOT, SLOT)
                message = "the slot's time belongs into another slot, or its unused field is set"
                yield finding(TW_POS, at, message, actual=int(slots["time"][row]))
            pending = (slots["time"] >= read_until) & ~is_misplaced
            for row in np.flatnonzero(pending).tolist():
                at = At(artefact.path, position + row * SLOT, SLOT)
                yield from _slot(inspection, slots[row], at, log, precision)
            position += slots.size * SLOT


def _lost(inspection: Inspection, log: TimerLog, values: dict[str, int]) -> Iterator[Finding]:
    """Find timers of the log that the wheel does not have, and that a start does not put back."""
    precision = _precision(inspection)
    slots = [
        slot
        for slot in waiting(inspection.store, log, values, precision)
        if slot.is_lost and slot.timers
    ]
    if slots:
        count = counted(sum(slot.timers for slot in slots), "waiting timer message")
        first = iso_time(slots[0].time * precision)
        message = f"{count} in the timer log, the first due at {first}: the wheel has no slot"
        yield finding(TW_LOST, At(WHEEL), f"{message} for them", expected=len(slots), actual=0)


def _out_of_reach(
    inspection: Inspection, log: TimerLog, values: dict[str, int]
) -> Iterator[Finding]:
    """Find timers that wait in the topic alone, before the place from which it is read on."""
    try:
        unreached = None if log.starts.size else out_of_reach(inspection.store, values)
    except UnreadablePath as error:
        yield inspection.unread(inspection.path_of(error.path), error)
        return
    if unreached is not None:
        at = At(CHECK_PATH, TIMER_CHECK.positions["last_timer_queue_offset"], 8)
        count = counted(unreached.timers, "waiting timer message")
        message = f"lastTimerQueueOffset is past {count}, and the timer log does not hold them"
        expected, actual = f"at most {unreached.queue_offset}", values["last_timer_queue_offset"]
        yield finding(TC_AHEAD, at, message, expected=expected, actual=actual)


def _precision(inspection: Inspection) -> int:
    conf = inspection.store.broker_conf
    return TIMER_PRECISION_MS.of(conf)


def _slot(
    inspection: Inspection, slot: np.void, at: At, log: TimerLog, precision: int
) -> Iterator[Finding]:
    """Judge where one slot points to."""
    is_right = True
    for name in ("first_pos", "last_pos"):
        place = int(slot[name])
        number = int(np.searchsorted(log.starts, place))
        is_record = number < log.starts.size and int(log.starts[number]) == place
        if is_record and int(log.times[number]) // precision == int(slot["time"]):
            continue
        if not is_record and (0 <= place < log.start or place == NO_POSITION):
            continue  # the file has expired; the broker takes the newer records
        is_right = False
        is_ahead = inspection.scope.has_crashed and place >= log.end
        yield finding(
            TW_POS,
            at,
            f"{name} of the slot of time {int(slot['time'])} is not a record of that time",
            actual=place,
            severity=Severity.NOTE if is_ahead else None,
        )
    if is_right and not inspection.scope.has_crashed:
        yield from _count(slot, at, log, precision)


def _count(slot: np.void, at: At, log: TimerLog, precision: int) -> Iterator[Finding]:
    """Compare the number of a slot's messages with the records of its time."""
    first, last = int(slot["first_pos"]), int(slot["last_pos"])
    of_slot = log.times // precision == int(slot["time"])
    of_slot &= (log.starts >= first) & (log.starts <= last)
    count = int(log.counts[of_slot].sum())
    if first >= log.start and count != int(slot["num"]):
        message = "the slot counts other messages than the timer log has for it"
        yield finding(TW_POS, at, message, expected=count, actual=int(slot["num"]))


def _checkpoint(
    inspection: Inspection,
    values: dict[str, int],
    log: TimerLog,
    timer_queue: tuple[int, int] | None,
) -> Iterator[Finding]:
    """Judge timercheck against timer log and the range of the timer queue."""
    yield from _out_of_reach(inspection, log, values)
    flushed = values["last_timer_log_flush_pos"]
    positions = TIMER_CHECK.positions
    entry = inspection.child(CHECK_PATH).stat()
    latest = (entry.mtime_ns // MS_NS if entry else 0) + CLOCK_TOLERANCE_MS
    if entry and values["last_read_time_ms"] > latest:
        at = At(CHECK_PATH, positions["last_read_time_ms"], 8)
        message = "lastReadTimeMs is later than the file itself: timers up to it are skipped"
        actual = iso_time(values["last_read_time_ms"])
        yield finding(TC_AHEAD, at, message, expected=iso_time(latest), actual=actual)
    if flushed > log.end:
        at = At(CHECK_PATH, positions["last_timer_log_flush_pos"], 8)
        message = "lastTimerLogFlushPos is past the end of the timer log"
        yield finding(TC_AHEAD, at, message, expected=f"at most {log.end}", actual=flushed)
    offset = values["last_timer_queue_offset"]
    if timer_queue is not None and offset > timer_queue[1]:
        at = At(CHECK_PATH, positions["last_timer_queue_offset"], 8)
        message = "lastTimerQueueOffset is past the end of the queue of the timer topic"
        yield finding(TC_AHEAD, at, message, expected=f"at most {timer_queue[1]}", actual=offset)


# Timer messages that wait: in the timer log, and in the wheel through which a broker finds them.
#
# At a start a broker puts records of the timer log back into the wheel, but only from one file
# before the place up to which the log was flushed. What waits in older files it knows by the wheel
# alone. See TimerMessageStore#recover, #recoverAndRevise, TimerWheel#getSlot, 5.0.0 to 5.5.0.


WHEEL: Final = "timerwheel"
UNITS_AT_ONCE: Final = 4096


class Slot(NamedTuple):
    """Timers of one time that have not been delivered."""

    time: int  # when they are due, divided by the precision
    timers: int  # how many; those that were recalled do not count
    gone: int  # others, whose record the log has no more
    is_read_again: bool  # a start reads the newest of them in the timer log, and follows its links
    is_in_wheel: bool  # a wheel has a slot for them, right or not

    @property
    def is_lost(self) -> bool:
        """Whether a broker that starts does not find them."""
        return not (self.is_read_again or self.is_in_wheel)


def waiting(store: Store, log: TimerLog, values: dict[str, int], precision: int) -> Iterator[Slot]:
    """Yield the slots that are still to come, in the order of their times.

    Args:
        store: whose timers these are.
        log: its timer log.
        values: of `timercheck`.
        precision: of a slot, ms.

    Raises:
        UnreadablePath: a wheel cannot be read.
    """
    read_until = max(values.get("last_read_time_ms", 0) // precision, 1)
    revised = _revised_from(log, values.get("last_timer_log_flush_pos", 0))
    slots = log.times // precision
    times, groups = np.unique(slots[slots >= read_until], return_inverse=True)
    counts, gone = np.zeros(len(times), np.int64), np.zeros(len(times), np.int64)
    is_gone = log.messages[slots >= read_until] < max(store.commitlog.start, 0)
    np.add.at(counts, groups, log.counts[slots >= read_until] * ~is_gone)
    np.add.at(gone, groups, log.counts[slots >= read_until] * is_gone)
    last = np.full(len(times), -1, np.int64)
    np.maximum.at(last, groups, log.starts[slots >= read_until])
    held = _held(store, times)
    for number in np.flatnonzero((counts > 0) | (gone > 0)).tolist():
        is_read_again = bool(last[number] >= revised)
        timers = max(int(counts[number]), 0), max(int(gone[number]), 0)
        yield Slot(int(times[number]), *timers, is_read_again, held[number])


def first_slot(now_ms: int, precision: int) -> int:
    """Give the oldest time, divided by the precision, whose timers a start delivers.

    A broker that was down for longer than the wheel turns skips what was due before.
    Source: TimerMessageStore#recover, 5.0.0 to 5.5.1.
    """
    return now_ms // precision - SLOTS_TOTAL // 2 + BLANK_SLOTS


class OutOfReach(NamedTuple):
    """Timers that wait, but that neither the timer log nor the rest of their topic gives."""

    queue_offset: int  # of the first one, in the timer's topic
    timers: int  # how many


def out_of_reach(store: Store, values: dict[str, int]) -> OutOfReach | None:
    """Find what an empty timer log should hold; None for nothing.

    With a record in its log, a broker goes on in the topic after that one. Without one it goes on
    where `timercheck` says, and what waits before that is never read again. Where timers are kept
    in RocksDB, nothing follows from an empty log.
    Source: TimerMessageStore#recover, #reviseQueueOffset, 5.0.0 to 5.5.0.

    Args:
        store: whose timer log is empty, or gone.
        values: of `timercheck`.

    Raises:
        UnreadablePath: a queue or the log cannot be read.
    """
    end = values.get("last_timer_queue_offset", 0)
    if end <= 0 or any(
        database.path == MESSAGE_STORE and not database.is_empty for database in store.rocksdb()
    ):
        return None
    newest: dict[str | int, int] = {}  # a timer that waits long is stored again and again
    with Queues(store) as queues, LogReader(store.old_commitlog, store.commitlog) as reader:
        for number, message in timer_messages(queues, reader):
            record_properties = message.properties
            due = record_properties.get(TIMER_OUT_MS, "")
            is_time = due.isdecimal() and len(due) <= LONGEST_TIME
            if TIMER_DEL_UNIQKEY in record_properties:
                newest.pop(record_properties[TIMER_DEL_UNIQKEY].rpartition("+")[2], None)
            elif is_time and int(due) >= values.get("last_read_time_ms", 0):
                newest[record_properties.get(properties.UNIQ_KEY, number)] = number
    passed = [number for number in newest.values() if number < end]
    return OutOfReach(min(passed), len(passed)) if passed else None


def timer_messages(queues: Queues, reader: LogReader) -> Iterator[tuple[int, Message]]:
    """Yield the messages of the timer's topic, by their queue offsets."""
    queue = queues.queue(TIMER_TOPIC, 0)
    if queue is None:
        return
    span = queue.span(reader.logs[0].start if reader.logs else 0)
    for first in range(span.min_offset, span.max_offset, UNITS_AT_ONCE):
        units = queue.read(first, min(UNITS_AT_ONCE, span.max_offset - first))
        for number, (offset, size, _) in enumerate(units.tolist(), first):
            try:
                message = decode(reader.read_at(offset, max(size, 0)))
            except DecodeError:
                continue
            if message.physical_offset == offset:
                yield number, message


def _revised_from(log: TimerLog, flushed: int) -> int:
    """Give the first byte of the timer log that a start puts into the wheel again."""
    if not log.segments:
        return 0
    wanted = flushed - log.segments[-1].size
    starts = [segment.start for segment in log.segments if segment.start <= wanted]
    return starts[-1] if starts else log.segments[0].start


def _held(store: Store, times: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[bool]:
    """Tell for each time whether the wheel, or a snapshot of it, has its slot."""
    is_held = [False] * len(times)
    for artefact in store.timer_wheels():
        with artefact.place.open() as file:
            for number, time in enumerate(times.tolist()):
                raw = file.read_at(time % SLOTS_TOTAL * TIMER_SLOT.size, TIMER_SLOT.size)
                if len(raw) == TIMER_SLOT.size:
                    is_held[number] |= TIMER_SLOT["time"].of(raw) == time
    return is_held
