"""Cut a store into tasks: one a segment or a split of one; what cannot hold rows is skipped.

Runs where the query is planned and reads names and, for limits of time, one record a segment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby, islice, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self, TypeAlias, TypeVar

from rmqtool.check.of_table import Asked, defects
from rmqtool.errors import RmqtoolError, UnreadablePath, UsageError
from rmqtool.formats.dledger import DLEDGER_BODY_OFFSET
from rmqtool.formats.rocksdb_queue import ROCKSDB_CQ_UNIT
from rmqtool.queues.discovery import Queues
from rmqtool.spark.options import Scope, SourceOptions, TableName
from rmqtool.spark.tables import CODE, OF_FILES, PENDING
from rmqtool.spark.tables import VIEWS as VIEW_OF
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.record_heads import HEAD_BYTES, LogReader, RecordHead, head_of
from rmqtool.store.segment import SegmentPart
from rmqtool.store.tail import find_tail
from rmqtool.tables.inputs import file_parts, segment_parts, store_of, views_of
from rmqtool.tables.selection import EVERYTHING
from rmqtool.tables.selection import EVERYTHING as OPEN
from rmqtool.tables.views import VIEWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rmqtool.findings.finding import Finding
    from rmqtool.queues.rocks import RocksQueue
    from rmqtool.store.place import Place
    from rmqtool.store.segment import MappedFiles, Segment
    from rmqtool.store.tree import Store
    from rmqtool.tables.inputs import FilePart
    from rmqtool.tables.selection import Range, Selection
    from rmqtool.tables.views import View


UNITS_A_TASK: Final = 1 << 20  # of queues in RocksDB: half a second of reading; with `split`, fewer
FILE_BYTES: Final = 4 << 20  # what reading a file of units is taken to cost
FILES_A_TASK: Final = 32  # queue files of the usual 6 MB: a start of a task is worth it
LOG_TABLES: Final = frozenset({TableName.MESSAGES, TableName.SEGMENTS})
COMPARED: Final = frozenset({TableName.QUEUE_UNITS, TableName.INDEX_ENTRIES})
OneTask = TypeVar("OneTask", bound="HasLength")
OPTION_NAMES: Final = {"--queue": "queue_id", "--from": "from", "--to": "to"}


@dataclass(frozen=True, slots=True)
class LogTask:
    """A stretch of a log. Picklable."""

    part: SegmentPart  # which bytes
    start: int | None = None  # position of the first extent; None where it is still to be found

    @property
    def length(self) -> int:
        """Bytes to read."""
        return self.part.length


@dataclass(frozen=True, slots=True)
class FilesTask:
    """Some files of one kind. Picklable."""

    files: tuple[FilePart, ...]  # in order

    @property
    def length(self) -> int:
        """Bytes to read, about."""
        return FILE_BYTES * len(self.files)


class KeyRange(NamedTuple):
    """A stretch of a queue in RocksDB, whose units lie beside each other there."""

    topic: bytes  # UTF-8
    queue_id: int  # of the queue
    first: int  # queue offset of the first unit
    end: int  # queue offset past the last one


@dataclass(frozen=True, slots=True)
class RocksTask:
    """Stretches of queues in one database, which each task opens by itself. Picklable."""

    place: Place  # of the database
    path: str  # the same relative to the store root
    ranges: tuple[KeyRange, ...]  # in the order of their keys

    @property
    def length(self) -> int:
        """Bytes to read, about; to open the database counts."""
        units = sum(range_.end - range_.first for range_ in self.ranges)
        return FILE_BYTES + units * ROCKSDB_CQ_UNIT.size


@dataclass(frozen=True, slots=True)
class UnreadTask:
    """Nothing to read, but a row that says so. Picklable."""

    path: str  # what cannot be read, relative to the store root
    reason: str  # why

    @property
    def length(self) -> int:
        """Nothing is read."""
        return 0


@dataclass(frozen=True, slots=True)
class WholeTask:
    """The whole store. Picklable."""

    log_bytes: int = 0  # length of its log

    @property
    def length(self) -> int:
        """Bytes to read, about; to look at all its files counts."""
        return FILE_BYTES + self.log_bytes


@dataclass(frozen=True, slots=True)
class DefectsTask:
    """What is damaged in the files of a table, and no row of it says. Picklable."""

    asked: Asked  # whose files
    # what is damaged, where planning has found it; None where a task is to find it
    found: tuple[Finding, ...] | None = None
    length: int = FILE_BYTES  # bytes to read, about


class HasLength(Protocol):
    """What can share a task of Spark."""

    @property
    def length(self) -> int:
        """Bytes to read, about."""
        ...


Task: TypeAlias = LogTask | FilesTask | RocksTask | UnreadTask | WholeTask | DefectsTask


def tasks(options: SourceOptions) -> list[Task]:
    """Give the tasks of a read, in the order of their rows; the last one is about damaged files.

    Raises:
        UsageError: a limit says nothing about the rows of the table.
        StoreError: the store cannot be opened, or a directory not be listed.
    """
    found: list[Task]
    match options.table:
        case TableName.QUEUE_UNITS | TableName.INDEX_ENTRIES:
            found = [*_file_tasks(options)]
        case TableName.FINDINGS if options.scope is Scope.STORE:
            _check_limits(options, frozenset())
            return [_whole(options)]
        case TableName.FINDINGS:
            return [*log_tasks(options)]
        case TableName.PENDING_TIMERS | TableName.POP_IN_FLIGHT | TableName.TRACES:
            _check_limits(options, frozenset())
            found = [_whole(options)]
        case _:
            found = [*log_tasks(options)]
    # Who takes the first rows has not read the table, and is told nothing of it.
    return found if options.limit is not None else [*found, *_defects_tasks(options)]


def _defects_tasks(options: SourceOptions) -> Iterator[DefectsTask]:
    selection, table = options.selection, options.table
    if table in LOG_TABLES:
        if (selection.offsets, selection.store_time) != (OPEN, OPEN):
            return  # a part of the log is read, and nothing of other files
        word = views_of(store_of(options.path, options.broker_conf, None), None)[0].word
        asked = Asked(options.path, options.broker_conf, word, selection)
        if found := tuple(defects(asked)):  # which names and places show
            yield DefectsTask(asked, found, 0)
        return
    word = VIEW_OF.get(table) or PENDING[table]
    is_whole = options.scope is Scope.STORE
    asked = Asked(options.path, options.broker_conf, word, selection, is_whole)
    reads_log = table in COMPARED and is_whole and not selection.options()
    yield DefectsTask(asked, length=_whole(options).length if reads_log else FILE_BYTES)


def packs(found: Iterable[OneTask], options: SourceOptions) -> Iterator[tuple[OneTask, ...]]:
    """Put small tasks together to what one task of Spark reads, in order.

    A task costs Spark some 60 ms, which is as much as it takes to read 50 MB.
    """
    limit = min(options.pack, options.split or options.pack)
    pack: list[OneTask] = []
    total = 0
    for task in found:
        if pack and total + task.length > limit:
            yield tuple(pack)
            pack, total = [], 0
        pack.append(task)
        total += task.length
    if pack:
        yield tuple(pack)


def _whole(options: SourceOptions) -> WholeTask:
    store = store_of(options.path, options.broker_conf, None)
    try:
        return WholeTask(store.commitlog.size + store.old_commitlog.size)
    except UnreadablePath:
        return WholeTask()  # who reads it says so


def log_tasks(options: SourceOptions) -> Iterator[LogTask]:
    """Yield the tasks over the log of a store, in the order of the log.

    Raises:
        UsageError: there is no log here, or a limit says nothing about its rows.
        StoreError: as with `tasks`.
    """
    store = store_of(options.path, options.broker_conf, None)
    (view, *_) = views_of(store, None)
    if not view.is_messages:
        raise UsageError(option="path", reason=f"{options.path} is {view.word}, no log of messages")
    is_messages = options.table is TableName.MESSAGES
    _check_limits(options, view.filters if is_messages else frozenset({"--offsets"}))
    split = options.split if is_messages else 0  # of other tables, a segment is one row
    is_read = is_messages or not OF_FILES.issuperset(options.columns or [CODE])
    wanted = options.selection.offsets
    parts = segment_parts(store, view, wanted, split or None, is_judged=is_read)
    parts = _in_time(parts, options)
    selection = options.selection
    is_whole = (selection.offsets, selection.store_time) == (OPEN, OPEN)
    if not is_messages or (is_whole and not any(part.begin for part in parts)):
        yield from (LogTask(part) for part in parts)
        return
    is_dledger = view.branch is ArtefactKind.DLEDGER
    log = store.commitlog if is_dledger or not store.is_dledger else store.old_commitlog
    with Trimmer(store, log) as trimmer:
        yield from trimmer.trimmed(parts, selection)


def _file_tasks(options: SourceOptions) -> Iterator[Task]:
    store = store_of(options.path, options.broker_conf, None)
    view = VIEWS[VIEW_OF[options.table]]
    _check_limits(options, view.filters)
    selection = options.selection
    if view.branch is ArtefactKind.INDEX and (selection.key is None) != (not selection.topics):
        reason = "an index holds hashes of topic and key together: give both"
        raise UsageError(option="key", reason=reason)
    files = file_parts(store, view, selection)
    count = FILES_A_TASK if options.table is TableName.QUEUE_UNITS else 1
    while some := tuple(islice(files, count)):
        yield FilesTask(some)
    if options.table is TableName.QUEUE_UNITS:
        units = min(options.split // ROCKSDB_CQ_UNIT.size, UNITS_A_TASK) or UNITS_A_TASK
        yield from _database_tasks(store, selection, units)


def _database_tasks(store: Store, selection: Selection, units: int) -> Iterator[Task]:
    """Cut queues in RocksDB into ranges of keys; one that cannot be read is said to be there."""
    from rmqtool.queues.discovery import DatabaseSource
    from rmqtool.tables.rocksdb import queue_ranges

    source = DatabaseSource(store)
    try:
        queues = source.source
        if queues is None:
            return
        found = [
            KeyRange(queue.topic_bytes, queue.queue_id, start, min(start + units, end))
            for queue, first, end in queue_ranges(queues, selection)
            for start in range(_first_of(queue, first, units), end, units)
        ]
        place, path = queues.database.place, queues.path
    except UnreadablePath as error:
        yield UnreadTask(error.path, error.reason)
        return
    finally:
        source.close()
    for ranges in _filled(found, units):
        yield RocksTask(place, path, ranges)


def _first_of(queue: RocksQueue, first: int, units: int) -> int:
    """Give where the units of a long queue begin: expired ones may have gone from the database."""
    if queue.ends.next_offset - first <= units:
        return first
    oldest = queue.span().first
    return max(first, oldest.number if oldest else 0)


def _filled(found: Sequence[KeyRange], units: int) -> Iterator[tuple[KeyRange, ...]]:
    """Put short ranges together: there may be many more queues than tasks are worth."""
    filled: list[KeyRange] = []
    total = 0
    for one in found:
        if filled and total + one.end - one.first > units:
            yield tuple(filled)
            filled, total = [], 0
        filled.append(one)
        total += one.end - one.first
    if filled:
        yield tuple(filled)


def _check_limits(options: SourceOptions, known: frozenset[str]) -> None:
    """Refuse a limit that says nothing about the rows of the table.

    Raises:
        UsageError: there is one.
    """
    for option in options.selection.options():
        if option not in known:
            reason = f"rows of {options.table} cannot be chosen by it"
            raise UsageError(option=_name(option), reason=reason)


def _name(option: str) -> str:
    return OPTION_NAMES.get(option, option.lstrip("-").replace("-", "_"))


def _in_time(parts: Sequence[SegmentPart], options: SourceOptions) -> list[SegmentPart]:
    """Leave out the segments whose records were stored before or after the wanted time.

    A segment ends where the next one begins, in time as well. Where the first records of segments
    are not in the order of their times, the clock of the broker was set: nothing is left out.
    """
    start, end = options.selection.store_time
    if start is None and end is None:
        return list(parts)
    segments = list(dict.fromkeys(part.segment for part in parts))
    times = [_first_time(segment) for segment in segments]
    known = [time for time in times if time is not None]
    if any(after < before for before, after in pairwise(known)):
        return list(parts)
    wanted: set[Segment] = set()
    for number, segment in enumerate(segments):
        first = times[number]
        behind = next((time for time in times[number + 1 :] if time is not None), None)
        is_late = end is not None and first is not None and first - CLOCK_SLACK_MS >= end
        is_early = start is not None and behind is not None and behind + CLOCK_SLACK_MS < start
        if not is_late and not is_early:
            wanted.add(segment)
    return [part for part in parts if part.segment in wanted]


def _first_time(segment: Segment) -> int | None:
    """Give the store time of a segment's first record, ms; None when it does not begin with one."""
    position = segment.entry_header
    try:
        with segment.open() as file:
            raw = file.read_at(position, HEAD_BYTES)
    except UnreadablePath:
        return None  # it is read, and a row says what is wrong
    head = head_of(raw, 0, segment.start + position)
    if head is None or head.store_timestamp > segment.mtime_ms + CLOCK_SLACK_MS:
        return None  # no record, or one from the future: such a time is damaged
    return head.store_timestamp


