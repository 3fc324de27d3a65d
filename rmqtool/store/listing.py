"""All files of a store, one after the other, each with what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rmqtool.store.artefact import TIMER_CHECK, Artefact, ArtefactKind, FamilyDepth
from rmqtool.store.entry import EntryKind, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store.index_files import IndexFile
    from rmqtool.store.queues import QueueFamily, QueueFiles
    from rmqtool.store.segment import MappedFiles

MAPPED = {
    ArtefactKind.COMMITLOG,
    ArtefactKind.DLEDGER,
    ArtefactKind.DLEDGER_INDEX,
    ArtefactKind.TIMER_LOG,
}
PLAIN = {ArtefactKind.CONFIG, ArtefactKind.TIERED_INDEX}


class Holder(Protocol):
    """What has artefacts: a `Store`, of which this module need not know more."""

    @property
    def branches(self) -> tuple[Artefact, ...]: ...  # noqa: D102

    def mapped(self, branch: Artefact) -> MappedFiles: ...  # noqa: D102

    def index_files(self) -> list[IndexFile]: ...  # noqa: D102

    def family(self, kind: ArtefactKind) -> QueueFamily | None: ...  # noqa: D102


def artefacts(store: Holder) -> Iterator[Artefact]:
    """Give each file of a store as a branch of its own, by path.

    Raises:
        UnreadablePath: a directory may not be listed.
    """
    for branch in store.branches:
        if branch.level is FamilyDepth.FILE or not _is_directory(branch):
            kind = _kind(branch, branch.place.name)
            yield Artefact(
                kind, branch.place, branch.path, FamilyDepth.FILE, branch.why, branch.queue
            )
        elif branch.kind in MAPPED:
            yield from _mapped(branch, store.mapped(branch))
        elif branch.kind is ArtefactKind.INDEX:
            for file in store.index_files():
                yield Artefact(branch.kind, file.place, file.path, FamilyDepth.FILE, branch.why)
        elif branch.kind in PLAIN:
            yield from _plain_files(branch)
        elif (family := store.family(branch.kind)) is not None:
            for queue in family.queues():
                yield from _queue_files(branch, queue)


def _is_directory(branch: Artefact) -> bool:
    entry = branch.place.stat()
    return entry is not None and entry.kind is EntryKind.DIRECTORY


def _mapped(branch: Artefact, files: MappedFiles) -> Iterator[Artefact]:
    for segment in files:
        yield Artefact(branch.kind, segment.place, segment.path, FamilyDepth.FILE, branch.why)


def _queue_files(branch: Artefact, queue: QueueFiles) -> Iterator[Artefact]:
    number = (queue.topic, queue.queue_id)
    for segment in queue.files:
        yield Artefact(
            branch.kind, segment.place, segment.path, FamilyDepth.FILE, branch.why, number
        )


def _plain_files(branch: Artefact) -> Iterator[Artefact]:
    """Give the files of a flat directory: `config`, tiered index files."""
    for name, kind in branch.place.names():
        if kind is EntryKind.FILE:
            path = f"{branch.path}/{printable(name)}"
            child = branch.place.child(name)
            yield Artefact(_kind(branch, name), child, path, FamilyDepth.FILE, branch.why)


def _kind(branch: Artefact, name: str) -> ArtefactKind:
    """Say what a file is: `config` holds one that is no JSON."""
    is_timer_check = branch.kind is ArtefactKind.CONFIG and name == TIMER_CHECK
    return ArtefactKind.TIMER_CHECK if is_timer_check else branch.kind
