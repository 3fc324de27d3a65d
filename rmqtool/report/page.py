"""Put a report together: one HTML file that needs no network, no script and no second file.

Tables end after a number of rows that a person can still read; they say so.
"""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

from rmqtool.broker.names import DLQ_PREFIX
from rmqtool.findings.catalogue import Severity
from rmqtool.report.bars import ranges, spark
from rmqtool.report.html import rendered, shown
from rmqtool.report.segment_map import columns_for, segment_bar
from rmqtool.report.traffic_chart import COLORS, traffic_chart

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        store=_one(facts.sections["store"]),
        end=_one(facts.sections["end"]),
        dispatch=_one(facts.sections["dispatch"]),
        severities=[(str(one), facts.summary.counts.get(one, 0)) for one in reversed(Severity)],
        lost=facts.lost[:MOST_LOST],
        more_lost=max(len(facts.lost) - MOST_LOST, 0),
        **_about_findings(facts),
        **_about_segments(facts),
        **_about_traffic(facts),
        **_about_queues(facts),
        **_about_groups(facts),
    )


def _about_findings(facts: Facts) -> dict[str, Any]:
    ordered = sorted(facts.findings, key=lambda one: -one.severity.rank)
    codes = [
        {"code": code, "severity": str(severity), "count": count}
        for (code, severity), count in sorted(
            facts.summary.codes.items(), key=lambda one: (-one[0][1].rank, one[0][0])
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
    found: dict[str, None] = {}
    for finding in findings:
        if finding.severity is not Severity.NOTE:
            found.setdefault(finding.code.command.format(path=shlex.quote(finding.path)), None)
    return list(found)[:MOST_COMMANDS]


def _about_segments(facts: Facts) -> dict[str, Any]:
    on: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in facts.findings:
        on[finding.path].append(finding)
    wanted = list(facts.segments)
    if len(wanted) > MOST_SEGMENTS:  # those that have something to tell, and then the first ones
        wanted.sort(key=lambda one: not (one.path in on or _is_hurt(one)))
        chosen = {id(one) for one in wanted[:MOST_SEGMENTS]}
        wanted = [segment for segment in facts.segments if id(segment) in chosen]
    columns = columns_for(len(wanted))
    kinds: Counter[str] = Counter()
    for segment in facts.segments:
        for kind in ("record", "filler", "unused", "gap", "unread"):
            kinds[kind] += segment.bytes_of(kind)
    return {
        "segments": [
            {
                "facts": one,
                "bar": Markup(segment_bar(one, on[one.path], columns)),  # noqa: S704 - drawn here, of numbers
                "findings": len(on[one.path]),
            }
            for one in wanted
        ],
        "more_segments": len(facts.segments) - len(wanted),
        "kinds": kinds,
    }


def _is_hurt(segment: SegmentTiling) -> bool:
    return bool(segment.bytes_of("gap") or segment.bytes_of("unread"))


def _about_traffic(facts: Facts) -> dict[str, Any]:
    if facts.grid is None or not facts.traffic:
        return {"chart": None, "topics": [], "more_topics": 0, "legend": [], "outside": 0}
    named = [one for one in facts.traffic if one.topic is not None]
    first, rest = named[: COLORS - 1], [*named[COLORS - 1 :]]
    rest += [one for one in facts.traffic if one.topic is None]
    series = [(shown(one.topic or ""), one.series) for one in first]
    if rest:
        sums = [sum(column) for column in zip(*(one.series for one in rest), strict=True)]
        series.append((OTHER_TOPICS, sums))
    return {
        "chart": Markup(traffic_chart(facts.grid, series)),  # noqa: S704 - drawsvg escapes titles
        "legend": [name for name, _ in series],
        "topics": [{"facts": one, "spark": _spark(one)} for one in named[:MOST_TOPICS]],
        "more_topics": len(named) - len(named[:MOST_TOPICS]),
        "outside": sum(one.outside for one in facts.traffic),
    }


def _spark(topic: TopicTraffic) -> Markup:
    return Markup(spark(topic.series))  # noqa: S704 - drawn here, of numbers


def _about_queues(facts: Facts) -> dict[str, Any]:
    def worst_first(one: QueueCoverage) -> tuple[bool, str, int]:
        return not (one.missing or one.ahead), one.topic, one.queue_id

    ordered = sorted(facts.coverage, key=worst_first)
    shown = ordered[:MOST_QUEUES]
    return {
        "queues": [
            {"facts": one, "ranges": Markup(ranges(one))}  # noqa: S704 - drawn here, of numbers
            for one in shown
        ],
        "more_queues": len(ordered) - len(shown),
        "differing": sum(bool(one.missing or one.ahead) for one in ordered),
    }


def _about_groups(facts: Facts) -> dict[str, Any]:
    groups = [section for section in facts.sections["groups"] if section.topic]
    groups.sort(key=lambda one: (-one.lag, one.group, one.topic))
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
        "dead": sorted(dead.items(), key=lambda one: (-one[1]["messages"], one[0])),
    }


def _one(rows: Sequence[Any]) -> Any:  # noqa: ANN401 - rows of several kinds
    return rows[0] if rows else None
