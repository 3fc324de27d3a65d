"""How far consumer groups are, counted from offsets and queues."""

from __future__ import annotations

from rmqtool.info.overview import group_rows
from rmqtool.queues.span import SpanColumns
from rmqtool.queues.units import QueueSpan, Unit
from rmqtool.store.artefact import ArtefactKind


def unit(queue_offset: int) -> Unit:
    """A unit of one message."""
    return Unit(queue_offset, queue_offset, 1, 1000, 100)


def span(queue_id: int, first: int, last: int) -> QueueSpan:
    """A queue of the topic `T`."""
    kind = ArtefactKind.CONSUME_QUEUE
    return QueueSpan("T", queue_id, kind, unit(first), unit(last), first, 100.0, is_exact=True)


def test_lag() -> None:
    """What waits, what is gone and what lies past the end are counted apart."""
    queues = SpanColumns.new()
    for reach in (span(0, 3, 9), span(1, 0, 9), span(2, 0, 9), span(3, 0, 9)):
        queues.add(reach)
    (row,) = group_rows([{"offsetTable": {"T@G": {"0": 1, "1": 10, "2": 14}}}], queues)
    assert ("G", "T", 3, 1) == (row.group, row.topic, row.queues, row.queues_without_offset)
    assert (7, 2, 4) == (row.lag, row.expired, row.ahead)
