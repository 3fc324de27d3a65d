"""Put a report together: one HTML file that needs no network, no script and no second file.

Tables end after a number of rows that a person can still read; they say so.
"""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from itertools import count, groupby
from typing import TYPE_CHECKING, Any, Final

import drawsvg
from markupsafe import Markup

from rmqtool.broker.names import DLQ_PREFIX
from rmqtool.findings.catalogue import Severity
from rmqtool.plural import counted
from rmqtool.report.html import rendered, shown
from rmqtool.startup.report import verdict
from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqtool.check.log.traffic import TimeGrid
    from rmqtool.findings.finding import Finding
    from rmqtool.report.facts import Facts, QueueCoverage, SegmentTiling, TopicTraffic


MOST_FINDINGS, MOST_SEGMENTS, MOST_TOPICS, MOST_QUEUES, MOST_GROUPS = 300, 1500, 60, 150, 200
OTHER_TOPICS: Final = "all other topics"
MOST_LOST: Final = 200
MOST_COMMANDS: Final = 8


def page(facts: Facts, made_ms: int, version: str) -> str:
    """Write the page.

    Args:
        facts: what to show.
        made_ms: when the report was made, ms since 1970.
        version: of rmqtool.
    """
    return rendered(
        "page.html",
        facts=facts,
        made_ms=made_ms,
        version=version,
        summary=facts.summary,
        store=_single(facts.sections["store"]),
        end=_single(facts.sections["end"]),
        dispatch=_single(facts.sections["dispatch"]),
        severities=[
            (str(severity), facts.summary.counts.get(severity, 0))
            for severity in reversed(Severity)
        ],
        lost=facts.lost[:MOST_LOST],
        more_lost=max(len(facts.lost) - MOST_LOST, 0),
        lost_by_topic=_lost_by_topic(facts),
        start=verdict(facts.prediction) if facts.prediction else "",
        next_command=_next_command(facts),
        **_about_findings(facts),
        **_about_segments(facts),
        **_about_traffic(facts),
        **_about_queues(facts),
        **_about_groups(facts),
    )


def _next_command(facts: Facts) -> str:
    """Give the command that helps next, ready to be typed."""
    store = shlex.quote(facts.location)
    is_harmful = facts.prediction is not None and not facts.prediction.is_whole
    hurt = [finding for finding in facts.findings if finding.severity is Severity.DAMAGE]
    return f"rmqtool doctor {store}" if hurt or is_harmful else ""


def _lost_by_topic(facts: Facts) -> list[dict[str, Any]]:
    """Sum up lost messages by topic: how many, and when they were stored."""
    topics: dict[str, dict[str, Any]] = {}
    for row in facts.lost:
        topic = row["topic"] or "not known"
        loss = topics.setdefault(topic, {"topic": topic, "messages": 0, "first": "", "last": ""})
        loss["messages"] += row["messages"] or 1
        times = [
            row["store_time"] or row["stored_after"],
            row["store_time"] or row["stored_before"],
        ]
        loss["first"] = min(filter(None, [loss["first"], times[0]]), default="")
        loss["last"] = max(filter(None, [loss["last"], times[1]]), default="")
    return sorted(topics.values(), key=lambda loss: (-loss["messages"], loss["topic"]))


def _about_findings(facts: Facts) -> dict[str, Any]:
    ordered = sorted(facts.findings, key=lambda finding: -finding.severity.rank)
    codes = [
        {"code": code, "severity": str(severity), "count": count}
        for (code, severity), count in sorted(
            facts.summary.codes.items(), key=lambda item: (-item[0][1].rank, item[0][0])
        )
        if count
    ]
    return {
        "codes": codes,
        "findings": ordered[:MOST_FINDINGS],
        "more_findings": sum(facts.summary.counts.values()) - len(ordered[:MOST_FINDINGS]),
        "commands": _commands(ordered),
    }


def _commands(findings: Sequence[Finding]) -> list[str]:
    """Give the commands that help, worst findings first, each once, ready to be typed."""
    commands: dict[str, None] = {}
    for finding in findings:
        if finding.severity is not Severity.NOTE:
            commands.setdefault(finding.code.command.format(path=shlex.quote(finding.path)), None)
    return list(commands)[:MOST_COMMANDS]


