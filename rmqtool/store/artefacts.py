"""All files of a store, one after the other, each with what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rmqtool.store.branch import TIMER_CHECK, Branch, BranchKind, FamilyDepth
from rmqtool.store.entry import EntryKind, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store.index_files import IndexFile
    from rmqtool.store.queues import QueueFamily, QueueFiles
    from rmqtool.store.segment import MappedFiles

MAPPED = {
    BranchKind.COMMITLOG,
    BranchKind.DLEDGER,
    BranchKind.DLEDGER_INDEX,
    BranchKind.TIMER_LOG,
}
PLAIN = {BranchKind.CONFIG, BranchKind.TIERED_INDEX}


class Holder(Protocol):
    """What has artefacts: a `Store`, of which this module need not know more."""

    @property
    def branches(self) -> tuple[Branch, ...]: ...  # noqa: D102

    def mapped(self, branch: Branch) -> MappedFiles: ...  # noqa: D102

    def index_files(self) -> list[IndexFile]: ...  # noqa: D102

    def family(self, kind: BranchKind) -> QueueFamily | None: ...  # noqa: D102


def artefacts(store: Holder) -> Iterator[Branch]:
    """Give each file of a store as a branch of its own, by path.

    Raises:
        UnreadablePath: a directory may not be listed.
    """
    for branch in store.branches:
        if branch.level is FamilyDepth.FILE or not _is_directory(branch):
            kind = _kind(branch, branch.place.name)
            yield Branch(
                kind, branch.place, branch.path, FamilyDepth.FILE, branch.why, branch.queue
            )
        elif branch.kind in MAPPED:
            yield from _mapped(branch, store.mapped(branch))
        elif branch.kind is BranchKind.INDEX:
            for file in store.index_files():
                yield Branch(branch.kind, file.place, file.path, FamilyDepth.FILE, branch.why)
        elif branch.kind in PLAIN:
            yield from _plain_files(branch)
        elif (family := store.family(branch.kind)) is not None:
            for queue in family.queues():
                yield from _queue_files(branch, queue)


def _is_directory(branch: Branch) -> bool:
    entry = branch.place.stat()
    return entry is not None and entry.kind is EntryKind.DIRECTORY


def _mapped(branch: Branch, files: MappedFiles) -> Iterator[Branch]:
    for segment in files:
        yield Branch(branch.kind, segment.place, segment.path, FamilyDepth.FILE, branch.why)


def _queue_files(branch: Branch, queue: QueueFiles) -> Iterator[Branch]:
    number = (queue.topic, queue.queue_id)
    for segment in queue.files:
        yield Branch(branch.kind, segment.place, segment.path, FamilyDepth.FILE, branch.why, number)


def _plain_files(branch: Branch) -> Iterator[Branch]:
    """Give the files of a flat directory: `config`, tiered index files."""
    for name, kind in branch.place.names():
        if kind is EntryKind.FILE:
            path = f"{branch.path}/{printable(name)}"
            child = branch.place.child(name)
            yield Branch(_kind(branch, name), child, path, FamilyDepth.FILE, branch.why)


def _kind(branch: Branch, name: str) -> BranchKind:
    """Say what a file is: `config` holds one that is no JSON."""
    is_timer_check = branch.kind is BranchKind.CONFIG and name == TIMER_CHECK
    return BranchKind.TIMER_CHECK if is_timer_check else branch.kind
