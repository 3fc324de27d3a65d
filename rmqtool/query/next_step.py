"""What to try next where something was not found: the places in which it may still be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.errors import UnreadablePath
from rmqtool.formats.message_id import ClientMessageId, OffsetMessageId, UniqueKey, recognise
from rmqtool.query.log import LogRange
from rmqtool.query.lookup import ZONE_MS
from rmqtool.query.requests import ById, ByKey, ByTime, ByTransaction
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.query.answer import Answer
    from rmqtool.query.lookup import Lookup


def next_steps(lookup: Lookup, answer: Answer) -> Iterator[str]:
    """Give what may lead further, the cheapest first; nothing where the answer says all."""
    request = answer.request
    if isinstance(request, ByTime) and request.topic is not None:
        yield "without --topic and --queue: the log has times of its own"
        yield "rmqtool validate: it tells whether a queue is lost"
        return
    if not isinstance(request, ById | ByKey | ByTransaction) or not lookup.log.segments:
        return
    if isinstance(request, ById) and isinstance(request.kind, OffsetMessageId):
        yield f"the store of the broker at {request.kind.host}, which is part of the ID"
        return
    if isinstance(request, ByKey) and request.topics:
        yield "without --topic: retried and dead messages go into topics of the group"
    if lookup.scan is False:
        yield "without --no-scan: then the log itself is searched"
    elif LogRange(lookup.log.start, lookup.log.end) not in answer.searched:
        yield "--scan: it reads the log itself, as not all that is stored is in an index"
    else:
        yield f"the store of another broker: {_reach(lookup)}"
        yield "rmqtool validate: damage in the log may have taken the message"


def deleted(lookup: Lookup, answer: Answer) -> str:
    """Say that what was asked for is older than the log; empty where that is not known.

    Brokers delete the oldest segments; a log that begins at 0 has lost none.
    """
    log, request = lookup.log, answer.request
    if not isinstance(request, ById) or not log.segments or log.start <= 0:
        return ""
    if isinstance(request.kind, OffsetMessageId):
        is_before = request.kind.physical_offset < log.start
        gone = f"the log begins at {log.start}: its segments before that were deleted"
        return gone if is_before else ""
    try:
        first, last = log.next_record(log.start), log.previous_record(log.end)
    except UnreadablePath:
        return ""
    if first is None or last is None:
        return ""
    times = _times_of(request.text, first.store_timestamp)
    within = range(first.store_timestamp - ZONE_MS, last.store_timestamp + ZONE_MS)
    before = [time for time in times if time < within.start]
    if not before or any(time in within for time in times):
        return ""
    other = "" if len(times) == 1 else ", or at that time of another month"
    return (
        f"the ID was made at {iso_time(max(before))}{other}; the log begins at "
        f"{iso_time(first.store_timestamp)}, and its segments before that were deleted"
    )


def _times_of(text: str, reference_ms: int) -> tuple[int, ...]:
    """Give when an ID may have been made, ms since 1970."""
    kind = recognise(text)
    if isinstance(kind, ClientMessageId):
        return (kind.time,)
    return kind.time_candidates(reference_ms) if isinstance(kind, UniqueKey) else ()


def _reach(lookup: Lookup) -> str:
    """Say which time the log covers."""
    try:
        first = lookup.log.next_record(lookup.log.start)
        last = lookup.log.previous_record(lookup.log.end)
    except UnreadablePath:
        return "this log was searched as far as it can be read"
    if first is None or last is None:
        return "this log has no record"
    times = iso_time(first.store_timestamp), iso_time(last.store_timestamp)
    return "this log, which was searched, was written from {} to {}".format(*times)
