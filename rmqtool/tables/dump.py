"""`dump`: what is in a store, row by row; damage is rows, too, and does not stop it.

1. `DumpOptions` says what is wanted; contradictions end there, before a file is opened.
2. `inputs` finds the views and files, `messages` and `readers` read them.
3. `dump` gives `Rows`, which are read while they are written, and knows afterwards how it went.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from rmqtool.errors import StoreError, UnreadablePath, UsageError
from rmqtool.findings.in_rows import damaged_in
from rmqtool.findings.registry_layout import FS_READ
from rmqtool.plural import meant
from rmqtool.rows import (
    JsonLines,
    Rows,
    count_of,
    in_chunks,
    last_of,
    part_of,
    rows_after,
)
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.tree import open_store
from rmqtool.tables.bodies import BodyOptions
from rmqtool.tables.file_tables import LINES
from rmqtool.tables.inputs import (
    FilePart,
    file_parts,
    segment_parts,
    store_of,
    views_of,
    whole_parts,
)
from rmqtool.tables.record_tables import MESSAGES
from rmqtool.tables.selection import Selection
from rmqtool.tables.views import EVERYTHING as ALL_VIEWS
from rmqtool.tables.views import INNER_BATCH, LOGS, OF_STORES, TRACES, VIEWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from rmqtool.rows import Chunk
    from rmqtool.store.segment import SegmentPart
    from rmqtool.store.tree import Store
    from rmqtool.table import Table
    from rmqtool.tables.messages import MessageOptions, MessagesOf
    from rmqtool.tables.views import View

Part = TypeVar("Part", FilePart, "SegmentPart")
LISTINGS: Final = 5  # of a log whose files all expire while one of them is read
Reader: TypeAlias = "Callable[[FilePart], Iterator[Chunk]]"
HEX_FILTERS: Final = frozenset({"--topic", "--queue", "--queue-offsets"})  # where bytes lie


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """What `dump` was asked."""

    paths: tuple[str, ...]  # stores, directories or files
    word: str | None = None  # which view; None is what is there
    broker_conf: str | None = None  # the broker's configuration file
    selection: Selection = field(default_factory=Selection)  # which rows
    body: BodyOptions = field(default_factory=BodyOptions)  # how bodies are shown
    limit: int | None = None  # rows at most, from the beginning
    tail: int | None = None  # rows at most, from the end
    fillers: bool = False  # show what stands for nothing, too
    as_json: bool = False  # rows will be written as JSON lines, which is done where they are read
    columns: tuple[str, ...] | None = None  # fields that were asked for; None is all
    jobs: int | None = None  # threads; None is one for each processor
    is_hex: bool = False  # show the bytes of each row
    trace_topics: tuple[str, ...] = ()  # that clients write traces to, besides the usual ones

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if self.word is not None and self.word not in {*VIEWS, ALL_VIEWS}:
            reason = f"no kind {self.word!r}; {meant(self.word, [*VIEWS, ALL_VIEWS])}"
            raise UsageError(option="--as", reason=reason)
        if self.limit is not None and self.tail is not None:
            raise UsageError(option="--limit", reason="cannot be combined with --tail")
        if self.trace_topics and self.word != TRACES:
            raise UsageError(option="--trace-topic", reason=f"needs --as {TRACES}")
        self.selection.refuse_impossible()

    def json_columns(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Give the columns of rows that are written as JSON where they are read, else none."""
        columns = self.columns or names
        return columns if self.as_json and set(columns) <= set(names) else ()

    def message_options(self, view: View) -> MessageOptions:
        """Give what is wanted of the records of a log."""
        from rmqtool.tables.messages import MessageOptions

        columns = self.json_columns(MESSAGES.names)
        return MessageOptions(
            selection=self.selection,
            body=self.body,
            fillers=self.fillers,
            is_copy=view.branch is ArtefactKind.COMPACTION_LOG,
            as_json=bool(columns),
            columns=columns,
        )