def _about_segments(facts: Facts) -> dict[str, Any]:
    on: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in facts.findings:
        on[finding.path].append(finding)
    wanted = list(facts.segments)
    if len(wanted) > MOST_SEGMENTS:  # those that have something to tell, and then the first ones
        wanted.sort(key=lambda segment: not (segment.path in on or _is_hurt(segment)))
        chosen = {id(segment) for segment in wanted[:MOST_SEGMENTS]}
        wanted = [segment for segment in facts.segments if id(segment) in chosen]
    columns = columns_for(len(wanted))
    kinds: Counter[str] = Counter()
    for segment in facts.segments:
        for kind in ("record", "filler", "unused", "gap", "unread"):
            kinds[kind] += segment.bytes_of(kind)
    return {
        "segments": [
            {
                "facts": segment,
                "bar": Markup(segment_bar(segment, on[segment.path], columns)),  # noqa: S704 - drawn here, of numbers
                "findings": len(on[segment.path]),
            }
            for segment in wanted
        ],
        "more_segments": len(facts.segments) - len(wanted),
        "kinds": kinds,
    }


def _is_hurt(segment: SegmentTiling) -> bool:
    return bool(segment.bytes_of("gap") or segment.bytes_of("unread"))


def _about_traffic(facts: Facts) -> dict[str, Any]:
    if facts.grid is None or not facts.traffic:
        return {"chart": None, "topics": [], "more_topics": 0, "legend": [], "outside": 0}
    named = [traffic for traffic in facts.traffic if traffic.topic is not None]
    first, rest = named[: COLORS - 1], [*named[COLORS - 1 :]]
    rest += [traffic for traffic in facts.traffic if traffic.topic is None]
    series = [(shown(traffic.topic or ""), traffic.series) for traffic in first]
    if rest:
        sums = [sum(column) for column in zip(*(traffic.series for traffic in rest), strict=True)]
        series.append((OTHER_TOPICS, sums))
    return {
        "chart": Markup(traffic_chart(facts.grid, series)),  # noqa: S704 - drawsvg escapes titles
        "legend": [name for name, _ in series],
        "topics": [{"facts": traffic, "spark": _spark(traffic)} for traffic in named[:MOST_TOPICS]],
        "more_topics": len(named) - len(named[:MOST_TOPICS]),
        "outside": sum(traffic.outside for traffic in facts.traffic),
    }


def _spark(topic: TopicTraffic) -> Markup:
    return Markup(spark(topic.series))  # noqa: S704 - drawn here, of numbers


def _about_queues(facts: Facts) -> dict[str, Any]:
    def worst_first(queue: QueueCoverage) -> tuple[bool, str, int]:
        return not (queue.missing or queue.ahead), queue.topic, queue.queue_id

    ordered = sorted(facts.coverage, key=worst_first)
    shown = ordered[:MOST_QUEUES]
    return {
        "queues": [
            {"facts": queue, "ranges": Markup(ranges(queue))}  # noqa: S704 - drawn here, of numbers
            for queue in shown
        ],
        "more_queues": len(ordered) - len(shown),
        "differing": sum(bool(queue.missing or queue.ahead) for queue in ordered),
    }


def _about_groups(facts: Facts) -> dict[str, Any]:
    groups = [section for section in facts.sections["groups"] if section.topic]
    groups.sort(key=lambda group: (-group.lag, group.group, group.topic))
    dead: dict[str, dict[str, Any]] = {}
    for queue in facts.sections["queues"]:
        group = queue.topic.removeprefix(DLQ_PREFIX)
        if group != queue.topic and queue.messages:
            entry = dead.setdefault(group, {"messages": 0, "first": None, "last": None})
            entry["messages"] += queue.messages
            times = [queue.first_store_timestamp, entry["first"]]
            entry["first"] = min((time_ for time_ in times if time_ is not None), default=None)
            times = [queue.last_store_timestamp, entry["last"]]
            entry["last"] = max((time_ for time_ in times if time_ is not None), default=None)
    return {
        "groups": groups[:MOST_GROUPS],
        "more_groups": len(groups) - len(groups[:MOST_GROUPS]),
        "largest_lag": max((group.lag for group in groups), default=0),
        "dead": sorted(dead.items(), key=lambda item: (-item[1]["messages"], item[0])),
    }


def _single(rows: Sequence[Any]) -> Any:  # noqa: ANN401 - rows of several kinds
    return rows[0] if rows else None


# Small drawings that stand in a row of a table: a line of traffic, the ranges of a queue.


SPARK_WIDTH, SPARK_HEIGHT = 240, 28
RANGE_WIDTH, RANGE_HEIGHT = 300, 20
LEAST: Final = 1.5  # pixels of anything that is there at all


