"""The table of traces: what clients with enableMsgTrace wrote of messages they sent or consumed.

Source: TraceDataEncoder, TraceView, AsyncTraceDispatcher, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from rmqtool.broker.names import is_trace_topic
from rmqtool.errors import DecodeError
from rmqtool.findings.registry_commitlog import CL_DECOMP
from rmqtool.formats import java, message, trace
from rmqtool.formats.compression import DEFAULT_CEILING_BYTES, decompress
from rmqtool.scan import columns as row
from rmqtool.scan.batch import Extent
from rmqtool.store.segment import SegmentPart
from rmqtool.store.used import marked_followed
from rmqtool.tables.messages import (
    MessageOptions,
    batches_of,
    damage_before,
    damage_of,
    damaged_record,
)
from rmqtool.tables.trace_table import TRACES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.formats.message import Message
    from rmqtool.rows import Row
    from rmqtool.scan.batch import Batch
    from rmqtool.store.tree import Store

GAP: Final = "gap"


class _TraceRecord(NamedTuple):
    """What the events of a trace record have in common, by the names of columns."""

    trace_topic: str
    physical_offset: int
    store_timestamp: int
    client_host: str


class _Unread(NamedTuple):
    """What stands for an event that cannot be read, by the names of columns."""

    reason: str
    code: str | None = None  # None where the log is sound: a client wrote it so
    extent: str = GAP


def traces(store: Store, topics: tuple[str, ...] = ()) -> Iterator[Row]:
    """Yield the events of all trace records, in the order of the log.

    Args:
        store: whose log is read.
        topics: trace topics that clients were given, besides the usual ones.

    Raises:
        UnreadablePath: a file of the log cannot be read to its end.
    """
    for log in (store.old_commitlog, store.commitlog):
        for segment in marked_followed(log.segments):
            yield from _of_part(SegmentPart(segment, 0, segment.size), frozenset(topics))


def trace_rows(record: Message) -> Iterator[dict[str, Any]]:
    """Yield the events of one trace record; what cannot be read of it is a row with a reason."""
    place = _TraceRecord(
        record.topic, record.physical_offset, record.store_timestamp, _host(record.born_host)
    )
    body = decompress(record.body, record.sys_flag)
    if body.body is None:
        yield TRACES.row(place, _Unread(body.reason, str(CL_DECOMP)), None)
        return
    for event in trace.events(body.body):
        unread = _Unread(event.reason) if event.reason else None
        values = SimpleNamespace(**event.values, event=event.kind or None)
        yield TRACES.row(values, unread, event, place, None)


def _of_part(part: SegmentPart, topics: frozenset[str]) -> Iterator[Row]:
    options = MessageOptions()
    with part.segment.open() as file:
        yield from map(_lost, damage_before(part, options))
        for batch in batches_of(part, options, start=None):
            if batch.kind is not Extent.RECORD:
                yield from map(_lost, damage_of(batch, options))
                continue
            for number in _records(batch, topics):
                position = int(batch.columns[row.POSITION, number])
                size = int(batch.columns[row.SIZE, number])
                if position in batch.damage:
                    yield _lost(damaged_record(batch, position))
                raw = file.read_at(position, min(size, DEFAULT_CEILING_BYTES))
                yield from _of_record(raw, part.segment.path, position)


def _records(batch: Batch, topics: frozenset[str]) -> list[int]:
    """Give the numbers of the records of a batch that are traces."""
    names = [java.text(batch.topics[number]) for number in range(len(batch.topics))]
    wanted = [at for at, name in enumerate(names) if is_trace_topic(name) or name in topics]
    return [*map(int, np.flatnonzero(np.isin(batch.columns[row.TOPIC_NUMBER], wanted)))]


def _of_record(raw: bytes, path: str, position: int) -> Iterator[Row]:
    try:
        record = message.decode(raw, path=path, position=position)
    except DecodeError:
        return  # the judge of the record gave its row
    yield from trace_rows(record)


def _lost(damage: Row) -> Row:
    """Give the row of damage of the log: traces there are not known."""
    names = ("physical_offset", "extent", "code")
    return {name: damage[name] for name in names}


def _host(address: str) -> str:
    """Give the host of an address without its port."""
    return address.rpartition(":")[0]
