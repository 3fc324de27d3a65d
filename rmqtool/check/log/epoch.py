"""Judge the epoch file of a replicated broker: EP-CRC, EP-RANGE.

Source: EpochFileCache#initCacheFromFile, CheckpointFile#read, 5.0.0 to 5.5.0.
"""

from __future__ import annotations

from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Final

from rmqtool.errors import DecodeError, UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_state import EP_CRC, EP_RANGE
from rmqtool.formats import epoch
from rmqtool.formats.message import BLANK, BLANK_MAGIC_CODE
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.record_heads import LogReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.findings.finding import Finding

LARGEST_EPOCH_FILE: Final = 16 << 20


def check(inspection: Inspection, facts: LogFacts) -> Iterator[Finding]:
    """Judge count, checksum and order of each epoch file."""
    for artefact in inspection.store.branches_of(ArtefactKind.EPOCH):
        try:
            raw = artefact.place.read(LARGEST_EPOCH_FILE)
        except UnreadablePath as error:
            yield inspection.unread(artefact.path, error)
            continue
        inspection.account.files += 1
        inspection.account.bytes += len(raw)
        at = At(artefact.path)
        try:
            file = epoch.decode(raw, path=artefact.path)
        except DecodeError as error:
            yield finding(EP_CRC, at, "it cannot be read", actual=error.reason)
            continue
        defects = list(_judge(file, at))
        yield from defects
        if not defects:  # else a broker takes the .bak
            try:
                yield from _places(inspection, facts, file, at)
            except UnreadablePath as error:
                yield inspection.unread(inspection.path_of(error.path), error)


def _places(
    inspection: Inspection, facts: LogFacts, file: epoch.EpochFile, at: At
) -> Iterator[Finding]:
    """Judge where epochs begin in the log: at a record, or where one ends.

    What expires with the log is taken out of the file; the oldest epoch may begin before the log.
    Source: EpochFileCache#appendEntry, #truncatePrefixByOffset, AutoSwitchHAService.
    """
    if not facts.is_known:
        return
    for entry, after in zip_longest(file.entries, file.entries[1:]):
        start, message, severity = entry.start_offset, "", None
        if start > facts.end:
            message = f"epoch {entry.epoch} begins past the end of the log"
        elif after is not None and after.start_offset < facts.oldest:
            message = f"epoch {entry.epoch} ends before the log begins"
            severity = Severity.NOTE
        elif facts.oldest < start < facts.end and not _is_border(inspection, facts, start):
            message = f"epoch {entry.epoch} begins inside a record"
        if message:
            expected = f"{facts.oldest} to {facts.end}, at a record"
            segment = inspection.segment_at(start)
            offset = start if segment else None
            place = at._replace(physical_offset=offset)
            yield finding(
                EP_RANGE, place, message, expected=expected, actual=start, severity=severity
            )


def _is_border(inspection: Inspection, facts: LogFacts, start: int) -> bool:
    """Tell whether a record or a blank begins at an offset, or nobody can say."""
    if facts.lost.between(start - 1, start + 1) or facts.is_moved(start):
        return True
    store = inspection.store
    with LogReader(store.old_commitlog, store.commitlog) as log:
        if log.segment_at(start) is None or log.head_at(start) is not None:
            return True
        return BLANK["magic_code"].of(log.read_at(start, BLANK.size)) == BLANK_MAGIC_CODE


def _judge(file: epoch.EpochFile, at: At) -> Iterator[Finding]:
    if file.count != len(file.entries):
        message = "the number of entries is not the one in the first line"
        yield finding(EP_CRC, at, message, expected=file.count, actual=len(file.entries))
    elif file.crc not in {0, file.crc_found}:
        message = "the entries do not have the checksum of the second line"
        yield finding(EP_CRC, at, message, expected=file.crc, actual=file.crc_found)
    for before, after in pairwise(file.entries):
        if after.epoch <= before.epoch or after.start_offset < before.start_offset:
            message = "epochs or their start offsets go back"
            yield finding(
                EP_CRC,
                at,
                message,
                expected=f"after {before.epoch}-{before.start_offset}",
                actual=f"{after.epoch}-{after.start_offset}",
            )
            return
