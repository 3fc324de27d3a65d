"""Many files at once, each the only one of a directory of its own: the queues of a store.

A store of a million queues has a million of them; what the operating system is asked for each is
all that they cost. Kernels ask it, on all processors.
"""

from __future__ import annotations

import os
from errno import EEXIST, EIO
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.engine import on_threads
from rmqtool.errors import OutputExists, WriteFailed
from rmqtool.writing.staging import write_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.machine.arrays import Int64s, UInt8s
    from rmqtool.writing.output_tree import OutputTree

FEW: Final = 256  # files that are made one by one sooner than kernels are loaded
FILES: Final = 256  # that one thread makes at a time, at least, and at most so many directories
LEAD_BYTES: Final = 1 << 16  # that are written at once
OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ManyFiles(NamedTuple):
    """Files of one length, each the only one of its directory.

    The last column but one has one item more than there are files.
    """

    above: Sequence[str]  # paths of the directories that their own are made in
    directory: Int64s  # which of them each is in, ascending: int64, shape (n,)
    paths: Sequence[str]  # of each file from there on: its directory, and its name
    length: int  # bytes of each, zeros where nothing else is
    lead: bytes  # what they begin with, again and again
    leads: Int64s  # how often: int64, shape (n,)
    data: UInt8s  # what follows, of one file after the other: uint8
    ends: Int64s  # where the data of each begins, and the last ends: int64, shape (n + 1,)
    mtimes_ms: Int64s  # int64, shape (n,)

    @property
    def names(self) -> Iterator[tuple[str, int]]:
        """Yield path and mtime of each, ms."""
        for number, path, mtime in zip(
            self.directory.tolist(), self.paths, self.mtimes_ms.tolist(), strict=True
        ):
            yield f"{self.above[number]}/{path}", mtime


def _are_possible(files: ManyFiles) -> bool:
    """Tell whether kernels can make them here, and it is worth their while."""
    if len(files.paths) < FEW:
        return False
    from rmqtool.many_files import kernels

    return kernels.calls() is not None


def put(tree: OutputTree, files: ManyFiles) -> bool:
    """Make files in a tree; False, with nothing done, where kernels cannot, or files are few.

    Raises:
        OutputExists: one of them is there already.
        RepairError: a part cannot be a file name.
        WriteFailed: the system refused.
    """
    if not _are_possible(files):
        return False
    for path in files.above:
        tree.directory(*path.split("/"))
    parts = _parts(files.directory)
    for _ in on_threads(lambda rows: _make(tree, files, rows), parts):
        pass
    tree.made.append(files)
    return True


def _parts(directory: Int64s) -> Iterator[slice]:
    """Yield rows for one thread: whole directories, so that two do not wait for each other."""
    borders = np.flatnonzero(np.diff(directory)) + 1
    begin = 0
    for end in [*borders.tolist(), len(directory)]:
        if end - begin >= FILES or end == len(directory):
            yield slice(begin, end)
            begin = end


def _make(tree: OutputTree, files: ManyFiles, rows: slice) -> None:
    """Make some of the files."""
    from rmqtool.many_files import kernels

    calls = kernels.calls()
    assert calls is not None  # noqa: S101 - asked before
    top, below = tree.top, tree.below
    owner = kernels.AS_MADE if tree.owner is None else tree.owner.of_new
    directory, ends = files.directory[rows], files.ends[rows.start : rows.stop + 1]
    numbers, of_file = np.unique(directory, return_inverse=True)
    paths = [os.fsencode(path) for path in files.paths[rows]]
    texts = [b"%b\0%b\0" % (path.partition(b"/")[0], path) for path in paths]
    text_ends = np.cumsum([len(text) for text in texts])
    handles: list[int] = []
    try:
        for number in numbers.tolist():
            path = f"{below}{files.above[number]}"
            with write_errors(top.shown(path)):
                handles.append(os.open(path, OPEN, dir_fd=top.handle))
        facts = np.empty((len(paths), kernels.FACTS), np.int64)
        facts[:, kernels.DIRECTORY] = np.array(handles)[of_file]
        facts[:, kernels.NAME] = text_ends - [len(text) for text in texts]
        facts[:, kernels.PATH] = text_ends - [len(path) + 1 for path in paths]
        facts[:, kernels.LEAD] = files.leads[rows] * len(files.lead)
        facts[:, kernels.DATA], facts[:, kernels.BYTES] = ends[:-1] - ends[0], np.diff(ends)
        seconds, milliseconds = np.divmod(files.mtimes_ms[rows], 1000)
        times = np.column_stack([seconds, milliseconds * 1_000_000] * 2)
        given = (
            _bytes(b"".join(texts)),
            files.data[ends[0] : ends[-1]],
            _bytes(files.lead * (LEAD_BYTES // len(files.lead))),
            times.reshape(-1).view(np.uint8),
        )
        made, error = kernels.make_files(calls, files.length, owner, facts, given)
    finally:
        for handle in handles:
            os.close(handle)
    if made < len(paths):
        path = f"{below}{files.above[directory[made]]}/{files.paths[rows][made]}"
        if error == EEXIST:
            raise OutputExists(path=top.shown(path), reason="was written already")
        raise WriteFailed.of(top.shown(path), OSError(error or EIO, os.strerror(error or EIO)))


def _bytes(raw: bytes) -> UInt8s:
    """Give bytes as kernels take them, who could write there: uint8, shape (n,)."""
    return np.frombuffer(bytearray(raw), np.uint8)