@dataclass(slots=True)
class DumpOutcome:
    """How a dump went, known when its rows have been read."""

    rows: int = 0  # how many were given
    damaged: int = 0  # how many of them tell of damage
    # files that could not be read, with the reason
    unread: list[StoreError] = field(default_factory=list)
    # how many more rows tell of such a file: the command line names those at its end
    refused: int = 0
    # files that a running broker deleted while they were read
    expired: set[str] = field(default_factory=set)
    log_start: int = 0  # physical offset that the last log began at when its files were listed
    # stretches of logs, physical offsets, whose queue units are in no database yet
    not_flushed: list[tuple[int, int]] = field(default_factory=list)
    total_bytes: int = 0  # how much of logs there is to read, known before it is read
    # takes the bytes that were read since it was last called
    advance: Callable[[int], None] = lambda _: None

    def is_gap(self, store: Store, path: str, error: UnreadablePath) -> bool:
        """Take note of a file that cannot be read; tell whether rows are missing by it."""
        if store.moment.is_gone(path, error):
            self.expired.add(path)
            return False
        self.unread.append(error)
        return True


def dump(options: DumpOptions, outcome: DumpOutcome) -> list[Rows]:
    """Give the rows of each view; nothing is read before they are.

    Args:
        options: what is wanted.
        outcome: filled while the rows are read.

    Raises:
        UsageError: an option does not fit what is there.
        StoreError: a path cannot be opened at all.
    """
    by_word: dict[str, list[Store]] = {}
    for path in options.paths:
        store = store_of(path, options.broker_conf, options.word)
        for view in views_of(store, options.word):
            by_word.setdefault(view.word, []).append(store)
    for word, stores in by_word.items():
        _check_filters(VIEWS[word], options)
        if VIEWS[word].is_messages:
            wanted = options.selection.offsets
            logs = (segment_parts(store, VIEWS[word], wanted) for store in stores)
            outcome.total_bytes += sum(part.length for parts in logs for part in parts)
    return [_view_rows(VIEWS[word], stores, options, outcome) for word, stores in by_word.items()]


def _check_filters(view: View, options: DumpOptions) -> None:
    """Refuse a filter that says nothing about the rows of a view.

    Raises:
        UsageError: there is one.
    """
    selection, filters = options.selection, view.filters
    if options.is_hex and view.branch not in LOGS:
        filters &= HEX_FILTERS
    for option in selection.options():
        if option not in filters:
            known = " ".join(sorted(filters)) or "none"
            reason = f"rows of {view.word} cannot be chosen by it; filters there: {known}"
            raise UsageError(option=option, reason=reason)
    if view.branch is ArtefactKind.INDEX and (selection.key is None) != (not selection.topics):
        reason = "an index holds hashes of topic and key together: give --topic and --key"
        raise UsageError(option="--key", reason=reason)


def table_of(view: View, options: DumpOptions) -> Table:
    """Say which table the rows of a view are of."""
    is_hex = options.is_hex and view.word not in OF_STORES
    return LINES if is_hex else view.table


