"""`carve`: search images, put what was found in order, write it; and what is to be said of it."""

from __future__ import annotations

import re
import shlex
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import tee
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from rmqtool import engine
from rmqtool.carve import kernels_judge
from rmqtool.carve.kernels_judge import BUDGET, COUNTS
from rmqtool.carve.options import CarveFormat
from rmqtool.carve.reading import Reader
from rmqtool.carve.rows import CARVED, CARVED_RECORDS, record_rows
from rmqtool.carve.runs import CarvedRuns
from rmqtool.carve.search import open_image, search
from rmqtool.plural import counted
from rmqtool.scan import columns as row
from rmqtool.writing.output import OutputDirectory, OutputFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    import numpy.typing as npt
    from typing_extensions import Buffer

    from rmqtool.carve.options import CarveOptions
    from rmqtool.carve.reading import FoundRecords
    from rmqtool.carve.runs import Run
    from rmqtool.carve.search import Image, ImagePart, PartFound

    Int64s: TypeAlias = npt.NDArray[np.int64]


# Put the runs of a store in the order of its log, and keep what comes twice once.
#
# A run that no other one overlaps goes on as it is. Of the others, records are compared one by one:
# the same record at the same place is kept once; different records that claim the same place are
# both kept, as only a person can tell which of them the broker wrote last.


SLICE_BYTES: Final = 16 << 20  # of a log, in which overlapping records are compared at once
_KEPT: Final = 6  # numbers that are kept of a record that is compared
PLACE, SIZE, SUM, IMAGE, POSITION, RUN = range(_KEPT)


@dataclass(slots=True)
class Overlaps:
    """What was found out about records that overlap."""

    duplicates: int = 0  # records that were there already
    conflicts: int = 0  # records that claim a place that another one claims


def in_order(runs: CarvedRuns, numbers: Int64s) -> Iterator[list[Run]]:
    """Yield the runs of one store by physical offset: those that overlap together.

    Args:
        runs: all there are.
        numbers: int64, shape (n,); those of the store.
    """
    offsets, lengths = runs.offsets[numbers], runs.lengths[numbers]
    order = np.lexsort((runs.positions[numbers], runs.images[numbers], offsets))
    begins, ends = offsets[order], (offsets + lengths)[order]
    if not order.size:
        return
    borders = np.flatnonzero(begins[1:] >= np.maximum.accumulate(ends)[:-1]) + 1
    first = 0
    for border in [*borders.tolist(), order.size]:
        yield [runs.run(int(numbers[place])) for place in order[first:border]]
        first = border


def settled(group: Sequence[Run], reader: Reader, overlaps: Overlaps) -> Iterator[Run]:
    """Yield what is to be written of runs that overlap, each record once.

    Args:
        group: by physical offset.
        reader: reads records.
        overlaps: counted on.

    Raises:
        UnreadablePath: the image changed.
    """
    if len(group) == 1:
        yield group[0]
        return
    waiting = list(reversed(group))
    active: list[Run] = []
    reached = -1  # past the last byte of the log that a kept record claims
    while waiting or active:
        begin = min([run.offset for run in active] or [waiting[-1].offset])
        end = begin + SLICE_BYTES
        while waiting and waiting[-1].offset < end:
            active.append(waiting.pop())
        rows, rest = [], []
        for number, run in enumerate(active):
            some, left = _facts(run, number, end, reader)
            rows.append(some)
            rest += left
        kept, reached = _kept(np.concatenate(rows, axis=1), reached, overlaps)
        yield from _stretches(kept, active)
        active = rest


def _facts(run: Run, number: int, end: int, reader: Reader) -> tuple[Int64s, list[Run]]:
    """Give what is compared of the records of a run before an offset, and the rest of the run."""
    pieces = [np.empty((_KEPT, 0), np.int64)]
    seen = 0
    for some in reader.records(run):
        offsets = some.columns[row.PHYSICAL_OFFSET]
        count = int(np.searchsorted(offsets, end))
        if count:
            facts = np.empty((_KEPT, count), np.int64)
            facts[PLACE], facts[SIZE] = offsets[:count], some.columns[row.SIZE, :count]
            facts[SUM], facts[IMAGE] = some.sums()[:count], run.image
            facts[POSITION], facts[RUN] = some.columns[row.POSITION, :count], number
            pieces.append(facts)
            seen += count
        if count < offsets.size:
            skipped = int(offsets[count]) - run.offset
            return np.concatenate(pieces, axis=1), [_rest_of(run, skipped, run.records - seen)]
    return np.concatenate(pieces, axis=1), []


