"""From a store to the files and stretches of the log that a view reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.errors import NotAStore, UnsupportedStore, UsageError
from rmqtool.formats.dledger import DLEDGER_BODY_OFFSET
from rmqtool.store.address import place_of
from rmqtool.store.artefact import Artefact, ArtefactKind, FamilyDepth, Why
from rmqtool.store.entry import EntryKind
from rmqtool.store.parts import data_of
from rmqtool.store.segment import SegmentPart, start_of
from rmqtool.store.tree import Store, open_store
from rmqtool.store.used import marked_followed
from rmqtool.tables.views import EVERYTHING, PARTS, VIEWS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.scan.join import Joinable, PerPart
    from rmqtool.store.place import OpenFile, Place
    from rmqtool.store.segment import MappedFiles
    from rmqtool.tables.selection import Range, Selection
    from rmqtool.tables.views import View


@dataclass(frozen=True, slots=True)
class FilePart:
    """One file."""

    kind: ArtefactKind  # what it is
    place: Place  # where it lies
    path: str  # the same relative to the store root
    start: int = 0  # first byte in its byte space; 0 for a file that is alone
    topic: str = ""  # of the queue; empty where there is not one
    queue_id: int = 0  # of the queue
    slots: int = 0  # hash slots of a key index file
    entries: int = 0  # entries of a key index file, the unused one counted

    def open(self) -> OpenFile:
        """Open for reading. Raises UnreadablePath: see `Place.open`."""
        return self.place.open()


def store_of(path: str, broker_conf: str | None, word: str | None) -> Store:
    """Open what was asked for, as what the user says it is.

    Raises:
        UnreadablePath: it does not exist or may not be read.
        NotAStore: nothing of a store was recognised, and nobody said what it is.
    """
    if word in {None, EVERYTHING}:
        return open_store(path, broker_conf)
    kind = VIEWS[word or ""].branch
    place = place_of(path)
    entry = place.stat()
    is_file = entry is not None and entry.kind is EntryKind.FILE
    try:
        store = open_store(path, broker_conf)
    except (NotAStore, UnsupportedStore):
        if not is_file:
            raise
        return _lone_store(Artefact(kind, place, place.name, FamilyDepth.FILE, Why.ASKED))
    if store.asked.kind in {ArtefactKind.STORE, kind}:
        return store
    if is_file:
        return _lone_store(store.asked._replace(kind=kind, why=Why.ASKED, queue=None))
    reason = f"{path} is a directory of {store.asked.kind}, not of {kind}"
    raise UsageError(option="--as", reason=reason)


def _lone_store(artefact: Artefact) -> Store:
    """Give a store of one file that is what the user says."""
    return Store(artefact.place.parent, artefact, (artefact,))


def views_of(store: Store, word: str | None) -> list[View]:
    """Say which views to show.

    Raises:
        UsageError: a store root without a commitlog, and nobody said what to show of it.
    """
    if word == EVERYTHING:
        there = {artefact.kind for artefact in store.branches}
        if any(artefact.kind is ArtefactKind.TIMER_CHECK for artefact in store.artefacts()):
            there.add(ArtefactKind.TIMER_CHECK)  # it lies among the configuration
        if any(not database.is_empty for database in store.rocksdb()):
            there.add(ArtefactKind.ROCKSDB)
        return [v for v in VIEWS.values() if v.branch in there and v.word not in PARTS]
    if word is not None:
        return [VIEWS[word]]
    if store.asked.kind is not ArtefactKind.STORE:
        return [VIEWS[str(store.asked.kind)]]
    kinds = [str(artefact.kind) for artefact in store.branches if str(artefact.kind) in VIEWS]
    for log in (ArtefactKind.DLEDGER, ArtefactKind.COMMITLOG):
        if log in kinds:
            return [VIEWS[str(log)]]
    words = " ".join(dict.fromkeys(kinds))
    raise UsageError(option="--as", reason=f"there is no commitlog here; say which of: {words}")


def log_view(store: Store) -> View:
    """Give the view of a store's log; that of a store without one has no rows of messages.

    Raises:
        UsageError: the path is a part of a store of which nothing says how to show it.
    """
    is_root = store.asked.kind is ArtefactKind.STORE
    if is_root and not store.branches_of(ArtefactKind.COMMITLOG, ArtefactKind.DLEDGER):
        return VIEWS[str(ArtefactKind.COMMITLOG)]
    return views_of(store, None)[0]


def segment_parts(
    store: Store,
    view: View,
    wanted: Range,
    part_bytes: int | None = None,
    *,
    is_judged: bool = True,
) -> list[SegmentPart]:
    """Give the stretches of the log in which the wanted physical offsets may lie.

    Args:
        store: where the log is.
        view: which log.
        wanted: physical offsets.
        part_bytes: length of a part; None for one a segment.
        is_judged: the parts will be read; who wants names and lengths only reads nothing.
    """
    parts: list[SegmentPart] = []
    start, end = wanted
    for files in logs_of(store, view):
        for segment in marked_followed(files.segments) if is_judged else files:
            each = part_bytes or segment.size
            # Parts begin where they always do, so that they give the same rows as the whole.
            before = 0 if start is None else max(0, start - DLEDGER_BODY_OFFSET - segment.start)
            if before > segment.size:
                continue  # however large a part is
            begin = before // each * each if each else 0
            if segment.missing_before and end is not None and end <= segment.start:
                if end > segment.start - segment.missing_before:
                    parts.append(SegmentPart(segment, 0, 0))  # it tells of the hole before it
                continue
            if not segment.size:
                parts.append(SegmentPart(segment, 0, 0))  # it tells that the file is empty
                continue
            stop = segment.size if end is None else min(segment.size, end - segment.start)
            with data_of(segment) as data_from:
                while begin < stop:
                    data = data_from(begin) // each * each  # a hole is one part
                    border = min(stop, data if data > begin else begin + each)
                    parts.append(SegmentPart(segment, begin, border))
                    begin = border
    return parts


def whole_parts(
    store: Store, view: View, wanted: Range, part_bytes: int, read: PerPart[Joinable]
) -> list[SegmentPart]:
    """Give the same, from where the damage begins that the first wanted offset may lie in.

    Args:
        store: where the log is.
        view: which log.
        wanted: physical offsets.
        part_bytes: length of a part.
        read: finds out where the first extent of a part begins.
    """
    start, end = wanted
    parts = segment_parts(store, view, wanted, part_bytes)
    if start is not None and parts and parts[0].begin:
        # Damage that begins earlier is known only to who comes from before it.
        first = read(parts[0]).first
        if first is None or first + parts[0].segment.start > start:
            return segment_parts(store, view, (parts[0].segment.start, end), part_bytes)
    return parts


def logs_of(store: Store, view: View) -> Iterator[MappedFiles]:
    """Give the files of the logs that a view shows."""
    if view.branch is ArtefactKind.COMPACTION_LOG:
        for queue in store.compaction_logs():
            yield queue.files
    elif view.branch is ArtefactKind.DLEDGER:
        yield store.commitlog
    else:
        yield store.old_commitlog if store.is_dledger else store.commitlog


def file_parts(store: Store, view: View, selection: Selection) -> Iterator[FilePart]:
    """Give the files of a view, by path. Raises UnreadablePath: a directory may not be listed."""
    if view.branch is ArtefactKind.INDEX:
        for file in store.index_files():
            yield FilePart(
                view.branch, file.place, file.path, slots=file.slots, entries=file.entries
            )
        return
    for artefact in store.artefacts():
        if artefact.kind is not view.branch:
            continue
        topic, queue_id = artefact.queue or ("", 0)
        if selection.topics and topic not in selection.topics:
            continue
        if selection.queue_id is not None and queue_id != selection.queue_id:
            continue
        start = start_of(artefact.place.name) or 0
        yield FilePart(
            view.branch, artefact.place, artefact.path, start, topic=topic, queue_id=queue_id
        )
