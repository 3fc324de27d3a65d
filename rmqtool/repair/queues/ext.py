"""Edits of consume queue extensions: one that no broker can follow is taken out.

A broker that recovers an extension goes by the sizes of its units, and one that leads astray keeps
it from starting. The queue's units get plain tags codes instead of addresses (`queues`): only bit
maps of filters are lost. Source: ConsumeQueueExt#recover, CqExtUnit#readBySkip; observed, 4.9.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.check.queues.consume_queue_ext import is_whole
from rmqtool.errors import UnreadablePath
from rmqtool.findings.registry_consume_queue import CX_SIZE
from rmqtool.findings.registry_layout import FS_LEN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqtool.check.inspection import Inspection
    from rmqtool.findings.finding import Finding
    from rmqtool.repair.writer import EditWriter
    from rmqtool.store.segment import MappedFiles

REASON: Final = "its sizes lead astray, and a broker would not start"
LOST: Final = "bit maps of filters: brokers evaluate the expressions on the messages instead"


def edit(
    writer: EditWriter,
    inspection: Inspection,
    extensions: Iterable[MappedFiles],
    findings: Iterable[Finding],
) -> None:
    """Take extensions out, which the undo directory keeps; give others the length of their files.

    Args:
        writer: takes the edits.
        inspection: of the store.
        extensions: those that units name, and no broker can follow.
        findings: all findings.
    """
    bad = {files.path: files for files in extensions}
    harmed = {
        (finding.topic, finding.queue_id)
        for finding in findings
        if finding.code in {CX_SIZE, FS_LEN}
    }
    length = inspection.store.geometry.consume_queue_ext.value
    for name, queue in inspection.family("ext_queues").items():
        files = inspection.files_of(queue) if name in harmed else None
        if files is None or files.path in bad:
            continue
        if not _is_followed(files):
            bad[files.path] = files
            continue
        for segment in files.segments:
            if segment.size != length and not segment.start % length:
                writer.length(segment, length, FS_LEN, "the length that brokers load")
    for files in bad.values():
        for place in files.places:
            writer.remove(place.location, CX_SIZE, REASON, lost=LOST)


def _is_followed(files: MappedFiles) -> bool:
    try:
        return all(map(is_whole, files.segments))
    except UnreadablePath:
        return True  # said elsewhere; it stays as it is