def _rest_of(run: Run, skipped: int, count: int) -> Run:
    """Give a run without its first bytes."""
    return run._replace(
        position=run.position + skipped,
        offset=run.offset + skipped,
        length=run.length - skipped,
        records=count,
    )


def _kept(facts: Int64s, reached: int, overlaps: Overlaps) -> tuple[Int64s, int]:
    """Give the records to write, in order, and how far they reach.

    Args:
        facts: int64, shape (6, n).
        reached: past the last byte that records before these claim.
        overlaps: counted on.
    """
    keys = (POSITION, IMAGE, SUM, SIZE, PLACE)  # the last one is the first that counts
    facts = facts[:, np.lexsort([facts[key] for key in keys])]
    is_same = np.zeros(facts.shape[1], np.bool_)
    is_same[1:] = (facts[[PLACE, SIZE, SUM], 1:] == facts[[PLACE, SIZE, SUM], :-1]).all(axis=0)
    kept = facts[:, ~is_same]
    overlaps.duplicates += int(is_same.sum())
    ends = np.maximum.accumulate(np.append(reached, kept[PLACE] + kept[SIZE]))
    overlaps.conflicts += int((kept[PLACE] < ends[:-1]).sum())
    return kept, int(ends[-1])


def _stretches(facts: Int64s, runs: Sequence[Run]) -> Iterator[Run]:
    """Put kept records together where they follow each other in one run."""
    if not facts.shape[1]:
        return
    strides = np.array([run.stride for run in runs], np.int64)[facts[RUN, :-1]]
    after = facts[POSITION, :-1] + facts[SIZE, :-1] + strides
    breaks = (facts[RUN, 1:] != facts[RUN, :-1]) | (facts[POSITION, 1:] != after)
    first = 0
    for border in [*(np.flatnonzero(breaks) + 1).tolist(), facts.shape[1]]:
        firsts, last = facts[:, first], facts[:, border - 1]
        yield runs[int(firsts[RUN])]._replace(
            position=int(firsts[POSITION]),
            offset=int(firsts[PLACE]),
            length=int(last[POSITION] + last[SIZE] - firsts[POSITION]),
            records=border - first,
        )
        first = border


MOST_MARKS: Final = 10_000  # damaged and partial records whose places are kept


@dataclass(slots=True)
class StoreFound:
    """What was written of one store; its fields are the columns of CARVED."""

    store: str
    hosts: int
    records: int = 0
    bytes: int = 0
    crc: int = 0
    lone: int = 0
    overlaps: Overlaps = field(default_factory=Overlaps)
    fragments: int = 0
    physical_offset: int | None = None
    physical_offset_end: int | None = None
    times: tuple[int, int] | None = None  # earliest and latest store time, ms since 1970
    file: str = ""

    def add(self, some: FoundRecords) -> None:
        """Count records that were written."""
        columns, count = some.columns, some.columns.shape[1]
        first = int(columns[row.PHYSICAL_OFFSET, 0])
        end = int(columns[row.PHYSICAL_OFFSET, -1] + columns[row.SIZE, -1])
        self.records += count
        self.bytes += int(columns[row.SIZE].sum())
        if some.run.is_lone:
            self.lone += count
        else:
            self.crc += int(some.proven.sum())
        if self.physical_offset is None or self.physical_offset_end is None:
            self.physical_offset, self.physical_offset_end = first, first - 1
        if first > self.physical_offset_end + some.run.stride:
            self.fragments += 1
        self.physical_offset_end = max(self.physical_offset_end, end)
        stored = columns[row.STORE_TIMESTAMP]
        known = self.times or (int(stored[0]), int(stored[0]))
        self.times = (min(known[0], int(stored.min())), max(known[1], int(stored.max())))

    @property
    def row(self) -> dict[str, Any]:
        """The columns of CARVED."""
        first, last = self.times or (None, None)
        chain = self.records - self.crc - self.lone
        return CARVED.row(
            *(self, self.overlaps), chain=chain, first_store_time=first, last_store_time=last
        )


