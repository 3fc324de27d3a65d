"""Rows that name a defect of a file, beside the rows of what the file holds.

A table of records or units tells of damage where it stands: a row of a gap, a row with a code. What
is wrong with a file as a whole, or with one file beside another, is a row whose extent is
`finding`: it is no record and no unit.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from rmqtool.broker.rules import Rules
from rmqtool.errors import UnreadablePath
from rmqtool.findings.finding import At, finding
from rmqtool.findings.in_rows import is_damage
from rmqtool.findings.registry_layout import FS_GAP, FS_LEN, FS_READ
from rmqtool.judge.files import FileJudge, no_log
from rmqtool.judge.foreign import foreign_segments, of_foreign
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.release import written_by
from rmqtool.tables.inputs import logs_of
from rmqtool.tables.record_tables import DEFECT
from rmqtool.tables.selection import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    import pyarrow as pa

    from rmqtool.errors import StoreError
    from rmqtool.findings.finding import Finding
    from rmqtool.rows import Row
    from rmqtool.store.tree import Store
    from rmqtool.table import Table
    from rmqtool.tables.selection import Selection
    from rmqtool.tables.views import View

STORE_LOGS: Final = frozenset({ArtefactKind.COMMITLOG, ArtefactKind.DLEDGER})
IN_THE_LOG: Final = frozenset({FS_GAP, FS_LEN})  # rows of the log say where bytes are missing


def log_defects(store: Store, view: View, selection: Selection) -> Iterator[Finding]:
    """Yield what names and places of the files of a log show, and rows of the log do not say.

    Args:
        store: whose log.
        view: which log.
        selection: of records; who reads a part of the log is told nothing of other files.

    Raises:
        UnreadablePath: a directory may not be listed.
    """
    if (selection.offsets, selection.store_time) != (EVERYTHING, EVERYTHING):
        return
    judge = FileJudge(store.moment, skips_directories=partial(_skips_directories, store))
    for files in logs_of(store, view):
        yield from map(of_foreign, foreign_segments(files.segments))
        for file in judge.files(files):
            if is_damage(file) and file.code not in IN_THE_LOG:
                yield file
    if view.branch in STORE_LOGS:
        unread: list[UnreadablePath] = []
        yield from no_log(store, lambda: _queues_with_files(store, unread))
        yield from (finding(FS_READ, At(error.path), actual=error.reason) for error in unread)


def _skips_directories(store: Store) -> bool:
    return Rules(written_by(store).version).skips_directories


def log_damage(
    store: Store, view: View, selection: Selection
) -> tuple[list[Finding], list[StoreError]]:
    """Give the same, and apart what cannot be read."""
    findings: list[Finding] = []
    unread: list[StoreError] = []
    try:
        for defect in log_defects(store, view, selection):
            if defect.code == FS_READ:
                unread.append(UnreadablePath(path=defect.path, reason=defect.actual))
            else:
                findings.append(defect)
    except UnreadablePath as error:
        unread.append(error)
    return findings, unread


def _queues_with_files(store: Store, unread: list[UnreadablePath]) -> int:
    """Count them; a database that cannot be opened is told of, and has none."""
    from rmqtool.queues.discovery import Queues  # asked for seldom

    try:
        with Queues(store) as queues:
            return sum(bool(queue.files) for source in queues.sources for queue in source.queues())
    except UnreadablePath as error:
        unread.append(error)
        return 0


def defect_row(defect: Finding, names: Collection[str]) -> Row:
    """Give the row of a finding, in those of the columns that a table has."""
    unread = defect.actual if defect.code == FS_READ else None
    known = {
        "file": defect.path,
        "segment": defect.path,
        "position": defect.position,
        "physical_offset": defect.physical_offset,
        "topic": defect.topic,
        "queue_id": defect.queue_id,
        "queue_offset": defect.queue_offset,
        "extent": DEFECT,
        "code": str(defect.code),
        "reason": defect.message,
        "unread": unread,
    }
    return {name: value for name, value in known.items() if name in names}


def defect_batch(findings: Iterable[Finding], table: Table) -> pa.RecordBatch:
    """Give the same rows with all columns of a table."""
    import pyarrow as pa

    rows = [dict(defect_row(defect, table.names)) for defect in findings]
    return pa.RecordBatch.from_pylist(rows, table.arrow)
