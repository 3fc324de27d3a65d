"""Pictures made of characters."""

from __future__ import annotations

from rmqtool.findings.registry_commitlog import BRIDGE_NOTE
from rmqtool.render.picture import BARS, marks_of, segment_cells, traffic

ROW = {"path": "commitlog/0", "size": 1000, "state": "last"}


def found(severity: str, position: int, length: int, message: str = "") -> dict[str, object]:
    """Give a finding."""
    return {
        "path": "commitlog/0", "severity": severity, "position": position, "length": length,
        "message": message,
    }  # fmt: skip


def test_cells() -> None:
    """A cell shows the worst that is in it; what is not used is not drawn as records."""
    findings = [
        found("note", 0, 1), found("damage", 150, 100), found("warning", 150, 100),
        found("note", 350, 1, BRIDGE_NOTE), {**found("damage", 900, 1), "path": "commitlog/1"},
    ]  # fmt: skip
    marks = list(marks_of(ROW, findings, []))
    assert "iXX=▒·····" == segment_cells(ROW, 500, marks, 10)
    unread = list(marks_of(ROW, [], [{"path": "commitlog/0", "reason": "no"}]))
    assert "??????????" == segment_cells(ROW, 500, unread, 10)


def test_cells_of_lies() -> None:
    """Positions past a file draw something of the right width."""
    marks = [("damage", 10**12, 10**12), ("damage", 0, 10**15)]
    assert 10 == len(segment_cells(ROW, 500, marks, 10))
    assert 1 == len(segment_cells({**ROW, "size": 0}, 0, [], 1))


def test_traffic() -> None:
    """Bars follow bytes over time; without a span of time there are none."""
    samples = [(0, 0), (100, 1000), (200, 1100), (300, 1200)]
    bars, meaning = traffic(samples, 3)
    assert BARS[-1] == bars[0]
    assert "1970-01-01T00:00:00.000Z to 1970-01-01T00:00:00.300Z" in meaning
    assert [] == traffic([(5, 0), (5, 100)], 10)
    assert [] == traffic([], 10)
    assert 7 == len(traffic([(0, 0), (10, 5), (3, 50), (20, 60)], 7)[0])  # clocks go back
