"""What every queue answers, whatever it is stored in.

A unit has a *number*: its place in its queue. In consume queues, in files and in RocksDB, that is
the queue offset of its message. In batch queues, whose units stand for several messages each, it
counts units from byte 0 of the queue's byte space; `find` goes by queue offset.

What kind of unit a unit is, is in kinds.py.
Source: ConsumeQueue, BatchConsumeQueue, RocksDBConsumeQueue, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.queues.kinds import as_units
from rmqtool.store.segment import MappedFiles, Oddity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.formats.layout import Layout
    from rmqtool.queues.kinds import Units
    from rmqtool.store.branch import BranchKind


class Unit(NamedTuple):
    """One real unit of a queue, of any kind.

    Attributes:
        number: its place in its queue.
        queue_offset: of its first message.
        messages: how many it stands for.
        physical_offset: of its record.
        size: bytes of the record.
        store_timestamp: of the record, ms since 1970 UTC; None where units do not hold it.
    """

    number: int
    queue_offset: int
    messages: int
    physical_offset: int
    size: int
    store_timestamp: int | None = None

    @property
    def end(self) -> int:
        """Physical offset past the record."""
        return self.physical_offset + self.size


class UnitPlace(NamedTuple):
    """Where a unit lies, for a finding.

    Attributes:
        path: of its file, else of the queue's directory or database; relative to the store root.
        position: byte in that file; None where no file holds the unit.
    """

    path: str
    position: int | None


class LookedUp(NamedTuple):
    """What lies in the place of a unit.

    Attributes:
        unit: what it says; None when it is not a real one.
        place: where it lies.
        problem: why it is none; empty when it is one.
    """

    unit: Unit | None
    place: UnitPlace
    problem: str = ""


class QueueSpan(NamedTuple):
    """How far a queue reaches.

    Attributes:
        topic: of the queue.
        queue_id: of the queue.
        kind: of the queue.
        first: first real unit whose record the commitlog still has; None when there is none.
        last: last real unit; None when there is none.
        expired: real units before `first`.
        mean_size: bytes of a message of this queue, from the last units; 0 when there is none.
        is_exact: `mean_size` is over all units.
        files: number of its own files; a database has none for a queue.
        size: bytes of these.
        allocated: bytes that the disk really holds.
        oddities: of its directory.
    """

    topic: str
    queue_id: int
    kind: BranchKind
    first: Unit | None
    last: Unit | None
    expired: int
    mean_size: float
    is_exact: bool
    files: int = 0
    size: int = 0
    allocated: int = 0
    oddities: tuple[Oddity, ...] = ()

    @property
    def min_offset(self) -> int:
        """Queue offset of the first message; the end of the queue when it has none."""
        return self.first.queue_offset if self.first else self.max_offset

    @property
    def max_offset(self) -> int:
        """Queue offset of the next message; 0 for a queue that never had one."""
        return self.last.queue_offset + self.last.messages if self.last else 0

    @property
    def messages(self) -> int:
        """Number of messages that the commitlog still has."""
        return self.max_offset - self.min_offset


class QueueUnits(Protocol):
    """The units of one queue. Inherit from it: what can be said of any kind of queue is here.

    Attributes:
        topic: its name, printable.
        queue_id: its number.
        path: its directory, or that of the database that holds it, relative to the store root.
        kind: CONSUME_QUEUE and BATCH_QUEUE for files, ROCKSDB for a database.
        layout: of the units that are read: BATCH_CQ_UNIT for batch queues, else CQ_UNIT.
    """

    topic: str
    queue_id: int
    path: str
    kind: BranchKind
    layout: Layout = CQ_UNIT

    @abstractmethod
    def span(self, log_start: int = 0) -> QueueSpan:
        """Find out how far the queue reaches, with a few reads.

        Args:
            log_start: first physical offset that the commitlog has; units before it are expired.

        Raises:
            UnreadablePath: a file may not be read.
        """

    @abstractmethod
    def packed(self, first: int, count: int) -> bytes:
        """Read units as they would lie in a file: `count * layout.size` bytes.

        Zeros stand for units that are not there.

        Args:
            first: number of the first one.
            count: how many.

        Raises:
            UnreadablePath: a file may not be read.
        """

    def read(self, first: int, count: int) -> Units:
        """Read units as a structured array of the layout's dtype, big-endian, shape (count,).

        Zeros stand for units that are not there.

        Raises:
            UnreadablePath: a file may not be read.
        """
        return as_units(self.packed(first, count), self.layout)

    @abstractmethod
    def used(self, first: int = 0, end: int | None = None) -> Iterator[tuple[int, Units]]:
        """Yield the stretches of a queue that are not altogether zeros, in order.

        Args:
            first: number of the first unit that is asked for.
            end: past the last one; None is the end of the queue.

        Yields:
            The number of the first unit, and the units as `read` gives them: at most some
            thousands, none of them before `first` or from `end` on.

        Raises:
            UnreadablePath: a file may not be read.
        """

    @abstractmethod
    def locate(self, number: int) -> UnitPlace:
        """Say where a unit lies, or would lie; nothing is read."""

    @abstractmethod
    def look_up(self, number: int) -> LookedUp | None:
        """Read the unit of a number; None outside of the queue.

        Raises:
            UnreadablePath: a file may not be read.
        """

    def find(self, queue_offset: int) -> LookedUp | None:
        """Read the unit that stands for a queue offset; None outside of the queue.

        Raises:
            UnreadablePath: a file may not be read.
        """
        return self.look_up(queue_offset)

    @property
    def is_there(self) -> bool:
        """Whether anything is stored of it."""
        return True

    @property
    def files(self) -> MappedFiles:
        """Its own files; none for a queue in a database.

        Raises:
            UnreadablePath: the directory may not be listed.
        """
        return MappedFiles(self.path)

    def unread(self) -> Iterator[tuple[Oddity, int, int]]:
        """Yield what is there and cannot be read: why, its first number, and the one past it.

        Raises:
            UnreadablePath: the directory may not be listed.
        """
        yield from ()

    def holds(self, number: int) -> bool:
        """Tell whether something is stored in the place of a unit, be it zeros."""
        return self.look_up(number) is not None

    @property
    def blank_end(self) -> int:
        """Number past the last unit that a pre-blank may be; 0 where a queue needs none."""
        return 0


@dataclass(slots=True)
class KnownQueue:
    """One queue, and what is found out about it.

    Attributes:
        units: on disk; none for a queue that is not there, or cannot be listed.
    """

    units: QueueUnits

    @property
    def topic(self) -> str:
        """Its name, printable."""
        return self.units.topic

    @property
    def queue_id(self) -> int:
        """Its number."""
        return self.units.queue_id

    @property
    def path(self) -> str:
        """Its directory, or that of its database, relative to the store root."""
        return self.units.path

    @property
    def files(self) -> MappedFiles:
        """Its files; none when it has none."""
        return self.units.files


class QueueSource(Protocol):
    """The queues of one kind in a store, listed when they are asked for."""

    kind: BranchKind

    def topics(self) -> list[str]:
        """List the topics, sorted.

        Raises:
            UnreadablePath: the directory or database may not be read.
        """

    def queues(self) -> Iterator[QueueUnits]:
        """Give all queues, by topic, then by number.

        Raises:
            UnreadablePath: a directory may not be listed; the queues of all others come before.
        """

    def queues_of(self, topic: str) -> Iterator[QueueUnits]:
        """Give the queues of one of `topics`, by number.

        Raises:
            UnreadablePath: the topic's directory may not be listed.
        """

    def queue(self, topic: str, queue_id: int) -> QueueUnits | None:
        """Give one queue; None when there is none."""
