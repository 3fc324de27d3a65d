"""What a report tells is what is in the store."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rmqtool
from rmqtool.check.log.part import PartReport
from rmqtool.check.options import ValidateOptions
from rmqtool.errors import UnreadablePath
from rmqtool.report.facts import Facts
from rmqtool.report.facts import evidence as take_down
from rmqtool.report.gather import LONGEST_MS, MOST_STEPS, Looker, gather, grid_of
from rmqtool.report.page import page
from rmqtool.store.segment import SegmentPart
from rmqtool.store.tree import open_store
from tests.evidence import Evidence
from tests.stores import fixture_store
from tests.tour import TOUR

LONG = st.integers(1, 2**63 - 1)


@pytest.mark.parametrize("name", ["rocketmq-4.9.3-traffic", "rocketmq-5.3.3-lmq"])
def test_traffic(name: str, tmp_path: Path, evidence: Evidence) -> None:
    """Each topic has as many records and bytes as construct reads one by one."""
    store = evidence.keep(fixture_store(name, tmp_path))
    records, sizes = Counter[str](), Counter[str]()
    for record in rmqtool.open_store(str(store)).records():
        records[record.topic] += 1
        sizes[record.topic] += record.size
    facts = gather(ValidateOptions(store=store))
    assert records == {traffic.topic: traffic.records for traffic in facts.traffic}
    assert sizes == {traffic.topic: traffic.size for traffic in facts.traffic}
    assert 0 == sum(traffic.outside for traffic in facts.traffic)
    assert (0, 0) == (
        facts.exit_code,
        sum(coverage.missing + coverage.ahead for coverage in facts.coverage),
    )


def test_parts(tmp_path: Path) -> None:
    """A log that is read in small parts gives the same as one that is read at once."""
    store = fixture_store("rocketmq-5.3.3-lmq", tmp_path)
    whole, cut = (
        gather(ValidateOptions(store=store, part_bytes=size)) for size in (1 << 30, 5_000)
    )
    assert whole.segments == cut.segments
    assert whole.coverage == cut.coverage
    assert [(traffic.topic, traffic.series) for traffic in whole.traffic] == [
        (traffic.topic, traffic.series) for traffic in cut.traffic
    ]


def test_segments(facts: Facts, hurt_store: Path) -> None:
    """Files are tiled by records and what is none, and the gap is there."""
    files = sorted((hurt_store / "commitlog").iterdir())
    assert [f"commitlog/{file.name}" for file in files] == [
        segment.path for segment in facts.segments
    ]
    for tiling, file in zip(facts.segments, files, strict=True):
        assert file.stat().st_size == tiling.size
        ends = [(at, at + length) for _, at, length in tiling.stretches]
        assert sorted(ends) == ends
        assert all(0 <= first < end <= tiling.size for first, end in ends)
        assert all(before[1] <= after[0] for before, after in pairwise(ends))
    assert sum(segment.records for segment in facts.segments) == facts.summary.account.records
    assert 512 <= sum(segment.bytes_of("gap") for segment in facts.segments) < 5000


def test_coverage(facts: Facts) -> None:
    """A queue whose files are gone misses all that the log has of it."""
    queue = next(
        coverage
        for coverage in facts.coverage
        if (coverage.topic, coverage.queue_id) == ("traffic-orders", 2)
    )
    assert queue.in_log is not None
    assert (None, queue.in_log[1] - queue.in_log[0]) == (queue.in_files, queue.missing)


def test_exit_code(facts: Facts) -> None:
    """Damage is the answer no."""
    assert 1 == facts.exit_code


@pytest.mark.parametrize(("last_end", "begin"), [(-1, 0), (300, 300)])
def test_unreadable(last_end: int, begin: int, tmp_path: Path) -> None:
    """What could not be read of a file is neither records nor a gap."""
    store = open_store(fixture_store("rocketmq-5.3.3-lmq", tmp_path))
    segment = store.commitlog.segments[0]
    looker = Looker(None)
    records = 1 if last_end > 0 else 0
    unread = UnreadablePath(path=segment.path, reason="input/output error")
    report = PartReport(first=0, end=last_end, records=records, last_end=last_end, unread=unread)
    looker.take(SegmentPart(segment, 0, segment.size), report)
    (tiling,) = looker.segments.values()
    assert [("unread", begin, segment.size - begin)] == tiling.stretches
    assert begin == tiling.bytes_of("record")


@given(st.lists(LONG, min_size=1, max_size=50))
def test_grid(times: list[int]) -> None:
    """Whatever the times are, the axis is short and holds one of them at least."""
    grid = grid_of(times)
    assert grid is not None
    assert 1 <= grid.steps <= 2 * MOST_STEPS
    assert any(grid.begin_ms <= time < grid.end_ms for time in times)
    middle = sorted(times)[(len(times) - 1) // 2]
    near = [time for time in times if abs(time - middle) <= LONGEST_MS]
    assert all(grid.begin_ms <= time < grid.end_ms for time in near)


def test_no_time() -> None:
    """Without a record there is no axis."""
    assert grid_of([]) is None


def test_holes(tmp_path: Path) -> None:
    """A small hole counts as the zeros that it reads as; a terabyte of them is not hashed."""
    root = fixture_store("rocketmq-5.3.3-lmq", tmp_path)
    for name, hole in (("small", 3 << 20), ("large", 1 << 40)):
        with (root / name).open("wb") as file:
            file.seek(hole)
            file.write(b"end")
            file.truncate(hole + 5_000_000)
    found = {file.path: file for file in take_down(open_store(str(root)), ("report",)).files}
    small = sha256((root / "small").read_bytes()).hexdigest()
    assert (small, "") == (found["small"].sha256, found["small"].problem)
    assert ("", (1 << 40) + 5_000_000) == (found["large"].sha256, found["large"].size)
    assert "holes" in found["large"].problem


def test_evidence(tmp_path: Path) -> None:
    """Each file has the digest that others compute, and the circumstances are said."""
    store = fixture_store("rocketmq-4.9.3-crash", tmp_path)
    found = take_down(open_store(str(store)), ["report", "a store"])
    digests = {
        str(path.relative_to(store)): (path.stat().st_size, sha256(path.read_bytes()).hexdigest())
        for path in store.rglob("*")
        if path.is_file()
    }
    assert digests == {file.path: (file.size, file.sha256) for file in found.files}
    assert "rmqtool report 'a store'" == found.made.command
    assert all((found.made.user, found.made.host, found.made.version, found.made.zone))


def test_first_screen(tmp_path: Path) -> None:
    """What is lost and what a start costs is counted where something was found, as doctor does."""
    sound = gather(ValidateOptions(str(fixture_store("rocketmq-5.3.3-traffic", tmp_path))))
    assert (None, 0) == (sound.prediction, sound.messages_lost)
    assert "rmqtool doctor" in page(sound, 0, "1.0.0")
    hurt = gather(ValidateOptions(str(TOUR)))
    assert hurt.prediction is not None
    assert (4, 820, 120) == (
        hurt.messages_lost, hurt.prediction.lost.messages, hurt.prediction.unreachable
    )  # fmt: skip
    assert 280 + 3 == sum(
        coverage.missing for coverage in hurt.coverage
    )  # the fourth is of the 280
    drawn = page(hurt, 0, "1.0.0")
    for text in ("messages already lost", "940", "messages that a start costs", "rmqtool doctor"):
        assert text in drawn
    assert drawn.index('id="map"') < drawn.index('id="lost"')
