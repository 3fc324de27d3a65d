"""Edits of `checkpoint`: never later than the data, or recovery begins too late.

Source: StoreCheckpoint, CommitLog#isMappedFileMatchedRecover, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.findings.catalogue import Owner, Severity
from rmqtool.findings.registry_index import IX_CRASH
from rmqtool.findings.registry_state import CP_AHEAD, CP_CONFIRM, CP_LEN, CP_LOGICOFF
from rmqtool.formats.checkpoint import CHECKPOINT, FILE_LENGTH
from rmqtool.repair.log.content import Content
from rmqtool.repair.survey import last_sound
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.index_files import newest_end

if TYPE_CHECKING:
    from rmqtool.findings.finding import Finding
    from rmqtool.repair.survey import LogSurvey
    from rmqtool.repair.writer import EditWriter
    from rmqtool.store.record_heads import LogReader, RecordHead

KEEPS_INDEX: Final = (
    "index_msg_timestamp: the newest entry's time, so that the start keeps the index"
)
INDEX_TIME: Final = "index_msg_timestamp"
INDEX_TIME_END: Final = CHECKPOINT[INDEX_TIME].end
CODES: Final = (CP_AHEAD, CP_LOGICOFF, CP_CONFIRM, CP_LEN)


def edit(writer: EditWriter, survey: LogSurvey, findings: list[Finding], log: LogReader) -> None:
    """Lower what is later than the data; give the file its length."""
    store = survey.inspection.store
    for artefact in store.branches_of(ArtefactKind.CHECKPOINT):
        entry = artefact.place.stat()
        if entry is None:
            continue
        raw = artefact.place.read(FILE_LENGTH).ljust(FILE_LENGTH, b"\0")
        wanted = _true(CHECKPOINT.parse(raw), survey, log)
        is_rebuilt = survey.index_end is not None and survey.inspection.scope.has_crashed
        is_whole = _is_whole(findings)
        if is_rebuilt or keeps_index(survey, findings):
            wanted[INDEX_TIME] = _index_end(survey)
        if entry.size != FILE_LENGTH:
            content = Content.of(CHECKPOINT.build(wanted) + raw[CHECKPOINT.size :])
            writer.replace(artefact.place.location, content, CP_LEN, f"{FILE_LENGTH:,} bytes")
            return
        for name, value in wanted.items():
            position = CHECKPOINT.positions[name]
            content = Content.of(CHECKPOINT[name].build(value))
            code = {"logics_physical_offset": CP_LOGICOFF, "confirm_phy_offset": CP_CONFIRM}
            is_raised = is_whole and name == INDEX_TIME
            writer.write_at(
                (artefact.place.location, entry.size, position), content,
                IX_CRASH if is_raised
                else code.get(name, CP_AHEAD if value or name == INDEX_TIME else CP_LOGICOFF),
                KEEPS_INDEX if is_raised else f"{name}: not later than the data",
            )  # fmt: skip


def keeps_index(survey: LogSurvey, findings: list[Finding]) -> bool:
    """Tell whether a start keeps an index because the repair sets its time in the checkpoint.

    Of a checkpoint that ends before this time no finding tells what a start would destroy.
    """
    if _is_whole(findings):
        return True
    if not survey.inspection.scope.has_crashed or not _is_sound(findings):
        return False
    places = survey.inspection.store.branches_of(ArtefactKind.CHECKPOINT)
    entries = (artefact.place.stat() for artefact in places)
    return any(entry is not None and entry.size < INDEX_TIME_END for entry in entries)


def _is_whole(findings: list[Finding]) -> bool:
    """Tell whether a start would destroy an index that nothing is wrong with."""
    codes = {finding.code for finding in findings if finding.severity is not Severity.NOTE}
    return IX_CRASH in codes and _is_sound(findings)


def _is_sound(findings: list[Finding]) -> bool:
    codes = {finding.code for finding in findings if finding.severity is not Severity.NOTE}
    return not any(code.owner is Owner.INDEX for code in codes)


def _true(fields: dict[str, int], survey: LogSurvey, log: LogReader) -> dict[str, int]:
    """Give the fields, none later than what the repaired store holds."""
    inspection, facts = survey.inspection, survey.facts
    if not facts.is_known:
        return fields
    for name in ("physic_msg_timestamp", "logics_msg_timestamp"):
        fields[name] = min(fields[name], survey.newest_time)
    fields[INDEX_TIME] = min(fields[INDEX_TIME], _index_end(survey))
    fields["confirm_phy_offset"] = min(fields["confirm_phy_offset"], survey.end)
    offset = fields["logics_physical_offset"]
    if not offset or _is_sound_offset(offset, survey, log):
        return fields
    if not inspection.scope.release.records_queued_offset:
        fields["logics_physical_offset"] = 0  # as its brokers leave it
        return fields
    head = _sound_up_to(offset, survey, log)
    fields["logics_physical_offset"] = head.physical_offset if head is not None else 0
    if head is None:
        fields["logics_msg_timestamp"] = 0
    return fields


def _sound_up_to(offset: int, survey: LogSurvey, log: LogReader) -> RecordHead | None:
    """Give the last undamaged record up to a place in the log; None without one."""
    inspection, facts = survey.inspection, survey.facts
    segment = inspection.segment_at(offset) or (
        inspection.store.commitlog.segments[-1] if facts.last_record < offset else None
    )
    head = None
    while segment is not None and head is None:
        position = min(offset, facts.last_record + 1, segment.end) - segment.start
        head = last_sound(log, segment, position, survey.damaged)
        segment = inspection.segment_at(segment.start - 1)
    return head


def _is_sound_offset(offset: int, survey: LogSurvey, log: LogReader) -> bool:
    """Tell whether logicsPhysicalOffset names a record that stays, and not after all queues."""
    facts = survey.facts
    if not facts.is_known or offset < facts.start:
        return offset > 0
    head = log.head_at(offset)
    return head is not None and survey.damaged.at(offset) is None and offset <= facts.last_record


def _index_end(survey: LogSurvey) -> int:
    """Give the store time of the newest entry of the index, ms; 0 without an index."""
    if survey.index_end is not None:
        return survey.index_end
    return newest_end(survey.inspection.store.index_files())
