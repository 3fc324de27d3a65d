"""What a read is cut into: tasks, each of which a thread or an executor reads by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from rmqtool.formats.rocksdb_queue import ROCKSDB_CQ_UNIT

if TYPE_CHECKING:
    from rmqtool.check.of_table import Asked
    from rmqtool.findings.finding import Finding
    from rmqtool.store.place import Place
    from rmqtool.store.segment import SegmentPart
    from rmqtool.tables.inputs import FilePart

FILE_BYTES: Final = 4 << 20  # what reading a file of units is taken to cost


@dataclass(frozen=True, slots=True)
class LogTask:
    """A stretch of a log. Picklable."""

    part: SegmentPart  # which bytes
    start: int | None = None  # position of the first extent; None where it is still to be found

    @property
    def length(self) -> int:
        """Bytes to read."""
        return self.part.length


@dataclass(frozen=True, slots=True)
class FilesTask:
    """Some files of one kind. Picklable."""

    files: tuple[FilePart, ...]  # in order

    @property
    def length(self) -> int:
        """Bytes to read, about."""
        return FILE_BYTES * len(self.files)


class KeyRange(NamedTuple):
    """A stretch of a queue in RocksDB, whose units lie beside each other there."""

    topic: bytes  # UTF-8
    queue_id: int  # of the queue
    first: int  # queue offset of the first unit
    end: int  # queue offset past the last one


@dataclass(frozen=True, slots=True)
class RocksTask:
    """Stretches of queues in one database, which each task opens by itself. Picklable."""

    place: Place  # of the database
    path: str  # the same relative to the store root
    ranges: tuple[KeyRange, ...]  # in the order of their keys

    @property
    def length(self) -> int:
        """Bytes to read, about; to open the database counts."""
        units = sum(range_.end - range_.first for range_ in self.ranges)
        return FILE_BYTES + units * ROCKSDB_CQ_UNIT.size


@dataclass(frozen=True, slots=True)
class UnreadTask:
    """Nothing to read, but a row that says so. Picklable."""

    path: str  # what cannot be read, relative to the store root
    reason: str  # why

    @property
    def length(self) -> int:
        """Nothing is read."""
        return 0


@dataclass(frozen=True, slots=True)
class WholeTask:
    """The whole store. Picklable."""

    log_bytes: int = 0  # length of its log

    @property
    def length(self) -> int:
        """Bytes to read, about; to look at all its files counts."""
        return FILE_BYTES + self.log_bytes


@dataclass(frozen=True, slots=True)
class DefectsTask:
    """What is damaged in the files of a table, and no row of it says. Picklable."""

    asked: Asked  # whose files
    # what is damaged, where planning has found it; None where a task is to find it
    findings: tuple[Finding, ...] | None = None
    length: int = FILE_BYTES  # bytes to read, about


class HasLength(Protocol):
    """What can share a task of Spark."""

    @property
    def length(self) -> int:
        """Bytes to read, about."""
        ...


Task: TypeAlias = LogTask | FilesTask | RocksTask | UnreadTask | WholeTask | DefectsTask
