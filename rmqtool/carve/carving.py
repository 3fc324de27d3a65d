"""`carve`: search images, put what was found in order, write it; and what is to be said of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import tee
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rmqtool import engine
from rmqtool.carve import kernels_judge
from rmqtool.carve.image import open_image
from rmqtool.carve.kernels_judge import BUDGET, COUNTS
from rmqtool.carve.output import CarvedOutput
from rmqtool.carve.places import Overlaps, in_order, settled
from rmqtool.carve.reading import Reader
from rmqtool.carve.runs import CarvedRuns
from rmqtool.carve.search import search
from rmqtool.scan import columns as row
from rmqtool.times import iso_time
from rmqtool.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import ExitStack

    import numpy.typing as npt

    from rmqtool.carve.image import Image, ImagePart
    from rmqtool.carve.options import CarveOptions
    from rmqtool.carve.reading import FoundRecords
    from rmqtool.carve.search import PartFound

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
        first, last = map(iso_time, self.times) if self.times else (None, None)
        return {
            "store": self.store,
            "hosts": self.hosts,
            "records": self.records,
            "bytes": self.bytes,
            "crc": self.crc,
            "chain": self.records - self.crc - self.lone,
            "lone": self.lone,
            "duplicates": self.overlaps.duplicates,
            "conflicts": self.overlaps.conflicts,
            "fragments": self.fragments,
            "physical_offset": self.physical_offset,
            "physical_offset_end": self.physical_offset_end,
            "first_store_time": first,
            "last_store_time": last,
            "file": self.file,
        }


@dataclass(slots=True)
class Carved:
    """What a carving found."""

    images: list[Image]  # that were searched
    stores: list[StoreFound] = field(default_factory=list)  # by name
    # int64, shape (COUNTS,); what is no whole record, by kind
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(COUNTS, np.int64))
    lone_left: int = 0  # records that nothing vouches for, left out
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
            for found, numbers in _stores(runs):
                wanted = numbers if self.options.lone else numbers[~runs.is_lone[numbers]]
                done.lone_left += int(runs.counts[numbers].sum() - runs.counts[wanted].sum())
                if wanted.size:
                    found.file = output.begin(found.store)
                    done.stores.append(found)
                    for group in in_order(runs, wanted):
                        for stretch in settled(group, reader, found.overlaps):
                            for some in reader.records(stretch):
                                output.write(some)
                                found.add(some)
                                take(found.store, some)
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
            for part, found in _parts(image, self.options.jobs):
                runs_of_part = _from(part, found, reached)
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


def _from(part: ImagePart, found: PartFound, reached: int) -> PartFound | None:
    """Give what a part has past the last record of the parts before; None for nothing."""
    if reached >= part.end:
        return None
    return found if found.first >= reached else search(part, start=reached)


def _stores(runs: CarvedRuns) -> Iterator[tuple[StoreFound, npt.NDArray[np.int64]]]:
    """Yield the stores by name, each with the numbers of its runs."""
    stores, names = runs.stores(), runs.host_names()
    if not runs.size:
        return
    of_runs = stores[runs.hosts]
    order = np.argsort(of_runs, kind="stable")
    pieces = np.split(order, np.flatnonzero(np.diff(of_runs[order])) + 1)
    sizes = np.bincount(stores)
    for numbers in sorted(pieces, key=lambda one: names[int(of_runs[one[0]])]):
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
            f"left out: {counted(done.lone_left, 'record')} that nothing vouches for; --lone "
            "writes them"
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
