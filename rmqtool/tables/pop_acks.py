"""Popped messages that nobody acknowledged, as revive topics tell it.

A broker that hands out a message writes a checkpoint (`ck`) for a revive topic, and an `ack` when
the consumer is done. Both are timers: they come to the topic when the message may be handed out
again. What has no `ack` then goes into the group's retry topic. That is done up to the offset of
the brokers' own group, which is that of the last checkpoint, and not of the next note to read.
Brokers that keep pop state in `kvStore` write neither. What a killed broker has not dispatched yet
is not seen.
Source: PopMessageProcessor, PopReviveService, PopCheckPoint, AckMsg, BatchAckMsg, 5.0.0 to 5.5.0.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from rmqtool.errors import DecodeError
from rmqtool.formats import config, properties
from rmqtool.formats.message import decode
from rmqtool.queues.discovery import Queues
from rmqtool.store.record_heads import LogReader
from rmqtool.tables.pending import pending_timers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rmqtool.store.tree import Store

REVIVE_PREFIX: Final = "rmq_sys_REVIVE_LOG_"
REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
CHECKPOINT: Final = "ck"
ACKS: Final = frozenset({"ack", "bAck"})
UNITS_AT_ONCE: Final = 4096
Key: TypeAlias = tuple[object, ...]


class Popped(NamedTuple):
    """A message that was handed out."""

    group: str  # who popped it
    topic: str  # that it was popped from
    queue_id: int  # of that topic
    queue_offset: int  # of the message there
    pop_time: int  # ms
    visible_time: int  # ms; when it may be handed out again


def unacknowledged(
    store: Store, committed: Mapping[tuple[str, str, int], int | None]
) -> Iterator[Popped]:
    """Yield what was popped and neither acknowledged nor given to a retry topic.

    Args:
        store: whose revive topics are read.
        committed: queue offset by topic, group and queue.

    Raises:
        UnreadablePath: a file cannot be read.
    """
    checkpoints: dict[Key, dict[str, Any]] = {}
    acked: set[tuple[Key, int]] = set()
    with LogReader(store.old_commitlog, store.commitlog) as reader:
        for place in chain(_in_queues(store, reader, committed), _in_timers(store)):
            tag, note = _note(reader, *place)
            key = tuple(note.get(name) for name in ("c", "t", "q", "so", "pt"))
            if tag == CHECKPOINT:
                checkpoints[key] = note
            elif tag in ACKS:
                acked |= {(key, offset) for offset in note.get("aol") or [note.get("ao")]}
    for key, note in checkpoints.items():
        yield from (popped for popped in _popped(note) if (key, popped.queue_offset) not in acked)


def _in_queues(
    store: Store, reader: LogReader, committed: Mapping[tuple[str, str, int], int | None]
) -> Iterator[tuple[int, int]]:
    """Yield physical offset and size of the notes of revive topics that are not done with."""
    with Queues(store) as queues:
        for topic in sorted(topic for topic in queues.topics() if topic.startswith(REVIVE_PREFIX)):
            for queue in queues.queues_of(topic):
                last = committed.get((topic, REVIVE_GROUP, queue.queue_id))
                first = 0 if last is None else last + 1
                span = queue.span(reader.logs[0].start if reader.logs else 0)
                for start in range(max(first, span.min_offset), span.max_offset, UNITS_AT_ONCE):
                    units = queue.read(start, min(UNITS_AT_ONCE, span.max_offset - start))
                    yield from ((offset, size) for offset, size, _ in units.tolist() if size > 0)


def _in_timers(store: Store) -> Iterator[tuple[int, int]]:
    """Yield physical offset and size of the notes that come to a revive topic later."""
    for timer in pending_timers(store):
        offset, size = timer.get("physical_offset"), timer.get("size")
        is_note = str(timer.get("topic")).startswith(REVIVE_PREFIX)
        if is_note and isinstance(offset, int) and isinstance(size, int):
            yield offset, size


def _note(reader: LogReader, offset: int, size: int) -> tuple[str, dict[str, Any]]:
    """Give tag and content of a note; of what cannot be read, nothing."""
    try:
        message = decode(reader.read_at(offset, size))
        tag = message.properties.get(properties.TAGS, "")
        return tag, config.parse_object(message.body) if tag in {CHECKPOINT, *ACKS} else {}
    except DecodeError:
        return "", {}


def _popped(note: dict[str, Any]) -> Iterator[Popped]:
    """Yield the messages of a checkpoint that it does not state as acknowledged itself."""
    numbers = [note.get(name) for name in ("q", "so", "n", "bm", "pt", "it")]
    group, topic = note.get("c"), note.get("t")
    if not isinstance(group, str) or not isinstance(topic, str):
        return
    queue_id, start, count, bits, time, invisible = (
        number if isinstance(number, int) else 0 for number in numbers
    )
    listed = note.get("d")
    distances = listed if isinstance(listed, list) and listed else range(count)
    for number, distance in enumerate(distances):
        if not bits >> number & 1 and isinstance(distance, int):
            place = queue_id, start + distance
            yield Popped(group, topic, *place, time, time + invisible)
