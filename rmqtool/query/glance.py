"""What a few reads tell of a store: for a first look, before anything is scanned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.info.overview import SECTIONS
from rmqtool.info.survey import Survey
from rmqtool.plural import counted
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from rmqtool.query.sources import Sources

SAMPLES: Final = 160  # places of the log whose times are read


class FirstLook(NamedTuple):
    """What is cheap to know."""

    lines: list[tuple[str, str]]  # names and sentences
    size: int  # bytes of the log
    newest: int | None  # store time of its newest record
    samples: list[tuple[int, int]]  # store time and physical offset of records all over the log


def glance(sources: Sources) -> FirstLook:
    """Look at a store.

    Raises:
        UnreadablePath: a file may not be read.
    """
    with Survey(sources.store) as survey:
        (about,) = SECTIONS["store"](survey)
    log = sources.log
    size = sum(segment.size for segment in log.segments)
    last = log.previous_record(log.end) if log.files else None
    newest = None if last is None else last.store_timestamp
    when = "" if newest is None else f", newest message stored {iso_time(newest)}"
    is_given = sources.store.broker_conf is not None
    lines = [
        ("kind", f"{about.recognised_as}, {about.commitlog} log"),
        ("release", about.release),
        ("stopped", about.stopped),
        ("commitlog", f"{counted(len(log.segments), 'file')}, {size:,} bytes{when}"),
        ("broker.conf", "" if is_given else "none was given: --broker-conf FILE"),
    ]
    step = max((log.end - log.start) // SAMPLES, 1)
    heads = filter(None, (log.next_record(at) for at in range(log.start, log.end, step)))
    return FirstLook(
        lines, size, newest, [(head.store_timestamp, head.physical_offset) for head in heads]
    )
