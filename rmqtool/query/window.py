"""When a message was sent, as far as its ID tells, and where in the log that is.

A unique key holds the milliseconds since its month began in the client's time zone, so it names
one moment in each month, give or take half a day. Copies of a message (delivered, retried,
committed) have the same ID and are stored later, never earlier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.formats.message_id import ClientMessageId, UniqueKey, recognise
from rmqtool.query.log import LogRange
from rmqtool.query.time import first_record_from
from rmqtool.times import DAY_MS

if TYPE_CHECKING:
    from rmqtool.query.log import Log

ZONE_MS: Final = 15 * 3_600_000  # time zones reach from -12 to +14 hours, clocks are off, too
LONGEST_WAIT_MS: Final = 4 * DAY_MS  # from sending to the last copy, as brokers come
WORTHWHILE: Final = 4 << 20  # bytes; a shorter stretch is searched faster than times are


def moments(log: Log, text: str) -> list[int]:
    """Give when an ID may have been made, ms since 1970, so that the log may hold it."""
    kind = recognise(text)
    if isinstance(kind, ClientMessageId):
        return [kind.time]
    if not isinstance(kind, UniqueKey):
        return []
    first = log.next_record(log.start)
    last = log.previous_record(log.end)
    if first is None or last is None:
        return []
    low = first.store_timestamp - LONGEST_WAIT_MS
    high = last.store_timestamp + ZONE_MS
    found = {
        moment
        for reference in range(first.store_timestamp, high + 28 * DAY_MS, 28 * DAY_MS)
        for moment in kind.time_candidates(min(reference, high))
    }
    return sorted(moment for moment in found if low - ZONE_MS <= moment <= high)


def earliest(log: Log, text: str) -> int | None:
    """Give the offset before which a record with this ID cannot lie; None when nothing tells."""
    found = moments(log, text)
    if not found:
        return None
    head = first_record_from(log, found[0] - ZONE_MS)
    return log.end if head is None else head.physical_offset


def around(log: Log, text: str) -> list[LogRange]:
    """Give the stretches of the log in which a message with this ID was stored first."""
    stretches = []
    for moment in moments(log, text):
        low = first_record_from(log, moment - ZONE_MS)
        high = first_record_from(log, moment + ZONE_MS)
        if low is not None:
            end = log.end if high is None else high.physical_offset
            stretches.append(LogRange(low.physical_offset, end))
    return stretches
