"""Cut a store into tasks: one a segment or a split of one; what cannot hold rows is skipped.

Runs where the query is planned and reads names and, for limits of time, one record a segment.
"""

from __future__ import annotations

from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final, TypeVar

from rmqtool.check.of_table import Asked, defects
from rmqtool.errors import UnreadablePath, UsageError
from rmqtool.formats.rocksdb_queue import ROCKSDB_CQ_UNIT
from rmqtool.reads.options import Scope, SourceOptions, TableName
from rmqtool.reads.small_tables import SMALL
from rmqtool.reads.tables import CODE, OF_FILES
from rmqtool.reads.tables import VIEWS as VIEW_OF
from rmqtool.reads.tasks import (
    FILE_BYTES,
    DefectsTask,
    FilesTask,
    KeyRange,
    LogTask,
    RocksTask,
    Task,
    UnreadTask,
    WholeTask,
)
from rmqtool.reads.trimming import CLOCK_SLACK_MS, Trimmer
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.record_heads import HEAD_BYTES, head_of
from rmqtool.tables.inputs import file_parts, log_view, segment_parts, store_of
from rmqtool.tables.selection import EVERYTHING as OPEN
from rmqtool.tables.views import VIEWS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqtool.queues.rocks import RocksQueue
    from rmqtool.reads.tasks import HasLength
    from rmqtool.store.segment import Segment, SegmentPart
    from rmqtool.store.tree import Store
    from rmqtool.tables.selection import Selection
    from rmqtool.tables.views import View


UNITS_A_TASK: Final = 1 << 20  # of queues in RocksDB: half a second of reading; with `split`, fewer
FILES_A_TASK: Final = 32  # queue files of the usual 6 MB: a start of a task is worth it
LOG_TABLES: Final = frozenset({TableName.MESSAGES, TableName.SEGMENTS})
COMPARED: Final = frozenset({TableName.QUEUE_UNITS, TableName.INDEX_ENTRIES})
OneTask = TypeVar("OneTask", bound="HasLength")
OPTION_NAMES: Final = {"--queue": "queue_id", "--from": "from", "--to": "to"}


def tasks(options: SourceOptions) -> list[Task]:
    """Give the tasks of a read, in the order of their rows; the last one is about damaged files.

    Raises:
        UsageError: a limit says nothing about the rows of the table.
        StoreError: the store cannot be opened, or a directory not be listed.
    """
    planned: list[Task]
    match options.table:
        case TableName.QUEUE_UNITS | TableName.INDEX_ENTRIES:
            planned = [*_file_tasks(options)]
        case TableName.FINDINGS if options.scope is Scope.STORE:
            _check_limits(options, frozenset())
            return [_whole(options)]
        case TableName.FINDINGS:
            return [*log_tasks(options)]
        case _ if options.table in SMALL:
            _check_limits(options, frozenset())
            planned = [_whole(options)]
        case _:
            planned = [*log_tasks(options)]
    # Who takes the first rows has not read the table, and is told nothing of it.
    return planned if options.limit is not None else [*planned, *_defects_tasks(options)]


def _defects_tasks(options: SourceOptions) -> Iterator[DefectsTask]:
    selection, table = options.selection, options.table
    if table in LOG_TABLES:
        if (selection.offsets, selection.store_time) != (OPEN, OPEN):
            return  # a part of the log is read, and nothing of other files
        word = log_view(store_of(options.path, options.broker_conf, None)).word
        asked = Asked(options.path, options.broker_conf, word, selection)
        if findings := tuple(defects(asked)):  # which names and places show
            yield DefectsTask(asked, findings, 0)
        return
    word = VIEW_OF[table] if table in VIEW_OF else SMALL[table].word
    if not word:
        return  # what its files have is what other tables have
    is_whole = options.scope is Scope.STORE
    asked = Asked(options.path, options.broker_conf, word, selection, is_whole)
    reads_log = table in COMPARED and is_whole and not selection.options()
    yield DefectsTask(asked, length=_whole(options).length if reads_log else FILE_BYTES)


def packs(planned: Iterable[OneTask], options: SourceOptions) -> Iterator[tuple[OneTask, ...]]:
    """Put small tasks together to what one task of Spark reads, in order.

    A task costs Spark some 60 ms, which is as much as it takes to read 50 MB.
    """
    limit = min(options.pack, options.split or options.pack)
    pack: list[OneTask] = []
    total = 0
    for task in planned:
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
    view = log_view(store)
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
        pieces = [
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
    for ranges in _filled(pieces, units):
        yield RocksTask(place, path, ranges)


def _first_of(queue: RocksQueue, first: int, units: int) -> int:
    """Give where the units of a long queue begin: expired ones may have gone from the database."""
    if queue.ends.next_offset - first <= units:
        return first
    oldest = queue.span().first
    return max(first, oldest.number if oldest else 0)


def _filled(ranges: Sequence[KeyRange], units: int) -> Iterator[tuple[KeyRange, ...]]:
    """Put short ranges together: there may be many more queues than tasks are worth."""
    filled: list[KeyRange] = []
    total = 0
    for key_range in ranges:
        if filled and total + key_range.end - key_range.first > units:
            yield tuple(filled)
            filled, total = [], 0
        filled.append(key_range)
        total += key_range.end - key_range.first
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
        after = next((time for time in times[number + 1 :] if time is not None), None)
        is_late = end is not None and first is not None and first - CLOCK_SLACK_MS >= end
        is_early = start is not None and after is not None and after + CLOCK_SLACK_MS < start
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
