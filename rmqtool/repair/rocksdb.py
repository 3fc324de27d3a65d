"""Queues in RocksDB: one edit, the database written anew from the log as the other edits leave it.

Holes get the unit that consumers pass over, lost messages too; `max` rows and CHECKPOINT follow
from the log. The database that was there is kept in the undo directory, or left out of the copy.
RocksDB's own repair is never run. Source: observed, 5.3.3 and 5.5.0, which start on the result.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from rmqtool.broker.names import is_deleted
from rmqtool.check.queues.orphans import is_past, of_made, queue_counts
from rmqtool.errors import EngineMissing, UnreadablePath
from rmqtool.findings.catalogue import Owner, Severity
from rmqtool.findings.registry_layout import FS_ORPHAN
from rmqtool.findings.registry_rocksdb import (
    RD_BLOCK,
    RD_BOTH,
    RD_KEY,
    RD_META,
    RD_OPEN,
    RD_ORPHAN,
    RD_VERSION,
    RI_ENTRY,
    RQ_BEHIND,
    RQ_PAIR,
    RQ_UNIT,
)
from rmqtool.formats import config_shapes
from rmqtool.formats.config_names import TOPICS_JSON
from rmqtool.formats.rocksdb_databases import MESSAGE_STORE
from rmqtool.queues.discovery import Queues
from rmqtool.rebuild.in_place import stage
from rmqtool.rebuild.options import RebuildOptions, StoreType, Target
from rmqtool.rebuild.rocksdb_index import is_in_rocksdb
from rmqtool.rebuild.sinks import CountingSink, WritingSink
from rmqtool.rebuild.store_type import missing_database, missing_files, placement
from rmqtool.rebuild.work import rebuild_from, run
from rmqtool.repair.edited_place import with_edited_parts
from rmqtool.repair.plans import QUEUE_DIRECTORIES, Action, Edit
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.rocksdb import is_queue_database
from rmqtool.store.tree import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rmqtool.check.inspection import Inspection
    from rmqtool.findings.finding import Finding
    from rmqtool.repair.plans import Plan
    from rmqtool.repair.survey import LogSurvey
    from rmqtool.repair.writer import EditWriter
    from rmqtool.store.tree import Store
    from rmqtool.writing.edits import Transaction
    from rmqtool.writing.lock import StoreLock
    from rmqtool.writing.output_tree import OutputTree

OF_DATABASE: Final = (RD_OPEN, RD_ORPHAN, RD_BLOCK, RD_META, RD_VERSION, RD_KEY)
WRITTEN_ANEW: Final = "the queues in RocksDB are rebuilt from the log"
MISSING: Final = "the queues in RocksDB are missing: they are written from the log"
MISSING_FILES: Final = "the queues in files are missing: both parts are written from the log"
INDEXED_ANEW: Final = "the key index in RocksDB is rebuilt from the log; timers are kept"
FOLLOWS: Final = f"{WRITTEN_ANEW}, which has other records now"


def edit(writer: EditWriter, store: Store, findings: list[Finding]) -> None:
    """Plan to write the database anew, where it or the log needs it.

    Args:
        writer: has the edits of all others; those of queues in files beside the database go, as
            both are written anew.
        store: has queues in RocksDB, or ought to.
        findings: what validation found.
    """
    paths = [database.path for database in store.rocksdb() if is_queue_database(database.path)]
    if missing := missing_database(store):
        writer.edits = [edit for edit in writer.edits if not _is_replaced(edit, [missing])]
        writer.edits.append(Edit(Action.REBUILD, missing, 0, 0, 0, "", "", RD_OPEN, MISSING))
        return
    if paths and missing_files(store):
        writer.edits = [edit for edit in writer.edits if not _is_replaced(edit, paths)]
        edit_both = Edit(Action.REBUILD, paths[0], 0, 0, 0, "", "", RQ_PAIR, MISSING_FILES)
        writer.edits.append(edit_both)
        return
    answered = [finding for finding in findings if _is_of_queues(finding, paths)]
    is_log_edited = _is_log_edited(writer, store)
    if not paths or any(finding.code == RD_BOTH for finding in findings):
        return
    if not is_log_edited and not any(_needs_it(finding) for finding in answered):
        return
    code = max(answered, key=_needs_it).code if answered else RQ_UNIT
    reason = WRITTEN_ANEW if answered else FOLLOWS
    writer.edits = [edit for edit in writer.edits if not _is_replaced(edit, paths)]
    writer.edits.append(Edit(Action.REBUILD, paths[0], 0, 0, 0, "", "", code, reason))


def edit_index(writer: EditWriter, store: Store, findings: list[Finding]) -> None:
    """Plan to write the key index in RocksDB anew, where it or the log needs it.

    Timers and open halves of the same database are kept; so one that cannot be read stays.
    """
    if any(
        finding.code in OF_DATABASE and is_below(finding.path, MESSAGE_STORE)
        for finding in findings
    ):
        return
    needed = any(finding.code == RI_ENTRY for finding in findings) or _is_log_edited(writer, store)
    is_there = any(database.path == MESSAGE_STORE for database in store.rocksdb())
    if needed and is_there and is_in_rocksdb(store):
        writer.edits.append(
            Edit(Action.REBUILD, MESSAGE_STORE, 0, 0, 0, "", "", RI_ENTRY, INDEXED_ANEW)
        )


def name_orphans(writer: EditWriter, survey: LogSurvey, findings: list[Finding]) -> None:
    """Name topics that get queues past their configuration, as a validation will do after it.

    A database that cannot be read does not tell which queues it will have: the log does. Nor does
    it tell which topics were deleted; one that can be read does, and these get no queue.

    Args:
        writer: has the edits of the log, and that of the database.
        survey: of the store.
        findings: what validation found; topics that it names are left by these.
    """
    inspection, store = survey.inspection, survey.inspection.store
    document = inspection.document(TOPICS_JSON)
    rebuilt = [edit for edit in writer.edits if edit.action is Action.REBUILD]
    paths = [edit.path for edit in rebuilt if edit.path != MESSAGE_STORE]
    if document is None or not paths:
        return
    counts, path = queue_counts(document), paths[0].rpartition("/")[0] or paths[0]
    known = {finding.topic for finding in findings if finding.code == FS_ORPHAN}
    is_read = bool(inspection.units("rocksdb"))
    names = survey.ranges.names() if is_read else _dispatched(writer, inspection)
    in_rocksdb, was_deleted = placement(store).in_rocksdb, deleted_topics(store, writer.edits)
    for topic in dict.fromkeys(topic for topic, number in names if is_past(counts, topic, number)):
        if topic in known or not in_rocksdb(topic) or was_deleted(topic):
            continue
        if why := of_made(counts, topic, has_metadata_2=inspection.scope.has_metadata_2):
            writer.leave(FS_ORPHAN, path, why, FS_ORPHAN.remedy)


def deleted_topics(store: Store, edits: Iterable[Edit]) -> Callable[[str], bool]:
    """Tell which topics were deleted, as far as the database tells: see `names.is_deleted`.

    Args:
        store: whose database tells which topics have a queue.
        edits: of a plan, which may put topics back.
    """
    config = with_edited_parts(store, edits, {ArtefactKind.CONFIG}).config(TOPICS_JSON)
    configured = {topic.topic for topic in config_shapes.topics(config.document)}
    with suppress(UnreadablePath, EngineMissing), Queues(store) as queues:
        if (source := queues.database.source) is not None:
            left = frozenset([*source.topics(), *queues.files.topics()])
            return partial(is_deleted, configured=configured, left=left)
    return _was_not


def _was_not(_topic: str) -> bool:
    """Say of each topic that it was not deleted: nothing tells."""
    return False


def _dispatched(writer: EditWriter, inspection: Inspection) -> list[tuple[str, int]]:
    """Give the queues that the log asks for, as the edits leave it."""
    store, release = inspection.store, str(inspection.scope.version)
    options = RebuildOptions(
        store.root.location, Target.QUEUES, dry_run=True, broker_version=release
    )
    edited = with_edited_parts(store, writer.edits, {ArtefactKind.COMMITLOG})
    queues = run(edited, options, CountingSink(), lambda _: None).queues
    return [(queue.topic, queue.queue_id) for queue in queues if not queue.left_out]


def is_answered(finding: Finding, writer: EditWriter) -> bool:
    """Tell whether writing the database anew answers a finding."""
    paths = {edit.path for edit in writer.edits if edit.action is Action.REBUILD}
    if finding.code == RI_ENTRY:
        return MESSAGE_STORE in paths
    queues = [*(paths - {MESSAGE_STORE})]
    return bool(queues) and _is_of_queues(finding, queues)


def _is_of_queues(finding: Finding, paths: list[str]) -> bool:
    if finding.code.name.startswith("RQ-"):
        return True
    is_of_units = finding.code in OF_DATABASE or finding.code.owner is Owner.QUEUES
    return is_of_units and any(is_below(finding.path, path) for path in paths)


def is_below(path: str, directory: str) -> bool:
    """Tell whether a path is a directory, or lies below it."""
    return f"{path}/".startswith(f"{directory}/")


def _is_log_edited(writer: EditWriter, store: Store) -> bool:
    logs = [artefact.path for artefact in store.branches_of(ArtefactKind.COMMITLOG)]
    return any(is_below(edit.path, log) for edit in writer.edits for log in logs)


def _needs_it(finding: Finding) -> bool:
    """Tell whether a broker would not put it right: what it dispatches next time is no matter."""
    if finding.code == RQ_BEHIND:
        return finding.severity is Severity.DAMAGE
    return finding.severity is not Severity.NOTE


def _is_replaced(edit: Edit, paths: list[str]) -> bool:
    first = edit.path.partition("/")[0]
    return first in QUEUE_DIRECTORIES or first in paths


def stage_in_store(plan: Plan, edit: Edit, lock: StoreLock, edits: Transaction) -> None:
    """Stage a database in the transaction of the other edits, from the log as these leave it.

    Raises:
        RepairError: the log is a link to a place that no configuration names.
        WriteFailed: the system refused.
    """
    options = _options(plan, edit)
    stage(lock, edits, options, lambda sink: rebuild_from(_repaired(plan), options, sink))


def write_in_copy(plan: Plan, edit: Edit, tree: OutputTree) -> None:
    """Write a database anew in a repaired copy, which has all but what is written anew.

    Raises:
        WriteFailed: the system refused.
    """
    rebuild_from(_repaired(plan), _options(plan, edit), WritingSink(tree.subtree))


def _repaired(plan: Plan) -> Store:
    store = open_store(plan.store, plan.broker_conf)
    return with_edited_parts(store, plan.edits, {ArtefactKind.COMMITLOG})


def _options(plan: Plan, edit: Edit) -> RebuildOptions:
    is_index = edit.path == MESSAGE_STORE
    return RebuildOptions(
        plan.store,
        Target.INDEX if is_index else Target.QUEUES,
        store_type=StoreType.ROCKSDB if is_index else None,
        dry_run=True,
        broker_version=plan.broker_version,
        broker_conf=plan.broker_conf,
        is_deleted=deleted_topics(open_store(plan.store, plan.broker_conf), plan.edits),
    )
