"""Judge all directories of a store, the lock, and what is missing altogether: FS-*.

How one directory is judged is in judge/files.py.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from rmqtool.broker.names import name_in_files
from rmqtool.check.queues import orphans
from rmqtool.errors import UnreadablePath
from rmqtool.findings.catalogue import Area, Severity
from rmqtool.findings.finding import At, finding, of_queue
from rmqtool.findings.registry_layout import FS_LOCK, FS_NAME
from rmqtool.judge.files import LENGTHS, FileJudge, is_explained, no_log
from rmqtool.queues.discovery import UNIT_FAMILIES, by_topic
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.entry import EntryKind
from rmqtool.store.segment import OddityKind
from rmqtool.store.unread import UnreadStretches, error_of, no_file, unread_stretches

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.lost import LostRanges
    from rmqtool.findings.finding import Finding
    from rmqtool.queues.units import QueueUnits
    from rmqtool.store.queues import MisnamedQueue, QueueFiles
    from rmqtool.store.segment import MappedFiles, Oddity

LOGS: Final = ("commitlog", "old_commitlog")
QUEUE_FAMILIES: Final = (
    ArtefactKind.CONSUME_QUEUE,
    ArtefactKind.BATCH_QUEUE,
    ArtefactKind.CONSUME_QUEUE_EXT,
    ArtefactKind.COMPACTION_LOG,
    ArtefactKind.COMPACTION_QUEUE,
)
# Areas that have files of their own, whose names and lengths are judged here.
FILES_OF: Final = {
    Area.COMMITLOG: (ArtefactKind.COMMITLOG, ArtefactKind.DLEDGER),
    Area.DLEDGER: (ArtefactKind.DLEDGER, ArtefactKind.DLEDGER_INDEX),
    Area.TIMER: (ArtefactKind.TIMER_LOG,),
    Area.CONSUME_QUEUE: (ArtefactKind.CONSUME_QUEUE,),
    Area.BATCH_QUEUE: (ArtefactKind.BATCH_QUEUE,),
    Area.EXTENSION: (ArtefactKind.CONSUME_QUEUE_EXT,),
}
NOT_READ: Final = "take it out; a queue that is not there is written from the log"


def check(inspection: Inspection) -> Iterator[Finding]:
    """Judge all mapped-file directories, the lock, and queues that nobody configured."""
    store = inspection.store
    for oddity in store.oddities:
        if oddity.kind is OddityKind.DIRECTORY:  # in place of a file that has its own name
            yield inspection.unread(oddity.path, no_file(oddity.path, EntryKind.DIRECTORY))
            continue
        yield from _judge(inspection).oddity(oddity)
    yield from check_areas(inspection, FILES_OF)
    yield from _lock(inspection)
    yield from orphans.check(inspection)


def check_areas(inspection: Inspection, areas: Collection[str]) -> Iterator[Finding]:
    """Judge the files of some areas: what is missing of them is damage of the area, too."""
    if not {Area.COMMITLOG, Area.DLEDGER}.isdisjoint(areas):
        yield from _named_files(inspection, *LOGS, "dledger_index")
        yield from _no_log(inspection)
    if Area.TIMER in areas:
        yield from _named_files(inspection, "timer_log")
    if Area.CONSUME_QUEUE in areas:
        yield from _odd_files(inspection, _long_queues(inspection))
        yield from _misnamed_queues(inspection)
    if Area.BATCH_QUEUE in areas:
        yield from _odd_files(inspection, inspection.units("batch_queues").values())
    if Area.EXTENSION in areas:
        yield from _odd_files(inspection, inspection.family("ext_queues").values())


def _named_files(inspection: Inspection, *names: str) -> Iterator[Finding]:
    for name in names:
        try:
            yield from mapped_files(
                inspection, getattr(inspection.store, name), is_log=name in LOGS
            )
        except UnreadablePath as error:
            yield inspection.unread(inspection.path_of(error.path), error)


def _long_queues(inspection: Inspection) -> Iterator[QueueUnits]:
    """Yield the consume queues in files but for the short ones, in which nothing is odd."""
    names, units = inspection.short_queues().rows.names, inspection.units("queues")
    for topic, numbers in by_topic(units):
        short = {*names.numbers_of(name_in_files(topic))}
        for queue_id in numbers:
            if queue_id not in short:
                yield units[topic, queue_id]


def _odd_files(
    inspection: Inspection, queues: Iterable[QueueUnits | QueueFiles]
) -> Iterator[Finding]:
    """Judge names and lengths of the files of queues."""
    for queue in queues:
        files = inspection.files_of(queue)
        if files is not None and (files.oddities or _is_misnamed(files)):
            yield from of_queue(mapped_files(inspection, files), queue.topic, queue.queue_id)
    yield from inspection.pending()


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
            for defect in _lost(inspection, files, unread, oddity):
                start, end = _lost_range(files, oddity)
                lost.add(start, end, defect)
        for oddity, start, end in unread_stretches(files):
            if error := error_of(oddity):
                lost.add(start, end, inspection.unread(oddity.path, error))


def _lost(
    inspection: Inspection, files: MappedFiles, unread: UnreadStretches, oddity: Oddity
) -> Iterator[Finding]:
    """Give what is to be said of an oddity that takes a stretch away from the log."""
    misnamed = bool(files.file_length and (oddity.start or 0) % files.file_length)
    is_hole = oddity.kind is OddityKind.HOLE and not misnamed and not is_explained(unread, oddity)
    is_short = oddity.kind in LENGTHS and (oddity.length or 0) < files.file_length
    if is_hole or is_short:
        findings = _judge(inspection).oddity(oddity, files)
        yield from (defect for defect in findings if defect.severity is not Severity.NOTE)


def _lost_range(files: MappedFiles, oddity: Oddity) -> tuple[int, int]:
    start, length = oddity.start or 0, oddity.length or 0
    if oddity.kind is OddityKind.HOLE:
        return start, start + length
    return start + length, start + files.file_length


def mapped_files(
    inspection: Inspection, files: MappedFiles, *, is_log: bool = False
) -> Iterator[Finding]:
    """Judge one directory of segments.

    Args:
        inspection: of the store.
        files: of the directory.
        is_log: what is lost of it has been noted by `register_lost`.
    """
    unread = UnreadStretches(files)

    def is_reported(oddity: Oddity) -> bool:
        if not is_log:
            return False
        return any(_lost(inspection, files, unread, oddity)) or error_of(oddity) is not None

    yield from _judge(inspection).files(files, is_reported)


def _judge(inspection: Inspection) -> FileJudge:
    scope = inspection.scope
    return FileJudge(
        inspection.store.moment,
        inspection.unread,
        skips_directories=lambda: scope.release.skips_directories,
    )


def _is_misnamed(files: MappedFiles) -> bool:
    length = files.file_length
    odd = any(segment.start % length for segment in files.segments) if length else False
    return odd or bool(files.misnamed)


def _misnamed_queues(inspection: Inspection) -> Iterator[Finding]:
    """Name directories with files of a queue that no broker reads, as it builds another name.

    Beside the queue's own directory, and under a name that stands for none, it does no harm.
    """
    for kind in QUEUE_FAMILIES:
        family = inspection.store.family(kind)
        if family is None:
            continue
        with suppress(UnreadablePath):  # the listing of the queues says so
            for queue in family.misnamed(inspection.listings(kind)):
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
    """Find a store without its commitlog, unless that cannot be told."""
    store = inspection.store
    logs = store.branches_of(ArtefactKind.COMMITLOG, ArtefactKind.DLEDGER)
    if not any(map(inspection.is_above_unread, ["commitlog", *(log.path for log in logs)])):
        yield from no_log(store, lambda: _queues_with_files(inspection))


def _queues_with_files(inspection: Inspection) -> int:
    count = 0
    for name in UNIT_FAMILIES:
        for queue in inspection.units(name).values():
            count += bool(inspection.files_of(queue))
    return count


def _lock(inspection: Inspection) -> Iterator[Finding]:
    lock = inspection.store.lock_state()
    if lock.is_held:
        yield finding(FS_LOCK, At("lock"), actual=lock.holder)