def view_of(table: TableName) -> View:
    """Give the view of `dump` that shows a table of files."""
    return VIEWS[VIEW_OF[table]]


# Cut parts of a log down to where the rows that are wanted can lie, at records that queues name.
#
# A part that begins inside a segment begins at a record that says of itself that it lies there, and
# that the unit of its queue offset says so, too: what remains of records under a blank, or past a
# cut, has no unit. So nothing before it has to be read. Where no such record is near, the part
# stays
# as it is.
#
# Within a segment records are in the order of their store times, but for a clock that was set: they
# are trusted to `CLOCK_SLACK_MS`. A few records around a place are asked, and the middle one is
# believed; where the times of places are not in order, nothing is left out.


CLOCK_SLACK_MS: Final = 300_000  # store times go back, at most, by this
TRIED: Final = 8  # records, for one that a queue names
ASKED: Final = 5  # records around a place, for its time
WORTH: Final = 64 << 10  # bytes: a look for less costs as much as it saves
NEAR: Final = 256 << 10  # bytes: as near as a place in time is found


class NoTime(Exception):
    """Where a place in a log lies in time cannot be told."""


@dataclass(slots=True)
class Trimmer:
    """Finds records in a log. A context manager."""

    store: Store  # whose
    log: MappedFiles  # its files
    reader: LogReader = field(init=False)
    queues: Queues = field(init=False)
    _end: int | None = None

    def __post_init__(self) -> None:
        self.reader, self.queues = LogReader(self.log), Queues(self.store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.reader.__exit__()
        self.queues.close()

    def trimmed(self, parts: Sequence[SegmentPart], selection: Selection) -> Iterator[LogTask]:
        """Yield parts as they are to be read; where something cannot be read, as they are."""
        for segment, some in groupby(parts, key=lambda part: part.segment):
            cut = list(some)
            try:
                found = list(self._in_segment(segment, cut, selection))
            except (RmqtoolError, NoTime):
                found = [LogTask(part) for part in cut]
            yield from found

    def _in_segment(
        self, segment: Segment, parts: list[SegmentPart], selection: Selection
    ) -> Iterator[LogTask]:
        start, _ = selection.offsets
        low, high = self._in_time(segment, selection.store_time)
        if low and segment.missing_before:
            yield LogTask(SegmentPart(segment, 0, 0))  # it tells of the hole before the segment
        if start is not None:
            low = max(low, start - DLEDGER_BODY_OFFSET - segment.start)
        left = [part for part in parts if (part.end > low and part.begin < high) or not part.length]
        begins = [self._begin(part, low if part is left[0] else 0) for part in left]
        ends = [*(begin for begin, _ in begins[1:]), min(left[-1].end, high)] if left else []
        for part, (begin, is_known), end in zip(left, begins, ends, strict=True):
            if begin < end or not part.length:
                yield LogTask(part._replace(begin=begin, end=end), begin if is_known else None)

    def _begin(self, part: SegmentPart, low: int) -> tuple[int, bool]:
        """Give the position where a part shall begin, and whether an extent begins there.

        Args:
            part: which bytes.
            low: position of the first byte that is wanted.
        """
        named = None
        if low - part.begin > WORTH:
            named = self._before(part.segment, low)
        if (named is None or named < part.begin) and part.begin:
            named = self._from(part.segment, part.begin)
        if named is None or named < part.begin:
            return part.begin, False
        return named, True

    def _before(self, segment: Segment, position: int) -> int | None:
        """Give the position of the last extent with a named record at or before a position."""
        place = position + 1
        for _ in range(TRIED):
            head = self.reader.last_before(segment, place)
            if head is None:
                return None
            if self._is_named(head):
                return self._position(head, segment)
            place = head.physical_offset - segment.start
        return None

    def _from(self, segment: Segment, position: int) -> int | None:
        """Give the position of the first extent with a named record at or past a position."""
        place = position
        for _ in range(TRIED):
            head = self.reader.first_from(segment, place)
            if head is None:
                return None
            if self._is_named(head):
                return self._position(head, segment)
            place = head.physical_offset - segment.start + 1
        return None

    def _position(self, head: RecordHead, segment: Segment) -> int:
        header = segment.entry_header
        return head.physical_offset - segment.start - header

    def _is_named(self, head: RecordHead) -> bool:
        """Whether the unit of a record's queue offset names it."""
        queue = self.queues.queue(self.reader.topic_of(head), head.queue_id)
        found = queue.find(head.queue_offset) if queue is not None else None
        unit = found.unit if found is not None else None
        return unit is not None and (unit.physical_offset, unit.size) == head[:2]

    def _in_time(self, segment: Segment, wanted: Range) -> tuple[int, int]:
        """Give the positions between which records of a time begin.

        Raises:
            NoTime: a place has none.
        """
        start, end = wanted
        whole = 0, segment.size
        used = min(self._log_end() - segment.start, segment.size) if wanted != EVERYTHING else 0
        if used < 2 * WORTH:
            return whole
        seen: dict[int, int] = {}
        low, high = whole
        if start is not None:
            early = start - CLOCK_SLACK_MS
            low, _ = self._bisect(segment, used, seen, lambda time: time < early)
        if end is not None:
            late = end + CLOCK_SLACK_MS
            _, high = self._bisect(segment, used, seen, lambda time: time < late)
        times = [seen[position] for position in sorted(seen)]
        if any(after + CLOCK_SLACK_MS < before for before, after in pairwise(times)):
            return whole
        # Past the last record there may be remains, which are rows, too.
        return low, segment.size if high >= used else high

    def _bisect(
        self, segment: Segment, used: int, seen: dict[int, int], is_before: Callable[[int], bool]
    ) -> tuple[int, int]:
        """Give two near positions: the first is 0 or before, the second is the end or not before.

        Args:
            segment: where.
            used: position past its last record.
            seen: times of places, ms; is added to.
            is_before: says it of a time.
        """
        low, high = 0, used
        while high - low > min(NEAR, max(segment.size // 64, 1)):
            middle = (low + high) // 2
            if is_before(self._time(segment, seen, middle)):
                low = middle
            else:
                high = middle
        return low, high

    def _time(self, segment: Segment, seen: dict[int, int], position: int) -> int:
        """Give the store time at a position, ms: the middle one of a few records there.

        Raises:
            NoTime: no record is near.
        """
        if position not in seen:
            heads = list(self._heads(segment, position))
            if not heads:
                raise NoTime
            seen[position] = sorted(head.store_timestamp for head in heads)[len(heads) // 2]
        return seen[position]

    def _heads(self, segment: Segment, position: int) -> Iterable[RecordHead]:
        head = self.reader.first_from(segment, position)
        header = segment.entry_header
        for _ in range(ASKED):
            if head is None:
                return
            yield head
            head = self.reader.head_at(head.end + header)

    def _log_end(self) -> int:
        if self._end is None:
            tail = find_tail(self.log, self.reader)
            self._end = tail.physical_offset
        return self._end
