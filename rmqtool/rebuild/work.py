"""From a store to rebuilt files: one pass over the log, whatever is rebuilt."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Protocol

from rmqtool.broker.names import SCHEDULE_TOPIC
from rmqtool.derive.collector import RunCollector, forget_scratch
from rmqtool.derive.part import DeriveOptions, derive
from rmqtool.derive.runs import Runs, Stretch
from rmqtool.derive.settings import run_units
from rmqtool.engine import chosen, results_travel
from rmqtool.errors import NoSuchQueue, NotAStore, Trouble, UnreadablePath, UsageError
from rmqtool.findings.registry_layout import FS_READ
from rmqtool.formats.consume_queue import QueueKind
from rmqtool.judge.foreign import refuse_foreign
from rmqtool.memory import give_back_rest
from rmqtool.plural import counted
from rmqtool.queues.as_of import as_of
from rmqtool.queues.discovery import Queues
from rmqtool.rebuild.comparing import ComparingSink
from rmqtool.rebuild.consume_queue import QueueBuilder
from rmqtool.rebuild.ext import ext_rules
from rmqtool.rebuild.in_place import rebuild_in_place
from rmqtool.rebuild.index_file import IndexBuilder, IndexSink
from rmqtool.rebuild.options import (
    LostRange,
    Mode,
    RebuildOptions,
    RebuildResult,
    StoreType,
    Target,
)
from rmqtool.rebuild.pieces import QueueOptions
from rmqtool.rebuild.shuffled import Shuffler, rebuild_queues
from rmqtool.rebuild.single_runs import QueueSink
from rmqtool.rebuild.sinks import CountingSink, WritingSink
from rmqtool.rebuild.store_type import (
    database_of,
    index_types,
    missing_database,
    placement,
    rules_for,
    store_types,
)
from rmqtool.scan.batch import Extent
from rmqtool.scan.join import run_joined
from rmqtool.store.geometry import LengthSource
from rmqtool.store.index_files import names_by_begin
from rmqtool.store.moment import GONE
from rmqtool.store.parts import parts
from rmqtool.store.tree import open_store
from rmqtool.writing.output import OutputDirectory, refuse_within
from rmqtool.writing.remote_output import output_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from rmqtool.store.segment import SegmentPart
    from rmqtool.store.tree import Store
    from rmqtool.writing.output_tree import OutputTree

    Advance = Callable[[int], None]
    from collections.abc import Callable, Iterable

    from rmqtool.derive.runs import Runs
    from rmqtool.rebuild.options import RebuildOptions


PART_BYTES: Final = 32 << 20


class RebuildSink(QueueSink, IndexSink, Protocol):
    """Takes what is rebuilt."""


@dataclass(frozen=True, slots=True)
class DerivePart:
    """Derives one part; of a file that cannot be read, a stretch without records. Picklable."""

    options: DeriveOptions  # what to derive
    is_live: bool = False  # a broker runs, and may have deleted a file that is not there any more

    def __call__(self, part: SegmentPart, *, start: int | None = None) -> Runs:
        """Give the runs of a part.

        Raises:
            UnreadablePath: its file has expired beside a running broker.
        """
        try:
            return derive(part, self.options, start=start)
        except UnreadablePath as error:
            if self.is_live and error.trouble in GONE:
                raise
            begin = part.begin if start is None else start
            nothing = RunCollector(self.options.rules).finish(part.end)
            lost = Stretch(Extent.GAP, begin, part.end - begin, FS_READ)
            return replace(nothing, first=begin, stretches=(lost,))


def rebuild(options: RebuildOptions, *, advance: Advance = lambda _: None) -> RebuildResult:
    """Rebuild queues, index or both from the commitlog.

    Args:
        options: what is asked.
        advance: told of bytes of the log that are done.

    Raises:
        NoSuchQueue: the log has no record of the topic or queue; nothing was written.
        NotSound: a file of the log is another broker's; nothing was written.
        NotAStore: there is no commitlog.
        UsageError: an option is not for queues in RocksDB.
        UnreadablePath: in place, and a segment cannot be read.
        StoreError: the store cannot be used, or a broker uses it.
        RepairError: it could not be written; the store is as it was, unless it is an
            `EditUnfinished`.
    """
    began = time.perf_counter()
    if options.mode is Mode.IN_PLACE:
        result = rebuild_in_place(
            options, lambda sink: _run_writing(_open(options), options, sink, advance)
        )
        give_back_rest()  # what was staged: a validation follows
    elif options.output is not None:
        store = _open(options)
        with output_directory(options.output) as tree:
            cluster = _cluster(options, tree)
            if cluster is None or StoreType.ROCKSDB in store_types(store, options):
                result = _run_writing(store, options, WritingSink(tree.subtree), advance)
            else:
                result = _run_shuffled(store, options, (cluster, tree), advance)
        result.fsync_seconds += tree.fsync_seconds
    elif options.mode is Mode.CHECK:
        result = _open(options).moment.settled(
            lambda: _check(options, advance), wrong_files, kept_files
        )
    else:
        store = _open(options)
        result = run(store, options, CountingSink(), advance)
        if StoreType.ROCKSDB in result.index_types:
            from rmqtool.rebuild.rocksdb_index import count_index

            count_index(store, result)
    result.seconds = time.perf_counter() - began
    return result


def _check(options: RebuildOptions, advance: Advance) -> RebuildResult:
    """Compare once."""
    cut = reached(_open(options))
    store = _open(options)  # anew: what the queues had reached then, all files have by now
    if cut is not None:
        store = as_of(store, cut)
    comparing = ComparingSink(store, store.commitlog.start, cut)
    result = _run_comparing(store, options, comparing, advance)
    result.cut = cut
    comparing.finish(
        queues=options.target.has_queues and StoreType.FILES in store_types(store, options),
        index=StoreType.FILES in result.index_types,
        whole=options.topic is None,
    )
    result.differences, result.unread = comparing.differences, comparing.unread
    return result


def rebuild_from(store: Store, options: RebuildOptions, files: WritingSink) -> RebuildResult:
    """Rebuild from a store that is open; see `rebuild`.

    Args:
        store: whose log is read, and whose queues and configuration say what is written.
        options: what is asked; where it goes, the sink says.
        files: takes what is written.
    """
    return _run_writing(replace(store, follows_conf=True), options, files, lambda _: None)


def _run_writing(
    store: Store, options: RebuildOptions, files: WritingSink, advance: Advance
) -> RebuildResult:
    """Write queues, and the index, in files, in RocksDB, or in both."""
    result = _run_writing_queues(store, options, files, advance)
    if StoreType.ROCKSDB in result.index_types:
        from rmqtool.rebuild.rocksdb_index import write_index

        write_index(store, files, result)
    return result


def _run_writing_queues(
    store: Store, options: RebuildOptions, files: WritingSink, advance: Advance
) -> RebuildResult:
    types = store_types(store, options)
    if StoreType.ROCKSDB not in types:
        return run(store, options, files, advance)
    database = database_of(store)
    from rmqtool.rebuild.rocksdb import RocksSink

    path = database.path if database else missing_database(store) or QueueKind.CONSUME_QUEUE
    has_files = StoreType.FILES in types
    where = placement(store)
    with RocksSink(store, path, files, where, has_files=has_files) as sink:
        result = run(store, options, sink, advance)
        sink.finish()
    return result


def _run_comparing(
    store: Store, options: RebuildOptions, files: ComparingSink, advance: Advance
) -> RebuildResult:
    """Compare queues, and the index, in files, in RocksDB, or in both."""
    result = _run_comparing_queues(store, options, files, advance)
    if StoreType.ROCKSDB in result.index_types:
        from rmqtool.rebuild.rocksdb_index import compare_index

        compare_index(store, files, result)
    return result


def _run_comparing_queues(
    store: Store, options: RebuildOptions, files: ComparingSink, advance: Advance
) -> RebuildResult:
    types = store_types(store, options)
    if StoreType.ROCKSDB not in types:
        return run(store, options, files, advance)
    from rmqtool.rebuild.rocksdb import RocksComparingSink

    with Queues(store) as queues:
        if queues.database.source is None and (path := missing_database(store)):
            files.differ(path, "queues in RocksDB", "none")
            return run(store, options, CountingSink(), advance)
        if queues.database.source is None:
            raise NotAStore(path=str(store.root), reason="has no queues in RocksDB to compare")
        sink = RocksComparingSink(
            queues.database.source,
            files,
            placement(store),
            has_files=StoreType.FILES in types,
        )
        result = run(store, options, sink, advance)
        sink.finish()
    return result


def run(
    store: Store,
    options: RebuildOptions,
    sink: RebuildSink,
    advance: Advance,
) -> RebuildResult:
    """Pass over the log once, and give a sink all that follows from it."""
    rules, why = rules_for(store, options)
    result = RebuildResult(options.mode, rules, why)
    queue_options = _queue_options(store, options)
    result.not_understood = queue_options.ext.not_understood if queue_options.ext else 0
    queues = QueueBuilder(queue_options, sink)
    geometry = store.geometry
    index = IndexBuilder(
        geometry.index_slots.value,
        geometry.index_entries.value,
        sink,
        names=names_by_begin(store.index_files()),
        zone=options.zone(),
    )
    target = options.target
    result.index_types = index_types(store, options)
    has_index_files = StoreType.FILES in result.index_types
    work = DerivePart(
        DeriveOptions(
            rules,
            queues=target.has_queues,
            index=has_index_files,
            run_units=run_units(store),
        ),
        is_live=store.moment.is_live,
    )
    result.lost += missing(store)
    last = (-1, 0)
    log = list(parts(store.commitlog, PART_BYTES))
    for part, runs in run_joined(work, log, jobs=options.jobs):
        if target.has_queues:
            queues.add(runs.queues)
            queues.add(runs.batch_queues)
        if has_index_files:
            index.add(runs.index)
        if runs.records:
            last = (runs.last_physical_offset, runs.last_store_timestamp)
        lost = account(result, part, runs)
        if options.mode is Mode.IN_PLACE:
            refuse_unread(lost)
        advance(part.length)
        del runs  # of the last part, while queues are written
    forget_scratch()
    give_back_rest()
    if target.has_queues:
        result.queues = list(queues.finish())
        result.units = queues.units
        refuse_nothing(options, result)
    if has_index_files:
        index.finish(*last)
        result.entries, result.index_files = index.entries, index.files
        result.index_end = index.end_timestamp_of_last
    result.last_physical_offset, result.last_store_timestamp = last
    result.assumed = list(_assumed(store, result, target))
    result.lost.sort(key=lambda lost: lost.physical_offset)
    return result


def _cluster(options: RebuildOptions, tree: OutputTree) -> Shuffler | None:
    """Give the engine that can write the queues itself; None when they are written from here.

    Index files follow from all entries before them, ext units from records, which do not travel,
    and a bucket is written through one hand. On one machine, to write is less work than to bring
    units to several writers.
    """
    engine: object = chosen() if results_travel() else None
    if options.ext or options.target is not Target.QUEUES or type(tree) is not OutputDirectory:
        return None
    return engine if isinstance(engine, Shuffler) else None


def _run_shuffled(
    store: Store, options: RebuildOptions, where: tuple[Shuffler, OutputTree], advance: Advance
) -> RebuildResult:
    """Let a cluster rebuild the queues into a staged tree."""
    rules, why = rules_for(store, options)
    result = RebuildResult(options.mode, rules, why)
    result.lost += missing(store)
    work = DerivePart(DeriveOptions(rules, index=False, run_units=run_units(store)))
    steps = (work, _queue_options(store, options))
    done = rebuild_queues(where[0], tuple(store.commitlog), steps, where[1], advance)
    for part, runs in done.parts:
        if runs.records:
            result.last_physical_offset = runs.last_physical_offset
            result.last_store_timestamp = runs.last_store_timestamp
        account(result, part, runs)
    result.queues, result.units = done.queues, done.units
    result.fsync_seconds = done.fsync_seconds
    refuse_nothing(options, result)
    result.assumed = list(_assumed(store, result, options.target))
    result.lost.sort(key=lambda lost: lost.physical_offset)
    return result


def _open(options: RebuildOptions) -> Store:
    """Open a store whose queues can be derived from its log."""
    # New files are made as they are wanted, whatever those are that they replace.
    store = replace(open_store(options.store, options.broker_conf), follows_conf=True)
    if not store.commitlog:
        raise NotAStore(path=str(store.asked.place), reason="has no commitlog to rebuild from")
    if options.in_place or options.output is not None:
        refuse_foreign(store.commitlog.segments)
    types = store_types(store, options)
    own = store_types(store, replace(options, store_type=None))
    if options.in_place and options.target.has_queues and types != own:
        reason = "a broker has to be told, too: convert with --output DIR, then change storeType"
        raise UsageError(option="--as", reason=reason)
    if options.in_place and options.store_type is not None and options.target is Target.INDEX:
        own = index_types(store, replace(options, store_type=None))
        if options.store_type not in own:
            reason = "a broker has to be told, too: use --output DIR, then set indexRocksDBEnable"
            raise UsageError(option="--as", reason=reason)
    if StoreType.ROCKSDB in types and options.topic is not None:
        reason = "queues in RocksDB are rebuilt all together: leave it out"
        raise UsageError(option="--topic", reason=reason)
    if StoreType.ROCKSDB in types and (options.ext or options.like_broker):
        option = "--ext" if options.ext else "--like-broker"
        raise UsageError(option=option, reason="is for queues in files")
    if options.output is not None:
        refuse_within(store.root, options.output)
    return store


def _queue_options(store: Store, options: RebuildOptions) -> QueueOptions:
    geometry, log = store.geometry, store.commitlog
    return QueueOptions(
        file_length=geometry.consume_queue.value,
        batch_file_length=geometry.batch_queue.value,
        log_start=log.start,
        segment_length=log.file_length,
        like_broker=options.like_broker,
        topic=options.topic,
        queue_id=options.queue_id,
        is_deleted=options.is_deleted,
        ext=ext_rules(store) if options.ext else None,
        proven=options.proven,
    )


def _assumed(store: Store, result: RebuildResult, target: Target) -> Iterator[str]:
    """Say what was assumed for want of a file, or a configuration, that tells."""
    geometry = store.geometry
    if target.has_queues and geometry.consume_queue.source is LengthSource.DEFAULT:
        yield f"queue files of {geometry.consume_queue.value:,} bytes"
    if (
        StoreType.FILES in result.index_types
        and geometry.index_entries.source is LengthSource.DEFAULT
    ):
        slots, entries = geometry.index_slots.value, geometry.index_entries.value
        yield f"index files of {counted(slots, 'slot')} and {counted(entries, 'entry', 'entries')}"
    if store.broker_conf is None and any(queue.topic == SCHEDULE_TOPIC for queue in result.queues):
        yield f"delays from the queues of {SCHEDULE_TOPIC}, otherwise RocketMQ's own"


# `rebuild --check` beside a running broker: how far it compares, and what it believes.


def reached(store: Store) -> int | None:
    """Give the physical offset that the queues of a running broker have reached; None without one.

    Raises:
        UnreadablePath: a queue cannot be read.
    """
    if not store.moment.is_live:
        return None
    with Queues(store) as queues:
        newest = queues.newest(queues.sources, store.commitlog.start)
    return newest.physical_offset if newest else 0


def wrong_files(result: RebuildResult) -> set[str]:
    """Name the files that differ, or are lost: where entries expire, damage in one moves."""
    return {
        *(difference.path for difference in result.differences),
        *(gap.path for gap in result.lost),
    }


def kept_files(result: RebuildResult, paths: Container[object]) -> RebuildResult:
    """Leave of what differs or is lost the files that did before, too."""
    result.differences = [
        difference for difference in result.differences if difference.path in paths
    ]
    result.lost = [gap for gap in result.lost if gap.path in paths]
    return result


# What a rebuild cannot derive, and when it writes nothing because of that.


UNREADABLE: Final = "unreadable"


def missing(store: Store) -> Iterator[LostRange]:
    """Yield the stretches between segments that no file holds: it was removed, or is too short."""
    for before, after in pairwise(store.commitlog):
        if after.start > before.end:
            yield LostRange(store.commitlog.path, before.end, after.start - before.end, "missing")


def refuse_nothing(options: RebuildOptions, result: RebuildResult) -> None:
    """Write no empty tree where a topic was mistyped.

    Raises:
        NoSuchQueue: no record belongs to what was asked for.
    """
    if options.topic is not None and not result.queues:
        raise NoSuchQueue(topic=options.topic, queue_id=options.queue_id)


def refuse_unread(lost: Iterable[LostRange]) -> None:
    """Replace nothing when a segment cannot be read: what the store has of it may be all right.

    Damage in a segment is another matter: no later attempt will read more than this one.

    Args:
        lost: of the part that was read last.

    Raises:
        UnreadablePath: it cannot.
    """
    for gap in lost:
        if gap.code == UNREADABLE:
            reason = (
                f"cannot be read from physical offset {gap.physical_offset} on, and the store's "
                "queues and index from there on would be lost; nothing was replaced: make it "
                "readable, or use --output DIR, which takes what can be read"
            )
            raise UnreadablePath(path=gap.path, reason=reason, trouble=Trouble.EXPLAINED)


def account(result: RebuildResult, part: SegmentPart, runs: Runs) -> list[LostRange]:
    """Take note of what a part holds beside records; give what of it is lost."""
    result.bytes += part.length
    result.records += runs.records
    result.undispatched += runs.undispatched
    start = part.segment.start
    lost = [
        LostRange(part.segment.path, start + stretch.position, stretch.length, _why(stretch))
        for stretch in runs.stretches
        if stretch.kind is Extent.GAP
    ]
    result.lost += lost
    return lost


def _why(lost: Stretch) -> str:
    return UNREADABLE if lost.code == FS_READ else lost.code or ""
