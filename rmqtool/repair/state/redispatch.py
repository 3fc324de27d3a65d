"""Let the next start hand messages over where `compaction/` lacks them, or `rocksdbstore` is gone.

A broker does it after a crash, for all that recovery comes to: with `abort`, and without the
checkpoint that says where to begin. It passes over what the compaction log has.
Source: DefaultMessageStore#load, CommitLog#recoverAbnormally, CompactionLog#asyncPutMessage, 5.1.0
to 5.5.0; TransMessageRocksDBStore, IndexRocksDBStore, 5.5.0; observed, 5.3.3 and 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.broker.conf import RECOVERED_FILES
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.registry_consume_queue import CC_BEHIND
from rmqtool.findings.registry_rocksdb import RI_ENTRY, RX_HALF
from rmqtool.formats.rocksdb_databases import MESSAGE_STORE
from rmqtool.repair.log.content import Content
from rmqtool.store.artefact import ArtefactKind

if TYPE_CHECKING:
    from rmqtool.findings.finding import Finding
    from rmqtool.repair.survey import LogSurvey
    from rmqtool.repair.writer import EditWriter

ABORT: Final = "the next start recovers as after a crash, and hands the messages over"
OF_DATABASE: Final = (RI_ENTRY, RX_HALF)  # timers come again: their queue is read from its begin
CHECKPOINT: Final = "without it the next start begins with the first file of the log"


def edit(writer: EditWriter, survey: LogSurvey, findings: list[Finding]) -> None:
    """Make the next start one after a crash that begins with the first file, if it is needed.

    Nothing is done where such a start would not come to all files, or goes by a database.
    """
    inspection = survey.inspection
    store = inspection.store
    codes = [finding.code for finding in findings if is_dispatched_again(finding, survey)]
    if not codes or inspection.scope.has_rocksdb_queues:
        return
    count = len(store.commitlog.segments)
    reach = RECOVERED_FILES.of(store.broker_conf)
    if inspection.scope.release.recovers_newest_only and count > reach:
        return
    for artefact in store.branches_of(ArtefactKind.CHECKPOINT):
        if artefact.place.stat() is not None:
            path = writer.path(artefact.place.location)
            writer.edits = [edit for edit in writer.edits if edit.path != path]
            writer.remove(artefact.place.location, codes[0], CHECKPOINT)
    if store.abort is None:
        location = store.root.child("abort").location
        writer.create(location, Content.of(b""), codes[0], ABORT)


def is_dispatched_again(finding: Finding, survey: LogSurvey) -> bool:
    """Tell whether a start that hands all of the log over answers a finding."""
    if finding.code == CC_BEHIND:
        return finding.severity is Severity.DAMAGE
    is_gone = survey.inspection.child(MESSAGE_STORE).stat() is None
    return finding.code in OF_DATABASE and is_gone and not survey.inspection.scope.has_crashed


def is_answered(finding: Finding, survey: LogSurvey, writer: EditWriter) -> bool:
    """Tell whether the edits make such a start, and a finding is answered by it."""
    if not is_dispatched_again(finding, survey):  # first: a plan may have a great many edits
        return False
    return any(edit.path == ArtefactKind.ABORT for edit in writer.edits)
