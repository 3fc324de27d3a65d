"""Judge index files as such: length, header, names, what a crash does to them.

Source: IndexHeader, IndexFile, IndexService#load, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from rmqtool.broker.conf import CHECKPOINT_MARGIN_MS
from rmqtool.broker.rules import AbnormalStart, Rules
from rmqtool.errors import DecodeError, UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_index import IX_CAP, IX_COUNT, IX_CRASH, IX_HEAD, IX_LEN, IX_ORDER
from rmqtool.formats.index import (
    FIRST_ENTRY,
    INDEX_ENTRY,
    INDEX_HEADER,
    entry_position,
    file_length,
)
from rmqtool.store.artefact import ArtefactKind, FamilyDepth
from rmqtool.store.entry import EntryKind, printable
from rmqtool.store.index_files import in_use, is_destroyed, is_index_name, usual_geometry
from rmqtool.store.unread import no_file
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.check.inspection import Inspection
    from rmqtool.findings.finding import Finding
    from rmqtool.store.index_files import IndexFile, IndexInUse
    from rmqtool.store.place import OpenFile


def index_files(inspection: Inspection, opened: list[IndexInUse]) -> Iterator[Finding]:
    """Judge all headers; fill `opened` with what can be compared, in the order of the log."""
    try:
        files = inspection.store.index_files()
    except UnreadablePath as error:
        yield inspection.unread("index", error)
        return
    yield from _not_files(inspection)
    usual = usual_geometry(files)
    for file in files:
        # One broker makes all alike: a file of another geometry is damaged.
        known = file._replace(slots=usual[0], entries=usual[1]) if usual else file
        try:
            with file.open() as handle:
                yield from _judge(known, handle, opened)
        except UnreadablePath as error:
            yield inspection.unread(file.path, error)
    yield from _order(opened)
    yield from _crash(inspection, opened)
    opened.sort(key=lambda opened: opened.begin)
    for before, after in pairwise(opened):
        if not before.is_full:
            actual = f"{before.header['index_count']:,} of {before.file.entries:,} entries"
            message = f"it is not full, but {after.file.path} follows"
            yield finding(IX_CAP, At(before.file.path), message, actual=actual)


def _not_files(inspection: Inspection) -> Iterator[Finding]:
    """Name what has the name of an index file, but is not one; a broker would fail on it."""
    for artefact in inspection.store.branches_of(ArtefactKind.INDEX):
        for entry in artefact.place.entries() if artefact.level is not FamilyDepth.FILE else ():
            if is_index_name(entry.name) and entry.kind is not EntryKind.FILE:
                path = f"{artefact.path}/{printable(entry.name)}"
                yield inspection.unread(path, no_file(path, entry.kind))


def _judge(file: IndexFile, handle: OpenFile, opened: list[IndexInUse]) -> Iterator[Finding]:
    """Judge length and header of one file."""
    path = file.path
    wanted = file_length(file.slots, file.entries)
    if not file.slots:
        message = (
            "the length and the header do not tell how many slots the file has; "
            "give --broker-conf, or maxHashSlotNum and maxIndexNum in it"
        )
        expected = "40 + 4 * slots + 20 * entries bytes"
        yield finding(IX_LEN, At(path), message, expected=expected, actual=f"{file.size:,} bytes")
    elif file.size != wanted:
        yield finding(IX_LEN, At(path), expected=f"{wanted:,} bytes", actual=f"{file.size:,} bytes")
    held = in_use(file, handle)
    if held is None:
        return
    if held.is_miscounted:
        at, actual = _field(path, "index_count"), held.header["index_count"]
        yield finding(IX_COUNT, at, expected=f"{FIRST_ENTRY} to {file.entries}", actual=actual)
    opened.append(held)
    yield from _ends(held, handle)


def _field(path: str, name: str) -> At:
    return At(path, INDEX_HEADER[name].position, INDEX_HEADER[name].size)


def _ends(file: IndexInUse, handle: OpenFile) -> Iterator[Finding]:
    """Compare the header with the first and the last entry."""
    if file.end <= FIRST_ENTRY:
        return
    for name, number in (
        ("begin_physical_offset", FIRST_ENTRY),
        ("end_physical_offset", file.end - 1),
    ):
        raw = handle.read_at(entry_position(file.file.slots, number), INDEX_ENTRY.size)
        try:
            entry = INDEX_ENTRY.parse(raw)
        except DecodeError:
            continue
        if entry["physical_offset"] != file.header[name] and any(raw):
            yield finding(
                IX_HEAD,
                _field(file.file.path, name),
                f"the header's {name} differs from entry {number}",
                expected=entry["physical_offset"],
                actual=file.header[name],
            )
    if file.header["end_timestamp"] < file.header["begin_timestamp"] < 1 << 62:
        yield finding(
            IX_HEAD,
            _field(file.file.path, "end_timestamp"),
            "the header's end lies before its begin",
            expected=f"{iso_time(file.header['begin_timestamp'])} or later",
            actual=iso_time(file.header["end_timestamp"]),
        )


def _order(opened: Sequence[IndexInUse]) -> Iterator[Finding]:
    """Compare the order of names with that of offsets; `opened` is in the order of names."""
    for before, after in pairwise(opened):
        if after.end > FIRST_ENTRY and after.begin < before.begin:
            yield finding(
                IX_ORDER,
                At(after.file.path),
                expected=f"after {before.begin}",
                actual=after.begin,
            )


def _crash(inspection: Inspection, opened: Sequence[IndexInUse]) -> Iterator[Finding]:
    """Find the files that the next start destroys.

    A running broker flushes a file, and notes its time, when the next one is there already.
    Source: IndexService#getAndCreateLastIndexFile, #flush, 4.9.3 to 5.5.0.
    """
    if not inspection.scope.has_crashed:
        return
    try:
        checkpoint = inspection.store.checkpoint() or {}
    except (UnreadablePath, DecodeError):
        return
    limit = checkpoint.get("index_msg_timestamp", 0)
    left = 2 if inspection.store.moment.is_live else 1
    for number, file in enumerate(opened):
        if is_destroyed(file.header["end_timestamp"], limit):
            is_newest = number >= len(opened) - left
            comes_back = is_newest or _is_read_again(inspection, checkpoint, file)
            yield finding(
                IX_CRASH,
                At(file.file.path),
                expected=f"at most {iso_time(limit)}" if limit else "no index file",
                actual=iso_time(file.header["end_timestamp"]),
                severity=Severity.NOTE if comes_back else None,
            )


def _is_read_again(inspection: Inspection, checkpoint: dict[str, int], file: IndexInUse) -> bool:
    """Say whether recovery dispatches every record of an index file once more.

    So it is with files that were made shortly before the crash, or while a copy was taken.
    """
    if Rules(inspection.scope.version).abnormal_start is AbnormalStart.QUEUED_OFFSET:
        return file.begin >= checkpoint.get("logics_physical_offset", 0) > 0
    times = ("physic_msg_timestamp", "logics_msg_timestamp")
    known = min(checkpoint.get(name, 0) for name in times)
    return file.header["begin_timestamp"] > known - CHECKPOINT_MARGIN_MS > 0
