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
    from collections.abc import Container, Iterator

    from rmqtool.formats.layout import Layout
    from rmqtool.queues.kinds import Units
    from rmqtool.store.artefact import ArtefactKind


class Unit(NamedTuple):
    """One real unit of a queue, of any kind."""

    number: int  # its place in its queue
    queue_offset: int  # of its first message
    messages: int  # how many it stands for
    physical_offset: int  # of its record
    size: int  # bytes of the record
    # of the record, ms since 1970 UTC; None where units do not hold it
    store_timestamp: int | None = None

    @property
    def end(self) -> int:
        """Physical offset past the record."""
        return self.physical_offset + self.size


class UnitPlace(NamedTuple):
    """Where a unit lies, for a finding."""

    path: str  # of its file, else of the queue's directory or database; relative to the store root
    position: int | None  # byte in that file; None where no file holds the unit


class LookedUp(NamedTuple):
    """What lies in the place of a unit."""

    unit: Unit | None  # what it says; None when it is not a real one
    place: UnitPlace  # where it lies
    problem: str = ""  # why it is not one; empty when it is one


class QueueSpan(NamedTuple):
    """How far a queue reaches."""

    topic: str  # of the queue
    queue_id: int  # of the queue
    kind: ArtefactKind  # of the queue
    # first real unit whose record the commitlog still has; None without one
    first: Unit | None
    last: Unit | None  # last real unit; None without one
    expired: int  # real units before `first`
    mean_size: (
        float  # bytes of a message of this queue, from the last units; 0 when there is not one
    )
    is_exact: bool  # `mean_size` is over all units
    files: int = 0  # number of its own files; a database has none for a queue
    size: int = 0  # bytes of these
    allocated: int = 0  # bytes that the disk really holds
    oddities: tuple[Oddity, ...] = ()  # of its directory

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
    """The units of one queue. Inherit from it: what can be said of any kind of queue is here."""

    topic: str  # its name, printable
    queue_id: int  # its number
    path: str  # its directory, or that of the database that holds it, relative to the store root
    kind: ArtefactKind  # CONSUME_QUEUE and BATCH_QUEUE for files, ROCKSDB for a database
    # of the units that are read: BATCH_CQ_UNIT for batch queues, else CQ_UNIT
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
    """One queue, and what is found out about it."""

    units: QueueUnits  # on disk; none for a queue that is not there, or cannot be listed

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

    kind: ArtefactKind

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

    def queues_of(self, topic: str, but: Container[int] = ()) -> Iterator[QueueUnits]:
        """Give the queues of one of `topics`, by number, without those with some numbers.

        Raises:
            UnreadablePath: the topic's directory may not be listed.
        """

    def queue(self, topic: str, queue_id: int) -> QueueUnits | None:
        """Give one queue; None without one."""