def _view_rows(view: View, stores: list[Store], options: DumpOptions, outcome: DumpOutcome) -> Rows:
    """Give the rows of one view out of one or more stores."""
    if view.word in OF_STORES:
        from rmqtool.tables.pending import pending_chunks

        pending = pending_chunks(view.word, stores, outcome.unread, options.trace_topics)
        return view.table.rows(_cut(last_of(pending, options.tail), options, outcome), view.word)
    if view.branch is ArtefactKind.ROCKSDB:
        from rmqtool.tables.rocksdb import of_databases

        pending = of_databases(stores, options.selection, outcome.unread, is_hex=options.is_hex)
        cut = _cut(last_of(pending, options.tail), options, outcome)
        return table_of(view, options).rows(cut, view.word)
    if options.is_hex:
        return _hex_rows(view, stores, options, outcome)
    if view.word == INNER_BATCH:
        return _inner_rows(view, stores, options, outcome)
    if view.is_messages:
        logs = chain.from_iterable(_messages(view, store, options, outcome) for store in stores)
        rows = _cut(logs, options, outcome)
        return view.table.rows(rows, view.word)
    read = _bulk_reader(view, options) if view.is_bulk else _small_reader(view)
    pending = _each(stores, lambda store: file_parts(store, view, options.selection), read, outcome)
    if view.word == str(ArtefactKind.CONSUME_QUEUE):
        from rmqtool.tables.rocksdb import of_queues

        pending = chain(
            pending, of_queues(stores, options.selection, outcome.unread, outcome.not_flushed)
        )
    if view.branch is ArtefactKind.CONFIG:
        from rmqtool.tables.small_files import rows_of_databases

        pending = chain(pending, in_chunks(chain.from_iterable(map(rows_of_databases, stores))))
    chunks = last_of(pending, options.tail)
    rows = _cut(chunks, options, outcome)
    return view.table.rows(rows, view.word)


def _hex_rows(view: View, stores: list[Store], options: DumpOptions, outcome: DumpOutcome) -> Rows:
    """Give the bytes of one view, a row a line."""
    from rmqtool.tables.hexview import file_lines, message_lines

    selection = options.selection

    def of_segment(part: SegmentPart) -> Iterator[Chunk]:
        return in_chunks(message_lines(part, options.message_options(view)))

    def of_file(part: FilePart) -> Iterator[Chunk]:
        return in_chunks(file_lines(part, selection))

    if view.branch in LOGS:
        wanted = selection.offsets
        chunks = _each(
            stores, lambda store: segment_parts(store, view, wanted), of_segment, outcome
        )
    else:
        chunks = _each(stores, lambda store: file_parts(store, view, selection), of_file, outcome)
    cut = _cut(last_of(chunks, options.tail), options, outcome)
    return LINES.rows(cut, view.word)


def _inner_rows(
    view: View, stores: list[Store], options: DumpOptions, outcome: DumpOutcome
) -> Rows:
    """Give the messages in batch records."""
    from rmqtool.tables.inner_batch import inner_rows

    wanted, wishes = options.selection.offsets, options.message_options(view)

    def of_segment(part: SegmentPart) -> Iterator[Chunk]:
        return in_chunks(inner_rows(part, wishes))

    chunks = _each(stores, lambda store: segment_parts(store, view, wanted), of_segment, outcome)
    cut = _cut(last_of(chunks, options.tail), options, outcome)
    return view.table.rows(cut, view.word)


def _bulk_reader(view: View, options: DumpOptions) -> Reader:
    """Say how to read a file of units."""
    from rmqtool.tables.readers import chunks

    columns = options.json_columns(view.table.names)
    return partial(chunks, view.word, options.selection, columns, fillers=options.fillers)


def _small_reader(view: View) -> Reader:
    """Say how to read a small file."""
    from rmqtool.tables.small_files import READERS

    read = READERS[view.word]
    return lambda part: in_chunks(read(part))


def _each(
    stores: list[Store],
    parts_of: Callable[[Store], Iterable[Part]],
    read: Callable[[Part], Iterator[Chunk]],
    outcome: DumpOutcome,
) -> Iterator[Chunk]:
    """Read file by file; one that cannot be read is a row."""
    for store in stores:
        for part in parts_of(store):
            try:
                yield from read(part)
            except UnreadablePath as error:
                if outcome.is_gap(store, _path(part), error):
                    yield [{"file": _path(part), "position": 0, "extent": "gap", "code": FS_READ}]


def _path(part: FilePart | SegmentPart) -> str:
    return part.path if isinstance(part, FilePart) else part.segment.path


