"""What an overview needs to know of a store, each fact found out once and when first asked for.

A few reads of each file, never a scan. What cannot be read becomes a problem, so that one bad
directory does not hide the rest; the rows that are made of this are in overview.py.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Final, Self

from rmqtool.errors import RmqtoolError, UnreadablePath
from rmqtool.info.overview_rows import ProblemRow, QueueRow
from rmqtool.queues.discovery import Queues
from rmqtool.queues.span import ShortSpans
from rmqtool.store.record_heads import LogReader, RecordHead
from rmqtool.store.refused import refused_reads
from rmqtool.store.release import written_by
from rmqtool.store.segment import MappedFiles
from rmqtool.store.tail import FoundBy, Stop, Tail, find_tail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqtool.broker.release import WrittenBy
    from rmqtool.queues.units import QueueSource, QueueSpan
    from rmqtool.store.index_files import IndexFile
    from rmqtool.store.segment import Segment
    from rmqtool.store.tree import Store

_FEW_QUEUES: Final = 2000  # so many are read one by one in the time that numpy takes to load
NO_TAIL = Tail(0, None, FoundBy.NOTHING, Stop.END_OF_FILES)


class Survey:
    """Facts about a store. A context manager: some files stay open.

    Attributes:
        store: the store.
        problems: what could not be read, so far.
        queues: of the store.

    Args:
        store: what is looked at.
        asks_each: whether more is asked of each queue than which was dispatched to last.
    """

    def __init__(self, store: Store, *, asks_each: bool = True) -> None:
        self.store, self._asks_each = store, asks_each
        self.problems: list[ProblemRow] = []
        self.queues = Queues(store)
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
    def ranges(self) -> list[QueueSpan]:
        """How far each queue reaches, plain queues first."""
        spans: list[QueueSpan] = []
        for source in self.queues.sources:
            spans.extend(self._spans_of(source))
        return spans

    @cached_property
    def dispatched(self) -> QueueSpan | None:
        """The queue whose last unit lies highest in the log; None when no queue has a unit."""
        spans: Iterable[QueueSpan] = self.ranges if self._asks_each else self._newest_spans()
        filled = (span for span in spans if span.last)
        return max(filled, key=lambda span: span.last.end if span.last else 0, default=None)

    @cached_property
    def tail(self) -> Tail:
        """The real end of the log."""
        last = self.dispatched.last if self.dispatched else None
        try:
            return find_tail(
                self.commitlog,
                self.reader,
                dispatched=last.physical_offset if last else None,
            )
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

    def _times(self, spans: list[QueueSpan]) -> Callable[[int], int | None] | None:
        """Read the store times of the first and last records of queues at once."""
        import numpy as np  # not for a few queues

        from rmqtool.machine.arrays import distinct
        from rmqtool.store.record_heads import UNKNOWN, record_times

        ends = (unit for span in spans for unit in (span.first, span.last))
        offsets = distinct(np.array([unit.physical_offset for unit in ends if unit], np.int64))
        try:
            times = record_times(self.reader, offsets)
        except UnreadablePath:  # one by one, that which file is said
            return None
        known = dict(zip(offsets.tolist(), times.tolist(), strict=True))

        def time_at(physical_offset: int) -> int | None:
            time = known[physical_offset]
            return None if time == UNKNOWN else time

        return time_at

    def ends_of(self, segment: Segment, end: int) -> tuple[RecordHead | None, RecordHead | None]:
        """Find the first record of a commitlog file, and the last one in front of a position."""
        try:
            first = self.reader.first_from(segment)
            return first, first and self.reader.last_before(segment, end)
        except UnreadablePath as error:
            self.problem(error)
            return None, None

    @cached_property
    def queue_rows(self) -> list[QueueRow]:
        """All queues with the times of their first and last messages."""
        return self._rows(self.ranges)

    def rows_of(self, topic: str) -> list[QueueRow]:
        """The queues of one topic alone, as `queue_rows` has them."""
        spans = (self._spans_of(source, topic) for source in self.queues.sources)
        return self._rows([span for some in spans for span in some])

    def _rows(self, spans: list[QueueSpan]) -> list[QueueRow]:
        times = self._times(spans) if len(spans) > _FEW_QUEUES else None

        def time_at(physical_offset: int) -> int | None:
            head = self.head_at(physical_offset)
            return head and head.store_timestamp

        return [_queue_row(span, times or time_at) for span in spans]

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

    def _newest_spans(self) -> Iterator[QueueSpan]:
        """Give how far queues reach; of the short ones in files, the one with the newest unit."""
        short = self._short_spans(None)
        for source in self.queues.sources:
            if source is not self.queues.files:
                yield from self._spans_of(source)
                continue
            for topic in self._topics_of(source):
                try:
                    but = {*short.numbers_of(topic)}
                    for queue in self.queues.files.queues_of(topic, but):
                        yield queue.span(self.log_start)
                except UnreadablePath as error:
                    self.problem(error)
        if newest := short.newest():
            yield newest

    def _topics_of(self, source: QueueSource) -> list[str]:
        try:
            return source.topics()
        except UnreadablePath as error:
            self.problem(error)
            return []

    def _spans_of(self, source: QueueSource, wanted: str | None = None) -> Iterator[QueueSpan]:
        short: ShortSpans | None = None
        count = 0
        for topic in self._topics_of(source):
            if wanted not in {None, topic}:
                continue
            try:
                if short is None and count > _FEW_QUEUES and source is self.queues.files:
                    short = self._short_spans(wanted)
                if short is None:
                    queues = [*source.queues_of(topic)]
                    count += len(queues)
                    yield from (queue.span(self.log_start) for queue in queues)
                    continue
                known = short.of_topic(topic)
                others = {
                    queue.queue_id: queue for queue in self.queues.files.queues_of(topic, known)
                }
                for queue_id in sorted({*known, *others}):
                    span = known.get(queue_id)
                    yield span or others[queue_id].span(self.log_start)
            except UnreadablePath as error:
                self.problem(error)

    def _short_spans(self, wanted: str | None) -> ShortSpans:
        """Give how far the short queues in files reach, read at once."""
        from rmqtool.queues.short import NO_QUEUES, short_queues  # numpy: not for a few queues

        try:
            short = short_queues(self.queues.files.family, wanted)
        except UnreadablePath:  # the listing of the queues says so
            short = NO_QUEUES
        return ShortSpans(short, self.log_start)


def _queue_row(queue: QueueSpan, time_at: Callable[[int], int | None]) -> QueueRow:
    first, last = queue.first, queue.last
    min_offset, max_offset = queue.min_offset, queue.max_offset
    messages = max_offset - min_offset
    return QueueRow(
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_kind=str(queue.kind),
        min_queue_offset=min_offset,
        max_queue_offset=max_offset,
        messages=messages,
        message_bytes=round(queue.mean_size * messages),
        is_estimate=not queue.is_exact,
        first_store_timestamp=first and time_at(first.physical_offset),
        last_store_timestamp=last and time_at(last.physical_offset),
        expired=queue.expired,
        files=queue.files,
        size=queue.size,
        allocated=queue.allocated,
    )
