"""A comparison beside a running broker: what its files were for a moment is no difference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace

import pytest

from rmqtool import rebuild
from rmqtool.broker.dispatch import DispatchRules
from rmqtool.broker.release import Version
from rmqtool.broker.rules import Rules
from rmqtool.derive.part import DeriveOptions
from rmqtool.errors import Trouble, UnreadablePath
from rmqtool.formats.index import entry_position
from rmqtool.rebuild.comparing import Difference
from rmqtool.rebuild.options import LostRange, Mode, RebuildResult
from rmqtool.rebuild.work import DerivePart, kept_files, wrong_files
from rmqtool.store.moment import Moment
from rmqtool.store.place import Place
from rmqtool.store.segment import SegmentPart
from rmqtool.store.tree import open_store
from tests.stores import fixture_store, held_by_another

SOME_SECONDS = 4
RULES = DispatchRules(Rules(Version.parse("5.3.3")))


def _result(*paths: str, at: int = 0) -> RebuildResult:
    result = RebuildResult(Mode.CHECK, RULES, "told", cut=1)
    result.differences = [Difference(path, at, 1, "00", "01") for path in paths]
    return result


def _check(*results: RebuildResult | UnreadablePath) -> Callable[[], RebuildResult]:
    """Give one result after the other; the last one again and again."""
    left: Iterator[RebuildResult | UnreadablePath] = chain(results, repeat(results[-1]))

    def check() -> RebuildResult:
        found = next(left)
        if isinstance(found, UnreadablePath):
            raise found
        return replace(found)

    return check


def _settled(check: Callable[[], RebuildResult], *, is_live: bool) -> RebuildResult:
    return Moment(Place("/"), (), lambda: is_live).settled(check, wrong_files, kept_files)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Wait for nothing; give how long it would have been."""
    found: list[float] = []
    monkeypatch.setattr("rmqtool.store.moment.time", SimpleNamespace(sleep=found.append))
    return found


GONE = UnreadablePath(path="consumequeue/T/0/0", reason="no such file", trouble=Trouble.MISSING)


@pytest.mark.parametrize(
    ("results", "stay"),
    [
        ([_result()], []),
        ([_result("a"), _result()], []),
        ([_result("a"), _result("a"), _result()], []),
        ([_result("a", "b"), _result("b", "c"), _result("b", "d", at=7)], ["b"]),
        ([GONE, GONE, GONE, _result()], []),
        ([_result("a"), GONE, _result("a"), _result("a")], ["a"]),
    ],
    ids=["same", "once", "twice", "each time", "gone", "gone and damaged"],
)
def test_what_stays(
    results: list[RebuildResult | UnreadablePath], stay: list[str], pauses: list[float]
) -> None:
    """A difference is one when a file has one each time, wherever in it, for some seconds."""
    result = _settled(_check(*results), is_live=True)
    assert stay == [difference.path for difference in result.differences]
    assert sum(pauses) > SOME_SECONDS or not stay


@pytest.mark.usefixtures("pauses")
def test_lost_meanwhile() -> None:
    """What cannot be read is lost when the same file cannot be read each time."""
    results = [_result("a"), _result("a"), _result("a")]
    for number, result in enumerate(results):
        result.lost = [LostRange(name, 0, 1, "unreadable") for name in (f"c/{number}", "c/each")]
    assert ["c/each"] == [lost.path for lost in _settled(_check(*results), is_live=True).lost]


@pytest.mark.parametrize("is_live", [False, True])
def test_part_gone(tmp_path: Path, *, is_live: bool) -> None:
    """A file that expires beside a broker ends the look; else it is a stretch that is lost."""
    store = open_store(fixture_store("rocketmq-5.3.3-traffic", tmp_path))
    segment = store.commitlog.segments[0]
    Path(str(segment.place)).unlink()
    work = DerivePart(DeriveOptions(RULES), is_live=is_live)
    if is_live:
        with pytest.raises(UnreadablePath):
            work(SegmentPart(segment, 0, segment.size))
    else:
        assert [segment.size] == [
            stretch.length for stretch in work(SegmentPart(segment, 0, segment.size)).stretches
        ]


@pytest.mark.usefixtures("pauses")
def test_newer_entries(tmp_path: Path) -> None:
    """Entries that a running broker adds to the newest index file are none, a damaged one is."""
    store = fixture_store("rocketmq-5.5.0-traffic", tmp_path)
    newest = max(open_store(store).index_files(), key=lambda file: file.name)
    with held_by_another(store):
        assert [] == rebuild.index(store, check=True).differences
        position = entry_position(newest.slots, 3)
        with (store / newest.path).open("r+b") as opened:
            opened.seek(position)
            opened.write(b"\xff")
        (difference,) = rebuild.index(store, check=True).differences
    assert (newest.path, position, 1) == (difference.path, difference.position, difference.length)


def test_without_a_broker() -> None:
    """What is seen once is so, and a file that is gone is an error."""
    assert ["a"] == [
        difference.path for difference in _settled(_check(_result("a")), is_live=False).differences
    ]
    with pytest.raises(UnreadablePath):
        _settled(_check(GONE, _result()), is_live=False)
