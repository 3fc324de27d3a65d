"""Stage 1: list the mapped files, or find out why the broker refuses them.

Everything that it would refuse is collected, as whoever repairs needs all of it; the broker
stops at the first.
Source: MappedFileQueue#doLoad, ConsumeQueueStore#loadConsumeQueues, StoreCheckpoint, 4.9.3 to
5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.errors import UnreadablePath
from rmqtool.formats.checkpoint import CHECKPOINT
from rmqtool.formats.java import parse_long
from rmqtool.startup.files import FileQueue, ModelFile, Shelf
from rmqtool.store.entry import EntryKind, printable
from rmqtool.store.queues import listing_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from rmqtool.broker.rules import Rules
    from rmqtool.store.entry import Entry
    from rmqtool.store.place import Place

_SMALLEST_INTEGER, _LARGEST_INTEGER = -(2**31), 2**31 - 1
_SHORT = 9  # digits that always fit an int


class StartFails(Exception):
    """Java throws, and the broker does not start; never leaves the package."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__()
        self.path, self.reason = path, reason


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason for which the broker would not start."""

    path: str  # file or directory, relative to the store root
    reason: str  # what the broker does not like about it


@dataclass(slots=True)
class Loader:
    """Lists mapped file queues by one version's rules."""

    rules: Rules  # of the version
    refusals: list[Refusal] = field(default_factory=list)  # what has been found in the way so far
    shelf: Shelf = field(default_factory=Shelf)  # where short files are held

    def load(self, directories: Sequence[tuple[Place, str]], file_length: int) -> FileQueue:
        """List one queue, of one directory or (a commitlog) of several.

        Raises:
            UnreadablePath: a directory may not be listed.
        """
        files = [
            (entry, place.child(entry.name), f"{path}/{printable(entry.name)}")
            for place, path in directories
            for entry in entries(place)
        ]
        files.sort(key=lambda file: file[0].name)
        queue = FileQueue(directories[0][1] if directories else "", file_length)
        for number, (entry, place, path) in enumerate(files):
            if self.rules.skips_directories and entry.kind is EntryKind.DIRECTORY:
                continue
            is_last = number == len(files) - 1
            if self.rules.deletes_empty_last_file and is_last and not entry.size:
                queue.deleted.append(path)
                continue
            self._take(queue, entry, place, path)
        return queue

    def refuse(self, path: str, reason: str) -> None:
        """Note a reason not to start."""
        self.refusals.append(Refusal(path, reason))

    def _take(self, queue: FileQueue, entry: Entry, place: Place, path: str) -> None:
        if entry.kind is EntryKind.DIRECTORY:
            self.refuse(path, "a directory among files of a fixed length")
            return
        length, start = queue.file_length, parse_long(entry.name)
        is_right = entry.size == length
        if not is_right:
            self.refuse(path, f"has {entry.size:,} bytes, {length:,} are configured")
        elif start is None:
            self.refuse(path, "the name is not a number")
        if start is not None:
            shelf = self.shelf if is_right else None
            file = ModelFile(path, start, length, _followed_file(place), length, shelf=shelf)
            (queue.files if is_right else queue.refused).append(file)


def every_file(directories: Sequence[tuple[Place, str]]) -> list[ModelFile]:
    """List the files of a log that a broker refuses, each as long as it is, by their offsets.

    Raises:
        UnreadablePath: a directory may not be listed.
    """
    files = []
    for place, path in directories:
        for entry in entries(place):
            start, at = parse_long(entry.name), place.child(entry.name)
            if entry.kind is not EntryKind.DIRECTORY and start is not None and start >= 0:
                name = f"{path}/{printable(entry.name)}"
                files.append(ModelFile(name, start, entry.size, _followed_file(at), entry.size))
    return sorted(files, key=lambda file: file.start)


def _followed_file(place: Place) -> Place:
    there = place.stat()
    is_link = there is not None and there.kind is EntryKind.LINK
    return place.resolved() if is_link else place


