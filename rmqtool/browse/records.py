"""Messages of queues, records of the log, queues and segments: read while they are seen."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Final

from rmqtool.browse.sources import PAGE, READING, PagedRows, RowSource
from rmqtool.info import overview_rows
from rmqtool.info.overview import segment_row
from rmqtool.info.survey import Survey
from rmqtool.query.whole_message import log_row, places_after, queue_row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqtool.browse.sources import Some, StoreReader
    from rmqtool.info.overview_rows import QueueRow
    from rmqtool.query.lookup import Lookup
    from rmqtool.rows import Row

IN_QUEUE: Final = (
    *("queue_offset", "store_time", "physical_offset", "note", "tags", "keys", "size"),
    "unique_key",
)
IN_LOG: Final = (
    *("physical_offset", "store_time", "topic", "queue_id", "queue_offset", "note", "tags"),
    *("keys", "size", "unique_key"),
)
IN_MAP: Final = ("start", "map", "first_store_time", "state")
OTHERS_OF_MAP: Final = 60  # columns of all but the map
BEFORE: Final = 32  # records before the place that was asked for
AHEAD: Final = 256  # records of a log that are looked for at a time


class QueueMessages(PagedRows):
    """The messages of a queue, or of all queues of a topic one after the other.

    Args:
        reader: of the store.
        topic: name of the topic.
        queue_id: number of the queue; None for all of them.
    """

    def __init__(self, reader: StoreReader, topic: str, queue_id: int | None = None) -> None:
        super().__init__(IN_QUEUE if queue_id is not None else ("queue_id", *IN_QUEUE), reader)
        self.topic, self.queue_id = topic, queue_id
        self._queues: list[tuple[int, int]] = []  # number and first queue offset of each
        self._ends: list[int] = []  # rows up to the end of each
        reader.ask(self._spans, self._begin, self.end)

    def number_of(self, queue_id: int | None, queue_offset: int) -> int | None:
        """Give the row of a queue offset, the nearest one; None without that queue."""
        for (number, first), end, before in zip(
            self._queues, self._ends, [0, *self._ends], strict=False
        ):
            if queue_id in {number, None}:
                return before + min(max(queue_offset - first, 0), end - before - 1)
        return None

    def read(self, lookup: Lookup, first: int, count: int) -> list[Row]:
        """See `PagedRows`."""
        rows: list[Row] = []
        for number in range(first, first + count):
            place = bisect_right(self._ends, number)
            queue_id, offset = self._queues[place]
            before = self._ends[place - 1] if place else 0
            rows.append(queue_row(lookup, self.topic, queue_id, offset + number - before))
        return rows

    def _spans(self, lookup: Lookup) -> list[tuple[int, int, int]]:
        queues = lookup.queues_of(self.topic)
        spans = (queue.span for queue in queues if self.queue_id in {queue.units.queue_id, None})
        return [(span.queue_id, span.min_offset, span.messages) for span in spans if span.messages]

    def _begin(self, spans: list[tuple[int, int, int]]) -> None:
        self._queues = [(queue_id, first) for queue_id, first, _ in spans]
        self._ends = list(accumulate(messages for _, _, messages in spans))
        self.count = self._ends[-1] if self._ends else 0
        self.end("")


class LogRecords(PagedRows):
    """Records of the log from some before a place on, as far as somebody looks.

    Args:
        reader: of the store.
        physical_offset: that is asked for; None for the end of the log.
    """

    def __init__(self, reader: StoreReader, physical_offset: int | None = 0) -> None:
        super().__init__(IN_LOG, reader)
        self._wanted = physical_offset
        self.first_row = 0  # of the place that was asked for, known when there are rows
        self._places: list[int] = []
        self._is_whole = self._is_growing = False
        self._grow(self._around)

    def rows(self, first: int, count: int) -> Some:
        """See `RowSource`."""
        if first + count + AHEAD // 2 > self.count and not (self._is_whole or self._is_growing):
            self._grow(lambda lookup: [*islice(places_after(lookup.log, self._places[-1]), AHEAD)])
        return super().rows(first, count)

    @property
    def start(self) -> int:
        """The physical offset of the first row."""
        return self._places[0] if self._places else 0

    def read(self, lookup: Lookup, first: int, count: int) -> list[Row]:
        """See `PagedRows`."""
        places = self._places[first : first + count + 1]
        pairs = zip(places, [*places[1:], None], strict=True)
        return [log_row(lookup, *pair) for pair in pairs][:count]

    def _grow(self, look: Callable[[Lookup], list[int]]) -> None:
        self._is_growing = True
        self._reader.ask(look, self._take, self.end)

    def _around(self, lookup: Lookup) -> list[int]:
        log = lookup.log
        is_end = self._wanted is None
        wanted = log.end if self._wanted is None else min(max(self._wanted, log.start), log.end)
        middle = at = wanted if is_end else log.covering(wanted).physical_offset
        before: list[int] = []
        while len(before) < (AHEAD if is_end else BEFORE) and (head := log.previous_record(at)):
            at = head.physical_offset
            before.append(at)
        before.reverse()
        self.first_row = max(len(before) - is_end, 0)
        after = [] if middle >= log.end else [middle, *islice(places_after(log, middle), AHEAD)]
        return before + after

    def _take(self, places: list[int]) -> None:
        self._is_growing, self._is_whole = False, not places
        self._pages.pop(max(self.count - 1, 0) // PAGE, None)  # it was not full
        self._places += places
        self.count = len(self._places)
        self.end("" if self._is_whole else "and more")


class QueueList(RowSource):
    """The queues of a topic, as `rmqtool info` has them.

    Args:
        reader: of the store.
        topic: name of the topic.
    """

    def __init__(self, reader: StoreReader, topic: str) -> None:
        super().__init__(overview_rows.table("queues").shown[1:])
        self.topic, self.state = topic, READING
        self._known: Sequence[QueueRow] = []
        reader.ask(self._list, self._begin, self.end)

    def rows(self, first: int, count: int) -> Some:
        """See `RowSource`."""
        table = overview_rows.table("queues")
        return [table.row(queue) for queue in self._known[first : first + count]]

    def _list(self, lookup: Lookup) -> Sequence[QueueRow]:
        with Survey(lookup.store) as survey:
            return survey.rows_of(self.topic)

    def _begin(self, known: Sequence[QueueRow]) -> None:
        self._known, self.count = known, len(known)
        self.end("")


class SegmentMap(PagedRows):
    """Files of the log, each as a line of cells.

    Args:
        reader: of the store.
        draw: gives the cells of a file, from its row and its used bytes, in some columns.
    """

    def __init__(self, reader: StoreReader, draw: Callable[[Row, int, int], str]) -> None:
        super().__init__(IN_MAP, reader)
        self._draw, self._width = draw, 0
        reader.ask(lambda lookup: len(lookup.log.segments), self._begin, self.end)

    def fit(self, width: int) -> None:
        """See `RowSource`."""
        self._width = max(width - OTHERS_OF_MAP, 1)

    def rows(self, first: int, count: int) -> Some:
        """See `RowSource`."""
        return [
            row and {**row, "map": self._draw(row, int(str(row["used"])), self._width)}
            for row in super().rows(first, count)
        ]

    def read(self, lookup: Lookup, first: int, count: int) -> list[Row]:
        """See `PagedRows`."""
        table, end = overview_rows.table("segments"), lookup.log.end
        with Survey(lookup.store) as survey:
            return [
                table.row(segment_row(survey, segment, end))
                | {"used": min(max(end - segment.start, 0), segment.size)}
                for segment in lookup.log.segments[first : first + count]
            ]

    def _begin(self, count: int) -> None:
        self.count = count
        self.end("")
