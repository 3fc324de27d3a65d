"""A rebuild as rows (queues, index, or where the store differs) and as sentences."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rmqtool.plural import counted
from rmqtool.rebuild.options import Mode, StoreType
from rmqtool.rows import in_chunks
from rmqtool.store.address import is_inside
from rmqtool.store.place import is_remote
from rmqtool.table import Column, Table, Type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.rebuild.options import RebuildOptions, RebuildResult, Target
    from rmqtool.rebuild.pieces import QueueResult
    from rmqtool.rows import Row, Rows

_TROUBLE: Final = (
    Column("filler", Type.INT64, "units that stand in for lost messages", "units"),
    Column("repeated", Type.INT64, "records left out: their queue offset was taken", "records"),
    Column("misnumbered", Type.INT64, "records with a damaged queue offset", "records"),
    Column("implausible", Type.INT64, "records left out: impossible queue offset", "records"),
    Column("shifted", Type.INT64, "units that do not lie at their queue offset", "units"),
    Column("left_out", Type.TEXT, "why the queue was left out; null where it was not"),
)
QUEUES: Final = Table(
    "queues",
    "a queue that was rebuilt",
    (
        Column("kind", Type.TEXT, "what kind of queue"),
        Column("topic", Type.TEXT, "name of the topic"),
        Column("queue_id", Type.INT64, "number of the queue"),
        Column("first_queue_offset", Type.INT64, "queue offset of its first unit"),
        Column("next_queue_offset", Type.INT64, "queue offset of the next message"),
        Column("units", Type.INT64, "units written for a record", "units"),
        Column("files", Type.INT64, "files that the queue takes", "files"),
        *_TROUBLE,
    ),
    shown=(
        *("topic", "queue_id", "units", "first_queue_offset", "next_queue_offset", "files"),
        "kind",
    ),
)
INDEX: Final = Table(
    "index",
    "the key index that was rebuilt",
    (
        Column("index_files", Type.INT64, "index files", "files"),
        Column("entries", Type.INT64, "entries in them", "entries"),
        Column("rocksdb_entries", Type.INT64, "entries in RocksDB", "entries"),
    ),
)
DIFFERENCES: Final = Table(
    "differences",
    "a stretch of a file that differs from the rebuilt one",
    (
        Column("path", Type.TEXT, "file, relative to the store root"),
        Column("position", Type.INT64, "first byte that differs", "bytes"),
        Column("length", Type.INT64, "how many bytes", "bytes"),
        Column("expected", Type.TEXT, "value in the rebuilt file"),
        Column("actual", Type.TEXT, "value in the store"),
    ),
)

LOST_SHOWN: Final = 10
TROUBLE: Final = {  # what is counted, and the rest of the sentence
    "filler": (
        "unit",
        (
            "in place of lost records, so that later ones keep their queue offset: consumers get "
            "nothing there or, in the first segment, the next message once more"
        ),
    ),
    "repeated": ("record", "left out for a queue offset that was taken already"),
    "misnumbered": ("record", "with a damaged queue offset, and the unit where it was missing"),
    "implausible": ("record", "left out for an impossible queue offset"),
    "shifted": ("unit", "not where the queue offset says, as with a broker"),
}


def table_of(target: Target, *, is_check: bool) -> Table:
    """Say what the rows are about: differences, files of the index, or queues."""
    if is_check:
        return DIFFERENCES
    return QUEUES if target.has_queues else INDEX


def rows_of(options: RebuildOptions, result: RebuildResult) -> Rows:
    """Give what was asked for as rows to be written."""
    table = table_of(options.target, is_check=result.mode is Mode.CHECK)
    if table is DIFFERENCES:
        return table.rows([list(map(DIFFERENCES.row, result.differences))])
    if table is INDEX:
        return table.rows([[INDEX.row(result)]])
    hurt = [_row(queue) for queue in result.queues if queue.left_out or not queue.tally.is_whole]
    trouble = [column.name for column in _TROUBLE if any(row[column.name] for row in hurt)]
    # People see the columns about trouble only where there is some.
    shown = (*QUEUES.shown[:3], *trouble, *QUEUES.shown[3:])
    return replace(QUEUES, shown=shown).rows(in_chunks(map(_row, result.queues)))


def _row(queue: QueueResult) -> Row:
    return QUEUES.row(queue, queue.tally, kind=str(queue.kind), left_out=queue.left_out or None)


def sentences(options: RebuildOptions, result: RebuildResult) -> Iterator[str]:
    """Say what was done, what was not, and what to do next."""
    yield f"rules of {result.rules.release.version}, {result.why_rules}"
    for assumption in result.assumed:
        yield f"assumed: {assumption}; --broker-conf would tell"
    built = []
    if options.target.has_queues:
        built.append(f"{counted(len(result.queues), 'queue')} with {counted(result.units, 'unit')}")
    if StoreType.FILES in result.index_types:
        files = counted(result.index_files, "index file")
        built.append(f"{files} with {counted(result.entries, 'entry', 'entries')}")
    if StoreType.ROCKSDB in result.index_types:
        built.append(
            f"an index of {counted(result.rocksdb_entries, 'entry', 'entries')} in RocksDB"
        )
    yield (
        f"{' and '.join(built)} from {counted(result.records, 'record')}, {result.bytes:,} bytes, "
        f"in {result.seconds:.2f} s ({result.fsync_seconds:.2f} s of it waiting for the disk)"
    )
    if result.not_understood:
        count = counted(result.not_understood, "SQL92 expression")
        yield f"{count} not understood: the broker will look at each of those messages itself"
    yield from _left_out(options, result)
    yield from _outcome(options, result)


def _outcome(options: RebuildOptions, result: RebuildResult) -> Iterator[str]:
    """Say what became of the files, and what to do next."""
    yield from result.resumed
    if result.mode is Mode.CHECK:
        yield from _compared(result)
    elif result.mode is Mode.DRY_RUN:
        yield "nothing was written; next: --output DIR or --in-place"
    elif result.mode is Mode.IN_PLACE and result.undo:
        store = shlex.quote(options.store)
        words = ["--broker-conf", options.broker_conf] if options.broker_conf is not None else []
        undo = shlex.join(["rmqtool", "repair", "--undo", options.store, *words])
        yield f"replaced in place; {undo} takes it back"
        yield f"next: rmqtool validate {store}"
    elif result.mode is Mode.IN_PLACE:
        yield "the store has the same already; nothing was changed"
    else:
        yield f"written to {options.output}"
        if not is_remote(options.store) and not is_inside(options.store):
            yield "to put them into the store, undoable, with its checkpoint: --in-place instead"


def _compared(result: RebuildResult) -> Iterator[str]:
    """Say how the store is to what the log gives, and what was not compared."""
    for path, reason in list(result.unread.items())[:LOST_SHOWN]:
        yield f"not compared: {path} cannot be read: {reason}"
    if len(result.unread) > LOST_SHOWN:
        yield f"... nor {counted(len(result.unread) - LOST_SHOWN, 'more file')}"
    if result.cut is not None:
        yield f"a broker runs on this store: compared up to physical offset {result.cut}"
    same = "the readable part is the same" if result.unread else "the store has the same"
    yield f"{'the store differs' if result.differences else same}; nothing was written"
    if result.differences or result.unread:
        yield "next: the same command with --in-place, or with --output DIR"


def _left_out(options: RebuildOptions, result: RebuildResult) -> Iterator[str]:
    """Name what could not be derived, with offsets."""
    for lost in result.lost[:LOST_SHOWN]:
        yield (
            f"nothing was derived from {lost.length:,} bytes at physical offset "
            f"{lost.physical_offset} ({lost.path}): {lost.code}"
        )
    if len(result.lost) > LOST_SHOWN:
        yield f"... and from {len(result.lost) - LOST_SHOWN:,} more such stretches"
    if result.lost:
        yield f"details and remedy: rmqtool validate {shlex.quote(options.store)}"
    for offset in result.undispatched[:LOST_SHOWN]:
        yield f"physical offset {offset}: a numeric property cannot be parsed; dispatch stops here"
    yield from _trouble(result)
    for queue in result.queues:
        if queue.left_out:
            yield f"left out: {queue.topic!r} queue {queue.queue_id}: {queue.left_out}"


def _trouble(result: RebuildResult) -> Iterator[str]:
    """Say of each kind of trouble once what it means, and in which queues it is."""
    hurt = [queue for queue in result.queues if not queue.tally.is_whole and not queue.left_out]
    for name, (thing, sentence) in TROUBLE.items():
        queues = [queue for queue in hurt if getattr(queue.tally, name)]
        if not queues:
            continue
        total = sum(getattr(queue.tally, name) for queue in queues)
        places = [
            f"{queue.topic} {queue.queue_id} ({getattr(queue.tally, name):,})"
            for queue in queues[:LOST_SHOWN]
        ]
        more = f" and {len(queues) - LOST_SHOWN:,} more" if len(queues) > LOST_SHOWN else ""
        where = "queue" if len(queues) == 1 else "queues"
        yield f"{counted(total, thing)} {sentence}; {where} {', '.join(places)}{more}"
