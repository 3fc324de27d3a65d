"""Set, clone or remove committed offsets of a group of consumers, as the user asks.

It is what `mqadmin resetOffsetByTime`, `cloneGroupOffset` and `skipAccumulatedMessage` do with a
running cluster. Queues are looked at as the repair leaves them.
Source: ConsumerOffsetManager, 4.9.3 to 5.5.1: `offsetTable` has `topic@group`, then queue by queue.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rmqtool.clock import Clock
from rmqtool.errors import UsageError
from rmqtool.formats.config_names import OFFSET_TABLE
from rmqtool.query.explain import Trail
from rmqtool.query.sources import Sources
from rmqtool.query.time import search_queue
from rmqtool.ranges import Boundary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.repair.queues.ends_after import EndsAfter
    from rmqtool.store.tree import Store

OPTION: Final = "--set-offset"
FIRST, LAST, NONE, LIKE = "first", "last", "none", "like:"
_ASKED: Final = re.compile(
    r"(?P<group>[^@=]+)(?:@(?P<topic>[^=]+?)(?::(?P<queue>[0-9]{1,10}))?)?=(?P<to>.+)"
)
FORM: Final = "GROUP[@TOPIC[:QUEUE]]=first|last|OFFSET|TIME|like:GROUP|none"


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """One change of committed offsets that was asked for."""

    text: str  # as it was typed
    group: str
    topic: str | None  # None for each topic that the group, or the one it is to be like, has
    queue_id: int | None  # None for each queue of the topic
    to: str  # `first`, `last`, `none`, `like:GROUP`, a queue offset, or ms since 1970 after an `@`

    @classmethod
    def parse(cls, text: str, clock: Clock | None = None) -> OffsetChange:
        """Read one as it is typed; times become ms. Raises UsageError: it is not one."""
        asked = _ASKED.fullmatch(text)
        if asked is None:
            raise UsageError(option=OPTION, reason=f"{text!r} is not {FORM}")
        to, queue = asked["to"], asked["queue"]
        is_word = to in {FIRST, LAST, NONE} or to.startswith(LIKE) or to.isdecimal()
        if not is_word:
            to = f"@{(clock or Clock()).ms(OPTION, to)}"
        if to.isdecimal() and asked["topic"] is None:
            raise UsageError(option=OPTION, reason=f"{text!r} needs a topic: GROUP@TOPIC=OFFSET")
        return cls(text, asked["group"], asked["topic"], int(queue) if queue else None, to)


def set_offsets(
    document: dict[str, Any], changes: Sequence[OffsetChange], ends: EndsAfter, store: Store
) -> list[str]:
    """Change `consumerOffset.json` as asked; say what was changed.

    Args:
        document: of the file; it is changed.
        changes: what is asked, in order.
        ends: tells where queues will begin and end.
        store: as the repair leaves its queues.

    Raises:
        UsageError: a group, topic or queue is not there, or an offset is outside of its queue.
    """
    table = document.setdefault(OFFSET_TABLE, {})
    if not isinstance(table, dict):
        raise UsageError(option=OPTION, reason="offsetTable of consumerOffset.json is not a table")
    notes: list[str] = []
    with Sources(store) as sources:
        for change in changes:
            places = [*_places(change, table, sources)]
            if not places:
                reason = f"{change.text!r}: no queue of {change.topic or change.group} is here"
                raise UsageError(option=OPTION, reason=reason)
            for topic, queue_id in places:
                notes += _set_one(change, table, (topic, queue_id), ends, sources)
    return notes


def _places(
    change: OffsetChange, table: dict[str, Any], sources: Sources
) -> Iterator[tuple[str, int]]:
    """Yield the queues that a change is about."""
    group = change.to.removeprefix(LIKE) if change.to.startswith(LIKE) else change.group
    for key, offsets in sorted(table.items()):
        topic, at, whose = key.partition("@")
        if at and whose == group and change.topic in {None, topic} and isinstance(offsets, dict):
            numbers = {int(offset) for offset in offsets if offset.isdecimal()}
            yield from ((topic, offset) for offset in sorted(numbers) if _is_asked(change, offset))
    if change.topic is None or change.to == NONE or change.to.startswith(LIKE):
        return
    known = table.get(f"{change.topic}@{group}")
    for queue in sources.queues_of(change.topic):  # a group has no offset of a queue it never read
        number = queue.units.queue_id
        is_new = not isinstance(known, dict) or str(number) not in known
        if is_new and _is_asked(change, number):
            yield change.topic, number


def _is_asked(change: OffsetChange, queue_id: int) -> bool:
    return change.queue_id in {None, queue_id}


def _set_one(
    change: OffsetChange,
    table: dict[str, Any],
    place: tuple[str, int],
    ends: EndsAfter,
    sources: Sources,
) -> list[str]:
    """Change the offset of one queue; say what it was and is."""
    topic, queue_id = place
    own = table.setdefault(f"{topic}@{change.group}", {})
    if not isinstance(own, dict):
        reason = f"{change.text!r}: the offsets of {change.group} on {topic} are not a table"
        raise UsageError(option=OPTION, reason=reason)
    before = own.get(str(queue_id))
    now = _wanted(change, table, place, ends, sources)
    if now is None:
        own.pop(str(queue_id), None)
        if not own:
            del table[f"{topic}@{change.group}"]
    else:
        own[str(queue_id)] = now
    if now == before:
        return []
    words = [("none" if offset is None else str(offset)) for offset in (before, now)]
    return [f"group {change.group} on {topic} queue {queue_id}: {words[0]}, now {words[1]}"]


def _wanted(
    change: OffsetChange,
    table: dict[str, Any],
    place: tuple[str, int],
    ends: EndsAfter,
    sources: Sources,
) -> int | None:
    """Give the offset that a queue is to have; None for none."""
    topic, queue_id = place
    if change.to == NONE:
        return None
    if change.to.startswith(LIKE):
        other = table[f"{topic}@{change.to.removeprefix(LIKE)}"][str(queue_id)]
        if type(other) is int:
            return other
        reason = f"{change.text!r}: {other!r} of queue {queue_id} of {topic} is not an offset"
        raise UsageError(option=OPTION, reason=reason)
    known = ends.of(topic, queue_id)
    if known is None:
        reason = f"{change.text!r}: it is not known where queue {queue_id} of {topic} ends"
        raise UsageError(option=OPTION, reason=reason)
    if change.to == FIRST:
        return known.start
    if change.to == LAST:
        return known.stop
    offset = int(change.to) if change.to.isdecimal() else _at_time(change, place, sources)
    if not known.start <= offset <= known.stop:
        reason = f"{change.text!r}: queue {queue_id} of {topic} has {known.start} to {known.stop}"
        raise UsageError(option=OPTION, reason=reason)
    return offset


def _at_time(change: OffsetChange, place: tuple[str, int], sources: Sources) -> int:
    """Give the queue offset of the first message that was stored at a time or after it."""
    topic, queue_id = place
    queue = next(queue for queue in sources.queues_of(topic) if queue.units.queue_id == queue_id)
    timestamp = int(change.to.removeprefix("@"))
    return search_queue(sources.log, queue, timestamp, Boundary.LOWER, Trail())
