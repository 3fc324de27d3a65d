"""Keep book of a validation for its manifest, and compare with an earlier one: FS-CHANGED.

Sealed segments whose size, time of change and inode are those of the earlier manifest are not read
again. That is as good as file systems are honest: a byte that rots, or that somebody changes and
then sets back the time, is found only by a validation that reads everything.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool import engine
from rmqtool.check.log.range_checksum import range_checksum
from rmqtool.check.manifest.manifest import Change, Manifest, ManifestFile, change_of
from rmqtool.check.options import LOG_AREAS
from rmqtool.check.state.config import BEING_WRITTEN
from rmqtool.errors import UnreadablePath
from rmqtool.findings.catalogue import Code, Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_layout import FS_CHANGED
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.index import INDEX_HEADER
from rmqtool.formats.message import BLANK
from rmqtool.plural import counted
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.config_files import TEMPORARY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.inspection import Inspection
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.check.log.part import PartReport
    from rmqtool.findings.finding import Finding
    from rmqtool.store.place import OpenFile, Place
    from rmqtool.store.segment import Segment, SegmentPart


UNIT_BYTES: Final = {
    ArtefactKind.CONSUME_QUEUE: CQ_UNIT.size,
    ArtefactKind.BATCH_QUEUE: BATCH_CQ_UNIT.size,
}
LOG_KINDS: Final = frozenset({ArtefactKind.COMMITLOG, ArtefactKind.DLEDGER})
PAUSES: Final = (0.05,) * 4  # seconds
NAMED: Final = 5  # files of one kind of change that are named
LAST_ROUND: Final = "the last round"
QUIET: Final = frozenset({Change.GROWN, Change.SAME, Change.TAKEN_OVER})


class Ledger:
    """What one validation finds out about files.

    Attributes:
        before: the earlier manifest; None without.
        taken_over: paths of the segments that are not read again.
        manifest: the new one; None until the validation is at its end.
        changes: paths by what became of them, once the validation is at its end.
    """

    def __init__(self, before: Manifest | None, source: str = "") -> None:
        """Begin.

        Args:
            before: an earlier manifest of the same store.
            source: where that comes from, as the user wrote it; empty for the last round of a
                watch, which has said what it found.
        """
        self.before, self._source = before, source or LAST_ROUND
        self._is_round = not source
        self.taken_over: frozenset[str] = frozenset()
        self.manifest: Manifest | None = None
        self.changes: dict[Change, list[str]] = {change: [] for change in Change}
        self._read: dict[str, tuple[Place, ManifestFile]] = {}
        self._records: Counter[str] = Counter()
        self._is_odd = False

    def begin(self, inspection: Inspection) -> Iterator[Finding]:
        """List all files, before any is read, and decide which need not be."""
        store = inspection.store
        is_live = store.moment.is_live
        try:
            for artefact in store.artefacts():
                if is_live and artefact.path.endswith(TEMPORARY):
                    continue  # its broker gives it another name any moment
                if (entry := artefact.place.stat()) is not None:
                    facts = (entry.size, entry.mtime_ns, entry.inode)
                    self._read[artefact.path] = (
                        artefact.place,
                        ManifestFile(artefact.path, artefact.kind, *facts),
                    )
        except UnreadablePath as error:
            yield inspection.unread(inspection.path_of(error.path), error)
        segments = [*store.old_commitlog.segments, *store.commitlog.segments]
        for path in _sealed(segments) & self._read.keys():
            place, file = self._read[path]
            self._read[path] = place, file._replace(sealed=True)
        self._take_over(inspection, segments)

    def _take_over(self, inspection: Inspection, segments: list[Segment]) -> None:
        """Decide which segments, from the first one on, are not read again."""
        before, level = self.before, inspection.options.level
        if before is None or not level.reads_log or level.is_deep:
            return
        if not (before.is_proven or self._is_round) or not before.level.reads_log:
            why = "it is of a validation that found something wrong, or did not look at everything"
            inspection.leave_out(f"nothing is taken over from {self._source}", why)
            return
        taken: list[ManifestFile] = []
        for segment in segments:
            now = self._read.get(segment.path)
            then = before.files.get(segment.path)
            if now is None or then is None or not (now[1].sealed and then.sealed):
                break
            if not then.used_sha256 or not now[1].is_same_file(then):
                break
            taken.append(then)
        self.taken_over = frozenset(file.path for file in taken)
        if taken:
            size, records = (
                sum(file.size for file in taken),
                sum(file.records or 0 for file in taken),
            )
            option = "--every" if self._is_round else "--since-manifest"
            inspection.leave_out(
                f"{counted(len(taken), 'segment')} of the log with {counted(records, 'record')}, "
                f"{size:,} bytes, "
                "and the units and entries that point into them",
                f"taken over from {self._source}, as size, time of change and inode are the same; "
                f"only a run without {option} still finds a changed byte",
            )

    def take(self, part: SegmentPart, report: PartReport) -> None:
        """Count the records of a part of the log."""
        self._records[part.segment.path] += report.records

    def watch(self, findings: Iterator[Finding]) -> Iterator[Finding]:
        """Look at findings while they go by."""
        for defect in findings:
            self._is_odd |= _is_odd(defect.code, defect.severity)
            yield defect

    def finish(self, inspection: Inspection, facts: LogFacts) -> Iterator[Finding]:
        """Hash what was read, say what changed, and make the new manifest."""
        before = self.before.files if self.before else {}
        wanted = [name for name in self._read if name not in self.taken_over]
        tasks = [
            self._task(name, before.get(name), in_range=inspection.options.range_checksums)
            for name in wanted
        ]
        files = {name: before[name] for name in self.taken_over}
        for name, first in zip(
            wanted, engine.run(digest, tasks, jobs=inspection.options.jobs), strict=True
        ):
            place, file = self._read[name]
            again = _looked_again(inspection, name, place, first)
            if _is_replaced(inspection, name, again):
                inspection.leave_out(name, BEING_WRITTEN)
            elif again.unread and not inspection.is_known_unread(name):
                yield inspection.unread(name, again.unread)
            if name in inspection.account.expired:
                continue
            now = place.stat()
            is_still = now is not None and (now.size, now.mtime_ns) == (file.size, file.mtime_ns)
            files[name] = file._replace(
                used=again.used,
                used_sha256=again.used_sha256 if is_still else "",
                sha256=again.sha256 if is_still else "",
                range_checksum=again.range_checksum if is_still else "",
                records=self._count(file, place, again.used),
            )
            yield from self._compare(before.get(name), files[name], again.until_mark)
        self.changes[Change.TAKEN_OVER] += sorted(self.taken_over)
        self.changes[Change.GONE] += sorted(before.keys() - files.keys())
        listed = {name: files[name] for name in self._read if name in files}
        self.manifest = self._manifest(inspection, facts, listed)

    def _task(self, name: str, then: ManifestFile | None, *, in_range: bool) -> DigestTask:
        place, file = self._read[name]
        is_range = in_range and file.sealed and ArtefactKind(file.kind) is ArtefactKind.COMMITLOG
        return DigestTask(place, then.used if then else 0, is_range, is_whole=True)

    def _count(self, file: ManifestFile, place: Place, used: int) -> int | None:
        kind = ArtefactKind(file.kind)
        if kind in LOG_KINDS:
            return self._records.get(file.path)
        if kind is ArtefactKind.INDEX and used >= INDEX_HEADER.size:
            with suppress(UnreadablePath):  # it expired meanwhile
                return int(INDEX_HEADER.parse(place.read(INDEX_HEADER.size))["index_count"]) - 1
            return None
        return -(-used // UNIT_BYTES[kind]) if kind in UNIT_BYTES else None

    def _compare(
        self, then: ManifestFile | None, now: ManifestFile, until_mark: str
    ) -> Iterator[Finding]:
        """Say what became of a file."""
        change = change_of(then, now, until_mark)
        self.changes[change].append(now.path)
        was_read = then and then.used_sha256 and now.used_sha256
        if then and was_read and change is Change.REWRITTEN and ArtefactKind(now.kind) in LOG_KINDS:
            self._is_odd = True
            what, was = f"the first {then.used:,} bytes of the file", then.used_sha256
            is_now = until_mark or now.used_sha256
            if is_now == was:  # what comes after them changed, and the log had gone on
                what, was, is_now = "the blank of the sealed file", then.sha256, now.sha256
            yield finding(
                FS_CHANGED,
                At(now.path, 0, then.used),
                f"{what} changed after {self._source} was made",
                expected=f"sha256 {was}",
                actual=f"sha256 {is_now}",
            )

    def _manifest(
        self, inspection: Inspection, facts: LogFacts, files: dict[str, ManifestFile]
    ) -> Manifest:
        options = inspection.options
        is_whole = options.level.reads_log and not (
            options.only or options.topic is not None or inspection.account.unread
        )
        has_counted = any(_is_odd(*key) for key in facts.counted)
        level = options.level
        if self.taken_over and self.before is not None:
            level = min(level, self.before.level, key=list(type(level)).index)
        return Manifest(
            store=str(inspection.store.root),
            level=level,
            is_proven=is_whole and not self._is_odd and not has_counted,
            log_end=facts.end,
            files=files,
        )

    def sentences(self) -> Iterator[str]:
        """Say what changed since the earlier manifest."""
        if self.before is None or self.manifest is None:
            return
        counts = ", ".join(
            f"{len(paths):,} {name}" for name, paths in self.changes.items() if paths
        )
        log = f"the log has grown from {self.before.log_end} to {self.manifest.log_end}"
        if self.manifest.log_end == self.before.log_end:
            log = "the log has not grown"
        elif self.manifest.log_end < self.before.log_end:
            log = f"the log ended at {self.before.log_end}, and now at {self.manifest.log_end}"
        yield f"since {self._source}: files {counts}; {log}"
        for name, paths in self.changes.items():
            if paths and name not in QUIET:
                more = f" and {len(paths) - NAMED:,} more" if len(paths) > NAMED else ""
                yield f"{name} since {self._source}: {', '.join(paths[:NAMED])}{more}"


def _is_replaced(inspection: Inspection, name: str, file: Digest) -> bool:
    return file.unread is not None and inspection.store.moment.is_replaced(name, file.unread)


def _looked_again(inspection: Inspection, name: str, place: Place, again: Digest) -> Digest:
    """Hash a file again that was not there for a moment."""
    for pause in PAUSES:
        if not _is_replaced(inspection, name, again):
            break
        time.sleep(pause)
        again = digest(DigestTask(place, is_whole=True))
    return again


def _sealed(segments: list[Segment]) -> frozenset[str]:
    """Give the paths of the segments after which another one is in use."""
    used = [segment.path for segment in segments if _begins_with_data(segment)]
    return frozenset(used[:-1])


def _begins_with_data(segment: Segment) -> bool:
    try:
        return any(segment.place.read(BLANK.size))
    except UnreadablePath:
        return True


def _is_odd(code: Code, severity: Severity) -> bool:
    """Tell whether a finding is about what is not compared again when segments are taken over."""
    return severity is not Severity.NOTE and code.area in LOG_AREAS


# Hash a file, whole and up to its last byte that is not zero; holes are not read.


CHUNK: Final = 1 << 20
ZEROS: Final = bytes(CHUNK)
LARGEST_HOLES: Final = 4 << 30  # of a file, bytes; those of brokers have 1 GiB at most


class DigestTask(NamedTuple):
    """A file to be hashed. Picklable."""

    place: Place  # the file
    mark: int = 0  # hash its first bytes up to here, too: what there was at an earlier time
    in_range: bool = False  # give a broker's checksum of the range that it holds, too
    is_whole: bool = False  # hash what comes after the last byte that is not zero, too


class Digest(NamedTuple):
    """What was found."""

    used: int = 0  # bytes up to the last one that is not zero
    used_sha256: str = ""  # of these; empty where `holes` are too many
    sha256: str = ""  # of the whole file; empty where nobody asked, or `holes` are too many
    size: int = 0  # of the file, bytes, as it was read
    holes: int = 0  # bytes
    until_mark: str = ""  # of the bytes up to the mark; empty where the used bytes end before
    range_checksum: str = ""  # as a broker gives it; empty where nobody asked
    unread: UnreadablePath | None = None  # why the file could not be read; None when it could


def digest(task: DigestTask) -> Digest:
    """Hash a file."""
    try:
        with task.place.open() as file:
            digest = _Hasher(file, task.mark).run(is_whole=task.is_whole)
            return digest._replace(range_checksum=range_checksum(file)) if task.in_range else digest
    except UnreadablePath as error:
        return Digest(unread=error)


class _Hasher:
    """The state of hashing one file. Zeros wait until something follows them."""

    def __init__(self, file: OpenFile, mark: int) -> None:
        self._file, self._mark = file, mark
        self._hash = hashlib.sha256(usedforsecurity=False)
        self._used = self._zeros = self._holes = 0
        self._until_mark = ""

    def run(self, *, is_whole: bool) -> Digest:
        """Read the file."""
        position, size = 0, self._file.size
        while position < size:
            data_at = self._file.next_data(position)
            if data_at is None:
                break
            end = min(data_at + CHUNK, size)
            if position < self._mark <= data_at:  # the mark lies in a hole: it was no last byte
                self._mark = 0
            if data_at < self._mark < end:
                end = self._mark
            self._zeros += data_at - position
            self._holes += data_at - position
            if self._holes > LARGEST_HOLES:
                return Digest(size=size, holes=self._holes)  # it would take hours
            raw = self._file.read_at(data_at, end - data_at)
            if not raw:
                break
            self._take(raw)
            position = data_at + len(raw)
            if position == self._mark and not self._zeros:
                self._until_mark = self._hash.copy().hexdigest()
        self._holes += size - position
        used_sha256 = self._hash.hexdigest()
        sha256 = ""
        if is_whole and self._holes <= LARGEST_HOLES:
            self._zeros = size - self._used
            self._take_zeros()
            sha256 = self._hash.hexdigest()
        return Digest(
            self._used, used_sha256, sha256, size, self._holes, until_mark=self._until_mark
        )

    def _take_zeros(self) -> None:
        while self._zeros:
            length = min(self._zeros, CHUNK)
            self._hash.update(memoryview(ZEROS)[:length])
            self._zeros -= length

    def _take(self, raw: bytes) -> None:
        bare = raw.rstrip(b"\0")
        if bare:
            self._used += self._zeros + len(bare)
            self._take_zeros()
            self._hash.update(bare)
        self._zeros += len(raw) - len(bare)
