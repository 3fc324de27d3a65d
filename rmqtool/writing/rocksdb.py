"""Write a RocksDB database that brokers open: by a process that may do nothing else.

The library takes a path and looks names up by itself, so it gets a directory of its own, which
others cannot enter, and rows through a pipe: see `rocksdb_maker`. Once its process has ended, the
files that brokers need are moved, each by its name in that open directory, into a staged tree. What
the library adds for itself goes: its text log, its own JSON, its options.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, suppress
from itertools import count, islice
from typing import TYPE_CHECKING, Final, Self

from rmqtool.errors import WriteFailed
from rmqtool.store import rocksdb_frames
from rmqtool.store.confinement import spare_user
from rmqtool.store.rocksdb_cell import Cell, CellFailed, limits
from rmqtool.writing.staging import write_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np
    import numpy.typing as npt

    from rmqtool.writing.directory import Directory
    from rmqtool.writing.output_tree import OutputTree

ROWS_A_FRAME: Final = 4096  # of keys and values that are far below what a frame may have
KEPT: Final = re.compile(r"CURRENT|IDENTITY|MANIFEST-\d+|\d+\.sst")
MEMORY_BYTES: Final = 1 << 30  # tables of 64 MiB for each family, some of them on their way
SECONDS: Final = 24 * 60 * 60  # of a processor
FILE_BYTES: Final = 1 << 30
FILES: Final = 1 << 12
SILENCE_SECONDS: Final = 60 * 60  # a disk may be slow; nothing of a stranger's is read


class DatabaseWriter:
    """A new database in a tree; a context manager: what is not finished goes.

    Args:
        tree: an empty one, of the database alone or of a directory that it shares with queues.
        families: names of its column families, with `default`.
    """

    def __init__(self, tree: OutputTree, families: tuple[str, ...]) -> None:
        """Create the database.

        Raises:
            EngineMissing: the library is not installed.
            WriteFailed: it cannot write there.
        """
        self._tree, self._families = tree, families
        self._family = ""
        with write_errors(tree):
            self._name, self._room = _room(tree.top)
            user = _given_away(self._room)
        order = {
            "directory": self._room.handle,
            "user": user,
            "families": families,
            "limits": limits(MEMORY_BYTES, SECONDS, FILES, FILE_BYTES),
        }
        with self._failures():
            self._cell = Cell(order, [self._room.handle], SILENCE_SECONDS)
            try:
                self._cell.answer()
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process, and remove what it has not finished; twice does no harm."""
        self._cell.end()
        if self._room.handle >= 0:
            self._room.close()
            with suppress(OSError):  # it goes with the tree
                self._tree.top.remove(self._name)

    def put(self, family: str, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Write rows; later ones of the same key win.

        Raises:
            WriteFailed: the disk is full, or refuses.
        """
        coming = iter(rows)
        with self._of_family(family):
            while some := list(islice(coming, ROWS_A_FRAME)):
                self._write(some)

    def put_alike(
        self, family: str, keys: npt.NDArray[np.uint8], values: npt.NDArray[np.uint8]
    ) -> None:
        """Write rows whose keys all have one length, and whose values do; see `put`.

        Args:
            family: of the rows.
            keys: uint8, shape (n, bytes of a key), in C order.
            values: uint8, shape (n, bytes of a value), likewise.

        Raises:
            WriteFailed: the disk is full, or refuses.
        """
        fitting = rocksdb_frames.BYTES // (keys.shape[1] + values.shape[1])
        rows = max(min(ROWS_A_FRAME, fitting), 1)
        with self._of_family(family):
            for first in range(0, len(keys), rows):
                some = slice(first, first + rows)
                frame = rocksdb_frames.alike(len(keys[some]), keys[some].data, values[some].data)
                self._cell.write(frame)

    @contextmanager
    def _of_family(self, family: str) -> Iterator[None]:
        with self._failures():
            if family != self._family:
                self._cell.tell({"family": family})
                self._family = family
            yield

    def _write(self, some: list[tuple[bytes, bytes]]) -> None:
        """Write rows, in as many frames as their bytes need."""
        keys, values = zip(*some, strict=True)
        if len(some) > 1 and sum(map(len, keys)) + sum(map(len, values)) > rocksdb_frames.BYTES:
            half = len(some) // 2
            self._write(some[:half])
            self._write(some[half:])
            return
        self._cell.write(rocksdb_frames.rows(keys, values, {}))

    def finish(self) -> None:
        """Bring all families to table files, and take those that brokers need.

        Raises:
            WriteFailed: the disk is full, or refuses.
        """
        with self._failures():
            self._cell.tell({"families": self._families})
            self._cell.answer()
            self._cell.wait()
        with write_errors(self._tree):
            if os.geteuid() == 0:
                os.fchown(self._room.handle, 0, 0)
            for name in self._room.names():
                if KEPT.fullmatch(name):
                    self._tree.take(self._room, name)
            self._tree.top.remove(self._name)
            self._room.close()

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except CellFailed as error:
            raise WriteFailed(path=str(self._tree), reason=f"RocksDB: {error}") from error


def _room(top: Directory) -> tuple[str, Directory]:
    """Make a directory for the library alone."""
    for number in count():
        with suppress(FileExistsError):
            name = f"rocksdb-{number}"
            return name, top.own(name)
    raise AssertionError


def _given_away(room: Directory) -> int | None:
    """Give a directory to a user without rights, for root; return whose it is then.

    Nobody else is that user, and who were him could not enter what the directory lies in.
    """
    if os.geteuid() != 0:
        return None
    user = spare_user(os.getpid())
    if user is not None:
        with suppress(OSError):  # not allowed to root of a container, or by the file system
            os.fchown(room.handle, user, user)
    return os.fstat(room.handle).st_uid
