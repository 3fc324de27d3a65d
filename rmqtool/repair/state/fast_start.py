"""Spare a broker the long recovery after a crash, where a validation has proven what it looks for.

Without `abort` a broker trusts its queues and its index, and reads the end of the log only. That is
right where every record has its unit and nothing is wrong, and else loses messages.
Source: DefaultMessageStore#load, #isTempFileExist, CommitLog#recoverNormally, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.findings.catalogue import Severity
from rmqtool.findings.registry_commitlog import CL_FIELD, CL_TOPIC
from rmqtool.findings.registry_index import IX_CRASH
from rmqtool.findings.registry_state import AB_PRESENT, CP_ZERO
from rmqtool.formats.checkpoint import CHECKPOINT
from rmqtool.repair.log.content import Content
from rmqtool.store.artefact import ArtefactKind

if TYPE_CHECKING:
    from rmqtool.findings.finding import Finding
    from rmqtool.repair.survey import LogSurvey
    from rmqtool.repair.writer import EditWriter

CHECKED: Final = frozenset({"CL", "CQ", "BQ", "CX", "IX", "CP"})
HARMLESS: Final = frozenset({IX_CRASH, CL_FIELD, CL_TOPIC})  # no recovery does anything about them
RAISED: Final = ("physic_msg_timestamp", "logics_msg_timestamp")
PROVEN: Final = "every record has its units and entries: the newest record is the proven end"
ABORT: Final = "the next start recovers as after a clean stop; undo brings it back"
NO_LOG: Final = "the log could not be compared with queues of files"


def edit(writer: EditWriter, survey: LogSurvey, findings: list[Finding], *, is_asked: bool) -> None:
    """Raise the times of the checkpoint to what is proven, and take `abort` out; or say why not."""
    abort = survey.inspection.store.abort
    if abort is None or not is_asked:
        return  # without it the next start is a fast one
    if reason := _in_the_way(writer, survey, findings):
        message = "abort stays: without it a start could lose messages"
        writer.leave(AB_PRESENT, abort.path, message, reason)
        return
    for artefact in survey.inspection.store.branches_of(ArtefactKind.CHECKPOINT):
        entry = artefact.place.stat()
        if entry is None:
            continue
        fields = CHECKPOINT.parse(artefact.place.read(CHECKPOINT.size))
        for name in RAISED:
            value = max(fields[name], survey.newest_time)
            content = Content.of(CHECKPOINT[name].build(value))
            place = (artefact.place.location, entry.size, CHECKPOINT.positions[name])
            writer.write_at(place, content, AB_PRESENT, f"{name}: {PROVEN}")
    writer.remove(abort.place.location, AB_PRESENT, ABORT)


def _in_the_way(writer: EditWriter, survey: LogSurvey, findings: list[Finding]) -> str:
    """Say why recovery must not be spared; empty where nothing speaks against it."""
    inspection = survey.inspection
    is_compared = survey.facts.is_known and inspection.scope.compares_queues
    if not is_compared or inspection.scope.has_rocksdb_queues or inspection.store.is_dledger:
        return NO_LOG
    if writer.edits or writer.left:
        return "repair the store first, then use --fast-start again"
    has_checkpoint = any(
        artefact.place.stat() is not None
        for artefact in inspection.store.branches_of(ArtefactKind.CHECKPOINT)
    )
    harmless = HARMLESS | {CP_ZERO} if has_checkpoint else HARMLESS  # its times are written below
    for finding in findings:
        if finding.severity is not Severity.NOTE or (
            finding.code.prefix in CHECKED and finding.code not in harmless
        ):
            return f"recovery is needed for {finding.code}: {finding.message}"
    return ""
