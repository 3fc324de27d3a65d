"""Edits of the timer's files: the wheel goes, the broker makes it anew from the timer log.

The log is read again from its beginning, as `timercheck` is set back: a wheel that is gone has
nothing of what an older file of the log holds. Source: TimerMessageStore#recover,
#recoverAndRevise, 5.0.0 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.conf import TIMER_PRECISION_MS
from rmqtool.broker.names import TIMER_TOPIC
from rmqtool.check.state.timer import CLOCK_TOLERANCE_MS, MS_NS, out_of_reach
from rmqtool.check.state.timer_log import timer_log_of
from rmqtool.errors import DecodeError, UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.registry_layout import FS_LEN
from rmqtool.findings.registry_state import TC_AHEAD, TL_REC, TL_REF, TW_LEN, TW_LOST, TW_POS
from rmqtool.formats.timer import CHECK_FILE_LENGTH, TIMER_CHECK, TIMER_LOG_RECORD
from rmqtool.plural import counted
from rmqtool.repair.log.content import Content
from rmqtool.repair.queues.ends_after import EndsAfter, with_repaired_queues

if TYPE_CHECKING:
    from rmqtool.findings.finding import Finding
    from rmqtool.repair.survey import LogSurvey
    from rmqtool.repair.writer import EditWriter
    from rmqtool.store.segment import Segment
    from rmqtool.store.tree import Store

CUT: Final = "zeros: the broker cuts the timer log here, and reads these timers from their topic"
AGAIN: Final = "are in no timer log; the broker reads their topic again, and may deliver some twice"
WHEEL: Final = "the broker rebuilds the wheel from the timer log"


def edit(writer: EditWriter, survey: LogSurvey, findings: list[Finding]) -> None:
    """Cut a damaged timer log, take a wrong wheel out, lower `timercheck`."""
    defects = [finding for finding in findings if finding.severity is not Severity.NOTE]
    store = survey.inspection.store
    short = _lengths(writer, store, {defect.path for defect in defects if defect.code == FS_LEN})
    end = _cut_log(writer, survey, [defect for defect in defects if defect.code == TL_REC], short)
    wheels = {defect.path for defect in defects if defect.code in {TW_LEN, TW_POS, TW_LOST}}
    is_gone = any(defect.code == TW_LOST for defect in defects)
    for artefact in store.timer_wheels():
        if artefact.path in wheels or end is not None:
            code = next((defect.code for defect in defects if defect.path == artefact.path), TL_REC)
            writer.remove(artefact.place.location, code, WHEEL)
            is_gone = True
    if survey.facts.lost:
        _leave_lost(writer, survey, end)
    try:
        values = store.timer_check()
    except DecodeError:
        return
    if values is not None:
        _lower(writer, survey, values, end, is_gone=is_gone)


def timer_check(survey: LogSurvey) -> bytes | None:
    """Give a `timercheck` by what timer log and commitlog tell; None where they tell too little.

    A broker goes on in its topic after the last record of the timer log. It has delivered what was
    due before the newest message; of the second of that one some may come again.
    """
    store = survey.inspection.store
    try:
        log = timer_log_of(store.timer_log.segments)
        queue = survey.ranges.of(TIMER_TOPIC, 0)
    except UnreadablePath:
        return None
    if queue is None or not log.starts.size:
        return None
    newest = survey.facts.newest_time
    values = dict.fromkeys(TIMER_CHECK.positions, 0) | {
        "last_read_time_ms": newest - newest % TIMER_PRECISION_MS.of(store.broker_conf),
        "last_timer_log_flush_pos": log.start,
        "last_timer_queue_offset": queue[1],
        "master_timer_queue_offset": queue[1],
        "timestamp": newest,
        "counter": 1,
    }
    return TIMER_CHECK.build(values).ljust(CHECK_FILE_LENGTH, b"\0")


def _leave_lost(writer: EditWriter, survey: LogSurvey, end: int | None) -> None:
    """Name the files of the timer log that point to what the commitlog has lost.

    A finding of what is lost speaks for them before the repair. Afterwards it is gone.
    """
    try:
        log = timer_log_of(survey.inspection.store.timer_log.segments)
    except UnreadablePath:
        return  # said elsewhere
    is_lost = survey.facts.lost.mask(log.messages)
    places = log.starts[is_lost if end is None else is_lost & (log.starts < end)]
    files = np.searchsorted([segment.start for segment in log.segments], places, side="right") - 1
    for number in np.unique(files).tolist():
        why = f"none: {TL_REF.consequence}"
        writer.leave(TL_REF, log.segments[number].path, TL_REF.meaning, why)


def _lengths(writer: EditWriter, store: Store, paths: set[str]) -> list[Segment]:
    """Give files the length that brokers load; return those that end early, and others follow.

    What these have lost is missing in the middle of the timer log, where a broker ends it. So is
    the last file, where it was cut in a record: zeros would make one of it that never was.
    """
    length, segments = store.geometry.timer_log.value, store.timer_log.segments
    wrong = [segment for segment in segments if segment.path in paths and segment.size != length]
    for segment in wrong:
        writer.length(segment, length, FS_LEN, "the length that brokers load")
    size = TIMER_LOG_RECORD.size
    torn = [
        segment
        for segment in wrong
        if segment.size % size and segment.size // size < length // size
    ]
    return [
        segment
        for segment in wrong
        if segment.size < length and (segment is not segments[-1] or segment in torn)
    ]


def _cut_log(
    writer: EditWriter, survey: LogSurvey, defects: list[Finding], short: list[Segment]
) -> int | None:
    """Zero the timer log from its first bad record on; give that place, None for none."""
    store = survey.inspection.store
    places = [(segment.end - segment.size % TIMER_LOG_RECORD.size, segment) for segment in short]
    for defect in defects:
        own = [segment for segment in store.timer_log.segments if segment.path == defect.path]
        places += [(segment.start + (defect.position or 0), segment) for segment in own]
    if not places:
        return None
    start, first = min(places, key=lambda place: place[0])
    for segment in store.timer_log.segments:
        if segment.start > start:
            writer.remove(segment.place.location, TL_REC, "is past the timer log's end")
    writer.zero(first, start - first.start, TL_REC, CUT)
    return start


def _lower(
    writer: EditWriter, survey: LogSurvey, values: dict[str, int], end: int | None, *, is_gone: bool
) -> None:
    """Lower what `timercheck` says to what is there."""
    store = survey.inspection.store
    log = store.timer_log
    wanted = dict(values)
    if is_gone:
        wanted["last_timer_log_flush_pos"] = min(values["last_timer_log_flush_pos"], log.start)
    limit = log.end if end is None else end
    flushed = wanted["last_timer_log_flush_pos"]
    used = _used_end(survey, limit)
    wanted["last_timer_log_flush_pos"] = min(flushed, used)
    last = _end_of_queue(survey, writer)
    if last is not None:
        offset = wanted["last_timer_queue_offset"]
        wanted["last_timer_queue_offset"] = min(offset, last)
    queues = with_repaired_queues(survey, writer)
    passed = out_of_reach(queues, wanted) if used <= log.start else None
    if passed is not None:
        wanted["last_timer_queue_offset"] = passed.queue_offset
    place = survey.inspection.child("config/timercheck")
    entry = place.stat()
    if entry is not None:
        written = entry.mtime_ns // MS_NS
        if values["last_read_time_ms"] > written + CLOCK_TOLERANCE_MS:
            wanted["last_read_time_ms"] = written
    for name, value in wanted.items():
        if value != values[name] and entry is not None:
            content = Content.of(TIMER_CHECK[name].build(value))
            at = (place.location, entry.size, TIMER_CHECK.positions[name])
            is_for_wheel = is_gone and name == "last_timer_log_flush_pos"
            code, reason = TC_AHEAD, f"{name}: not ahead of the existing files"
            if is_for_wheel:
                code, reason = TW_LOST, f"{name}: so that a start reads the whole timer log"
            if passed is not None and name == "last_timer_queue_offset":
                reason = f"{name}: {counted(passed.timers, 'timer message')} {AGAIN}"
            writer.write_at(at, content, code, reason)


def _end_of_queue(survey: LogSurvey, writer: EditWriter) -> int | None:
    """Give where the queue of timer messages will end; None where it is not judged."""
    if survey.queues.queue_of(TIMER_TOPIC.raw, 0) is None:
        is_judged = survey.facts.is_known and survey.inspection.scope.compares_queues
        return 0 if is_judged and survey.ranges.of(TIMER_TOPIC, 0) in {None, (0, 0)} else None
    ends = EndsAfter(survey, writer)
    waiting = ends.of(TIMER_TOPIC, 0)
    ends.close()
    return waiting.stop if waiting is not None else None


def _used_end(survey: LogSurvey, limit: int) -> int:
    """Give the end of what the timer log holds, at most a limit."""
    from rmqtool.store.used import used_bytes

    segments = [
        segment for segment in survey.inspection.store.timer_log.segments if segment.start < limit
    ]
    if not segments:
        return 0
    with segments[-1].open() as file:
        used = used_bytes(file, TIMER_LOG_RECORD.size)
    return min(limit, segments[-1].start + used)
