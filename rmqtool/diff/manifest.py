"""A store beside a manifest: which of its files are what they were when that was made.

The manifest says of each file how far it was used, and the checksum of these bytes. So a file that
only grew is told from one that was rewritten, and nobody needs the other store: a replica far away,
or a state that is gone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rmqtool import engine
from rmqtool.check.manifest.manifest import Change, ManifestFile, change_of
from rmqtool.check.manifest.manifest_ledger import DigestTask, digest
from rmqtool.errors import Trouble, UnsupportedStore
from rmqtool.plural import counted
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.segment import start_of
from rmqtool.table import Column, Table, Type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.manifest.manifest import Manifest
    from rmqtool.errors import UnreadablePath
    from rmqtool.rows import Row
    from rmqtool.store.tree import Store

CHANGED: Final = Table(
    "changed files",
    "a file of a store that is not as a manifest says",
    (
        Column("path", Type.TEXT, "file, relative to the store root"),
        Column("kind", Type.TEXT, "its kind, as dump --as calls it"),
        Column("change", Type.TEXT, "new, gone, grown, rewritten, or unread"),
        Column("used_then", Type.INT64, "bytes up to the last one that was not zero", "bytes"),
        Column("used", Type.INT64, "the same now", "bytes"),
        Column("records_then", Type.INT64, "messages, queue units or index entries that it held"),
        Column("sha256_then", Type.TEXT, "checksum of the used bytes, as the manifest says"),
        Column("sha256", Type.TEXT, "the same now"),
        Column("reason", Type.TEXT, "why it could not be read", is_optional=True),
    ),
    shown=("change", "path", "used_then", "used", "records_then", "reason", "kind"),
)
UNREAD: Final = "unread"
_LOGS: Final = frozenset({str(ArtefactKind.COMMITLOG), str(ArtefactKind.DLEDGER)})


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file that is not what the manifest says."""

    change: Change | None  # what became of it; None where it could not be read
    then: ManifestFile | None  # what the manifest says
    now: ManifestFile | None  # what it is
    unread: UnreadablePath | None = None  # why it could not be read

    @property
    def file(self) -> ManifestFile:
        """The newer of both."""
        file = self.now or self.then
        assert file is not None  # noqa: S101 - it is in one of both
        return file

    def row(self) -> Row:
        """Give its row."""
        then, now = self.then, self.now
        return {
            "path": self.file.path,
            "kind": self.file.kind,
            "change": self.change or UNREAD,
            "used_then": then and then.used,
            "used": now and now.used if self.change else None,
            "records_then": then and then.records,
            "sha256_then": (then and then.sha256) or None,
            "sha256": (now and now.sha256) or None,
            "reason": self.unread and self.unread.reason,
        }


@dataclass(frozen=True, slots=True)
class ManifestDifference:
    """A store beside a manifest."""

    manifest: Manifest  # what was
    changed: tuple[ChangedFile, ...]  # the files that differ, by path
    same: int  # how many do not

    @property
    def unread(self) -> int:
        """How many files could not be read."""
        return sum(changed.change is None for changed in self.changed)

    @property
    def verdict(self) -> str:
        """The answer in a sentence: of the log first, as all else follows from it."""
        counts = Counter(str(changed.change or UNREAD) for changed in self.changed)
        others = [f"{count:,} {name}" for name, count in sorted(counts.items())]
        files = ", ".join([f"{counted(self.same, 'file')} unchanged", *others])
        return f"{self._log()}; {files}"

    def _log(self) -> str:
        log = [changed for changed in self.changed if changed.file.kind in _LOGS]
        end = self.manifest.log_end
        bad = [changed for changed in log if changed.change not in {Change.GROWN, Change.NEW}]
        first = self._first_left()
        bad = [
            changed
            for changed in bad
            if not (changed.change is Change.GONE and _start(changed.file) < first)
        ]
        if not bad:
            longer = any(changed.change in {Change.GROWN, Change.NEW} for changed in log)
            more = ", and goes on" if longer else ""
            if len(log) > sum(changed.change in {Change.GROWN, Change.NEW} for changed in log):
                return f"the log is unchanged from {first} to {end}{more}; older files are gone"
            return f"the log is unchanged up to {end}{more}"
        worst = min(bad, key=lambda changed: _start(changed.file))
        words = {Change.GONE: "is gone", Change.REWRITTEN: "was rewritten"}
        how = "could not be read" if worst.change is None else words[worst.change]
        return f"{worst.file.path} {how}"

    def _first_left(self) -> int:
        """Give where the first file of the log begins that is still there."""
        gone = {changed.file.path for changed in self.changed if changed.change is Change.GONE}
        starts = [
            _start(file)
            for file in self.manifest.files.values()
            if file.kind in _LOGS and file.path not in gone
        ]
        return min(starts, default=0)


def compare(store: Store, manifest: Manifest, *, jobs: int | None = None) -> ManifestDifference:
    """Compare a store with a manifest; nothing is written.

    Args:
        store: a whole one.
        manifest: of this store, of another state of it, or of a replica.
        jobs: threads; None is one for each processor.

    Raises:
        UnsupportedStore: this is a part of a store.
        UnreadablePath: a directory may not be listed.
    """
    if store.asked.kind is not ArtefactKind.STORE:
        reason = "a manifest names all files of a store: give the store root"
        raise UnsupportedStore(
            path=str(store.asked.place), reason=reason, trouble=Trouble.EXPLAINED
        )
    before = manifest.files
    files = sorted(store.artefacts(), key=lambda file: file.path)
    tasks = [
        DigestTask(file.place, before[file.path].used if file.path in before else 0)
        for file in files
    ]
    changed: list[ChangedFile] = []
    for file, read in zip(files, engine.run(digest, tasks, jobs=jobs), strict=True):
        then = before.get(file.path)
        entry = None if read.unread else file.place.stat()
        facts = (entry.size, entry.mtime_ns, entry.inode) if entry else (0, 0, 0)
        now = ManifestFile(
            file.path, file.kind, *facts, used=read.used, used_sha256=read.used_sha256
        )
        change = None if read.unread else change_of(then, now, read.until_mark)
        if change is not Change.SAME:
            changed.append(ChangedFile(change, then, now, read.unread))
    changed += _gone(before, {file.path for file in files})
    changed.sort(key=lambda changed: changed.file.path)
    same = len(files) - sum(changed_file.now is not None for changed_file in changed)
    return ManifestDifference(manifest, tuple(changed), same)


def _gone(before: dict[str, ManifestFile], there: set[str]) -> Iterator[ChangedFile]:
    for path, then in before.items():
        if path not in there:
            yield ChangedFile(Change.GONE, then, None)


def _start(file: ManifestFile) -> int:
    return start_of(file.path.rpartition("/")[2]) or 0
