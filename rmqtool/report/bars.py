"""Small drawings that stand in a row of a table: a line of traffic, the ranges of a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import drawsvg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.report.facts import QueueCoverage

SPARK_WIDTH, SPARK_HEIGHT = 240, 28
RANGE_WIDTH, RANGE_HEIGHT = 300, 20
LEAST: Final = 1.5  # pixels of anything that is there at all


def spark(series: Sequence[int]) -> str:
    """Draw counts over time, scaled to the largest of them."""
    drawing = drawsvg.Drawing(SPARK_WIDTH, SPARK_HEIGHT, class_="spark", role="img")
    top = max(series, default=0)
    drawing.append_title(f"{top:,} records at most in one step")
    step = SPARK_WIDTH / max(len(series), 1)
    path = drawsvg.Path(class_="record")
    for number, count in enumerate(series):
        if count:
            height = max(round(SPARK_HEIGHT * count / top, 1), LEAST)
            _column(path, (number * step, SPARK_HEIGHT - height), (max(step, LEAST), height))
    drawing.append(path)
    return str(drawing.as_svg(header=""))


def ranges(queue: QueueCoverage) -> str:
    """Draw what the log has of a queue above what its files have, on one scale."""
    drawing = drawsvg.Drawing(RANGE_WIDTH, RANGE_HEIGHT, class_="range", role="img")
    drawing.append_title(f"{queue.missing} missing in the files, {queue.ahead} ahead of the log")
    known = [one for one in (queue.in_log, queue.in_files) if one]
    low = min((first for first, _ in known), default=0)
    width = max(max((end for _, end in known), default=0) - low, 1)
    places = ((queue.in_log, 1, "record"), (queue.in_files, 11, "files"))
    for found, top, kind in places:
        if found is not None:
            x = round((found[0] - low) * RANGE_WIDTH / width, 1)
            length = max(round((found[1] - found[0]) * RANGE_WIDTH / width, 1), LEAST)
            drawing.append(drawsvg.Rectangle(x, top, length, 8, class_=kind))
    return str(drawing.as_svg(header=""))


def _column(path: drawsvg.Path, at: tuple[float, float], size: tuple[float, float]) -> None:
    (x, y), (width, height) = at, size
    path.M(round(x, 1), round(y, 1)).h(round(width, 1)).v(round(height, 1)).h(-round(width, 1)).Z()