def spark(series: Sequence[int]) -> str:
    """Draw counts over time, scaled to the largest of them."""
    drawing = drawsvg.Drawing(SPARK_WIDTH, SPARK_HEIGHT, class_="spark", role="img")
    top = max(series, default=0)
    drawing.append_title(f"{counted(top, 'record')} at most in one step")
    step = SPARK_WIDTH / max(len(series), 1)
    path = drawsvg.Path(class_="record")
    for number, records in enumerate(series):
        if records:
            height = max(round(SPARK_HEIGHT * records / top, 1), LEAST)
            _column(path, (number * step, SPARK_HEIGHT - height), (max(step, LEAST), height))
    drawing.append(path)
    return str(drawing.as_svg(header=""))


def ranges(queue: QueueCoverage) -> str:
    """Draw what the log has of a queue above what its files have, on one scale."""
    drawing = drawsvg.Drawing(RANGE_WIDTH, RANGE_HEIGHT, class_="range", role="img")
    drawing.append_title(f"{queue.missing} missing in the files, {queue.ahead} ahead of the log")
    known = [span for span in (queue.in_log, queue.in_files) if span]
    low = min((first for first, _ in known), default=0)
    width = max(max((end for _, end in known), default=0) - low, 1)
    places = ((queue.in_log, 1, "record"), (queue.in_files, 11, "files"))
    for span, top, kind in places:
        if span is not None:
            x = round((span[0] - low) * RANGE_WIDTH / width, 1)
            length = max(round((span[1] - span[0]) * RANGE_WIDTH / width, 1), LEAST)
            drawing.append(drawsvg.Rectangle(x, top, length, 8, class_=kind))
    return str(drawing.as_svg(header=""))


def _column(path: drawsvg.Path, at: tuple[float, float], size: tuple[float, float]) -> None:
    (x, y), (width, height) = at, size
    path.M(round(x, 1), round(y, 1)).h(round(width, 1)).v(round(height, 1)).h(-round(width, 1)).Z()


# Draw the records of all topics over time as columns that stand on each other.


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


# Draw a commitlog file as a bar to scale: records, fillers, gaps, what is unused, findings.
#
# A pixel column stands for many bytes, so the bar is cut into columns first, and the worst kind of
# each column is what is drawn: a gap of one record in a file of 1 GiB is still to be seen.


MAP_WIDTH: Final = 900
BAR_TOP, BAR_HEIGHT, MARK_HEIGHT = 4, 16, 9
MAP_HEIGHT: Final = BAR_TOP + BAR_HEIGHT + MARK_HEIGHT + 2
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
    drawing = drawsvg.Drawing(MAP_WIDTH, MAP_HEIGHT, class_="bar", role="img")
    drawing.append_title(_words(segment, findings))
    step = MAP_WIDTH / columns
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
    return max(FEWEST_COLUMNS, min(MAP_WIDTH, MOST_RECTANGLES // max(segments, 1)))


def _stretches(segment: SegmentTiling, columns: int) -> Iterator[tuple[str, int, int]]:
    """Give kind, first and last column of what is drawn in one colour."""
    kinds = [0] * columns
    for kind, position, length in segment.stretches:
        rank = KINDS.index(kind)
        first, last = _map_columns(segment, position, length, columns)
        if kind in {"unused", "filler"} and first < last and position * columns % segment.size:
            first += 1  # this column is shared with what lies in front
        for column in range(first, last + 1):
            kinds[column] = max(kinds[column], rank)
    at = 0
    for rank, alike in groupby(kinds):
        length = len(list(alike))
        yield KINDS[rank], at, at + length
        at += length


def _map_columns(
    segment: SegmentTiling, position: int, length: int, columns: int
) -> tuple[int, int]:
    """Give the first and the last column of a stretch."""
    size = max(segment.size, 1)
    first = min(max(position, 0) * columns // size, columns - 1)
    last = min(max(position + length - 1, 0) * columns // size, columns - 1)
    return first, max(first, last)


def _marks(
    segment: SegmentTiling, findings: Iterable[Finding], columns: int
) -> Iterator[tuple[float, Severity, str]]:
    """Give column, severity and words for each place that has findings."""

    def place(finding: Finding) -> int:
        column, _ = _map_columns(segment, finding.position or 0, 1, columns)
        return column // MARK_EVERY

    for at, near in groupby(sorted(findings, key=place), key=place):
        here = list(near)
        worst = max((finding.severity for finding in here), key=lambda severity: severity.rank)
        codes = " ".join(sorted({finding.code for finding in here}))
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
    parts = [counted(segment.records, "record")]
    parts += [f"{count:,} bytes {kind}" for kind in KINDS if (count := segment.bytes_of(kind))]
    parts += [counted(len(findings), "finding")] if findings else []
    return ", ".join(parts)


def _short(number: float) -> float:
    return round(number, 1)
