"""Judge directories, file names and file lengths: FS-*.

What the loader of a broker would do with each oddity is the measure.
Source: MappedFileQueue#doLoad, MultiPathMappedFileQueue#load, ConsumeQueueStore#load, 4.9.3 to
5.5.0.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from rmqtool.check.inspection import UNIT_FAMILIES
from rmqtool.check.queues import orphans
from rmqtool.errors import Truncated, UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding, in_passing, of_queue
from rmqtool.findings.registry_layout import (
    FS_DIR,
    FS_DUP,
    FS_GAP,
    FS_LEN,
    FS_LOCK,
    FS_NAME,
    FS_NOLOG,
)
from rmqtool.store.branch import BranchKind
from rmqtool.store.entry import EntryKind
from rmqtool.store.segment import OddityKind
from rmqtool.store.unread import UnreadStretches, error_of, no_file, unread_stretches
from rmqtool.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.lost import LostRanges
    from rmqtool.findings.finding import Finding
    from rmqtool.store.queues import MisnamedQueue
    from rmqtool.store.segment import MappedFiles, Oddity
    from rmqtool.store.tree import Store

LOGS: Final = ("commitlog", "old_commitlog")
QUEUE_FAMILIES: Final = (
    BranchKind.CONSUME_QUEUE,
    BranchKind.BATCH_QUEUE,
    BranchKind.CONSUME_QUEUE_EXT,
    BranchKind.COMPACTION_LOG,
    BranchKind.COMPACTION_QUEUE,
)
NOT_READ: Final = "take it out; a queue that is not there is written from the log"
IN_THE_MAKING: Final = "the running broker is making this file"


def check(inspection: Inspection) -> Iterator[Finding]:
    """Judge all mapped-file directories, the lock, and queues that nobody configured."""
    store = inspection.store
    for oddity in store.oddities:
        if oddity.kind is OddityKind.DIRECTORY:  # in place of a file that has its own name
            yield inspection.unread(oddity.path, no_file(oddity.path, EntryKind.DIRECTORY))
            continue
        yield from _of_oddity(inspection, oddity)
    for name in ("commitlog", "old_commitlog", "timer_log", "dledger_index"):
        try:
            yield from mapped_files(inspection, getattr(store, name), is_log=name in LOGS)
        except UnreadablePath as error:
            yield inspection.unread(inspection.path_of(error.path), error)
    for queues in (
        inspection.units("queues"),
        inspection.units("batch_queues"),
        inspection.family("ext_queues"),
    ):
        for queue in queues.values():
            files = inspection.files_of(queue)
            if files is not None and (files.oddities or _is_misnamed(files)):
                yield from of_queue(mapped_files(inspection, files), queue.topic, queue.queue_id)
        yield from inspection.pending()
    yield from _misnamed_queues(inspection)
    yield from _no_log(inspection)
    yield from _lock(inspection)
    yield from orphans.check(inspection)


def register_lost(inspection: Inspection, lost: LostRanges) -> None:
    """Note what files that are missing or too short leave out of the commitlog.

    What is said of them waits until it is known which units and entries point there.
    """
    for name in LOGS:
        try:
            files: MappedFiles = getattr(inspection.store, name)
        except UnreadablePath:
            continue  # check says so
        unread = UnreadStretches(files)
        for oddity in files.oddities:
            for said in _lost(inspection, files, unread, oddity):
                start, end = _lost_range(files, oddity)
                lost.add(start, end, said)
        for oddity, start, end in unread_stretches(files):
            if error := error_of(oddity):
                lost.add(start, end, inspection.unread(oddity.path, error))


def _lost(
    inspection: Inspection, files: MappedFiles, unread: UnreadStretches, oddity: Oddity
) -> Iterator[Finding]:
    """Give what is to be said of an oddity that takes a stretch away from the log."""
    misnamed = bool(files.file_length and (oddity.start or 0) % files.file_length)
    is_hole = (
        oddity.kind is OddityKind.HOLE and not misnamed and not _is_explained(files, unread, oddity)
    )
    is_short = oddity.kind in {OddityKind.ODD_LENGTH, OddityKind.EMPTY_FILE}
    if is_hole or (is_short and (oddity.length or 0) < files.file_length):
        found = _of_oddity(inspection, oddity, files)
        yield from (said for said in found if said.severity is not Severity.NOTE)


def _lost_range(files: MappedFiles, oddity: Oddity) -> tuple[int, int]:
    start, length = oddity.start or 0, oddity.length or 0
    if oddity.kind is OddityKind.HOLE:
        return start, start + length
    return start + length, start + files.file_length


def _is_explained(files: MappedFiles, unread: UnreadStretches, oddity: Oddity) -> bool:
    """Tell whether a hole is where something lies that cannot be read."""
    return oddity.kind is OddityKind.HOLE and unread.has(*_lost_range(files, oddity))


def mapped_files(
    inspection: Inspection, files: MappedFiles, *, is_log: bool = False
) -> Iterator[Finding]:
    """Judge one directory of segments.

    Args:
        inspection: of the store.
        files: of the directory.
        is_log: what is lost of it has been noted by `register_lost`.
    """
    misnamed, unread = set(), UnreadStretches(files)
    for segment in (*files.segments, *files.misnamed):
        if files.file_length and segment.start % files.file_length:
            misnamed.add(segment.path)
            yield finding(
                FS_NAME,
                At(segment.path),
                "the name is no multiple of the file length",
                expected=f"a multiple of {files.file_length}",
                actual=segment.start,
            )
    for oddity in files.oddities:
        if is_log and (any(_lost(inspection, files, unread, oddity)) or error_of(oddity)):
            continue
        if _is_explained(files, unread, oddity):
            continue
        if oddity.path not in misnamed or oddity.kind in {
            OddityKind.ODD_LENGTH,
            OddityKind.EMPTY_FILE,
        }:
            yield from _of_oddity(inspection, oddity, files)


def _is_misnamed(files: MappedFiles) -> bool:
    length = files.file_length
    odd = any(segment.start % length for segment in files.segments) if length else False
    return odd or bool(files.misnamed)


def _of_oddity(
    inspection: Inspection, oddity: Oddity, files: MappedFiles | None = None
) -> Iterator[Finding]:
    """Translate an oddity of a directory into a finding."""
    at, expected, actual = At(oddity.path), oddity.expected, oddity.actual
    if error := error_of(oddity):
        yield inspection.unread(oddity.path, error)
        return
    match oddity.kind:
        case OddityKind.FOREIGN_NAME | OddityKind.SHORT_NAME:
            yield finding(FS_NAME, at, expected=expected, actual=actual)
        case OddityKind.DIRECTORY:
            yield finding(FS_DIR, at)
        case OddityKind.ODD_LENGTH | OddityKind.EMPTY_FILE if files is not None:
            yield _of_length(inspection, oddity, files)
        case OddityKind.HOLE:
            yield finding(FS_GAP, at, _gap_message(oddity), expected=expected, actual=actual)
        case OddityKind.OVERLAP:
            message = "the file begins inside the one before it"
            yield finding(FS_NAME, at, message, expected=expected, actual=actual)
        case OddityKind.DUPLICATE:
            yield finding(FS_DUP, at, actual=actual)
        case _:
            pass


def _of_length(inspection: Inspection, oddity: Oddity, files: MappedFiles) -> Finding:
    """Say what is wrong with a file's length, and what helps there.

    A running broker makes a file before it gives it its length. An empty one that was there before,
    it has refused or deleted at its start. Source: DefaultMappedFile#init, MappedFileQueue#load,
    4.9.3 to 5.5.0.
    """
    is_last = oddity.path == files.segments[-1].path
    if is_last and not oddity.length and inspection.store.lock_held():
        at, note = At(oddity.path), Severity.NOTE
        found = finding(
            FS_LEN, at, IN_THE_MAKING, expected=oddity.expected, actual=0, severity=note
        )
        return in_passing(found)
    missing = files.file_length - (oddity.length or 0)
    message = f"the file is {missing:,} bytes shorter than a broker made it"
    remedy = f"extend it with zeros to {files.file_length:,} bytes"
    if missing < 0:
        message = f"the file is {-missing:,} bytes longer than a broker made it"
        remedy = f"cut off what lies past {files.file_length:,} bytes, unless records do"
    elif not is_last:
        remedy += "; what is missing is bridged in the log, and written anew in a queue"
    if not oddity.length:
        message = "the last file is empty" if is_last else "the file is empty"
        remedy = "delete it" if is_last else remedy
    expected, actual = oddity.expected, oddity.actual
    at = At(oddity.path)
    return finding(FS_LEN, at, message, expected=expected, actual=actual, remedy=remedy)


def _gap_message(oddity: Oddity) -> str:
    start, length = oddity.start or 0, oddity.length or 0
    return f"the {length:,} bytes from {start} to {start + length} are missing before this file"


def _misnamed_queues(inspection: Inspection) -> Iterator[Finding]:
    """Name directories with files of a queue that no broker reads, as it builds another name.

    Beside the queue's own directory, and under a name that stands for none, it does no harm.
    """
    for kind in QUEUE_FAMILIES:
        family = inspection.store.family(kind)
        if family is None:
            continue
        with contextlib.suppress(UnreadablePath):  # the listing of the queues says so
            for queue in family.misnamed():
                if inspection.options.topic in {None, queue.topic}:
                    yield _of_misnamed_queue(queue)


def _of_misnamed_queue(queue: MisnamedQueue) -> Finding:
    directory, _, name = queue.path.rpartition("/")
    is_needed = queue.number is not None and not queue.has_queue
    expected = "the number of a queue"
    if queue.number is not None:
        expected = f"{directory}/{queue.number}"
    return finding(
        FS_NAME,
        At(queue.path, topic=queue.topic, queue_id=queue.number),
        f"a directory with files of a queue has a name that brokers do not build: {name!a}",
        expected=expected,
        actual=name,
        severity=None if is_needed else Severity.WARNING,
        remedy=NOT_READ,
    )


def _no_log(inspection: Inspection) -> Iterator[Finding]:
    """Find a store whose queues, index or checkpoint speak of a commitlog that is not there.

    Source: CommitLog#recoverNormally, DefaultMessageStore#destroyLogics, 4.9.3 to 5.5.0.
    """
    store = inspection.store
    logs = (BranchKind.COMMITLOG, BranchKind.DLEDGER)
    paths = ["commitlog", *(log.path for log in store.branches_of(*logs))]
    is_unread = any(map(inspection.is_above_unread, paths))
    if store.asked.kind is not BranchKind.STORE or is_unread:
        return
    if store.commitlog or store.old_commitlog or any(one.start is not None for one in _odd(store)):
        return
    witnesses = [
        counted(count, one, several)
        for count, one, several in (
            (_queues_with_files(inspection), "queue with files", "queues with files"),
            (len(store.index_files()), "index file", ""),
        )
        if count
    ]
    with contextlib.suppress(Truncated, UnreadablePath):  # said elsewhere
        if (store.checkpoint() or {}).get("physic_msg_timestamp", 0) > 0:
            witnesses.append("a checkpoint")
    if witnesses:
        speak = "speaks" if witnesses[0].startswith("1 ") and len(witnesses) == 1 else "speak"
        message = f"there is no commitlog; {', '.join(witnesses)} {speak} of one"
        yield finding(FS_NOLOG, At("commitlog"), message)


def _odd(store: Store) -> Iterator[Oddity]:
    """Give what lies in a commitlog directory and is no segment of it."""
    yield from store.commitlog.oddities
    yield from store.old_commitlog.oddities


def _queues_with_files(inspection: Inspection) -> int:
    found = 0
    for name in UNIT_FAMILIES:
        for queue in inspection.units(name).values():
            found += bool(inspection.files_of(queue))
    return found


def _lock(inspection: Inspection) -> Iterator[Finding]:
    lock = inspection.store.lock_state()
    if lock.is_held:
        yield finding(FS_LOCK, At("lock"), actual=lock.holder)
