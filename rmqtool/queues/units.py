"""What every queue answers, whatever it is stored in, and what kind of unit a unit is.

A unit has a *number*: its place in its queue. In consume queues, in files and in RocksDB, that is
the queue offset of its message. In batch queues, whose units stand for several messages each, it
counts units from byte 0 of the queue's byte space; `find` goes by queue offset.

numpy is imported when an array is asked for: `info` and `query` do without.
Source: ConsumeQueue, BatchConsumeQueue, SparseConsumeQueue, RocksDBConsumeQueue, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import enum
from abc import abstractmethod
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.consume_queue import CQ_UNIT, Number, is_pre_blank
from rmqtool.store.segment import MappedFiles, Oddity

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from rmqtool.formats.layout import Layout
    from rmqtool.store.branch import BranchKind

    Units = npt.NDArray[np.void]
    Kinds = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]


class UnitKind(enum.IntEnum):
    """What a unit is, by the rules of the broker's recovery."""

    INVALID = 0  # recovery ends in front of it
    REAL = 1  # stands for a record
    PRE_BLANK = 2  # valid for recovery; fills the space in front of the first real unit
    EMPTY = 3  # zeros: space that was never used
    CLOSING = 4  # END_UNIT: the last unit of a finished file of the compaction store's queue


RECOVERED: Final = (UnitKind.REAL, UnitKind.PRE_BLANK)  # what recovery takes for valid


def kind_of(physical_offset: Number, size: Number, tags_code: Number) -> Number:
    """Say what a consume queue unit is: one of `UnitKind`; arrays give int64, shape (n,).

    Source: ConsumeQueue#recover, #fillPreBlank, 4.9.3 to 5.5.0.
    """
    blank = is_pre_blank(physical_offset, size)
    real = (physical_offset >= 0) & (size > 0) & (blank ^ True)
    empty = (physical_offset == 0) & (size == 0) & (tags_code == 0)
    kind: Number = UnitKind.PRE_BLANK * blank + UnitKind.EMPTY * empty + UnitKind.REAL * real
    return kind


def batch_kind_of(
    physical_offset: Number,
    size: Number,
    store_timestamp: Number,
    msg_base_offset: Number,
    batch_size: Number,
) -> Number:
    """Say what a batch queue unit is: one of `UnitKind`; arrays give int64, shape (n,).

    Source: BatchConsumeQueue#recover, SparseConsumeQueue#putEndPositionInfo, 5.0.0 to 5.5.0.
    """
    is_message = (msg_base_offset >= 0) & (batch_size > 0)
    real = (physical_offset >= 0) & (size > 0) & is_message
    rest = (size == 0) & (msg_base_offset == 0) & (batch_size == 0) & (store_timestamp == 0)
    empty, closing = rest & (physical_offset == 0), rest & (physical_offset == -1)
    kind: Number = UnitKind.REAL * real + UnitKind.EMPTY * empty + UnitKind.CLOSING * closing
    return kind


def kinds_of(units: Units) -> Kinds:
    """Say what each unit is: int64, shape (n,), of `UnitKind`.

    Args:
        units: shape (n,), of the dtype of CQ_UNIT or BATCH_CQ_UNIT.
    """
    import numpy as np

    is_batch = units.dtype == BATCH_CQ_UNIT.dtype
    rest = ("store_timestamp", "msg_base_offset", "batch_size") if is_batch else ("tags_code",)
    columns = (units[name].astype(np.int64) for name in ("physical_offset", "size", *rest))
    return batch_kind_of(*columns) if is_batch else kind_of(*columns)


def are_recovered(units: Units) -> Mask:
    """Tell which units recovery takes for valid: bool, shape (n,); see `RECOVERED`.

    The same as by `kinds_of`, at a third of its cost.
    """
    found: Mask = (units["physical_offset"] >= 0) & (units["size"] > 0)
    if units.dtype == BATCH_CQ_UNIT.dtype:
        found &= (units["msg_base_offset"] >= 0) & (units["batch_size"] > 0)
    return found


def are_real(units: Units) -> Mask:
    """Tell which units stand for a record: bool, shape (n,)."""
    found = are_recovered(units)
    if units.dtype != BATCH_CQ_UNIT.dtype:
        found &= is_pre_blank(units["physical_offset"], units["size"]) == 0
    return found


def as_units(raw: bytes | memoryview, layout: Layout = CQ_UNIT) -> Units:
    """Give whole units as a structured array, big-endian; what is left of one is left out."""
    import numpy as np

    units: Units = np.frombuffer(raw, layout.dtype, len(raw) // layout.size)
    return units


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
