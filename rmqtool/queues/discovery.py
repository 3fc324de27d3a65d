"""Which queues a store has: in files, in batch files, in RocksDB, or in two of these at once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Literal, Self

from rmqtool.errors import Trouble, UnreadablePath
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.queues.files import MappedUnits, PlainUnits
from rmqtool.queues.span import real_units
from rmqtool.queues.units import LookedUp, QueueSource
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.entry import printable
from rmqtool.store.record_heads import MOST_OPEN, OpenFiles
from rmqtool.store.used import used_bytes

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence

    from rmqtool.queues.rocks import RocksQueue, RocksQueues
    from rmqtool.queues.units import QueueUnits, Unit, UnitPlace
    from rmqtool.store.queues import QueueFamily, QueueFiles, TopicListing
    from rmqtool.store.rocksdb_database import Database
    from rmqtool.store.tree import Store

UnitFamily = Literal["queues", "batch_queues", "rocksdb"]
UNIT_FAMILIES: Final[tuple[UnitFamily, ...]] = ("queues", "batch_queues", "rocksdb")


# Batch queues: a unit stands for several messages, so a queue offset has to be searched for.
#
# See BatchConsumeQueue#getBatchMsgIndexBuffer, #recover, 5.0.0 to 5.5.0.


class BatchUnits(MappedUnits):
    """A batch queue."""

    kind = ArtefactKind.BATCH_QUEUE
    layout = BATCH_CQ_UNIT

    @cached_property
    def stretches(self) -> list[range]:
        """Numbers of the units in use, file by file.

        Raises:
            UnreadablePath: a file may not be read.
        """
        size, ranges = self.layout.size, []
        for segment in self.files:
            first = segment.start // size
            ranges.append(range(first, first + used_bytes(self.file(segment), size) // size))
        return ranges

    @property
    def count(self) -> int:
        """Number of units in use."""
        return sum(map(len, self.stretches))

    def nth(self, row: int) -> LookedUp | None:
        """Read one of the units in use, counted from 0 over all files; None past the last."""
        for stretch in self.stretches:
            if row < len(stretch):
                return self.look_up(stretch[row])
            row -= len(stretch)
        return None

    def find(self, queue_offset: int) -> LookedUp | None:
        """Read the unit that stands for a queue offset; of a search that fails, where it failed.

        Raises:
            UnreadablePath: a file may not be read.
        """
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            unit = self.nth(middle)
            if unit is None or unit.unit is None:
                return unit
            if _end(unit.unit) <= queue_offset:
                low = middle + 1
            else:
                high = middle
        unit = self.nth(low)
        if unit is None or unit.unit is None or unit.unit.queue_offset > queue_offset:
            return None
        return unit

    def _looked_up(self, raw: bytes, number: int, place: UnitPlace) -> LookedUp:
        unit = next(real_units(self.layout, raw, number), None)
        return LookedUp(unit, place, "" if unit else "no valid unit")


def _end(unit: Unit) -> int:
    return unit.queue_offset + unit.messages


UNITS: Final[dict[ArtefactKind, type[MappedUnits]]] = {
    ArtefactKind.CONSUME_QUEUE: PlainUnits,
    ArtefactKind.BATCH_QUEUE: BatchUnits,
}
DIRECTORIES: Final = {
    ArtefactKind.CONSUME_QUEUE: "consumequeue",
    ArtefactKind.BATCH_QUEUE: "batchconsumequeue",
}


class FileSource(QueueSource):
    """The queues in files of one kind.

    Args:
        store: that has them.
        kind: CONSUME_QUEUE or BATCH_QUEUE.
        opened: keeps files open.
    """

    def __init__(self, store: Store, kind: ArtefactKind, opened: OpenFiles) -> None:
        self.kind = kind
        self._store, self._opened = store, opened

    @cached_property
    def family(self) -> QueueFamily | None:
        """The directory that holds them; None without one."""
        if not self._store.branches_of(self.kind):
            return None
        geometry, is_plain = self._store.geometry, self.kind is ArtefactKind.CONSUME_QUEUE
        length = geometry.consume_queue if is_plain else geometry.batch_queue
        return self._store.family(self.kind, length.value)

    def by_name(self, topic: str | None) -> QueuesInFiles | None:
        """Give the queues, or those of one topic, by name.

        None where one was asked for alone, or two topics are the same once printed.

        Raises:
            UnreadablePath: the family's directory may not be listed.
        """
        if self.family is None or self.family.single is not None:
            return None
        topics = self.family.topics()
        if len({*map(printable, topics)}) < len(topics):
            return None
        return QueuesInFiles(self.family, self._of, topic)

    def _of(self, queue: QueueFiles) -> MappedUnits:
        return UNITS[self.kind].of(queue, self._opened)

    def topics(self) -> list[str]:
        """See `QueueSource`."""
        family = self._store.family(self.kind)  # the length of files costs, and is not needed
        return family.topics() if family else []

    def queues(self) -> Iterator[MappedUnits]:
        """See `QueueSource`."""
        for queue in self.family.queues() if self.family else ():
            yield self._of(queue)

    def queues_of(self, topic: str, but: Container[int] = ()) -> Iterator[MappedUnits]:
        """See `QueueSource`."""
        for queue in self.family.queues_of(topic, but) if self.family else ():
            yield self._of(queue)

    def queue(self, topic: str, queue_id: int) -> MappedUnits | None:
        """See `QueueSource`."""
        files = self.family.queue(topic, queue_id) if self.family else None
        return self._of(files) if files else None


class QueuesInFiles(Mapping[tuple[str, int], MappedUnits]):
    """The queues of a family by topic, printable, and number: listed at once, made when asked for.

    There may be 100,000, and nothing but the name is asked of most. One that is asked for is kept,
    as are the names of its files.

    Attributes:
        problem: why a directory could not be listed; the queues of all others are there.
        numbers: of the queues of each topic, sorted.
        listings: of the topics, as the operating system spells them.

    Args:
        family: that has them, none of which was asked for alone.
        made: makes the units of a queue of its files.
        topic: the only one, printable; None for all.
    """

    def __init__(
        self, family: QueueFamily, made: Callable[[QueueFiles], MappedUnits], topic: str | None
    ) -> None:
        """List them. Raises UnreadablePath: the family's directory may not be listed."""
        self._family, self._make = family, made
        self._made: dict[tuple[str, int], MappedUnits] = {}
        self.numbers: dict[str, array[int]] = {}
        self.listings: dict[str, TopicListing] = {}
        self._names: dict[str, str] = {}  # of directories, as the operating system spells them
        self.problem: UnreadablePath | None = None
        for name in family.topics():
            if topic in {None, shown := printable(name)}:
                self._list(name, shown)

    def _list(self, name: str, shown: str) -> None:
        try:
            listing = self.listings[name] = self._family.listing(name)
        except UnreadablePath as error:  # one that was deleted since it was listed has none
            if self._family.topic is not None or error.trouble is not Trouble.MISSING:
                self.problem = self.problem or error
            return
        self.numbers[shown], self._names[shown] = listing.numbers, name

    def __getitem__(self, name: tuple[str, int]) -> MappedUnits:
        if name not in self:
            raise KeyError(name)
        if (queue := self._made.get(name)) is None:
            topic, queue_id = name
            files = self._family.numbered(self._names[topic], queue_id)
            queue = self._made[name] = self._make(files)
        return queue

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, tuple):
            return False
        topic, queue_id = name
        numbers = self.numbers.get(topic)
        if not numbers:
            return False
        row = bisect_left(numbers, queue_id)
        return row < len(numbers) and numbers[row] == queue_id

    def __iter__(self) -> Iterator[tuple[str, int]]:
        for topic, numbers in self.numbers.items():
            for queue_id in numbers:
                yield topic, queue_id

    def __len__(self) -> int:
        return sum(map(len, self.numbers.values()))

    def by_topic(self) -> Iterator[tuple[str, Sequence[int]]]:
        """Yield topics, and the numbers of queues of each."""
        return ((topic, numbers) for topic, numbers in self.numbers.items() if numbers)