@dataclass(slots=True)
class Carved:
    """What a carving found."""

    images: list[Image]  # that were searched
    stores: list[StoreFound] = field(default_factory=list)  # by name
    # int64, shape (COUNTS,); what is no whole record, by kind
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(COUNTS, np.int64))
    lone_left: int = 0  # records without checksum or neighbour to confirm them, left out
    # (number of the image, matrix of places of damaged and partial records)
    marks: list[tuple[int, npt.NDArray[np.int64]]] = field(default_factory=list)

    @property
    def records(self) -> int:
        """FoundRecords written."""
        return sum(store.records for store in self.stores)

    @property
    def conflicts(self) -> int:
        """FoundRecords written that claim what another one claims."""
        return sum(store.overlaps.conflicts for store in self.stores)

    @property
    def damaged(self) -> int:
        """FoundRecords with a wrong checksum, left out."""
        return int(self.counts[kernels_judge.HURT])

    @property
    def partial(self) -> int:
        """Headers whose record is not there as a whole, left out."""
        return int(self.counts[kernels_judge.CUT])

    @property
    def unjudged(self) -> int:
        """FoundRecords that were not judged, left out."""
        return int(self.counts[kernels_judge.LEFT])

    @property
    def unread(self) -> list[Image]:
        """Images that are not read to their end, or not everywhere."""
        return [image for image in self.images if image.unread or image.is_cut]

    @property
    def is_whole(self) -> bool:
        """Whether all that was found is vouched for, and written."""
        odd = self.damaged + self.partial + self.unjudged + self.lone_left + self.conflicts
        return not odd and not any(store.lone for store in self.stores)


