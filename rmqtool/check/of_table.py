"""What `validate` calls damage in the files that a table is read from: no reader calls it fine.

`READS` says of each view of `dump`, and so of each table, from which files it is read, and which
areas of a validation judge them. Rows of a log are judged while they are read, see
`judge/reading.py`; of its files, names and places are judged here. All other files are judged by a
validation of these areas: `quick` for small files, and for who reads a part of a table; `full`,
with the log beside them, for who reads all units or entries.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.broker.conf import TIMER_IN_ROCKSDB
from rmqtool.check.options import CheckLevel, ValidateOptions
from rmqtool.errors import NotAStore, UnreadablePath, UnsupportedStore
from rmqtool.findings.catalogue import Area
from rmqtool.findings.in_rows import is_damage
from rmqtool.findings.registry_layout import FS_OWNER, FS_READ
from rmqtool.findings.registry_rocksdb import RD_KEY
from rmqtool.formats.rocksdb_databases import MESSAGE_STORE, POP_STORE, QUEUES, SEPARATE_QUEUES
from rmqtool.store.artefact import TIMER_CHECK, ArtefactKind, FamilyDepth
from rmqtool.tables.defects import defect_row, log_defects
from rmqtool.tables.inputs import store_of
from rmqtool.tables.views import LOGS, PENDING_TIMERS, POP_IN_FLIGHT, TRACES, UNDECIDED, VIEWS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.findings.catalogue import Code
    from rmqtool.findings.finding import Finding
    from rmqtool.rows import Chunk, Rows
    from rmqtool.store.tree import Store
    from rmqtool.tables.dump import DumpOptions, DumpOutcome
    from rmqtool.tables.selection import Selection

TIMER_FILES: Final = (ArtefactKind.TIMER_WHEEL, ArtefactKind.TIMER_LOG, ArtefactKind.TIMER_CHECK)
OF_INDEX: Final = frozenset({Area.INDEX})
OF_TIMER: Final = frozenset({Area.LAYOUT, Area.TIMER})
OF_COMPARED: Final = (Area.LAYOUT, Area.COMMITLOG, Area.DLEDGER)
OF_COMPACTION: Final = frozenset({Area.COMPACTION})


class Reads(NamedTuple):
    """What a view is read from, but for the log."""

    areas: frozenset[Area]  # of a validation that judge these files
    kinds: tuple[ArtefactKind, ...] = ()  # of the files
    databases: tuple[str, ...] = ()  # paths of databases that are read, too
    is_compared: bool = False  # who reads all of it is told what the log says of it, too
    of_rows: tuple[Code, ...] = ()  # findings that a row says itself


def _queue(area: Area, kind: ArtefactKind, *databases: str) -> Reads:
    return Reads(frozenset({Area.LAYOUT, Area.ROCKSDB, area}), (kind,), databases, is_compared=True)


READS: Final[dict[str, Reads]] = {
    "dledger-entry": Reads(
        frozenset({Area.LAYOUT, Area.COMMITLOG, Area.DLEDGER}),
        (ArtefactKind.DLEDGER,),
        is_compared=True,
    ),
    "dledger-index": Reads(
        frozenset({Area.LAYOUT, Area.DLEDGER}), (ArtefactKind.DLEDGER_INDEX,), is_compared=True
    ),
    "consume-queue": _queue(
        Area.CONSUME_QUEUE,
        ArtefactKind.CONSUME_QUEUE,
        QUEUES,
        SEPARATE_QUEUES,
    ),
    "batch-queue": _queue(Area.BATCH_QUEUE, ArtefactKind.BATCH_QUEUE),
    "consume-queue-ext": _queue(Area.EXTENSION, ArtefactKind.CONSUME_QUEUE_EXT),
    "compaction-queue": Reads(OF_COMPACTION, (ArtefactKind.COMPACTION_QUEUE,), is_compared=True),
    "compaction-position": Reads(OF_COMPACTION, (ArtefactKind.COMPACTION_POSITION,)),
    "index": Reads(OF_INDEX, (ArtefactKind.INDEX,), is_compared=True),
    "index-slot": Reads(OF_INDEX, (ArtefactKind.INDEX,), is_compared=True),
    "index-header": Reads(OF_INDEX, (ArtefactKind.INDEX,)),
    "checkpoint": Reads(frozenset({Area.CHECKPOINT}), (ArtefactKind.CHECKPOINT,)),
    "config": Reads(frozenset({Area.CONFIG, Area.OFFSETS, Area.FILTERS}), (ArtefactKind.CONFIG,)),
    "timer-wheel": Reads(OF_TIMER, (ArtefactKind.TIMER_WHEEL,)),
    "timer-log": Reads(OF_TIMER, (ArtefactKind.TIMER_LOG,), is_compared=True),
    "timer-check": Reads(OF_TIMER, (ArtefactKind.TIMER_CHECK,)),
    "epoch": Reads(frozenset({Area.EPOCH}), (ArtefactKind.EPOCH,)),
    "rocksdb": Reads(
        frozenset({Area.ROCKSDB, Area.CONSUME_QUEUE, Area.INDEX, Area.TIMER, Area.CONFIG}),
        (ArtefactKind.ROCKSDB,),
        is_compared=True,
        of_rows=(RD_KEY,),
    ),
    PENDING_TIMERS: Reads(OF_TIMER | {Area.ROCKSDB}, TIMER_FILES, (MESSAGE_STORE,)),
    POP_IN_FLIGHT: Reads(frozenset({Area.ROCKSDB}), (), (POP_STORE,)),
}
OF_LOG: Final = frozenset({str(log) for log in LOGS} | {"inner-batch", UNDECIDED, TRACES})
COMPACTED: Final = str(ArtefactKind.COMPACTION_LOG)


class Asked(NamedTuple):
    """Whose files are judged. Picklable."""

    path: str  # of the store, a directory of it, or a file
    broker_conf: str | None  # the broker's configuration file
    word: str  # the view
    selection: Selection  # of rows
    is_whole: bool = True  # all rows are read; else no other file is read for them


def defects(asked: Asked) -> Iterator[Finding]:
    """Yield what is damaged in the files that a view is read from, and no row of it says.

    Raises:
        StoreError: the store cannot be opened, or a directory not be listed.
    """
    store, view = store_of(asked.path, asked.broker_conf, asked.word), VIEWS[asked.word]
    if asked.word in OF_LOG:
        yield from log_defects(store, view, asked.selection)
    reads = READS.get(asked.word)
    if asked.word == COMPACTED:
        reads = Reads(OF_COMPACTION, (ArtefactKind.COMPACTION_LOG,), is_compared=True)
    is_lone = store.asked.level is FamilyDepth.FILE and not view.is_bulk
    if reads is not None and not is_lone:  # the one row of a small file says it all
        yield from _validated(asked, store, reads)


def _validated(asked: Asked, store: Store, reads: Reads) -> Iterator[Finding]:
    paths = [*reads.databases, *(artefact.path for artefact in store.branches_of(*reads.kinds))]
    if ArtefactKind.CONSUME_QUEUE in reads.kinds:
        paths.append(QUEUES)  # even where nothing of it is left
    if ArtefactKind.TIMER_CHECK in reads.kinds:
        paths.append(f"config/{TIMER_CHECK}")
    if ArtefactKind.ROCKSDB in reads.kinds:
        paths += [database.path for database in store.rocksdb()]
    selection = asked.selection
    is_whole = asked.is_whole and not any(selection.options())
    # What is lost of the log is said of the log: without it, of whoever points there.
    areas = {*reads.areas, *OF_COMPARED} if reads.is_compared else reads.areas
    options = ValidateOptions(
        asked.path,
        only=frozenset(map(str, areas)),
        level=_level(store, reads, asked.word, is_whole=is_whole),
        broker_conf=asked.broker_conf,
    )
    from rmqtool.check.validate import validate  # rows of a small file need not wait for numpy

    try:
        findings = validate(options)
    except (NotAStore, UnsupportedStore):  # a file that is what the user says
        return
    for finding in findings:
        is_here = any(f"{finding.path}/".startswith(f"{path}/") for path in paths)
        is_new = finding.code != FS_OWNER and finding.code not in reads.of_rows
        if is_here and is_damage(finding) and is_new and _is_asked(finding, selection):
            yield finding


def _level(store: Store, reads: Reads, word: str, *, is_whole: bool) -> CheckLevel:
    """Say how deep files are judged.

    Timers in RocksDB are rows of a database: which of them are missing, only the log tells. So it
    is where a timer ran and its `timercheck` is gone: its queue may be gone, too.
    """
    is_compared = reads.is_compared
    if word == PENDING_TIMERS:
        there = any(
            database.path == MESSAGE_STORE and not database.is_empty for database in store.rocksdb()
        )
        ran = any(store.branches_of(ArtefactKind.TIMER_WHEEL, ArtefactKind.TIMER_LOG))
        is_lost = ran and not any(store.branches_of(ArtefactKind.TIMER_CHECK))
        is_compared = there or is_lost or TIMER_IN_ROCKSDB.of(store.broker_conf)
    return CheckLevel.FULL if is_whole and is_compared else CheckLevel.QUICK


def _is_asked(finding: Finding, selection: Selection) -> bool:
    """Tell whether a finding is about rows that were asked for, as far as it says."""
    if selection.topics and finding.topic not in {None, *selection.topics}:
        return False
    return selection.queue_id is None or finding.queue_id in {None, selection.queue_id}


def with_defects(chunks: list[Rows], options: DumpOptions, outcome: DumpOutcome) -> list[Rows]:
    """Put rows of defects after the rows of a dump; none where a part of the rows is read.

    Args:
        chunks: rows of the views.
        options: of the dump.
        outcome: of the dump: counts them, too.
    """
    if options.limit is not None or options.tail is not None:
        return chunks
    return [replace(rows, chunks=chain(rows.chunks, _chunks(rows, options, outcome)))
            for rows in chunks]  # fmt: skip


def _chunks(rows: Rows, options: DumpOptions, outcome: DumpOutcome) -> Iterator[Chunk]:
    for path in options.paths:
        asked = Asked(path, options.broker_conf, rows.name, options.selection, not options.is_hex)
        known = {problem.path for problem in outcome.unread if isinstance(problem, UnreadablePath)}
        try:
            for defect in defects(asked):
                if defect.code == FS_READ:
                    if defect.path in known:
                        continue
                    outcome.refused += 1
                outcome.rows += 1
                outcome.damaged += 1
                yield [defect_row(defect, rows.columns)]
        except UnreadablePath as error:
            if error.path not in known:
                outcome.unread.append(error)
