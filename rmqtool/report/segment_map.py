"""Draw a commitlog file as a bar to scale: records, fillers, gaps, what is unused, findings.

A pixel column stands for many bytes, so the bar is cut into columns first, and the worst kind of
each column is what is drawn: a gap of one record in a file of 1 GiB is still to be seen.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

import drawsvg

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqtool.findings.catalogue import Severity
    from rmqtool.findings.finding import Finding
    from rmqtool.report.facts import SegmentTiling

WIDTH: Final = 900
BAR_TOP, BAR_HEIGHT, MARK_HEIGHT = 4, 16, 9
HEIGHT: Final = BAR_TOP + BAR_HEIGHT + MARK_HEIGHT + 2
MARK_EVERY: Final = 6  # columns; closer marks are drawn as one
FEWEST_COLUMNS: Final = 150
MOST_RECTANGLES: Final = 40_000  # in all bars together: about 1 MB

# Later ones hide earlier ones within a column; what is not named is records.
KINDS: Final = ("record", "unused", "filler", "unread", "gap")


def segment_bar(segment: SegmentTiling, findings: Sequence[Finding], columns: int) -> str:
    """Draw one file as an SVG.

    Args:
        segment: what is in it.
        findings: on it.
        columns: into how many the bar is cut, see `columns_for`.
    """
    drawing = drawsvg.Drawing(WIDTH, HEIGHT, class_="bar", role="img")
    drawing.append_title(_words(segment, findings))
    step = WIDTH / columns
    for kind, first, end in _stretches(segment, columns):
        # A gap stands out of the bar, so that it is seen without colour.
        out = 3 if kind == "gap" else 0
        drawing.append(
            drawsvg.Rectangle(
                *(_short(first * step), BAR_TOP - out),
                *(_short((end - first) * step), BAR_HEIGHT + 2 * out),
                class_=kind,
            )
        )
    for position, severity, title in _marks(segment, findings, columns):
        drawing.append(_mark(_short(position * step), severity, title))
    return str(drawing.as_svg(header=""))


def columns_for(segments: int) -> int:
    """Say into how many columns the bars of so many files are cut."""
    return max(FEWEST_COLUMNS, min(WIDTH, MOST_RECTANGLES // max(segments, 1)))


def _stretches(segment: SegmentTiling, columns: int) -> Iterator[tuple[str, int, int]]:
    """Give kind, first and last column of what is drawn in one colour."""
    kinds = [0] * columns
    for kind, position, length in segment.stretches:
        rank = KINDS.index(kind)
        first, last = _columns(segment, position, length, columns)
        if kind in {"unused", "filler"} and first < last and position * columns % segment.size:
            first += 1  # this column is shared with what lies in front
        for column in range(first, last + 1):
            kinds[column] = max(kinds[column], rank)
    at = 0
    for rank, alike in groupby(kinds):
        length = len(list(alike))
        yield KINDS[rank], at, at + length
        at += length


def _columns(segment: SegmentTiling, position: int, length: int, columns: int) -> tuple[int, int]:
    """Give the first and the last column of a stretch."""
    size = max(segment.size, 1)
    first = min(max(position, 0) * columns // size, columns - 1)
    last = min(max(position + length - 1, 0) * columns // size, columns - 1)
    return first, max(first, last)


def _marks(
    segment: SegmentTiling, findings: Iterable[Finding], columns: int
) -> Iterator[tuple[float, Severity, str]]:
    """Give column, severity and words for each place that has findings."""

    def place(one: Finding) -> int:
        column, _ = _columns(segment, one.position or 0, 1, columns)
        return column // MARK_EVERY

    for at, near in groupby(sorted(findings, key=place), key=place):
        here = list(near)
        worst = max((one.severity for one in here), key=lambda severity: severity.rank)
        codes = " ".join(sorted({one.code for one in here}))
        yield (at + 0.5) * MARK_EVERY, worst, f"{codes}: {len(here)} here"


def _mark(x: float, severity: Severity, title: str) -> drawsvg.Lines:
    """Draw a triangle below the bar."""
    top, bottom = BAR_TOP + BAR_HEIGHT + 2, BAR_TOP + BAR_HEIGHT + MARK_HEIGHT + 1
    mark = drawsvg.Lines(
        x, top, _short(x - 4), bottom, _short(x + 4), bottom, close=True, class_=str(severity)
    )
    mark.append_title(title)
    return mark


def _words(segment: SegmentTiling, findings: Sequence[Finding]) -> str:
    parts = [f"{segment.records:,} records"]
    parts += [f"{count:,} bytes {kind}" for kind in KINDS if (count := segment.bytes_of(kind))]
    parts += [f"{len(findings):,} findings"] if findings else []
    return ", ".join(parts)


def _short(number: float) -> float:
    return round(number, 1)