class Carving:
    """A carving that was asked for; nothing is written before it runs.

    Args:
        options: what is wanted.
        keep: closes the images.
        advance: takes the bytes that were unpacked.

    Attributes:
        total_bytes: of the images, holes included.

    Raises:
        UnreadablePath: an image cannot be opened.
        WriteFailed: there is no room to unpack one.
    """

    def __init__(
        self,
        options: CarveOptions,
        keep: ExitStack,
        advance: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.options = options
        limit = options.unpack_limit
        self.images = [open_image(path, keep, limit, advance) for path in options.images]
        self.total_bytes = sum(image.size for image in self.images)

    def run(
        self,
        advance: Callable[[int], None] = lambda _: None,
        take: Callable[[str, FoundRecords], None] = lambda _store, _some: None,
    ) -> Carved:
        """Search, and write what was found.

        Args:
            advance: takes the bytes that were searched since it was last called.
            take: is shown what is written of a store; the arrays are used again afterwards.

        Raises:
            OutputExists: the output is there.
            WriteFailed: the system refused; nothing is left behind.
            UnreadablePath: an image is gone, or changed while it was read.
        """
        done = Carved(self.images)
        with CarvedOutput(self.options) as output:
            runs = self.search(done, advance)
            reader = Reader(self.images)
            for store, numbers in _stores(runs):
                wanted = numbers if self.options.lone else numbers[~runs.is_lone[numbers]]
                done.lone_left += int(runs.counts[numbers].sum() - runs.counts[wanted].sum())
                if wanted.size:
                    store.file = output.begin(store.store)
                    done.stores.append(store)
                    for group in in_order(runs, wanted):
                        for stretch in settled(group, reader, store.overlaps):
                            for some in reader.records(stretch):
                                output.write(some)
                                store.add(some)
                                take(store.store, some)
        return done

    def search(self, done: Carved, advance: Callable[[int], None] = lambda _: None) -> CarvedRuns:
        """Find what there is, and write nothing.

        Args:
            done: takes note of what is no whole record.
            advance: takes the bytes that were searched since it was last called.

        Raises:
            UnreadablePath: an image is gone, or has too many fragments of logs.
        """
        runs = CarvedRuns()
        noted = 0
        for number, image in enumerate(self.images):
            reached = 0
            for part, part_found in _parts(image, self.options.jobs):
                runs_of_part = _from(part, part_found, reached)
                reached_before, reached = reached, max(reached, part.end)
                if runs_of_part is not None:
                    for matrix in runs_of_part.runs:
                        runs.add(number, matrix)
                    done.counts[:BUDGET] += runs_of_part.counts[:BUDGET]
                    reached = max(reached, runs_of_part.end)
                    if noted < MOST_MARKS and runs_of_part.marks.size:
                        done.marks.append((number, runs_of_part.marks))
                        noted += runs_of_part.marks.shape[1]
                advance(max(part.end - max(part.begin, reached_before), 0))
        runs.settle()
        return runs


def _parts(image: Image, jobs: int | None) -> Iterator[tuple[ImagePart, PartFound]]:
    given, wanted = tee(image.parts())
    yield from zip(given, engine.run(search, wanted, jobs=jobs), strict=True)


def _from(part: ImagePart, part_found: PartFound, reached: int) -> PartFound | None:
    """Give what a part has past the last record of the parts before; None for nothing."""
    if reached >= part.end:
        return None
    return part_found if part_found.first >= reached else search(part, start=reached)


def _stores(runs: CarvedRuns) -> Iterator[tuple[StoreFound, npt.NDArray[np.int64]]]:
    """Yield the stores by name, each with the numbers of its runs."""
    stores, names = runs.stores(), runs.host_names()
    if not runs.size:
        return
    of_runs = stores[runs.hosts]
    order = np.argsort(of_runs, kind="stable")
    pieces = np.split(order, np.flatnonzero(np.diff(of_runs[order])) + 1)
    sizes = np.bincount(stores)
    for numbers in sorted(pieces, key=lambda pieces_of: names[int(of_runs[pieces_of[0]])]):
        store = int(of_runs[numbers[0]])
        yield StoreFound(names[store], int(sizes[store])), numbers


def sentences(done: Carved) -> Iterator[str]:
    """Give what is not in the file, and what in it a person has to look at."""
    for image in done.unread:
        if image.is_cut:
            yield f"{image.name}: {image.is_cut}"
        if image.unread:
            places = counted(len(image.unread), "place")
            yield f"{image.name}: {image.unread_bytes:,} bytes at {places} cannot be read"
    if done.damaged:
        yield f"left out: {counted(done.damaged, 'record')} with a wrong checksum"
    if done.partial:
        yield (
            f"left out: {counted(done.partial, 'partial record')}; the rest is overwritten or "
            "lies elsewhere"
        )
    if done.lone_left:
        yield (
            f"left out: {counted(done.lone_left, 'record')} without checksum or neighbour to "
            "confirm them; --lone writes them"
        )
    if done.unjudged:
        yield (
            f"left out: {counted(done.unjudged, 'record')} not judged, as too many beside them are "
            "damaged"
        )
    if done.conflicts:
        yield (
            f"{counted(done.conflicts, 'record')} claim bytes of the log that another record "
            "claims: both are written"
        )


def next_step(options: CarveOptions, done: Carved) -> str:
    """Give the command that makes a store of what was found; empty of lines that hold no record."""
    if options.wanted_format is not CarveFormat.RMQ:
        return ""
    files = dict.fromkeys(str(store.row["file"]) for store in done.stores)
    if len(done.stores) > 1 and not options.by_store:
        return ""
    file = shlex.quote(next(iter(files)))
    return f"rmqtool rebuild-log {file} --output DIR, or rmqtool send {file} --name-server ADDRESS"


# Where carved records go: one new file, or a new directory with a file for each store.


class CarvedOutput:
    """Takes records store by store; a context manager. All appears when the block ends, or nothing.

    Args:
        options: what was asked.
    """

    def __init__(self, options: CarveOptions) -> None:
        self._options = options
        self._format = options.wanted_format
        self._columns = options.columns or CARVED_RECORDS.names
        self._keep = ExitStack()
        self._file_of_store = ExitStack()
        self._store = ""
        self._put: Callable[[Buffer], object] = lambda _: None

    def __enter__(self) -> Self:
        """Stage what is written.

        Raises:
            OutputExists: it is there.
            WriteFailed: the system refused.
        """
        path = self._options.output
        if self._options.by_store:
            self._tree = self._keep.enter_context(OutputDirectory(path))
        else:
            self._put = self._keep.enter_context(OutputFile(path)).binary.write
        return self

    def __exit__(self, *exception: object) -> bool | None:
        self._file_of_store.close()
        return self._keep.__exit__(*exception)  # type: ignore[arg-type]

    def begin(self, store: str) -> str:
        """Take note that the records of a store follow; give the file that they go to."""
        self._store = store
        if not self._options.by_store:
            return self._options.output
        self._file_of_store.close()
        name = f"{_file_name(store)}.{self._format}"
        file = self._tree.file(name, size=0)
        handle = self._file_of_store.enter_context(file.writing())
        self._put = lambda data: file.append(handle, data)
        return f"{self._options.output.rstrip('/')}/{name}"

    def write(self, some: FoundRecords) -> None:
        """Write records.

        Raises:
            WriteFailed: the system refused.
            UnreadablePath: the image changed.
        """
        for data in self._bytes(some):
            self._put(data)

    def _bytes(self, some: FoundRecords) -> Iterator[Buffer]:
        if self._format is CarveFormat.RMQ:
            yield from some.raw()
            return
        from rmqtool.tables.json_lines import json_lines

        yield json_lines(record_rows(some, self._store), self._columns).text


def _file_name(store: str) -> str:
    """Give a name that every file system takes: `10.0.0.1-10911`, `fe80--1-10911`."""
    return re.sub(r"[^0-9A-Za-z.]", "-", re.sub(r"[\[\]]", "", store))
