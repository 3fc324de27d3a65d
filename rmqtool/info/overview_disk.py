"""Disk use of a store by the names in its root: what files claim, and what the disk holds."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.errors import UnreadablePath
from rmqtool.info.overview_rows import DiskRow
from rmqtool.queues.discovery import UNITS
from rmqtool.store.branch import BranchKind
from rmqtool.store.entry import EntryKind, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqtool.info.survey import Survey
    from rmqtool.store.branch import Branch
    from rmqtool.store.place import Place


DEEPEST = 16  # a store is four directories deep; what is deeper is not of RocketMQ's making


class DiskUse(NamedTuple):
    """Files and bytes below a place."""

    files: int  # number of them; directories, links and the like are none
    size: int  # bytes that they claim
    allocated: int  # bytes that the disk really holds; less where files are sparse


def disk_rows(survey: Survey) -> list[DiskRow]:
    """Disk use of each name in the store root, and their sum."""
    if survey.store.asked.kind is not BranchKind.STORE:
        return []
    found = []
    for name, use in _uses(survey):
        try:
            found.append(DiskRow(printable(name), *use()))
        except UnreadablePath as error:
            survey.problem(error)
    totals = zip(*((row.files, row.size, row.allocated) for row in found), strict=True)
    return [*found, DiskRow("(all)", *map(sum, totals))] if found else []


def _uses(survey: Survey) -> Iterator[tuple[str, Callable[[], DiskUse]]]:
    """Give each name in the root, and directories that are configured elsewhere."""
    branches = {branch.path: branch for branch in survey.store.branches}
    for entry in survey.store.asked.place.entries():
        branch = branches.pop(printable(entry.name), None)
        if entry.kind is EntryKind.FILE:
            yield entry.name, partial(DiskUse, 1, entry.size, entry.allocated)
        elif branch is not None and branch.kind in UNITS:
            yield entry.name, partial(_queues_use, survey, branch)
        elif branch is not None:  # a link to a directory counts as what it leads to
            yield entry.name, partial(_disk_use, branch.place)
        elif entry.kind is EntryKind.DIRECTORY:
            yield entry.name, partial(_disk_use, survey.store.asked.place.child(entry.name))
    for path, branch in branches.items():
        if path.startswith("/"):
            yield path, partial(_disk_use, branch.place)


def _queues_use(survey: Survey, branch: Branch) -> DiskUse:
    """Sum up a family of queues from what is known: listing 50,000 directories twice is slow."""
    queues = [queue for queue in survey.ranges if queue.kind is branch.kind]
    beside = _disk_use(branch.place, 0)
    return DiskUse(
        beside.files + sum(queue.files for queue in queues),
        beside.size + sum(queue.size for queue in queues),
        beside.allocated + sum(queue.allocated for queue in queues),
    )


def _disk_use(place: Place, depth: int = DEEPEST) -> DiskUse:
    """Sum up the files below a directory; links are not followed.

    Raises:
        UnreadablePath: a directory may not be listed.
    """
    files = size = allocated = 0
    for entry in place.entries():
        if entry.kind is EntryKind.FILE:
            files, size, allocated = files + 1, size + entry.size, allocated + entry.allocated
        elif entry.kind is EntryKind.DIRECTORY and depth:
            below = _disk_use(place.child(entry.name), depth - 1)
            files += below.files
            size += below.size
            allocated += below.allocated
    return DiskUse(files, size, allocated)
