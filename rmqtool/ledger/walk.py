"""Walk along the log, and hold its runs against the queues of a store in files.

A run is the very bytes that belong at `queue offset * 20`; of a batch queue, those that follow on
the ones before. So a sound queue is proven by columns, or by comparing memory, and nothing is said
of it. What comes out are stretches: units that are not what the log wants there, and queue offsets
that do not follow. `validate` words them, `repair` puts them right.
Source: ConsumeQueue#putMessagePositionInfo, #recover, 4.9.3 to 5.5.0;
BatchConsumeQueue#putBatchMessagePositionInfo, 5.0.0 to 5.5.0.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import numpy as np

from rmqtool.derive.run_pool import RunPool
from rmqtool.errors import UnreadablePath
from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE
from rmqtool.ledger.differences import point_alike, wrong_units
from rmqtool.ledger.numbering import PlacedUnits, WrongNumbers
from rmqtool.ledger.sound import SoundQueues, WholeQueues, no_queue_whole, no_sound_queues
from rmqtool.queues.discovery import by_topic
from rmqtool.queues.kinds import as_units
from rmqtool.queues.units import KnownQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    import numpy.typing as npt

    from rmqtool.derive.queue_runs import QueueRun, QueueRuns
    from rmqtool.ledger.extensions import ExtUnits
    from rmqtool.ledger.sound import LogBounds, Remains, SoundSoFar
    from rmqtool.queues.kinds import Units

    Int64s = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

# Runs of units: topic, queue id, queue offset of the first one, count.
Proven: TypeAlias = AbstractSet[tuple[bytes, int, int, int]]
NONE_PROVEN: Final[Proven] = frozenset()


class LostOffsets(Protocol):
    """Knows which records a finding about the log explains: their units are not compared."""

    def mask(self, physical_offsets: Int64s) -> Mask:
        """Tell of each physical offset whether it is lost: bool, shape (n,)."""

    def between(self, start: int, end: int) -> bool:
        """Tell whether anything is lost in [start, end) of the log."""


@dataclass(slots=True)
class WalkedQueue(KnownQueue):
    """One queue in files while the log goes by."""

    # [start, end) of units that cannot be read, so that nothing is said of them
    unread: tuple[tuple[int, int], ...] = field(default=(), kw_only=True)

    def there(self, first: int, wanted: bytes) -> bytes:
        """Read the units in a place; those that cannot be read are taken for what they should be.

        Args:
            first: number of the first one.
            wanted: what the log wants there.

        Raises:
            UnreadablePath: a file of which that was not known.
        """
        layout = self.units.layout
        count = len(wanted) // layout.size
        is_unread = np.zeros(count if self.unread else 0, np.bool_)
        for low, high in self.unread:
            is_unread[max(low - first, 0) : max(high - first, 0)] = True
        if self.unread and is_unread.all():
            return wanted
        there = self.units.packed(first, count)
        if not is_unread.any():
            return there
        assumed = as_units(there, layout).copy()
        assumed[is_unread] = as_units(wanted, layout)[is_unread]
        return assumed.tobytes()


class HeldUnits(NamedTuple):
    """Units of one queue in a row, some of which are not, byte for byte, what the log wants."""

    first: int  # number of the first one
    wanted: Units  # shape (n,): as the log wants them
    there: Units  # shape (n,): as they are; zeros for none
    alike: Mask  # bool, shape (n,): which lead to the record that the log wants
    wrong: Mask  # bool, shape (n,): which are wrong; tags codes may be right though they differ

    @classmethod
    def of(
        cls,
        topic: str,
        first: int,
        wanted: Units,
        there: Units,
        extension: Callable[[], ExtUnits | None] = lambda: None,
    ) -> Self:
        """Hold units against others; see `wrong_units`."""
        wrong = wrong_units(topic, wanted, there, extension)
        return cls(first, wanted, there, point_alike(wanted, there), wrong)


Stretch: TypeAlias = HeldUnits | WrongNumbers | UnreadablePath
Queue = TypeVar("Queue", bound=WalkedQueue)


@dataclass(slots=True)
class QueueWalk(Generic[Queue]):
    """Takes the runs of the log in order."""

    # opens a queue, after what was sound of it so far; None for one that is not compared here
    begin: Callable[[bytes, int, SoundSoFar | None], Queue | None]
    # says where the units of the next run of a queue belong, as far as that is certain
    place: Callable[[Queue, QueueRun], Iterator[PlacedUnits | WrongNumbers]]
    # gives the extension of a queue; asked where a unit leads to one
    extension: Callable[[Queue], ExtUnits | None] = lambda _: None
    # compares short consume queues by columns
    sound: SoundQueues = field(default_factory=no_sound_queues)
    file_length: int = 0  # bytes of a consume queue file; 0 where nothing tells
    lost: LostOffsets | None = None  # which records are; None: the runs are without these
    # those that are not proven by columns, by topic, as the log has it, and number
    queues: dict[tuple[bytes, int], Queue] = field(default_factory=dict)
    # those that hold what the log wants alone: first and next queue offset; by `finish`
    whole: WholeQueues = field(default_factory=no_queue_whole)
    units: int = 0  # how many were compared
    newest: int = -1  # physical offset of the newest record that has its unit; -1 for none
    # runs of those taken last whose units lie at their queue offset
    proven: set[tuple[bytes, int, int, int]] = field(default_factory=set)
    pool: RunPool = field(init=False)  # runs that wait for more of their queues

    def __post_init__(self) -> None:
        self.pool = RunPool(self.file_length // CQ_UNIT_SIZE)

    def take(
        self, runs: QueueRuns, proven: Proven = NONE_PROVEN
    ) -> Iterator[tuple[Queue, Stretch]]:
        """Take the runs of the next part of the log; they may wait for more of their queues.

        Args:
            runs: of the part.
            proven: what somebody has compared already, and which is as the log wants it.
        """
        self.proven = set()
        before = self.sound.units
        left = self.sound.take(runs)
        self.units += self.sound.units - before
        self.newest = max(self.newest, self.sound.newest or self.newest)
        for ready in self.pool.add(left):
            yield from self._hold(ready, proven)

    def take_now(self, runs: Iterable[QueueRun]) -> Iterator[tuple[Queue, Stretch]]:
        """Take runs of the next part of the log in an order that must stay."""
        yield from self.rest()
        yield from self._hold(runs)

    def rest(self) -> Iterator[tuple[Queue, Stretch]]:
        """Compare the runs that wait."""
        for ready in self.pool.rest():
            yield from self._hold(ready)

    def finish(self, log: LogBounds, are_lost: Callable[[Units], Mask]) -> Remains:
        """Set the queues apart that are whole, and open those that hold more; no run follows.

        Args:
            log: where it begins and ends.
            are_lost: tells which units point to lost records.
        """
        remains = self.sound.rest(log, are_lost)
        self.whole = remains.whole
        for name in remains.others:
            self.take_up(*name)
        return remains

    def take_up(self, topic: bytes, queue_id: int) -> Queue | None:
        """Give a queue that is compared from now on; None for one that is not compared here."""
        queue = self.begun(topic, queue_id)
        if queue is not None:
            self.queues[topic, queue_id] = queue
        return queue

    def begun(self, topic: bytes, queue_id: int) -> Queue | None:
        """Begin a queue, after what was as it should be so far."""
        queue = self.begin(topic, queue_id, self.sound.seen_of(topic, queue_id))
        self.sound.leave(topic, queue_id)
        return queue

    def without(self, names: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
        """Give the queues of which the log has no message."""
        known = {(queue.topic, queue.queue_id) for queue in self.queues.values()}
        left = [
            (topic, queue_id)
            for topic, numbers in by_topic(names)
            for queue_id in sorted({*numbers}.difference(self.whole.numbers_of(topic)))
        ]
        return [name for name in left if name not in known]

    def held(self, queue: Queue, placed: PlacedUnits) -> Iterator[tuple[Queue, Stretch]]:
        """Compare units with those in their place."""
        yield from _named(queue, self._compare(queue, placed))

    def _compare(
        self, queue: Queue, placed: PlacedUnits, *, is_proven: bool = False
    ) -> Generator[Stretch, None, bool]:
        """Compare units with those in their place; return whether all are there."""
        wanted, is_read = bytes(placed.packed) * placed.repeated, True
        want = as_units(wanted, queue.units.layout)
        self.units += len(want)
        try:
            there = wanted if is_proven else queue.there(placed.queue_offset, wanted)
        except UnreadablePath as error:  # nothing is said of its units, the others go on
            yield error
            there, is_read = wanted, False
        if there == wanted:
            self.newest = max(self.newest, int(want["physical_offset"][-1]))
            return is_read
        have, extension = as_units(there, queue.units.layout), partial(self.extension, queue)
        held = HeldUnits.of(queue.topic, placed.queue_offset, want, have, extension)
        newest = want["physical_offset"][held.alike][-1:]
        self.newest = max(self.newest, int(newest.max(initial=self.newest)))
        yield held
        return False

    def _hold(
        self, runs: Iterable[QueueRun], proven: Proven = NONE_PROVEN
    ) -> Iterator[tuple[Queue, Stretch]]:
        for run in runs if self.lost is None else self._without_lost(runs, self.lost):
            name = run.topic, run.queue_id
            queue = self.queues.get(name) or self.take_up(*name)
            if queue is not None:
                yield from _named(queue, self._stretches(queue, run, proven))

    def _stretches(self, queue: Queue, run: QueueRun, proven: Proven) -> Iterator[Stretch]:
        """Hold a run against the queue, where its units belong."""
        facts = (run.topic, run.queue_id, run.queue_offset, run.count)
        is_same = False
        for placed in self.place(queue, run):
            if isinstance(placed, WrongNumbers):
                yield placed
                continue
            is_own, units = placed.queue_offset == run.queue_offset, placed
            if run.ends is not None and is_own:  # an executor has compared them
                self.units += run.count
                self.newest = max(self.newest, run.ends[1])
                continue
            if run.ends is not None:
                units = placed._replace(packed=_with_units(queue, run).units)
            is_there = yield from self._compare(queue, units, is_proven=is_own and facts in proven)
            is_same = is_there and is_own and len(placed.packed) == len(run.units)
        if is_same:
            self.proven.add(facts)

    def _without_lost(self, runs: Iterable[QueueRun], lost: LostOffsets) -> Iterator[QueueRun]:
        """Leave out the units of records that a gap has taken with it."""
        for run in runs:
            if not lost.between(run.first_physical_offset, run.last_physical_offset + 1):
                yield run
            elif queue := self.begin(run.topic, run.queue_id, None):
                here, layout = _with_units(queue, run), queue.units.layout
                units = as_units(here.units, layout)
                kept = ~lost.mask(units["physical_offset"].astype(np.int64))
                if layout is CQ_UNIT:
                    yield from here.parts(kept)
                elif kept.any():  # these follow each other, whatever was between them
                    left = memoryview(units[kept].tobytes())
                    yield replace(here, units=left, count=int(kept.sum()))


def _named(queue: Queue, held: Iterator[Stretch]) -> Iterator[tuple[Queue, Stretch]]:
    """Give stretches with their queue; what cannot be read is one, too."""
    try:
        for stretch in held:
            yield queue, stretch
    except UnreadablePath as error:
        yield queue, error


def _with_units(queue: WalkedQueue, run: QueueRun) -> QueueRun:
    """Give a run with the units that an executor has left out, as they lie in the queue."""
    if run.ends is None:
        return run
    try:
        units = memoryview(queue.units.packed(run.queue_offset, run.count))
    except UnreadablePath:  # it could be read a moment ago
        units = memoryview(bytes(run.count * CQ_UNIT_SIZE))
    return replace(run, units=units, ends=None)
