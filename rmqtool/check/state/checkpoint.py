"""Judge `checkpoint` and `abort`: CP-*, AB-PRESENT.

A checkpoint that is too old only makes recovery slow; one that is ahead of the data makes it start
too late, and what it skips stays without queue units.
Source: StoreCheckpoint, CommitLog#isMappedFileMatchedRecover, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.broker.conf import CHECKPOINT_MARGIN_MS, RECOVERED_FILES
from rmqtool.errors import UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_state import (
    AB_PRESENT,
    CP_AHEAD,
    CP_CONFIRM,
    CP_LEN,
    CP_LOGICOFF,
    CP_REACH,
    CP_ZERO,
)
from rmqtool.formats.checkpoint import CHECKPOINT, FILE_LENGTH
from rmqtool.formats.layout import big_endian
from rmqtool.formats.message import MESSAGE_PREFIX
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.index_files import newest_end
from rmqtool.store.record_heads import (
    HEAD_BYTES,
    HOST_BITS,
    MESSAGE_MAGIC_CODES,
    STORE_TIMESTAMP,
    TIMESTAMPS,
)
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.check.queues.ranges import QueueFacts
    from rmqtool.findings.finding import Finding
    from rmqtool.store.artefact import Artefact
    from rmqtool.store.index_files import IndexFile


def check(inspection: Inspection, facts: LogFacts, queue_facts: QueueFacts) -> Iterator[Finding]:
    """Judge abort and checkpoint against the data.

    Args:
        inspection: of the store.
        facts: of its log, which was read.
        queue_facts: of its queues.
    """
    store = inspection.store
    for artefact in store.branches_of(ArtefactKind.ABORT):
        yield finding(AB_PRESENT, At(artefact.path))
    branches = store.branches_of(ArtefactKind.CHECKPOINT)
    if not branches and store.branches_of(ArtefactKind.COMMITLOG, ArtefactKind.DLEDGER):
        if store.asked.kind is ArtefactKind.STORE:
            yield finding(CP_ZERO, At("checkpoint"), "there is no checkpoint")
        return
    for artefact in branches:
        try:
            size, raw = _read(artefact)
            inspection.account.files += 1
            inspection.account.bytes += size
            values = yield from _values(At(artefact.path), size, raw)
            yield from _judge(inspection, facts, queue_facts, artefact.path, values)
        except UnreadablePath as error:  # of this file, or of a segment that has expired
            yield inspection.unread(inspection.path_of(error.path), error)


def _read(artefact: Artefact) -> tuple[int, bytes]:
    with artefact.place.open() as file:
        return file.size, file.read_at(0, FILE_LENGTH)


def _values(at: At, size: int, raw: bytes) -> Generator[Finding, None, dict[str, int]]:
    """Judge a checkpoint by itself; give its fields."""
    if size != FILE_LENGTH:
        yield finding(CP_LEN, at, expected=FILE_LENGTH, actual=size)
    values = CHECKPOINT.parse(raw[: CHECKPOINT.size].ljust(CHECKPOINT.size, b"\0"))
    if any(raw[CHECKPOINT.size :]):
        message = "bytes past the known fields are set"
        place = At(at.path, CHECKPOINT.size, FILE_LENGTH - CHECKPOINT.size)
        yield finding(CP_LEN, place, message, severity=Severity.NOTE)
    if values["physic_msg_timestamp"] <= 0 or values["logics_msg_timestamp"] <= 0:
        yield finding(CP_ZERO, at, "a time in the checkpoint is not set")
    return values


def _judge(
    inspection: Inspection,
    facts: LogFacts,
    queue_facts: QueueFacts,
    path: str,
    values: dict[str, int],
) -> Iterator[Finding]:
    """Compare the fields of a checkpoint with the data."""
    if not facts.is_known:
        inspection.leave_out("checkpoint against the data", inspection.why_no_log)
        return
    yield from _index_time(inspection, values, path)
    if facts.lost.reaches_past(facts.last_record):
        inspection.leave_out("checkpoint against the log", "the newest records are lost")
        return
    yield from _times(inspection, values, facts, path)
    if values["confirm_phy_offset"] > facts.end:
        place = _field(path, "confirm_phy_offset")
        actual = values["confirm_phy_offset"]
        yield finding(CP_CONFIRM, place, expected=f"at most {facts.end}", actual=actual)
    yield from _logics_offset(inspection, values, facts, queue_facts.newest_unit, path)
    yield from _reach(inspection, values, queue_facts.newest_unit, path)


def _field(path: str, name: str, physical_offset: int | None = None) -> At:
    return At(path, CHECKPOINT.positions[name], 8, physical_offset)


def _times(
    inspection: Inspection, values: dict[str, int], log: LogFacts, path: str
) -> Iterator[Finding]:
    """Compare the times of log and queues with the newest record.

    The time of a message that does not fit into a file is the log's when the file is closed. The
    message itself is written when the broker has made the next file. Source:
    CommitLog.DefaultAppendMessageCallback#doAppend, DefaultMappedFile#appendMessagesInner, 4.9.3
    to 5.5.0.
    """
    store = inspection.store
    length = store.commitlog.file_length
    waits = bool(length and log.end % length == 0 and store.moment.is_live)
    words = {
        "physic_msg_timestamp": "physicMsgTimestamp is later than the newest record",
        "logics_msg_timestamp": "logicsMsgTimestamp is later than the newest record",
    }
    for name, message in words.items():
        if values[name] > log.newest_time:
            at, is_harmless = _field(path, name), waits and name == "physic_msg_timestamp"
            yield _ahead(values[name], log.newest_time, at, message, is_harmless=is_harmless)


def _ahead(stored: int, newest: int, at: At, message: str, *, is_harmless: bool = False) -> Finding:
    """Say that a time is ahead; less than the margin that recovery keeps does no harm.

    Copies of a running broker's files show this where the checkpoint was copied last.
    """
    is_harmless |= stored - newest <= CHECKPOINT_MARGIN_MS
    return finding(
        CP_AHEAD,
        at,
        message,
        severity=Severity.NOTE if is_harmless else None,
        expected=f"at most {iso_time(newest)}" if newest else "0, because the index is missing",
        actual=iso_time(stored),
    )


def _index_time(inspection: Inspection, values: dict[str, int], path: str) -> Iterator[Finding]:
    """Compare the index time with the newest index file."""
    name = "index_msg_timestamp"
    refused: list[tuple[IndexFile, UnreadablePath]] = []
    try:
        files = inspection.store.index_files()
    except UnreadablePath as error:
        yield inspection.unread(inspection.path_of(error.path), error)
        return
    newest = newest_end(files, lambda *file: refused.append(file))
    for index, refusal in refused:
        if not inspection.is_known_unread(index.path):
            yield inspection.unread(index.path, refusal)
    if values[name] > newest and not inspection.is_above_unread("index"):
        message = "indexMsgTimestamp is later than the newest index file"
        if not newest:
            message = "indexMsgTimestamp speaks of a key index, and there is not one"
        yield _ahead(values[name], newest, _field(path, name), message)


def _logics_offset(
    inspection: Inspection,
    values: dict[str, int],
    log: LogFacts,
    newest_unit: int | None,
    path: str,
) -> Iterator[Finding]:
    """Compare logicsPhysicalOffset with the log and the queues (5.5.0)."""
    name = "logics_physical_offset"
    value = values[name]
    if not value:
        return
    place = _field(path, name, value)
    limit = log.last_record if newest_unit is None else min(log.last_record, newest_unit)
    if value > limit:
        what = "the last record" if limit == log.last_record else "the last unit of every queue"
        message = f"logicsPhysicalOffset is past {what}"
        yield finding(CP_LOGICOFF, place, message, expected=f"at most {limit}", actual=value)
    elif value < 0 or (value >= log.start and not _is_record(inspection, value)):
        message = "logicsPhysicalOffset is not the start of a record"
        yield finding(CP_LOGICOFF, place, message, actual=value, severity=Severity.WARNING)


def _is_record(inspection: Inspection, physical_offset: int) -> bool:
    """Tell whether a record that names this place as its own lies there."""
    raw = inspection.store.commitlog.read_at(physical_offset, MESSAGE_PREFIX.size)
    if len(raw) < MESSAGE_PREFIX.size:
        return False
    values = MESSAGE_PREFIX.parse(raw)
    is_message = values["magic_code"] in MESSAGE_MAGIC_CODES
    return is_message and values["physical_offset"] == physical_offset


def _reach(
    inspection: Inspection, values: dict[str, int], newest_unit: int | None, path: str
) -> Iterator[Finding]:
    """Find out whether recovery of 5.4.0 and later would begin too late."""
    is_named = inspection.options.version is not None
    if not (is_named and inspection.scope.release.recovers_newest_only):
        return
    conf = inspection.store.broker_conf
    reach = RECOVERED_FILES.of(conf)
    segments = inspection.store.commitlog.segments
    if len(segments) <= max(reach, 1):
        return
    first = segments[-reach]
    head = first.place.read(HEAD_BYTES)
    if inspection.scope.has_crashed:
        needed = max(min(values["physic_msg_timestamp"], values["logics_msg_timestamp"]), 0)
        stored = _store_time(head)
        if stored and stored > max(needed - CHECKPOINT_MARGIN_MS, 0):
            yield finding(
                CP_REACH,
                At(path, physical_offset=first.start),
                "recovery would have to begin before the newest commitlog files it looks at",
                expected=f"a record of {iso_time(stored)} or later",
                actual=iso_time(needed),
            )
    elif newest_unit is not None and newest_unit < first.start:
        yield finding(
            CP_REACH,
            At(path, physical_offset=first.start),
            "the queues end before the newest commitlog files that recovery looks at",
            expected=f"a unit at {first.start} or later",
            actual=newest_unit,
        )


def _store_time(head: bytes) -> int:
    """Give the store time of the record that a segment begins with; 0 when there is not one."""
    if len(head) < MESSAGE_PREFIX.size:
        return 0
    if MESSAGE_PREFIX["magic_code"].of(head) not in MESSAGE_MAGIC_CODES:
        return 0
    position = TIMESTAMPS[MESSAGE_PREFIX["sys_flag"].of(head) & HOST_BITS]
    return big_endian(head[position : position + STORE_TIMESTAMP.size])
