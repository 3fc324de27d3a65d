"""`diff --merge-offsets`: one `consumerOffset.json` out of two, as far as there is no doubt.

Of two committed offsets the larger one is taken, if both stores bear it: both have the queue up to
there, and the message before it is the same record in both logs. Else the smaller one is, if both
bear that. Else neither: a group must not pass over messages, or be sent back, by a guess.
Source: ConsumerOffsetManager#encode, PullMessageProcessor (an offset outside of a queue is moved),
4.9.3 to 5.5.0.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.errors import UnreadablePath
from rmqtool.formats.config_names import OFFSET_TABLE, OFFSETS_JSON
from rmqtool.formats.config_shapes import consumer_offsets
from rmqtool.queues.discovery import Queues
from rmqtool.table import Column, Table, Type

if TYPE_CHECKING:
    from rmqtool.diff.difference import StoreDifference
    from rmqtool.store.tree import Store

MERGED: Final = Table(
    "merged",
    "a consumer offset of two stores in one file",
    (
        Column("group", Type.TEXT, "consumer group"),
        Column("topic", Type.TEXT, "name of the topic"),
        Column("queue_id", Type.INT64, "number of the queue"),
        Column("queue_offset_a", Type.INT64, "next message to be consumed, as A says"),
        Column("queue_offset_b", Type.INT64, "next message to be consumed, as B says"),
        Column("queue_offset", Type.INT64, "value in the new file; null where it has none"),
        Column("taken_from", Type.TEXT, "A, B or both, whose offset it is", is_optional=True),
        Column("reason", Type.TEXT, "why another offset was not taken", is_optional=True),
    ),
    below=("reason",),
)


class OffsetName(NamedTuple):
    """Whose offset it is, in the order of the file."""

    topic: str
    group: str
    queue_id: int


class MergedOffset(NamedTuple):
    """What becomes of the offsets that two stores have of one group and queue."""

    name: OffsetName  # whose they are
    a: int | None  # next message to be consumed, as A says; None where it says nothing
    b: int | None  # the same of B
    merged: int | None  # what is taken; None where neither is borne by both stores
    reason: str  # why a larger one, or both, were not taken; empty where there was no other

    def row(self) -> dict[str, object]:
        """Give it as a row of `MERGED`."""
        names = [side for side, offset in (("A", self.a), ("B", self.b)) if offset == self.merged]
        taken = None if self.merged is None else " and ".join(names)
        sides = {"queue_offset_a": self.a, "queue_offset_b": self.b, "queue_offset": self.merged}
        return MERGED.row(self.name, **sides, taken_from=taken, reason=self.reason or None)


def merge(a: Store, b: Store, compared: StoreDifference) -> list[MergedOffset]:
    """Decide for each offset that one of two stores has, by topic, group and queue.

    Args:
        a: a store.
        b: the other.
        compared: their difference.

    Raises:
        UnreadablePath: offsets or queues cannot be read.
    """
    with ExitStack() as opened:
        queues = [opened.enter_context(Queues(store)) for store in (a, b)]
        judge = _Judge(queues, compared)
        offsets = [_offsets(store) for store in (a, b)]
        names = sorted({name for some in offsets for name in some})
        return [judge.decide(name, *(some.get(name) for some in offsets)) for name in names]


def document(merged: list[MergedOffset]) -> bytes:
    """Give the file that a broker loads."""
    table: dict[str, dict[str, int]] = {}
    for offset in merged:
        if offset.merged is not None:
            pair = f"{offset.name.topic}@{offset.name.group}"
            table.setdefault(pair, {})[str(offset.name.queue_id)] = offset.merged
    text = json.dumps({OFFSET_TABLE: table}, indent=1, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace")


def _offsets(store: Store) -> dict[OffsetName, int]:
    """Read the offsets that a store has committed.

    Raises:
        UnreadablePath: it cannot be read; a file that is not there holds none.
    """
    offsets_json = store.config(OFFSETS_JSON)
    if not offsets_json and offsets_json.problems:
        raise UnreadablePath(
            path=offsets_json.problems[0].path, reason=offsets_json.problems[0].says
        )
    return {
        OffsetName(offset.topic, offset.group, offset.queue_id): offset.queue_offset
        for offset in consumer_offsets(offsets_json.document)
        if offset.queue_offset is not None and offset.queue_offset >= 0
    }


class _Judge:
    """Says which offsets both stores bear."""

    def __init__(self, queues: list[Queues], compared: StoreDifference) -> None:
        self._queues = queues
        self._begins = compared.log.a.begin, compared.log.b.begin
        self._parting = compared.parts_at

    def decide(self, name: OffsetName, a: int | None, b: int | None) -> MergedOffset:
        """Take the largest offset that both stores bear."""
        if a == b:
            return MergedOffset(name, a, b, a, "")
        reason = ""
        for offset in sorted({offset for offset in (a, b) if offset is not None}, reverse=True):
            why = self._why_not(name, offset)
            if not why:
                return MergedOffset(name, a, b, offset, reason)
            reason = f"{reason}; {why}" if reason else why
        return MergedOffset(name, a, b, None, reason)

    def _why_not(self, name: OffsetName, offset: int) -> str:
        """Say why an offset is not borne by both stores; empty where it is."""
        places = []
        for side, queues, begin in zip("AB", self._queues, self._begins, strict=True):
            queue = queues.queue(name.topic, name.queue_id)
            span = None if queue is None else queue.span(begin)
            low, high = (span.min_offset, span.max_offset) if span else (0, 0)
            if offset > high:
                return f"the queue of {side} ends at {high}, before {offset}"
            if queue is None or offset <= low:
                return ""  # the message before it expired there: brokers go on with the first one
            seen = queue.find(offset - 1)
            places.append(seen.unit.physical_offset if seen and seen.unit else None)
        if places[0] != places[1]:
            return f"the message before {offset} is another one in A and in B"
        if None not in (places[0], self._parting) and (places[0] or 0) >= (self._parting or 0):
            return f"the message before {offset} lies where the logs differ"
        return ""
