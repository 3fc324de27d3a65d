"""What an overview needs to know of a store, each fact found out once and when first asked for.

A few reads of each file, never a scan. What cannot be read becomes a problem, so that one bad
directory does not hide the rest; the rows that are made of this are in overview.py.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from rmqtool.broker.names import name_in_files
from rmqtool.errors import RmqtoolError, UnreadablePath
from rmqtool.info.overview_rows import ProblemRow, QueueOverview
from rmqtool.queues.discovery import Queues
from rmqtool.queues.span import NO_PLACE, ShortSpans, SpanColumns
from rmqtool.store.record_heads import LogReader, RecordHead
from rmqtool.store.refused import refused_reads
from rmqtool.store.release import written_by
from rmqtool.store.segment import MappedFiles
from rmqtool.store.tail import FoundBy, Stop, Tail, find_tail

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rmqtool.broker.release import WrittenBy
    from rmqtool.queues.units import QueueSource
    from rmqtool.store.index_files import IndexFile
    from rmqtool.store.segment import Oddity, Segment
    from rmqtool.store.tree import Store

_FEW_QUEUES: Final = 2000  # so many are read one by one in the time that numpy takes to load
NO_TAIL = Tail(0, None, FoundBy.NOTHING, Stop.END_OF_FILES)


class DispatchedEnd(NamedTuple):
    """The record that a queue names and that lies highest in the log."""

    last: int  # its physical offset
    end: int  # physical offset past it


class Survey:
    """Facts about a store. A context manager: some files stay open.

    Attributes:
        store: the store.
        problems: what could not be read, so far.
        queues: of the store.
        looked_at: sections that were looked at, so far.

    Args:
        store: what is looked at.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.problems: list[ProblemRow] = []
        self.queues = Queues(store)
        self.looked_at: set[str] = set()
        self._oddities: list[Oddity] = []
        self._listening = ExitStack()
        self._refused = self._listening.enter_context(refused_reads())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._listening.close()
        self.queues.__exit__(*exception)
        if "reader" in vars(self):
            self.reader.__exit__(*exception)

    @cached_property
    def commitlog(self) -> MappedFiles:
        """The log that is written today."""
        try:
            return self.store.commitlog
        except UnreadablePath as error:
            self.problem(error)
            return MappedFiles("commitlog")

    @cached_property
    def old_commitlog(self) -> MappedFiles:
        """The plain log from before a conversion to DLedger."""
        try:
            return self.store.old_commitlog
        except UnreadablePath as error:
            self.problem(error)
            return MappedFiles("commitlog")

    @cached_property
    def reader(self) -> LogReader:
        """A reader of single records of both logs."""
        return LogReader(self.commitlog, self.old_commitlog)

    @property
    def log_start(self) -> int:
        """First physical offset that is there; 0 without any commitlog, when nothing expired."""
        starts = [log.start for log in (self.old_commitlog, self.commitlog) if log]
        return min(starts, default=0)

    @cached_property
    def ranges(self) -> SpanColumns:
        """How far each queue reaches, plain queues first, by topic and number."""
        return self._ranges(None)

    @property
    def oddities(self) -> list[Oddity]:
        """What is odd about the directories of queues."""
        _ = self.ranges  # which are looked at on the way
        return self._oddities

    @cached_property
    def dispatched(self) -> DispatchedEnd | None:
        """The queue whose last unit lies highest in the log; None when no queue has a unit."""
        end = max(self.ranges.ends, default=NO_PLACE)
        if end == NO_PLACE:
            return None
        return DispatchedEnd(self.ranges.last[self.ranges.ends.index(end)], end)

    @cached_property
    def tail(self) -> Tail:
        """The real end of the log."""
        last = self.dispatched.last if self.dispatched else None
        try:
            return find_tail(self.commitlog, self.reader, dispatched=last)
        except UnreadablePath as error:
            self.problem(error)
            return NO_TAIL

    @cached_property
    def written_by(self) -> WrittenBy:
        """Which releases may have written the store last."""
        return written_by(self.store, self.problem)

    @cached_property
    def index_files(self) -> list[IndexFile]:
        """The key index files."""
        try:
            return self.store.index_files()
        except UnreadablePath as error:
            self.problem(error)
            return []

    def head_at(self, physical_offset: int | None) -> RecordHead | None:
        """Read the head of a record; None where none is."""
        try:
            return None if physical_offset is None else self.reader.head_at(physical_offset)
        except UnreadablePath as error:
            self.problem(error)
            return None

    def ends_of(self, segment: Segment, end: int) -> tuple[RecordHead | None, RecordHead | None]:
        """Find the first record of a commitlog file, and the last one in front of a position."""
        try:
            first = self.reader.first_from(segment)
            return first, first and self.reader.last_before(segment, end)
        except UnreadablePath as error:
            self.problem(error)
            return None, None

    @cached_property
    def queue_rows(self) -> QueueOverview:
        """All queues with the times of their first and last messages."""
        return self._rows(self.ranges)

    def rows_of(self, topic: str) -> QueueOverview:
        """The queues of one topic alone, as `queue_rows` has them."""
        return self._rows(self._ranges(topic))

    def _rows(self, spans: SpanColumns) -> QueueOverview:
        times = self._times(spans)
        return QueueOverview(
            spans, [times.get(at) for at in spans.first], [*map(times.get, spans.last)]
        )

    def _times(self, spans: SpanColumns) -> Mapping[int, int]:
        """Read the store times of the first and last records of queues, by their places."""
        places = {*spans.first, *spans.last} - {NO_PLACE}
        if len(spans.topics) > _FEW_QUEUES:  # all at once
            import numpy as np  # not for a few queues

            from rmqtool.store.record_heads import UNKNOWN, record_times

            offsets = np.sort(np.fromiter(places, np.int64, len(places)))
            with suppress(UnreadablePath):  # one by one, that which file is said
                read = record_times(self.reader, offsets)
                known = read != UNKNOWN
                return dict(zip(offsets[known].tolist(), read[known].tolist(), strict=True))
        heads = ((place, self.head_at(place)) for place in places)
        return {place: head.store_timestamp for place, head in heads if head}

    def note_refused(self) -> None:
        """Note the files of which a read failed, and nobody has said so."""
        known = {problem.path for problem in self.problems}
        for path, error in self._refused.items():
            if not {path, path.removeprefix(f"{self.store.root}/")} & known:
                self.problem(error)

    def problem(self, error: RmqtoolError) -> None:
        """Note what could not be read, once, unless a running broker has just deleted it."""
        path, reason = getattr(error, "path", ""), getattr(error, "reason", str(error))
        if not (isinstance(error, UnreadablePath) and self.store.moment.is_gone(path, error)):
            self.note(path, reason)

    def note(self, path: str, reason: str) -> None:
        """Note what could not be read, once."""
        row = ProblemRow(path, reason)
        if row not in self.problems:
            self.problems.append(row)

    def _ranges(self, wanted: str | None) -> SpanColumns:
        spans = SpanColumns.new()
        for source in self.queues.sources:
            with self._noting():
                topics = [topic for topic in source.topics() if wanted in {None, topic}]
                short = self._short_spans(source, topics, wanted)
                for topic in topics:
                    with self._noting():
                        self._add(spans, source, topic, short)
        return spans

    @contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except UnreadablePath as error:
            self.problem(error)

    def _add(
        self, spans: SpanColumns, source: QueueSource, topic: str, short: ShortSpans | None
    ) -> None:
        """Add the queues of a topic: the short ones at once, all others one by one."""
        start, numbers = len(spans.topics), []
        if short is not None and (stored := self._as_stored(source, topic)) is not None:
            numbers = short.numbers_of(stored)
            spans.extend(short.of_topic(stored, topic))
        try:
            for queue in source.queues_of(topic, {*numbers}):
                span = queue.span(self.log_start)
                spans.add(span)
                self._oddities += span.oddities
        finally:
            if 0 < len(numbers) < len(spans.topics) - start:
                spans.sort_from(start)

    def _as_stored(self, source: QueueSource, topic: str) -> bytes | None:
        """Give the name of a topic among short queues; None where it has several."""
        if source is self.queues.files:
            return name_in_files(topic)
        stored = self.queues.database.source.topics_of(topic) if self.queues.database.source else ()
        return stored[0] if len(stored) == 1 else None

    def _short_spans(
        self, source: QueueSource, topics: list[str], wanted: str | None
    ) -> ShortSpans | None:
        """Give how far short queues reach, read at once; None where a store has few."""
        try:
            if source is self.queues.files and self._has_many(topics):
                from rmqtool.queues.short import short_queues  # numpy: not for a few queues

                return ShortSpans(short_queues(self.queues.files.family, wanted), self.log_start)
            database = self.queues.database.source if source is self.queues.database else None
            if database is not None and len(database.names) > _FEW_QUEUES:
                from rmqtool.queues.short_rocks import short_rocks

                if (short := short_rocks(database)) is not None:
                    maxima = database.ends.columns(database.names).ends[0][1]
                    return ShortSpans(short, self.log_start, maxima + 1)
        except UnreadablePath:  # the listing of the queues says so
            pass
        return None

    def _has_many(self, topics: list[str]) -> bool:
        """Tell whether the queues in files are many."""
        family, count = self.queues.files.family, len(topics)
        for topic in topics:
            if family is None or count > _FEW_QUEUES:
                break
            count += len(family.listing(topic).numbers)
        return count > _FEW_QUEUES
