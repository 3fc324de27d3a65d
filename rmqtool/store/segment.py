"""Mapped file queues: files named by their start offset that form one byte space.

`load` lists a queue as the broker's loader does, but reports what the broker would refuse, so
that a store that no longer starts can still be read. Nothing is opened here but the beginnings of
commitlog files of one name.
Source: MappedFileQueue#doLoad, UtilAll#offset2FileName, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.errors import Trouble, UnreadablePath
from rmqtool.formats.dledger import DLEDGER_BODY_OFFSET
from rmqtool.store.entry import EntryKind, printable
from rmqtool.store.place import note_no_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqtool.store.entry import Entry
    from rmqtool.store.place import OpenFile, Place

NAME_DIGITS = 20
LARGEST_LONG = 2**63 - 1
_HEAD_BYTES = 8  # total size and magic code
_MADE_AHEAD = 2  # files; a broker writes to the one before them, and maybe to the first already


class OddityKind(enum.StrEnum):
    """What about a directory is not as a broker leaves it; whether that is bad, checks say."""

    FOREIGN_NAME = "foreign-name"  # the loader would throw: not a number
    SHORT_NAME = "short-name"  # a number, but not of 20 digits; the loader reads it
    DIRECTORY = "directory"
    LINK = "link"
    NOT_A_FILE = "not-a-file"
    ODD_LENGTH = "odd-length"
    EMPTY_FILE = "empty-file"
    HOLE = "hole"
    OVERLAP = "overlap"
    DUPLICATE = "duplicate"  # two commitlog paths hold the same name
    MISSING = "missing"
    UNREADABLE = "unreadable"


NO_FILES = {EntryKind.DIRECTORY: OddityKind.DIRECTORY, EntryKind.LINK: OddityKind.LINK}


class Oddity(NamedTuple):
    """One oddity of a directory."""

    kind: OddityKind  # what it is
    path: str  # file or directory, relative to the store root
    expected: str = ""  # what a broker would have left there, as text; empty when there is no rule
    actual: str = ""  # what is there, as text
    # first byte of the byte space concerned; None when it is about a name only
    start: int | None = None
    length: int | None = None  # bytes concerned from `start` on
    trouble: Trouble = Trouble.OTHER  # why it cannot be read, where that is what is odd


class Segment(NamedTuple):
    """One file of a mapped file queue."""

    place: Place  # where it lies
    path: str  # the same relative to the store root, `/` separated, printable
    start: int  # first byte in the byte space, from the name
    size: int  # bytes on disk
    mtime_ms: int = 0  # last change of the file, ms since 1970 UTC
    allocated: int = 0  # bytes that the disk really holds
    # bytes of the byte space right before this file that no file is there for
    missing_before: int = 0
    missing_after: int = 0  # bytes right after this file that it ought to hold, and no file does
    longer: int = 0  # bytes that this file is longer than it ought to be
    # whether a file after it holds anything; asked for by `marked_followed`
    is_followed: bool = False
    grows: bool = False  # whether a broker may write to it while it is read
    entry_header: int = 0  # bytes of DLedger before each record, and before what closes the file

    @property
    def end(self) -> int:
        """First byte of the byte space after this file."""
        return self.start + self.size

    @property
    def missing(self) -> list[tuple[int, int]]:
        """Stretches beside this file that no file holds: first byte, and length."""
        before = (self.start - self.missing_before, self.missing_before)
        return [gap for gap in (before, (self.end, self.missing_after)) if gap[1]]

    def open(self) -> OpenFile:
        """Open for reading. Raises UnreadablePath: see `Place.open`."""
        return self.place.open_listed()


class SegmentPart(NamedTuple):
    """A stretch of one segment that one task reads."""

    segment: Segment  # the whole file
    begin: int  # position of its first byte in the file
    end: int  # position after its last byte

    @property
    def length(self) -> int:
        """Bytes of this part."""
        return self.end - self.begin

    @property
    def is_first(self) -> bool:
        """Whether it begins where the file does."""
        return self.begin == 0

    @property
    def is_last(self) -> bool:
        """Whether it ends where the file does."""
        return self.end >= self.segment.size


@dataclass(frozen=True)
class MappedFiles:
    """A mapped file queue."""

    path: str  # its directory relative to the store root
    segments: tuple[Segment, ...] = ()  # files in the order of their start; sizes as on disk
    file_length: int = 0  # bytes that each file ought to have; 0 when there is no file to tell
    oddities: tuple[Oddity, ...] = ()  # what a broker would not have left like this
    # the directories; several for a commitlog with several paths
    places: tuple[Place, ...] = field(default=(), repr=False)
    misnamed: tuple[Segment, ...] = ()  # files set apart by `well_named`
    entry_header: int = 0  # of all segments

    def __bool__(self) -> bool:
        return bool(self.segments)

    def __len__(self) -> int:
        return len(self.segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.segments)

    @property
    def start(self) -> int:
        """First byte of the byte space that is there; 0 when nothing is."""
        return self.segments[0].start if self.segments else 0

    @property
    def end(self) -> int:
        """Byte after the last file; 0 when nothing is there."""
        return self.segments[-1].end if self.segments else 0

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum([segment.size for segment in self.segments])

    @property
    def allocated(self) -> int:
        """Bytes that the disk really holds for all files together."""
        return sum([segment.allocated for segment in self.segments])

    def well_named(self) -> MappedFiles:
        """Set the files apart whose names are no multiple of the file length."""
        length = self.file_length
        odd = tuple(segment for segment in self.segments if length and segment.start % length)
        if not odd:
            return self
        well = [segment for segment in self.segments if not segment.start % length]
        joints = (OddityKind.HOLE, OddityKind.OVERLAP, OddityKind.DUPLICATE)
        paths = {segment.path for segment in odd}
        kept = [
            oddity
            for oddity in self.oddities
            if oddity.kind not in joints and oddity.path not in paths
        ]
        oddities = (*kept, *_joints(well, length))
        return replace(self, segments=tuple(well), oddities=oddities, misnamed=odd)

    def in_entries(self) -> MappedFiles:
        """Say that each record lies in an entry of DLedger."""
        segments = [segment._replace(entry_header=DLEDGER_BODY_OFFSET) for segment in self.segments]
        return replace(self, segments=tuple(segments), entry_header=DLEDGER_BODY_OFFSET)

    def beside(self, *, is_live: bool | None) -> MappedFiles:
        """Say that a running broker appends to the last files; without one nothing changes.

        Source: AllocateMappedFileService#putRequestAndReturnMappedFile, 4.9.3 to 5.5.0.
        """
        if not is_live:
            return self
        full = max(len(self.segments) - _MADE_AHEAD - 1, 0)
        last = [segment._replace(grows=True) for segment in self.segments[full:]]
        if last and not last[-1].size:  # a broker makes a file before it gives it its length
            last[-1] = last[-1]._replace(missing_after=0)
        return replace(self, segments=(*self.segments[:full], *last))

    def at(self, start: int) -> Segment | None:
        """Give the file that holds one byte of the byte space; None when no file does."""
        number = bisect_right(self.segments, start, key=lambda segment: segment.start) - 1
        if number < 0 or start >= self.segments[number].end:
            return None
        return self.segments[number]

    def read_at(self, start: int, length: int) -> bytes:
        """Read from one file of the byte space; fewer bytes at its end, none where no file is."""
        segment = self.at(start)
        if segment is None:
            return b""
        with segment.open() as file:
            return file.read_at(start - segment.start, length)


def load(directories: Sequence[tuple[Place, str]], file_length: int | None = None) -> MappedFiles:
    """List the files of one queue.

    Args:
        directories: each with its path relative to the store root.
        file_length: bytes of each file where known; None takes it from the files.
    """
    segments: list[Segment] = []
    oddities: list[Oddity] = []
    for place, path in directories:
        for entry in place.entries():
            _sort_in(entry, place, f"{path}/{printable(entry.name)}", segments, oddities)
    return assemble(segments, oddities, directories, file_length)


def assemble(
    segments: Iterable[Segment],
    oddities: Iterable[Oddity],
    directories: Sequence[tuple[Place, str]],
    file_length: int | None = None,
) -> MappedFiles:
    """Order files into one byte space and note where they do not fit each other."""
    ordered = list(segments)
    if len(ordered) > 1:
        ordered.sort(key=lambda segment: (segment.start, segment.path))
    if len(directories) > 1:
        ordered = _emptiest_first(ordered)
    length = file_length or length_of(ordered)
    joints = list(_joints(ordered, length))
    return MappedFiles(
        path=directories[0][1] if directories else "",
        segments=tuple(_with_missing(ordered, length)),
        file_length=length,
        oddities=(*oddities, *_lengths(ordered, length), *joints),
        places=tuple(place for place, _ in directories),
    )


def _emptiest_first(ordered: Sequence[Segment]) -> list[Segment]:
    """Of files of one name, put one that begins with a record last: that one is read."""
    counts = Counter(segment.start for segment in ordered)
    return sorted(
        ordered,
        key=lambda segment: (
            segment.start,
            counts[segment.start] > 1 and not _begins_empty(segment),
        ),
    )


def _begins_empty(segment: Segment) -> bool:
    """Tell whether a commitlog file begins with zeros; no broker reads any further there.

    Source: CommitLog#checkMessageAndReturnSize, 4.9.3 to 5.5.0.
    """
    try:
        with segment.open() as file:
            return not any(file.read_at(0, _HEAD_BYTES))
    except UnreadablePath:
        return False


def length_of(segments: Sequence[Segment]) -> int:
    """Say how long the files of a queue ought to be, from the files alone; 0 for no file.

    The most frequent length wins: a copy that was cut off shortens one file, not most of them.
    Among equally frequent ones that which also lies between two names, then the longest.
    """
    if len(segments) == 1 or len({segment.size for segment in segments}) == 1:
        return segments[0].size
    counts = Counter(segment.size for segment in segments if segment.size)
    steps = Counter(after.start - before.start for before, after in pairwise(segments))
    return max(counts, key=lambda size: (counts[size], steps[size], size), default=0)


def start_of(name: str) -> int | None:
    """Read a file name as the broker does; None when it is no start offset.

    Any decimal digits count: a JVM under an Arabic locale writes its own.
    Source: UtilAll#offset2FileName, MappedFile#init (Long.parseLong).
    """
    if not name.isdecimal():
        return None
    start = int(name)
    return start if start <= LARGEST_LONG else None


def _sort_in(
    entry: Entry, place: Place, path: str, segments: list[Segment], oddities: list[Oddity]
) -> None:
    """Put one directory entry among the segments or among the oddities."""
    start = start_of(entry.name)
    if entry.kind is not EntryKind.FILE:
        if start is not None and (len(entry.name) == NAME_DIGITS or entry.kind is EntryKind.OTHER):
            note_no_file(place, entry)
        oddities.append(Oddity(NO_FILES.get(entry.kind, OddityKind.NOT_A_FILE), path, "a file"))
    elif start is None:
        oddities.append(Oddity(OddityKind.FOREIGN_NAME, path, f"{NAME_DIGITS} digits"))
    else:
        if len(entry.name) != NAME_DIGITS:
            oddities.append(Oddity(OddityKind.SHORT_NAME, path, f"{start:0{NAME_DIGITS}}"))
        child = place.child(entry.name)
        segments.append(Segment(child, path, start, entry.size, entry.mtime_ms, entry.allocated))


def _lengths(segments: Sequence[Segment], length: int) -> Iterator[Oddity]:
    for segment in segments:
        if segment.size != length or not segment.size:
            kind = OddityKind.ODD_LENGTH if segment.size else OddityKind.EMPTY_FILE
            yield Oddity(
                kind, segment.path, str(length), str(segment.size), segment.start, segment.size
            )


def _with_missing(segments: Sequence[Segment], length: int) -> Iterable[Segment]:
    """Tell files what no file holds beside them; a file under a wrong name is told nothing."""
    is_whole = all(segment.size == length for segment in segments)
    if not length or (is_whole and all(a.end == b.start for a, b in pairwise(segments))):
        return segments  # files that are all empty have no length
    joined = list(segments)
    end = full = joined[0].start  # where files end so far, and would with all of their bytes
    last: int | None = None
    for number, segment in enumerate(segments):
        if not segment.start % length:
            if last is not None:
                missing = max(min(full, segment.start) - end, 0)
                joined[last] = joined[last]._replace(missing_after=missing)
            hole = max(segment.start - max(full, end), 0)
            longer = max(segment.size - length, 0)
            joined[number] = segment._replace(missing_before=hole, longer=longer)
            last, full = number, max(full, segment.start + length)
        end, full = max(end, segment.end), max(full, segment.end)
    if last is not None:
        joined[last] = joined[last]._replace(missing_after=max(full - end, 0))
    return joined


def _joints(segments: Sequence[Segment], length: int) -> Iterator[Oddity]:
    """Compare each name with the one before: the next file starts one file length later."""
    for before, after in pairwise(segments):
        expected = before.start + length
        if after.start == before.start:
            kind, start, end = OddityKind.DUPLICATE, after.start, after.end
        elif after.start > expected:
            kind, start, end = OddityKind.HOLE, expected, after.start
        elif after.start < expected:
            kind, start, end = OddityKind.OVERLAP, after.start, expected
        else:
            continue
        yield Oddity(
            kind,
            after.path,
            f"{expected:0{NAME_DIGITS}}",
            f"{after.start:0{NAME_DIGITS}}",
            start,
            end - start,
        )