def by_topic(names: Iterable[tuple[str, int]]) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield topics, and the numbers of queues of each; a topic may come several times."""
    if (listed := getattr(names, "by_topic", None)) is not None:  # a million of them, at once
        yield from listed()
        return
    for topic, queues in groupby(names, itemgetter(0)):
        yield topic, [queue_id for _, queue_id in queues]


class DatabaseSource(QueueSource):
    """The queues in a RocksDB database of a store, which is opened when they are asked for.

    Args:
        store: that may have one.
    """

    kind = ArtefactKind.ROCKSDB

    def __init__(self, store: Store) -> None:
        self._store = store
        self._source: RocksQueues | None = None
        self._is_open = False

    @property
    def source(self) -> RocksQueues | None:
        """The queues of the database; None when the store has none.

        Raises:
            DamagedDatabase: RocksDB refuses it.
            UnreadablePath: the store's directory may not be listed.
            EngineMissing: the library that reads it is not installed.
        """
        if not self._is_open:
            database = self._store.queue_database()
            if database is not None:
                from rmqtool.store.rocksdb_database import Database  # few stores have one

                self.adopt(Database(database.place, database.path))
            self._is_open = True
        return self._source

    def adopt(self, database: Database) -> None:
        """Take a database that is open already."""
        from rmqtool.queues.rocks import RocksQueues

        self._source, self._is_open = RocksQueues(database), True

    def close(self) -> None:
        """End the process that reads the database; what is read later opens it again."""
        if self._source is not None:
            self._source.database.close()
        self._source, self._is_open = None, False

    def topics(self) -> list[str]:
        """See `QueueSource`."""
        return self.source.topics() if self.source else []

    def queues(self) -> Iterator[RocksQueue]:
        """See `QueueSource`."""
        yield from self.source.queues() if self.source else ()

    def queues_of(self, topic: str, but: Container[int] = ()) -> Iterator[RocksQueue]:
        """See `QueueSource`."""
        yield from self.source.queues_of(topic, but) if self.source else ()

    def queue(self, topic: str, queue_id: int) -> RocksQueue | None:
        """See `QueueSource`."""
        return self.source.queue(topic, queue_id) if self.source else None

    def by_name(self, topic: str | None) -> Mapping[tuple[str, int], RocksQueue]:
        """Give the queues, or those of one topic, by topic and number.

        Raises:
            DamagedDatabase: they cannot be listed; see also `source`.
        """
        if not self.source:
            return {}
        from rmqtool.queues.rocks import QueuesByName

        return QueuesByName(self.source, topic)


class Queues:
    """All queues of a store; a context manager, as some files stay open.

    Attributes:
        sources: where queues may lie, in the order in which one is looked for.

    Args:
        store: that has them.
        limit: how many files stay open.
    """

    def __init__(self, store: Store, limit: int = MOST_OPEN) -> None:
        self._opened = OpenFiles(limit)
        self.files = FileSource(store, ArtefactKind.CONSUME_QUEUE, self._opened)
        self.batches = FileSource(store, ArtefactKind.BATCH_QUEUE, self._opened)
        self.database = DatabaseSource(store)
        self.sources: tuple[QueueSource, ...] = (self.files, self.batches, self.database)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files that are open; what is read later opens them again."""
        self._opened.close()
        self.database.close()

    def newest(self, sources: Iterable[QueueSource], log_start: int) -> Unit | None:
        """Give the unit whose record lies highest in the log; None where no queue has a unit.

        Brokers dispatch in the order of the log. So queues and index have all that comes before
        that record, and what comes after it may be on its way.

        Args:
            sources: of the queues.
            log_start: first physical offset of the log.

        Raises:
            UnreadablePath: a queue cannot be read.
        """
        spans = (queue.span(log_start) for source in sources for queue in source.queues())
        units = (span.last for span in spans if span.last)
        return max(units, key=lambda unit: unit.physical_offset, default=None)

    def missing(
        self, kind: ArtefactKind, name: tuple[str, int], path: str | None = None
    ) -> QueueUnits:
        """Give a queue without units, for one that is not there.

        Args:
            kind: CONSUME_QUEUE or BATCH_QUEUE.
            name: topic, printable, and number.
            path: of its directory; None for the usual one.
        """
        usual = f"{DIRECTORIES[kind]}/{name[0]}/{name[1]}"
        return UNITS[kind](name, path or usual, self._opened)

    def topics(self) -> list[str]:
        """List the topics that have queues, source by source.

        Raises:
            UnreadablePath: a directory may not be listed.
        """
        return list(dict.fromkeys(topic for source in self.sources for topic in source.topics()))

    @cached_property
    def _topics(self) -> tuple[frozenset[str], ...]:
        """The topics of each source, listed once and not for each topic that is asked for."""
        return tuple(frozenset(source.topics()) for source in self.sources)

    def queue(self, topic: str, queue_id: int) -> QueueUnits | None:
        """Give a queue from the first source that has it; None when none has."""
        queues = (source.queue(topic, queue_id) for source in self.sources)
        return next(filter(None, queues), None)

    def queues_of(self, topic: str) -> list[QueueUnits]:
        """Give the queues of a topic by number, each from the first source that has it.

        Raises:
            UnreadablePath: a directory may not be listed.
        """
        by_number: dict[int, QueueUnits] = {}
        for source, topics in zip(self.sources, self._topics, strict=True):
            for queue in source.queues_of(topic) if topic in topics else ():
                by_number.setdefault(queue.queue_id, queue)
        return [by_number[queue_id] for queue_id in sorted(by_number)]

    def pairs(self) -> Iterator[tuple[QueueUnits, QueueUnits]]:
        """Give the queues that two sources have, as a broker writes that combines them.

        Raises:
            UnreadablePath: a directory may not be listed.
        """
        for number, source in enumerate(self.sources):
            for queue in source.queues() if number else ():
                for earlier in self.sources[:number]:
                    if (other := earlier.queue(queue.topic, queue.queue_id)) is not None:
                        yield other, queue