def entries(place: Place) -> list[Entry]:
    """List a directory as Java's `File#listFiles` does: nothing where there is not one.

    A link counts as what it leads to, as it does for the broker.

    Raises:
        UnreadablePath: it may not be listed.
    """
    here = _followed(place)
    if here is None or here.kind is not EntryKind.DIRECTORY:
        return []
    entries = place.resolved().entries()
    return [
        entry if entry.kind is not EntryKind.LINK else _as_linked(place, entry) for entry in entries
    ]


def queue_directories(
    place: Place, known: Callable[[str], Container[int]] = lambda _: ()
) -> Iterator[tuple[str, int, Place, str]]:
    """Give the queues below `consumequeue` or its like: topic, number, place, path below it.

    A directory whose name is no integer is passed over without a word, as the loader does. Of any
    other it takes the number alone, and opens the directory that it builds of it: `00` makes it
    look into `0`, whether that is there or not. Likewise a topic whose name is not valid UTF-8.

    Args:
        place: of `consumequeue`.
        known: gives the numbers of a topic that are left out.

    Raises:
        UnreadablePath: a directory may not be listed.
    """
    for topic in _names(place):
        directory = place.child(topic)
        if printable(topic) != topic:
            continue
        left_out = known(topic)
        for queue_id in sorted({*_numbers(directory)}):
            if queue_id not in left_out:
                yield topic, queue_id, directory.child(str(queue_id)), f"{topic}/{queue_id}"


def _names(place: Place) -> list[str]:
    """List the names in a directory, likewise."""
    here = _followed(place)
    if here is None or here.kind is not EntryKind.DIRECTORY:
        return []
    return [name for name, _ in place.resolved().names()]


def _numbers(place: Place) -> Iterator[int]:
    """Give the numbers that a loader takes the names in the directory of a topic for."""
    here = _followed(place)
    if here is None or here.kind is not EntryKind.DIRECTORY:
        return
    listing = listing_of(place.resolved())
    yield from listing.numbers
    others = (integer(name) for name, _ in listing.others)
    yield from (number for number in others if number is not None)


def integer(text: str) -> int | None:
    """Read a number as `Integer#parseInt` does; None where it throws."""
    if len(text) <= _SHORT and text.isascii() and text.isdecimal():  # nearly every name
        return int(text)
    number = parse_long(text)
    if number is None or not _SMALLEST_INTEGER <= number <= _LARGEST_INTEGER:
        return None
    return number


def read_checkpoint(place: Place, loader: Loader) -> dict[str, int]:
    """Read the checkpoint; a short or missing one counts as filled up with zeros.

    Raises:
        UnreadablePath: the file may not be read.
    """
    entry = _followed(place)
    if entry is not None and entry.kind is EntryKind.DIRECTORY:
        loader.refuse("checkpoint", "is a directory")
        entry = None
    raw = b"" if entry is None else place.resolved().read(CHECKPOINT.size)
    values = CHECKPOINT.packer.unpack(raw.ljust(CHECKPOINT.size, b"\0"))
    return dict(zip(CHECKPOINT.positions, values, strict=True))


def exists(place: Place) -> bool:
    """Tell whether a name stands for something, as `File#exists` does."""
    return _followed(place) is not None


def _followed(place: Place) -> Entry | None:
    """Say what a path leads to; a link that leads nowhere is nothing, as for Java."""
    entry = place.stat()
    if entry is None or entry.kind is not EntryKind.LINK:
        return entry
    try:
        return place.resolved().stat()
    except UnreadablePath:  # a loop
        return None


def _as_linked(place: Place, link: Entry) -> Entry:
    """Give a link the kind and size of what it leads to; one that leads nowhere has length 0."""
    target = _followed(place.child(link.name))
    if target is None:
        return link._replace(kind=EntryKind.FILE, size=0)
    return target._replace(name=link.name)
