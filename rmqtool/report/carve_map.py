"""A map of what `carve` found: where in the images records lie, and what of each log is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import drawsvg
import numpy as np
from markupsafe import Markup

from rmqtool.carve.rows import GRADES
from rmqtool.report.html import rendered
from rmqtool.scan import columns as row

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from rmqtool.carve.carving import Carved, StoreFound
    from rmqtool.carve.reading import FoundRecords
    from rmqtool.carve.search import Image

COLUMNS: Final = 900
WIDTH, HEIGHT = 900, 24
MOST_IMAGES, MOST_FRAGMENTS, MOST_SHOWN = 100, 20_000, 500
_LONE, _CHAIN, _CRC = range(len(GRADES))
# What a column is drawn as: the best that lies there. The classes are those of the report.
_CLASSES: Final = ("unread", "files", "record")


class _Bar(NamedTuple):
    """Bytes of records by place, in `COLUMNS` columns of equal width."""

    begin: int  # first byte of the first column
    length: int  # bytes of all columns
    # int64, shape (3, COLUMNS); bytes of records that begin in a column, by grade
    counts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, begin: int, length: int) -> _Bar:
        return cls(begin, length, np.zeros((len(GRADES), COLUMNS), np.int64))

    def add(self, grade: int, positions: Any, sizes: Any) -> None:  # noqa: ANN401 - arrays, or one
        """Count records, or fragments, from where they begin to where they end."""
        width = max(self.length, 1)
        begins = (np.atleast_1d(positions) - self.begin).astype(np.float64)
        first = np.clip(begins * COLUMNS / width, 0, COLUMNS - 1).astype(np.int64)
        ends = begins + np.atleast_1d(sizes) - 1
        last = np.clip(ends * COLUMNS / width, 0, COLUMNS - 1).astype(np.int64)
        np.add.at(self.counts[grade], first, 1)
        for begin, end in zip(first[last > first], last[last > first], strict=True):
            self.counts[grade, begin + 1 : end + 1] += 1

    def draw(self, title: str) -> Markup:
        """Draw it as SVG."""
        drawing = drawsvg.Drawing(WIDTH, HEIGHT, class_="bar", role="img")
        drawing.append_title(title)
        drawing.append(drawsvg.Rectangle(0, 4, WIDTH, 16, class_="unused"))
        best = np.full(COLUMNS, -1)
        for grade in range(len(GRADES)):
            best[self.counts[grade] > 0] = grade
        borders = np.flatnonzero(np.diff(best)) + 1
        for run in np.split(np.arange(COLUMNS), borders):
            grade = int(best[run[0]])
            if grade >= 0:
                kind = _CLASSES[grade]
                drawing.append(drawsvg.Rectangle(int(run[0]), 4, len(run), 16, class_=kind))
        return Markup(drawing.as_svg(header=""))  # noqa: S704 - drawsvg escapes titles


@dataclass(slots=True)
class Fragment:
    """A stretch of a log without a gap, in one image."""

    store: str  # store host
    begin: int  # first physical offset
    end: int  # past the last one
    image: str  # its name
    position: int  # of its first record in the image
    grades: list[int]  # records by grade
    times: tuple[int, int]  # earliest and latest store time, ms since 1970

    @property
    def records(self) -> int:
        """How many."""
        return sum(self.grades)


class CarveMap:
    """Takes note of records while they are written.

    Args:
        images: that are searched, in their order.

    Attributes:
        fragments: in the order in which they were written, `MOST_FRAGMENTS` at most.
        more_fragments: how many there are beside them.
    """

    def __init__(self, images: Iterable[Image]) -> None:
        self._images = [(image, _Bar.of(0, image.size)) for image in images]
        self.fragments: list[Fragment] = []
        self.more_fragments = 0
        self._last: Fragment | None = None

    def add(self, store: str, some: FoundRecords) -> None:
        """Take note of records of a store, in the order of its log."""
        columns = some.columns
        grades = np.where(some.proven > 0, _CRC, _CHAIN)
        if some.run.is_lone:
            grades = np.full(columns.shape[1], _LONE)
        for image, bar in self._images[:MOST_IMAGES]:
            if image is some.image:
                for grade in range(len(GRADES)):
                    chosen = grades == grade
                    bar.add(grade, columns[row.POSITION, chosen], columns[row.SIZE, chosen])
        self._join(store, some, grades)

    def _join(self, store: str, some: FoundRecords, grades: npt.NDArray[np.int64]) -> None:
        columns, last = some.columns, self._last
        begin = int(columns[row.PHYSICAL_OFFSET, 0])
        end = int(columns[row.PHYSICAL_OFFSET, -1] + columns[row.SIZE, -1])
        counts = np.bincount(grades, minlength=len(GRADES)).tolist()
        stored = columns[row.STORE_TIMESTAMP]
        times = int(stored.min()), int(stored.max())
        name = some.image.name
        if (
            last
            and (last.store, last.image) == (store, name)
            and begin <= last.end + some.run.stride
        ):
            last.end = max(last.end, end)
            last.grades = [a + b for a, b in zip(last.grades, counts, strict=True)]
            last.times = min(last.times[0], times[0]), max(last.times[1], times[1])
            return
        position = int(columns[row.POSITION, 0])
        self._last = Fragment(store, begin, end, name, position, counts, times)
        if len(self.fragments) < MOST_FRAGMENTS:
            self.fragments.append(self._last)
        else:
            self.more_fragments += 1

    def page(self, done: Carved, made_ms: int, version: str) -> str:
        """Write the page.

        Args:
            done: the carving.
            made_ms: when, ms since 1970.
            version: of rmqtool.
        """
        shown = self.fragments[:MOST_SHOWN]
        return rendered(
            "carve_map.html",
            done=done,
            made_ms=made_ms,
            version=version,
            images=[
                {"facts": image, "bar": bar.draw("records by their place in the image")}
                for image, bar in self._images[:MOST_IMAGES]
            ],
            more_images=max(len(self._images) - MOST_IMAGES, 0),
            stores=[{"facts": store, "bar": self._log(store)} for store in done.stores],
            undrawn=self.more_fragments,
            fragments=shown,
            more_fragments=len(self.fragments) + self.more_fragments - len(shown),
            grades=GRADES,
        )

    def _log(self, store: StoreFound) -> Markup:
        begin, end = store.physical_offset or 0, store.physical_offset_end or 0
        bar = _Bar.of(begin, end - begin)
        for fragment in self.fragments:
            if fragment.store == store.store:
                best = max(grade for grade, count in enumerate(fragment.grades) if count)
                bar.add(best, fragment.begin, fragment.end - fragment.begin)
        return bar.draw("records by their place in the log")