def _messages(
    view: View, store: Store, options: DumpOptions, outcome: DumpOutcome
) -> Iterator[Chunk]:
    """Read a log; anew, where all that was listed of it has expired before it was read."""
    for _ in range(LISTINGS):
        rows, expired = 0, len(outcome.expired)
        for chunk in _listed(view, store, options, outcome):
            rows += count_of(chunk)
            yield chunk
        if rows or len(outcome.expired) == expired:
            return
        store = open_store(store.asked.place, options.broker_conf)


def _listed(
    view: View, store: Store, options: DumpOptions, outcome: DumpOutcome
) -> Iterator[Chunk]:
    """Read the files of a log that a store has listed, several parts at a time."""
    from rmqtool.tables.messages import PART_BYTES, MessagesOf

    outcome.log_start = store.commitlog.start
    read = MessagesOf(options.message_options(view))
    is_plain = options.tail is None and view.branch is ArtefactKind.COMMITLOG
    if is_plain and options.selection.is_indexed:
        yield from _assisted(view, store, read, options, outcome)
        return
    parts = whole_parts(store, view, options.selection.offsets, PART_BYTES, read)
    if options.tail is None:
        yield from _joined(store, read, parts, options, outcome)
        return
    # From the end backwards, as far as it takes; no body is in memory while rows are counted.
    bare = MessagesOf(replace(read.options, body=BodyOptions(), as_json=False))
    taken = 1
    while True:
        some = parts[-taken:]
        rows = sum(map(count_of, _joined(store, bare, some, options, DumpOutcome())))
        if len(some) == len(parts) or rows >= options.tail:
            chunks = _joined(store, read, some, options, outcome)
            if store.moment.is_live:  # what has expired since is not counted any more
                yield from last_of(chunks, options.tail)
            else:
                yield from rows_after(rows - options.tail, chunks)
            return
        taken *= 4


def _assisted(
    view: View, store: Store, read: MessagesOf, options: DumpOptions, outcome: DumpOutcome
) -> Iterator[Chunk]:
    """Read the segments of a log by queues and index, or as a whole."""
    from rmqtool.tables.assisted import whole_rows
    from rmqtool.tables.messages import PART_BYTES

    parts = whole_parts(store, view, options.selection.offsets, PART_BYTES, read)
    for whole, some, rows in whole_rows(store, parts, read.options):
        if rows is None:
            yield from _joined(store, read, some, options, outcome)
        else:
            outcome.advance(whole.length)
            yield from map(_plain, map(read.chunk, rows))


def _joined(
    store: Store,
    read: MessagesOf,
    parts: list[SegmentPart],
    options: DumpOptions,
    outcome: DumpOutcome,
) -> Iterator[Chunk]:
    """Read parts of a log; what cannot be read is one row, however many parts it concerns."""
    from rmqtool.scan.join import run_joined

    reasons: set[str] = set()
    for part, result in run_joined(read, parts, jobs=options.jobs):
        outcome.advance(part.length)
        yield from map(_plain, chain(result.chunks, read.rest(part, result)))
        if result.unread is None or str(result.unread) in reasons:
            continue
        reasons.add(str(result.unread))
        path = part.segment.path
        if outcome.is_gap(store, path, result.unread):
            yield [{"segment": path, "position": part.begin, "extent": "gap", "code": FS_READ}]


def _plain(chunk: pa.RecordBatch | JsonLines) -> Chunk:
    from rmqtool.tables.arrow import plain_rows

    return chunk if isinstance(chunk, JsonLines) else plain_rows(chunk)


def _cut(chunks: Iterator[Chunk], options: DumpOptions, outcome: DumpOutcome) -> Iterator[Chunk]:
    """Count rows, up to the limit."""
    for chunk in chunks:
        left = None if options.limit is None else options.limit - outcome.rows
        is_last = left is not None and count_of(chunk) >= left
        given = part_of(chunk, 0, left or 0) if is_last else chunk
        outcome.rows += count_of(given)
        outcome.damaged += damaged_in(given)
        yield given
        if is_last:
            return
