"""From a store to a plan: validate it, see what is damaged, decide the edits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.broker.conf import (
    FORCES_PROPERTY_CRC,
    MAX_MESSAGE_SIZE,
    ROCKSDB_KEYS,
    ROCKSDB_STORE,
    STORE_TYPE,
)
from rmqtool.check.options import CheckLevel, ValidateOptions
from rmqtool.check.queues.orphans import refused_plain
from rmqtool.check.validate import validate
from rmqtool.errors import NotAStore, UnreadablePath
from rmqtool.findings.catalogue import Area, Severity
from rmqtool.findings.registry_commitlog import CL_FOREIGN, CL_QOFF_GAP
from rmqtool.findings.registry_consume_queue import BQ_UNIT, CQ_RANGE
from rmqtool.findings.registry_index import IX_CRASH, IX_KEY
from rmqtool.findings.registry_layout import (
    FS_DIR,
    FS_DUP,
    FS_LEN,
    FS_LOCK,
    FS_NAME,
    FS_NOLOG,
    FS_ORPHAN,
)
from rmqtool.formats.consume_queue import QueueKind
from rmqtool.ledger.account import LossAccount, may_have_lost
from rmqtool.plural import counted
from rmqtool.repair.edited_place import with_edits
from rmqtool.repair.fingerprint import fingerprint
from rmqtool.repair.log import duplicates
from rmqtool.repair.log.bridge import BridgeMaker
from rmqtool.repair.log.commitlog import LogRepair, tail_of
from rmqtool.repair.log.lost import with_messages
from rmqtool.repair.plans import Action, Plan, place_of
from rmqtool.repair.queues import batch_numbers, ext, topic_names
from rmqtool.repair.queues.queue_files import edit_batch_queues, edit_lengths, edit_queues
from rmqtool.repair.queues.wrong_queue_fields import OF_RECORDS
from rmqtool.repair.queues.wrong_queue_fields import edit as edit_wrong_queues
from rmqtool.repair.queues.wrong_queue_fields import find as find_wrong_queues
from rmqtool.repair.remedies import (
    DLEDGER,
    DUPLICATES,
    FOREIGN,
    NO_LOG,
    UNITS_KEPT,
    is_repaired,
    misnamed,
    named_as_found,
    odd_names,
    remedy,
    with_filled_orphans,
)
from rmqtool.repair.replica.merge_edits import NOTHING_LENT, folded, settle
from rmqtool.repair.state import (
    absent,
    checkpoint,
    config,
    fast_start,
    index,
    redispatch,
    timer,
)
from rmqtool.repair.state.config import missing_topics, restore_topics
from rmqtool.repair.survey import LogSurvey
from rmqtool.repair.writer import EditWriter, directories_above
from rmqtool.store.address import place_of as place_of_store
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.broker_conf import places_elsewhere
from rmqtool.store.entry import EntryKind
from rmqtool.store.moment import looked_again
from rmqtool.store.record_heads import LogReader
from rmqtool.store.segment import start_of
from rmqtool.store.tree import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.report import Summary
    from rmqtool.findings.finding import Finding
    from rmqtool.repair.log.stretches import Damaged
    from rmqtool.repair.options import RepairOptions
    from rmqtool.repair.plans import Edit
    from rmqtool.repair.queues.wrong_queue_fields import WrongQueue
    from rmqtool.repair.replica.merge_edits import Lent
    from rmqtool.startup.prediction import Prediction
    from rmqtool.store.segment import MappedFiles
    from rmqtool.store.tree import Store

QUEUE_AREAS: Final = frozenset({Area.CONSUME_QUEUE, Area.LAYOUT, Area.COMMITLOG})

# What a broker that runs goes on to write, and a validation judges up to a cut.
WRITTEN_ON: Final = QUEUE_AREAS | {Area.BATCH_QUEUE, Area.EXTENSION, Area.INDEX, Area.CHECKPOINT}
ROUNDS: Final = 3  # of looking for records in a wrong queue: each reads the log once more


class Examined(NamedTuple):
    """A plan, and the validation that it was made of."""

    plan: Plan  # what a repair would do
    findings: list[Finding]  # of the validation, but for the lock's
    summary: Summary  # of the validation
    account: LossAccount | None  # what is lost already; None where that cannot be counted


def make_plan(
    options: RepairOptions, watch: Callable[[int], None] = lambda _: None, *, is_kept: bool = True
) -> Plan:
    """Decide what a repair would do; nothing is written. See `examine`.

    Args:
        options: what is asked.
        watch: takes the bytes of the log done since it was last called.
        is_kept: whether it may be applied; if not, the files of the store are not listed for it.
    """

    def made() -> Plan:
        plan = _examined(options, watch, None).plan
        if is_kept:
            plan.fingerprint = fingerprint(place_of_store(options.store))
        return plan

    return looked_again(made)


def examine(
    options: RepairOptions,
    watch: Callable[[int], None] = lambda _: None,
    foretell: Callable[[list[Finding], Summary], Prediction | None] | None = None,
) -> Examined:
    """Validate a store and decide what a repair would do, the log read once; nothing is written.

    The plan has no fingerprint, and cannot be applied.

    Beside a running broker all is done again where a file is deleted meanwhile.

    Args:
        options: what is asked.
        watch: takes the bytes of the log done since it was last called.
        foretell: predicts the next start, by what the validation found; None where that cannot be
            done. Without it a start is predicted where the plan needs it.

    Raises:
        NotAStore: this is not a whole store.
        UnsupportedStore: it cannot be repaired offline.
        UnreadablePath: something of the log cannot be read; copy the disk first.
    """
    return looked_again(lambda: _examined(options, watch, foretell))


def _examined(
    options: RepairOptions,
    watch: Callable[[int], None],
    foretell: Callable[[list[Finding], Summary], Prediction | None] | None,
) -> Examined:
    lent = _lent(options, options.replica) if options.replica is not None else NOTHING_LENT
    root = place_of_store(options.store)
    store = open_store(with_edits(root, lent.edits), options.broker_conf)
    if store.asked.kind is not ArtefactKind.STORE:
        raise NotAStore(path=str(store.root), reason="only a whole store can be repaired")
    survey, seen, summary = _look(options, store, watch)
    findings = seen
    with LogReader(store.old_commitlog, store.commitlog) as log:
        field_edits = [] if store.is_dledger else _field_edits(survey.inspection, seen, log)
    doubtful = seen
    if field_edits:  # all that follows is judged with the fields put back
        survey.queues.close()
        lent = lent._replace(edits=folded(lent.edits, field_edits, root))
        store = open_store(with_edits(root, lent.edits), options.broker_conf)
        survey, seen, _ = _look(options, store, lambda _: None)
        doubtful = seen
    survey, seen, obstacle = _with_wrong_queues(options, store, survey, seen)
    plan = _decide(options, store, survey, (seen, obstacle))
    if options.replica is not None or field_edits:
        settle(plan, lent, root)
    repeated = 0 if obstacle else sum(_lost(survey))
    del survey  # of many queues it takes as much memory as what counts the loss
    prediction = foretell(findings, summary) if foretell else None
    account: LossAccount | None = LossAccount()
    if prediction is not None or may_have_lost(summary.codes):
        account = _account(options, summary, prediction)
    if account is None and not obstacle:
        account = LossAccount(repeated)
    if account != LossAccount() or any(
        finding.severity is not Severity.NOTE for finding in findings
    ):
        from rmqtool.query.lost import lost_messages  # of a sound store nothing is lost

        plan.lost_messages = lost_messages(store, doubtful, account and account.numbers)
        plan.edits = [*with_messages(plan.edits, plan.lost_messages)]
    if account is not None and account.messages:
        plan.notes.insert(0, f"{account.sentence()}: see `lost_messages`")
    elif plan.lost_messages:
        doubtful_count = counted(len(plan.lost_messages), "doubtful message")
        plan.notes.insert(0, f"{doubtful_count}: see `lost_messages`")
    return Examined(plan, findings, summary, account)


def _account(
    options: RepairOptions, summary: Summary, prediction: Prediction | None
) -> LossAccount | None:
    from rmqtool.startup.account import account_of, counted_by  # most stores have lost nothing

    if prediction is not None:
        return counted_by(prediction)
    store = open_store(options.store, options.broker_conf)
    return account_of(store, summary.codes, options.broker_version)


def _field_edits(inspection: Inspection, findings: list[Finding], log: LogReader) -> list[Edit]:
    """Give the edits of what records say wrongly, and what something else tells."""
    return [
        *batch_numbers.edits(inspection, findings, log),
        *topic_names.edits(inspection, findings, log),
    ]


def _with_wrong_queues(
    options: RepairOptions, store: Store, survey: LogSurvey, seen: list[Finding]
) -> tuple[LogSurvey, list[Finding], str]:
    """Judge the queues, with the records in their own ones that say that they are in others."""
    obstacle = _judge_queues(survey, seen)
    known: list[WrongQueue] = []
    for _ in range(0 if store.is_dledger else ROUNDS):
        more = [] if obstacle else _more_wrong_queues(survey, seen, known)
        if not more:
            break
        known += more  # with their units in other queues, all later ones are judged anew
        survey.queues.close()
        survey, seen, _ = _look(options, store, lambda _: None, known)
        obstacle = _judge_queues(survey, seen)
    return survey, seen, obstacle


def _more_wrong_queues(
    survey: LogSurvey, seen: list[Finding], known: list[WrongQueue]
) -> list[WrongQueue]:
    """Find the misplaced records that are not known: one hides another one in its queue."""
    store, places = survey.inspection.store, {record.physical_offset for record in known}
    moved = ((record.physical_offset, record.size) for record in survey.moved)
    with LogReader(store.old_commitlog, store.commitlog) as log:
        wrong_queues = find_wrong_queues(survey.inspection, survey.queues, seen, moved, log)
    return [record for record in wrong_queues if record.physical_offset not in places]


def _lent(options: RepairOptions, replica: str) -> Lent:
    from rmqtool.repair.replica.candidates import borrow  # few repairs have one

    return borrow(options, replica)


def _look(
    options: RepairOptions,
    store: Store,
    watch: Callable[[int], None],
    wrong_queues: Sequence[WrongQueue] = (),
) -> tuple[LogSurvey, list[Finding], Summary]:
    """Validate, and see what is damaged."""
    survey = LogSurvey(
        _maker(store), bridges_missing=options.bridge_missing, wrong_queues=wrong_queues
    )
    asked = ValidateOptions(
        options.store,
        level=CheckLevel.FULL,
        broker_version=options.broker_version,
        broker_conf=options.broker_conf,
        jobs=options.jobs,
    )
    checks = validate(asked, watch, survey, store.root)
    findings = [check for check in checks if check.code != FS_LOCK]  # no repair ends a broker
    _refuse_unread(store, checks.summary.account.unread)
    survey.queues.unread = set(checks.summary.account.unread)
    return survey, findings, checks.summary


def _judge_queues(survey: LogSurvey, findings: list[Finding]) -> str:
    """Judge what queues hold, and what they tell of the log; say what stands in the way of it."""
    inspection = survey.inspection
    codes = {finding.code for finding in findings if finding.severity is not Severity.NOTE}
    obstacle = _obstacle(survey, findings)
    if not obstacle and survey.facts.is_known and inspection.scope.compares_queues:
        survey.forget_unused()
        judge, batches = survey.queues.judge, survey.queues.batches
        judge.tail, judge.smallest_bridge = tail_of(survey), survey.maker.smallest
        batches.finish(judge.tail)
        judge.tail_end = batches.tail_end
        is_harmed = any(code.area in QUEUE_AREAS for code in codes)
        survey.queues.finish(all_queues=is_harmed or survey.queues.is_crashed)
        survey.bridge_early()
    elif not obstacle and survey.facts.is_known:
        survey.queues.judge.tail = _without_room(survey)
    return obstacle


def _without_room(survey: LogSurvey) -> Damaged | None:
    """Give a tail that has no room for a bridge, of a log whose queues are not in files.

    It is zeroed. A longer one is bridged: units of a database may point there.
    """
    tail = tail_of(survey)
    torn = None if tail is None else survey.damaged.at(tail.start)
    return tail if torn is not None and torn.length < survey.maker.smallest else None


def _decide(
    options: RepairOptions, store: Store, survey: LogSurvey, judged: tuple[list[Finding], str]
) -> Plan:
    findings, obstacle = judged
    inspection = survey.inspection
    writer = EditWriter(store.root)
    _take_out_foreign(writer, inspection, findings)
    wanted = missing_topics(survey) if options.reset_config and not obstacle else {}
    with LogReader(store.old_commitlog, store.commitlog) as log:
        if not obstacle:
            duplicates.edit(writer, duplicates.copies(store.commitlog) or {})
            if not store.is_dledger:
                LogRepair(survey, writer, log, options.bridge_missing).edit()
                survey.queues.light_numbers.edit(writer, inspection.segment_at)
                edit_wrong_queues(writer, survey.wrong_queues, inspection.segment_at)
            if inspection.scope.compares_queues:
                edit_queues(writer, survey.queues, inspection, wanted)
                survey.queues.torn.edit(writer, survey.queues.light_numbers.mended)
                edit_batch_queues(writer, survey.queues.batches, inspection, wanted)
                ext.edit(writer, inspection, survey.queues.bad_ext, findings)
            if not survey.facts.is_known and not inspection.scope.has_rocksdb_queues:
                edit_lengths(writer, survey.queues, inspection)
            index.edit(writer, survey, findings, options.jobs)
            checkpoint.edit(writer, survey, findings, log)
            timer.edit(writer, survey, findings)
            redispatch.edit(writer, survey, findings)
            _edit_database(writer, survey, findings)
        # Where queues end nobody knows while the log cannot be judged.
        clamp = (options.clamp_offsets or options.reset_config) and not obstacle
        config.edit(writer, survey, findings, clamp=clamp, options=options)
        absent.edit(writer, survey, findings, obstacle, resets=options.reset_config)
        restore_topics(writer, survey, wanted)
        fast_start.edit(writer, survey, findings, is_asked=options.fast_start)
    survey.queues.close()
    if any(gap.given_up for gap in survey.early):  # what points under such a blank has a bridge now
        findings = [finding for finding in findings if finding.code not in {IX_KEY, CL_QOFF_GAP}]
    _leave(writer, survey, findings, obstacle)
    _name_index(writer, store)
    if store.moment.is_live:
        writer.edits = _answering(writer.edits, findings)
    writer.edits = [*named_as_found(writer.edits, judged[0])]
    return Plan(
        store.root.location,
        str(inspection.scope.version),
        edits=writer.edits,
        left=writer.left,
        notes=[] if obstacle else list(_notes(survey)),
        elsewhere=places_elsewhere(store.root, store.broker_conf),
        broker_conf=options.broker_conf,
    )


def _answering(edits: list[Edit], findings: list[Finding]) -> list[Edit]:
    """Leave out what a running broker did since the log was read: no finding is about that."""
    codes = {finding.code for finding in findings if finding.severity is not Severity.NOTE}
    return [edit for edit in edits if edit.code in codes or edit.code.area not in WRITTEN_ON]


def _leave(writer: EditWriter, survey: LogSurvey, findings: list[Finding], obstacle: str) -> None:
    """Take note of the findings that no edit answers, each with what helps."""
    away = writer.take_along()
    rebuilds = any(edit.action is Action.REBUILD for edit in writer.edits)
    unread = survey.inspection.account.unread
    for finding in with_filled_orphans(findings, writer.edits):
        is_away = any(above in away for above in directories_above(finding.path))
        is_away |= finding.code == FS_LEN and finding.path in away  # what is gone has no length
        if is_away or _is_answered(finding, survey, writer, rebuilds=rebuilds):
            continue
        if survey.queues.is_kept(finding):
            writer.leave(finding.code, finding.path, finding.message, UNITS_KEPT)
            continue
        is_kept = finding.code == BQ_UNIT and survey.queues.batches.keeps(finding)
        is_kept |= survey.inspection.scope.has_rocksdb_queues and finding.code in OF_RECORDS
        is_left = is_kept or not is_repaired(finding, writer, obstacle)
        if finding.severity is not Severity.NOTE and is_left:
            writer.leave(
                finding.code, finding.path, finding.message, remedy(finding, obstacle, unread)
            )


def _name_index(writer: EditWriter, store: Store) -> None:
    """Name all files of the index as they will be, where a start destroys those that were there.

    The newest one comes back: which one that is, edits change.
    """
    left = next((left for left in writer.left if left.code == IX_CRASH), None)
    if left is None:
        return
    named = {known.path for known in writer.left if known.code == IX_CRASH}
    paths = [file.path for file in store.index_files()]
    paths += [edit.path for edit in writer.edits if edit.path.startswith("index/")]
    named |= {edit.path for edit in writer.edits if edit.action is Action.REMOVE}
    for path in dict.fromkeys(paths):
        if path not in named:
            writer.leave(IX_CRASH, path, left.message, left.why)


def _edit_database(writer: EditWriter, survey: LogSurvey, findings: list[Finding]) -> None:
    """Write queues, and the key index, in RocksDB anew, where they lie there and need it."""
    store = survey.inspection.store
    field_edits = store.broker_conf
    is_given = STORE_TYPE.of(field_edits) == ROCKSDB_STORE or any(
        key.of(field_edits) for key in ROCKSDB_KEYS
    )
    if not survey.facts.is_known or not (is_given or store.rocksdb()):
        return
    from rmqtool.repair import rocksdb  # few stores have it

    rocksdb.edit(writer, store, findings)
    rocksdb.edit_index(writer, store, findings)
    if store.moment.is_live:
        writer.edits = _answering(writer.edits, findings)
    rocksdb.name_orphans(writer, survey, findings)


def _is_answered(
    finding: Finding, survey: LogSurvey, writer: EditWriter, *, rebuilds: bool
) -> bool:
    """Tell whether an edit answers a finding that knows nothing of it."""
    if survey.queues.light_numbers.is_answered(finding) or survey.queues.torn.is_reported(finding):
        return True
    if redispatch.is_answered(finding, survey, writer) or survey.closes_gap(finding):
        return True
    if rebuilds:
        from rmqtool.repair import rocksdb  # few stores have it

        if rocksdb.is_answered(finding, writer):
            return True
    return any(record.is_answered(finding) for record in survey.wrong_queues)


def _refuse_unread(store: Store, unread: Mapping[str, UnreadablePath]) -> None:
    """Refuse a log that cannot be read in whole, and a directory that cannot be listed.

    What seems to be missing may be there.

    Raises:
        UnreadablePath: there is one.
    """
    logs = [artefact.path for artefact in store.branches_of(ArtefactKind.COMMITLOG)]
    for path, error in unread.items():
        if any(f"{path}/".startswith(f"{log}/") for log in logs):
            location = place_of(store.root, path).location
            raise UnreadablePath(path=location, reason=error.reason, trouble=error.trouble)
        place = place_of(store.root, path)
        entry = place.stat()
        if entry is not None and entry.kind is EntryKind.DIRECTORY:
            place.names()


def _notes(survey: LogSurvey) -> Iterator[str]:
    """Sum up what is lost to consumers."""
    counts = _lost(survey)
    if counts:
        queues = counted(len(counts), "queue")
        messages = counted(sum(counts), "neighbouring message")
        yield f"consumers of {queues} receive {messages} again"
    if count := sum(damaged.given_up for damaged in survey.damaged):
        beside = "the damage beside it is shorter than a bridge"
        yield f"{counted(count, 'whole message')} more will be lost: {beside}"


def _lost(survey: LogSurvey) -> list[int]:
    """Give how many messages each queue has lost, of those that have lost any."""
    queues = survey.queues.queues.values()
    lost = [[patch.end - patch.number for patch in queue.patches if patch.lost] for queue in queues]
    return [sum(numbers) for numbers in lost if numbers]


def _obstacle(survey: LogSurvey, findings: list[Finding]) -> str:
    """Say why log, queues and index cannot be judged against each other; empty when they can."""
    store = survey.inspection.store
    log = store.commitlog
    if store.is_dledger:
        is_damaged = len(survey.damaged) or any(
            finding.code.area is Area.DLEDGER for finding in findings
        )
        return DLEDGER if is_damaged else ""
    if why := _misplaced(survey, log, findings) or next(
        iter(odd_names(log, store.root).values()), ""
    ):
        return why
    is_empty = not any(facts.is_used for facts in survey.segments.values())
    if any(
        finding.code == FS_NOLOG or (is_empty and finding.code == CQ_RANGE) for finding in findings
    ):
        return NO_LOG  # files without a record are none, where queues point into a log
    if any(finding.code == FS_DUP for finding in findings) and duplicates.copies(log) is None:
        return DUPLICATES
    return ""


def _misplaced(survey: LogSurvey, log: MappedFiles, findings: list[Finding]) -> str:
    """Say what to do about a file of the log that lies where it does not belong; else nothing."""
    length, moved = log.file_length, survey.moved_files()
    unused = {start for start, facts in survey.segments.items() if not facts.is_used}
    for segment in log.segments:
        if segment.start in moved or (length and segment.start % length):
            return misnamed(segment, log, moved, unused)
    return FOREIGN if any(finding.code == CL_FOREIGN for finding in findings) else ""


def _maker(store: Store) -> BridgeMaker:
    conf = store.broker_conf
    return BridgeMaker(MAX_MESSAGE_SIZE.of(conf), FORCES_PROPERTY_CRC.of(conf))


def _take_out_foreign(writer: EditWriter, inspection: Inspection, findings: list[Finding]) -> None:
    """Take out what no broker can load: foreign names, directories among mapped files.

    A log under a wrong name is for a person to decide, and records never go; a queue is made anew
    from the log.
    """
    store = inspection.store
    kept = odd_names(store.commitlog, store.root) | odd_names(store.old_commitlog, store.root)
    refused = refused_plain(inspection)
    for finding in findings:
        name = finding.path.rpartition("/")[2]
        is_foreign = finding.code == FS_NAME and (
            start_of(name) is None or finding.topic is not None
        )
        is_plain = finding.path.startswith(f"{QueueKind.CONSUME_QUEUE}/")
        is_wrong_kind = finding.code == FS_ORPHAN and is_plain and finding.topic in refused
        if not (is_foreign or is_wrong_kind or finding.code == FS_DIR) or finding.path in kept:
            continue
        place = place_of(inspection.store.root, finding.path)
        if place.stat() is not None:
            reason = "no broker can load this from here; it is kept in the undo directory"
            writer.remove(place.location, finding.code, reason)
