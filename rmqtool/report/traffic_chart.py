"""Draw the records of all topics over time as columns that stand on each other."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

import drawsvg

from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.check.log.traffic import TimeGrid

LEFT, RIGHT, TOP, BOTTOM = 70, 10, 12, 40
WIDTH, HEIGHT = 1000, 300
INNER_WIDTH: Final = WIDTH - LEFT - RIGHT
INNER_HEIGHT: Final = HEIGHT - TOP - BOTTOM
MOST_LABELS: Final = 5
MOST_LINES: Final = 5
# How much of a time of day is to be seen where steps are at least so long.
CLOCKS: Final = ((86_400_000, 0), (60_000, 5), (1000, 8), (0, 12))
COLORS: Final = 9  # classes c0 to c8 of the page; the last one is for all that is left


def traffic_chart(grid: TimeGrid, series: Sequence[tuple[str, Sequence[int]]]) -> str:
    """Draw the chart as an SVG.

    Args:
        grid: the time axis.
        series: name and counts of each topic, at most `COLORS`.
    """
    drawing = drawsvg.Drawing(WIDTH, HEIGHT, class_="chart", role="img")
    drawing.append_title("records over time, by topic")
    sums = [sum(column) for column in zip(*(counts for _, counts in series), strict=True)]
    top, every = scale(max(sums, default=0))
    for value in range(0, top + 1, every):
        y = _y(value, top)
        drawing.append(drawsvg.Line(LEFT, y, WIDTH - RIGHT, y, class_="grid"))
        drawing.append(_label(f"{value:,}", LEFT - 6, y + 4, "end"))
    _columns(drawing, series, top)
    for text, x in _times(grid):
        drawing.append(drawsvg.Line(x, HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 5, class_="axis"))
        drawing.append(_label(text, x, HEIGHT - BOTTOM + 19, "middle"))
    return str(drawing.as_svg(header=""))


def scale(largest: int) -> tuple[int, int]:
    """Give the top of an axis and the distance of its lines: 1, 2 or 5 and zeros."""
    distances = (digit * 10**zeros for zeros in count() for digit in (1, 2, 5))
    every = next(distance for distance in distances if MOST_LINES * distance >= largest)
    return max(-(-largest // every), 1) * every, every


def _columns(
    drawing: drawsvg.Drawing, series: Sequence[tuple[str, Sequence[int]]], top: int
) -> None:
    """Stack the series, the first one at the bottom."""
    steps = len(series[0][1]) if series else 0
    step = INNER_WIDTH / max(steps, 1)
    width = round(max(step * 0.86, 0.5), 2)
    below = [0] * steps
    for number, (name, counts) in enumerate(series):
        path = drawsvg.Path(class_=f"c{number}")
        for at, records in enumerate(counts):
            if records:
                low, high = _y(below[at], top), _y(below[at] + records, top)
                path.M(round(LEFT + at * step, 1), high).h(width).V(low).h(-width).Z()
                below[at] += records
        path.append_title(name)
        drawing.append(path)


def _times(grid: TimeGrid) -> Iterator[tuple[str, float]]:
    every = max(-(-grid.steps // MOST_LABELS), 1)
    for number in range(0, grid.steps, every):
        text = iso_time(grid.begin_ms + number * grid.step_ms)
        yield _time(text, grid.step_ms), round(LEFT + INNER_WIDTH * number / grid.steps, 1)


def _time(text: str, step_ms: int) -> str:
    """Cut a time to what tells the steps apart."""
    day, _, clock = text.partition("T")
    length = next(length for least, length in CLOCKS if step_ms >= least)
    return f"{day} {clock[:length]}".rstrip()


def _y(value: int, top: int) -> float:
    return round(TOP + INNER_HEIGHT * (1 - value / top), 1)


def _label(text: str, x: float, y: float, anchor: str) -> drawsvg.Text:
    return drawsvg.Text(text, 12, x, y, text_anchor=anchor, class_="label")
