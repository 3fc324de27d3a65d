"""Families of queues: `consumequeue`, `consumequeue_ext`, `batchconsumequeue` and their like.

A family is `<topic>/<queue id>/<files>`. Everything is listed when it is asked for: a broker may
hold 50,000 queues, and one lookup concerns one of them.
Source: ConsumeQueueStore#load, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.errors import Trouble, UnreadablePath
from rmqtool.formats.java import parse_long
from rmqtool.store.entry import EntryKind, printable
from rmqtool.store.one_look import once
from rmqtool.store.place import Place
from rmqtool.store.segment import MappedFiles, Oddity, OddityKind, Segment, assemble, load, start_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

LARGEST_INTEGER = 2**31 - 1
LONGEST_INTEGER = 11  # characters
NUMBER: Final = "i"  # of a queue: Java's int


class MisnamedQueue(NamedTuple):
    """A directory with files of a queue, under a name that no broker builds."""

    topic: str  # name of the topic's directory, printable
    path: str  # relative to the store root
    number: int | None  # of the queue that the name may stand for; None where it stands for none
    has_queue: bool  # that queue has a directory under its own name, too


@dataclass(frozen=True, eq=False)
class QueueFiles:
    """The files of one queue; listed when `files` is first read."""

    topic: str  # name of the topic's directory, printable; empty for a lone file out of its place
    queue_id: int  # name of the queue's directory; 0 for a lone file out of its place
    place: Place  # the queue's directory
    path: str  # the same relative to the store root
    file_length: int = 0  # bytes of each file; 0 takes it from the files
    # the one file that was asked for; None is all of them
    lone: Segment | None = field(default=None, repr=False)

    @cached_property
    def files(self) -> MappedFiles:
        """The byte space of this queue; empty where it was deleted since it was listed.

        Raises:
            UnreadablePath: the directory may not be listed.
        """
        directory = [(self.place, self.path)]
        if self.lone is not None:
            return assemble([self.lone], [], directory, self.file_length)
        try:
            return load(directory, self.file_length)
        except UnreadablePath as error:
            if error.trouble is not Trouble.MISSING:
                raise
            return assemble([], [], directory, self.file_length)


class TopicListing(NamedTuple):
    """What lies in the directory of a topic."""

    numbers: array[int]  # of its queues, sorted
    others: list[tuple[str, EntryKind]]  # what is no directory under the number of a queue


NOT_LISTED: Final[Mapping[str, TopicListing]] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class QueueFamily:
    """All queues of one kind."""

    place: Place  # the family's directory
    path: str  # the same relative to the store root
    file_length: int = 0  # bytes of each file; 0 takes it from the files, queue by queue
    # the one topic that was asked for, as a directory name; None is all of them
    topic: str | None = None
    single: QueueFiles | None = None  # the one queue that was asked for; None is all of them
    ignored: frozenset[str] = frozenset()  # directory names at the topic level that are no topics

    def topics(self) -> list[str]:
        """List the topic directories, as the operating system spells them, sorted.

        Raises:
            UnreadablePath: the family's directory may not be listed.
        """
        if self.topic is not None:
            return [self.topic]
        return [
            name
            for name, kind in self.place.names()
            if kind is EntryKind.DIRECTORY and name not in self.ignored
        ]

    def queues(self) -> Iterator[QueueFiles]:
        """Give all queues, by topic, then by number; a directory that is no number is passed.

        Raises:
            UnreadablePath: a directory may not be listed; the queues of all others come before.
                One that was deleted since it was listed has none.
        """
        if self.single is not None:
            yield self.single
            return
        problem: UnreadablePath | None = None
        for topic in self.topics():
            try:
                yield from self.queues_of(topic)
            except UnreadablePath as error:
                if self.topic is not None or error.trouble is not Trouble.MISSING:
                    problem = problem or error
        if problem is not None:
            raise problem

    def queues_of(self, topic: str, but: Container[int] = ()) -> Iterator[QueueFiles]:
        """Give the queues of one topic, by number.

        Args:
            topic: of them.
            but: numbers of queues that are left out.

        Raises:
            UnreadablePath: the topic's directory may not be listed.
        """
        for queue_id in self.numbers_of(topic):
            if queue_id not in but:
                yield self.numbered(topic, queue_id)

    def numbers_of(self, topic: str) -> list[int]:
        """Give the numbers of the queues of one topic, sorted.

        Raises:
            UnreadablePath: the topic's directory may not be listed.
        """
        return self.listing(topic).numbers.tolist()

    def listing(self, topic: str) -> TopicListing:
        """List the directory of a topic. Raises UnreadablePath: see `listing_of`."""
        return listing_of(self.place.child(topic))

    def numbered(self, topic: str, queue_id: int) -> QueueFiles:
        """Give a queue that was listed."""
        place = self.place.child(topic).child(str(queue_id))
        path = f"{self.path}/{printable(topic)}/{queue_id}"
        return QueueFiles(printable(topic), queue_id, place, path, self.file_length)

    def queue(self, topic: str, queue_id: int) -> QueueFiles | None:
        """Give one queue; None when it has no directory."""
        if not topic or "/" in topic or "\0" in topic or topic in {".", ".."}:
            return None  # a topic from the evidence must not lead out of the store
        if self.single is not None:
            is_it = (topic, queue_id) == (self.single.topic, self.single.queue_id)
            return self.single if is_it else None
        if self.topic not in {None, topic}:
            return None
        files = self.numbered(topic, queue_id)
        entry = files.place.stat()
        return files if entry and entry.kind is EntryKind.DIRECTORY else None

    def oddities(self, known: Mapping[str, TopicListing] = NOT_LISTED) -> Iterator[Oddity]:
        """Give what lies in the directories of family and topics but is neither topic nor queue.

        Args:
            known: topics that were listed already, as the operating system spells them.

        Raises:
            UnreadablePath: a directory may not be listed.
        """
        if self.single is not None:
            return
        for name, kind in self.place.names() if self.topic is None else []:
            if kind is EntryKind.LINK:
                yield Oddity(OddityKind.LINK, f"{self.path}/{printable(name)}", "a directory")
        for topic in self.topics():
            path = f"{self.path}/{printable(topic)}"
            for name, kind in (known.get(topic) or self.listing(topic)).others:
                if kind is EntryKind.LINK:
                    yield Oddity(OddityKind.LINK, f"{path}/{printable(name)}", "a directory")
                else:
                    stray = f"{path}/{printable(name)}"
                    yield Oddity(OddityKind.FOREIGN_NAME, stray, "the number of a queue")

    def misnamed(self, known: Mapping[str, TopicListing] = NOT_LISTED) -> Iterator[MisnamedQueue]:
        """Give the directories of topics that hold files of a queue, and that no broker reads.

        Args:
            known: topics that were listed already, as the operating system spells them.

        Raises:
            UnreadablePath: a directory may not be listed.
        """
        for topic in self.topics() if self.single is None else ():
            place, shown = self.place.child(topic), printable(topic)
            listing = known.get(topic) or self.listing(topic)
            for name, kind in listing.others:
                if kind is not EntryKind.DIRECTORY or not _has_mapped_files(place.child(name)):
                    continue
                number = parse_long(name.strip())
                is_queue = number is not None and 0 <= number <= LARGEST_INTEGER
                path = f"{self.path}/{shown}/{printable(name)}"
                has_queue = is_queue and number in listing.numbers
                yield MisnamedQueue(shown, path, number if is_queue else None, has_queue)


def listing_of(place: Place) -> TopicListing:
    """List the directory of a topic, once while one look lasts.

    Raises:
        UnreadablePath: it may not be listed.
    """
    if type(place) is not Place:  # it may be an edited one
        return _listed(place)
    return once((listing_of, place), lambda: _listed(place))


def _listed(place: Place) -> TopicListing:
    names, is_queue = place.names(), EntryKind.DIRECTORY
    ids = [queue_id_of(name) if kind is is_queue else None for name, kind in names]
    others = [entry for entry, queue_id in zip(names, ids, strict=True) if queue_id is None]
    numbers = sorted(queue_id for queue_id in ids if queue_id is not None)
    return TopicListing(array(NUMBER, numbers), others)


@lru_cache(maxsize=1 << 10)  # queues of most topics have the same numbers
def queue_id_of(name: str) -> int | None:
    """Give the number of the queue whose directory a broker builds under a name; None without one.

    A loader takes every name that `Integer#parseInt` accepts, such as `00` or `+1`, for a number,
    and then opens the directory whose name it builds of that number.
    Source: ConsumeQueueStore#loadConsumeQueues, ConsumeQueue#ConsumeQueue; observed, 4.9.3, 5.3.3
    and 5.5.0.
    """
    is_number = name.isdecimal() or (name[:1] == "-" and name[1:].isdecimal())  # of damaged records
    if not is_number or len(name) > LONGEST_INTEGER or not name.isascii():
        return None
    number = int(name)
    is_integer = -LARGEST_INTEGER - 1 <= number <= LARGEST_INTEGER
    return number if is_integer and str(number) == name else None


def _has_mapped_files(place: Place) -> bool:
    """Tell whether a directory holds a file whose name is a start offset."""
    return any(
        kind is EntryKind.FILE and start_of(name) is not None for name, kind in place.names()
    )
