"""The page: well-formed, alone in the world, harmless, and short."""

from __future__ import annotations

import dataclasses
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_commitlog import CL_CRC
from rmqtool.report.facts import Facts, QueueCoverage, SegmentTiling
from rmqtool.report.html import shown
from rmqtool.report.page import (
    MAP_WIDTH,
    MOST_SEGMENTS,
    OTHER_TOPICS,
    columns_for,
    page,
    scale,
    segment_bar,
)
from tests.cli.run import on_terminal, rmqtool
from tests.evidence import Evidence
from tests.report.conftest import HOSTILE_GROUP, MADE_MS
from tests.stores import fixture_store

VOID = {"meta", "br", "hr", "img", "link", "input"}
MOST_BYTES = 5 << 20


class Reader(HTMLParser):
    """Collects elements, attributes and text, and checks that what opens is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str, str]] = []
        self.ids: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element that opens."""
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element that is closed at once."""
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        """See that it is the innermost one."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Keep the text."""
        self.text += data


def read(text: str) -> Reader:
    """Take a page apart."""
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert [] == reader.open
    return reader


def test_alone(html: str) -> None:
    """The page has no script, no handler, and refers to nothing but itself."""
    reader = read(html)
    assert set() == reader.tags & {"script", "img", "iframe", "object", "link", "form", "base"}
    for tag, name, value in reader.attributes:
        assert not name.startswith("on"), (tag, name)
        if name in {"href", "src", "xlink:href", "action", "data"}:
            assert value.removeprefix("#") in reader.ids, (tag, name, value)
    links = [value for tag, name, value in reader.attributes if (tag, name) == ("a", "href")]
    assert len(links) >= 7
    outside = set(re.findall(r"https?://[^\"' <]+", html)) - {"http://x/"}
    assert {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"} == outside
    assert "default-src 'none'" in html


def test_hostile(html: str) -> None:
    """Names from the store are text, with what does not print written out."""
    reader = read(html)
    assert HOSTILE_GROUP in reader.text
    assert r'"><b>\x1b[31m&x<b>' in reader.text
    assert "b" not in {tag for tag, name, _ in reader.attributes if name != "class"} - {"body"}
    assert html.replace("\n", "").isprintable()


def test_drawings(html: str) -> None:
    """Each drawing is well-formed XML."""
    drawings = re.findall(r"<svg .*?</svg>", html, re.DOTALL)
    assert len(drawings) > 30
    for one in drawings:
        ET.fromstring(one)  # noqa: S314 - our own


def test_content(html: str) -> None:
    """All that was asked for is there: findings, map, traffic, queues, lag, dead letters."""
    reader = read(html)
    assert {
        "findings", "map", "traffic", "queues", "lag", "dead-letters", "scope",
    } <= set(reader.ids)  # fmt: skip
    for word in ("CL-CRC", "CQ-", "damaged", "traffic-orders", "traffic-reader", "traffic-failing"):
        assert word in reader.text
    assert "rmqtool repair" in reader.text


def test_legend(facts: Facts, html: str) -> None:
    """The legend of the traffic names each topic with a color of its own, then the others."""
    legend = html.partition('<section id="traffic"')[2].partition('<ul class="key">')[2]
    named = re.findall(r"<li>.*?</svg>(.*?)</li>", legend.partition("</ul>")[0], re.DOTALL)
    topics = [shown(traffic.topic) for traffic in facts.traffic if traffic.topic is not None]
    assert [*topics[: len(named) - 1], OTHER_TOPICS] == [unescape(traffic) for traffic in named]


def test_bounded(facts: Facts) -> None:
    """However large and however broken a store is, the page stays below 5 MB."""
    size = 1 << 30
    stretches = [("gap", at, 200) for at in range(0, size, 1 << 22)]
    segments = [
        SegmentTiling(f"commitlog/{number * size:020}", number * size, size, 10**6, stretches)
        for number in range(2000)
    ]
    topics = [
        dataclasses.replace(facts.traffic[0], topic=f"{number:0127}") for number in range(5000)
    ]
    queues = [
        QueueCoverage(f"{number:0127}", 0, (0, 10**12), (5, 10**11)) for number in range(50_000)
    ]
    said = "x" * 300
    findings = [
        finding(CL_CRC, At(segment.path, at, 9, at), said, expected=said, actual=said)
        for segment in segments
        for at in range(0, size, 1 << 27)
    ]
    queue = facts.sections["queues"][0]
    sections = {
        **facts.sections,
        "queues": [queue._replace(topic=f"%DLQ%{n:0120}", messages=1) for n in range(3000)],
        "groups": [facts.sections["groups"][0]._replace(group=f"{n:0120}") for n in range(50_000)],
    }  # fmt: skip
    large = dataclasses.replace(
        facts,
        segments=segments, traffic=topics, coverage=queues, findings=findings, sections=sections,
    )  # fmt: skip
    text = page(large, MADE_MS, "0.0.0")
    read(text)
    assert len(text.encode()) < MOST_BYTES


def test_most_segments(facts: Facts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of too many files those that are hurt are shown, in order; none is looked for among all."""
    monkeypatch.setattr(SegmentTiling, "__eq__", lambda *_: pytest.fail("looked for"))
    gap = [("gap", 0, 100)]
    segments = [
        SegmentTiling(
            f"commitlog/{10**15 + number:020}", number, 1000, 1, gap if number % 2 else []
        )
        for number in range(2 * MOST_SEGMENTS)
    ]
    text = page(dataclasses.replace(facts, segments=segments, findings=[]), MADE_MS, "0.0.0")
    found = re.findall(r"commitlog/(00001\d{15})", text)
    assert {int(one) % 2 for one in found} == {1}
    assert found == sorted(found)
    assert len(set(found)) == MOST_SEGMENTS


def test_gap_is_seen() -> None:
    """A gap of one byte in a file of 1 GiB is drawn where it is, and as wide as a column."""
    segment = SegmentTiling("commitlog/0", 0, 1 << 30, 1, [("gap", 1 << 29, 1)])
    drawn = ET.fromstring(segment_bar(segment, [], columns_for(1)))  # noqa: S314 - our own
    (gap,) = [one for one in drawn.iter() if one.get("class") == "gap"]
    assert (MAP_WIDTH / 2, 1) == (float(gap.get("x", "")), float(gap.get("width", "")))


def test_bar_to_scale() -> None:
    """Stretches are as wide as they are long."""
    stretches = [("filler", 600, 200), ("unused", 800, 200)]
    segment = SegmentTiling("commitlog/0", 0, 1000, 1, stretches)
    drawn = ET.fromstring(segment_bar(segment, [], 100))  # noqa: S314 - our own
    widths = {
        one.get("class"): float(one.get("width", "")) for one in drawn.iter() if one.get("class")
    }
    step = MAP_WIDTH / 100
    assert 60 * step == pytest.approx(widths["record"], abs=2 * step)
    assert 20 * step == pytest.approx(widths["filler"], abs=2 * step)
    assert 20 * step == pytest.approx(widths["unused"], abs=2 * step)


@pytest.mark.parametrize(
    ("largest", "expected"),
    [(0, (1, 1)), (1, (1, 1)), (7, (8, 2)), (99, (100, 20)), (101, (150, 50))],
)
def test_scale(largest: int, expected: tuple[int, int]) -> None:
    """An axis ends above the largest value, and its lines are at round ones."""
    assert expected == scale(largest)


def test_command(tmp_path: Path, evidence: Evidence) -> None:
    """The command writes a file, or standard output; it replaces nothing, and asks for a file."""
    store = evidence.keep(fixture_store("rocketmq-5.3.3-lmq", tmp_path))
    target = tmp_path / "report.html"
    done = rmqtool("report", store, "--output", target, "--quiet")
    assert (0, b"", "") == done
    assert target.read_bytes().startswith(b"<!DOCTYPE html>")
    again = rmqtool("report", store, "--output", target)
    assert 2 == again.code
    assert f"{target}" in again.err
    piped = rmqtool("report", store, "--level", "deep")
    assert piped.out.startswith(b"<!DOCTYPE html>")
    asked = on_terminal(["report", store], 80)
    assert 2 == asked.code
    assert "--output report.html" in asked.err
    assert 2 == rmqtool("report", store, "--level", "quick").code
