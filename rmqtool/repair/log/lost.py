"""Say in words what a damaged record was, as far as its bytes still tell."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from rmqtool.errors import DecodeError
from rmqtool.formats.message import MESSAGE_PREFIX, decode
from rmqtool.plural import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rmqtool.repair.plans import Edit
    from rmqtool.store.record_heads import LogReader

LARGEST_READ: Final = 8 << 20
SHOWN: Final = 120  # characters of a name that evidence gives


def no_record(length: int) -> str:
    """Say that bytes hold no record."""
    return f"{length:,} bytes that hold no record"


def with_messages(
    edits: Iterable[Edit], lost_messages: Iterable[Mapping[str, Any]]
) -> Iterator[Edit]:
    """Say of bytes that hold no record how many messages were there, where something tells.

    Args:
        edits: of a plan.
        lost_messages: rows of `tables/lost_messages.py`.
    """
    places = sorted(
        {
            message["physical_offset"]
            for message in lost_messages
            if message["physical_offset"] is not None
        }
    )
    for edit in edits:
        unknown, name = no_record(edit.length), PurePosixPath(edit.path).name
        if unknown in edit.lost and name.isdecimal():
            start = int(name) + edit.position
            count = bisect_left(places, start + edit.length) - bisect_left(places, start)
            if count:
                what = f"{counted(count, 'message')} ({edit.length:,} bytes), listed below"
                yield replace(edit, lost=edit.lost.replace(unknown, what))
                continue
        yield edit


def lost_record(log: LogReader, physical_offset: int, length: int) -> str:
    """Name the record at an offset: its queue, queue offset and unique key."""
    raw = log.read_at(physical_offset, min(length, LARGEST_READ))
    try:
        message = decode(raw)
    except DecodeError:
        if length <= LARGEST_READ or len(raw) < MESSAGE_PREFIX.size:
            return f"{length:,} bytes that hold no readable record"
        values = MESSAGE_PREFIX.parse(raw[: MESSAGE_PREFIX.size])
        return f"a record of {length:,} bytes, queue offset {values['queue_offset']}"
    key = message.unique_key
    words = (
        f"a message of topic {_shown(message.topic)} queue {message.queue_id}, "
        f"queue offset {message.queue_offset}"
    )
    return f"{words}, unique key {_shown(key)}" if key else words


def _shown(text: str) -> str:
    """Give text of the evidence so that it cannot disturb a terminal or a log."""
    plain = text.encode("unicode_escape").decode("ascii")
    return plain if len(plain) <= SHOWN else plain[:SHOWN] + "..."
