"""Every screen of every kind of store, and that the command it names says the same."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final

import pytest

from rmqtool.browse.sources import RowSource
from rmqtool.cli.main import main
from tests.browse.driver import Driver, drive
from tests.evidence import Evidence
from tests.stores import FIXTURES, fixture_store, held_by_another

TOUR: Final = FIXTURES / "tour" / "store"
STORES: Final = {
    "sound": "rocketmq-5.3.3-traffic",
    "damaged": "",
    "rocksdb": "rocketmq-5.3.3-rocksdb",
    "live": "rocketmq-5.3.3-crash",
    "dledger": "rocketmq-4.9.3-dledger",
    "batch": "rocketmq-5.3.3-batch-queue",
    "lmq": "rocketmq-5.3.3-lmq",
}
# Keys from the overview, each screen of them looked at.
WALK: Final = (
    ("t", "enter", "enter", "enter", "x", "escape", "v", "escape", "escape", "escape", "a"),
    ("o", "c", "enter", "enter"),
    ("o", "l", "G", "g", "pagedown", "enter", "T"),
    ("o", "enter", "o", "question_mark"),
    ("o", "d", "o", "f", "enter", "x", "o", "f", "x", "o", "L", "enter"),
    ("o", "i", "enter", "enter", "escape", "escape", "j", "j", "enter"),
)


@contextmanager
def opened(kind: str, into: Path) -> Iterator[Path]:
    """Give a store of a kind."""
    if kind == "damaged":
        yield TOUR
        return
    store = fixture_store(STORES[kind], into)
    with held_by_another(store) if kind == "live" else nullcontext():
        yield store


@pytest.mark.parametrize("kind", STORES)
def test_every_screen(kind: str, tmp_path: Path, evidence: Evidence) -> None:
    """Each has a heading, a command line and rows; nothing that does not print; no bug."""
    seen: set[str] = set()

    async def script(driver: Driver) -> None:
        for keys in WALK:
            for key in keys:
                await driver.press(key)
                if key in {"d", "f", "L"}:
                    await driver.until(lambda: driver.browser.diagnosis.document is not None)
                    await driver.settle()
                lines = driver.text.split("\n")
                assert all(line.isprintable() for line in lines), lines
                sheet = driver.screen.sheet
                assert lines[0].startswith(sheet.title[:60])
                assert lines[1].startswith("$ rmqtool ")
                seen.add(sheet.title.split(" ")[0])

    with opened(kind, tmp_path) as store:
        evidence.keep(store)
        drive(store, script)
    always = {"overview", "topics", "queues", "messages", "message", "bytes", "consumer", "log"}
    assert seen >= always | {"trace", "keys", "diagnosis", "findings", "lost", "files", "row"}


def rows(source: RowSource) -> list[dict[str, object]]:
    """Give all rows of a source that has read them."""
    return [dict(row or {}) for row in source.rows(0, source.count)]


def said(line: str, capfd: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    """Give the rows of a command line."""
    capfd.readouterr()
    main([*shlex.split(line)[1:], "--format", "jsonl", "--quiet"])
    return [json.loads(row) for row in capfd.readouterr().out.splitlines()]


async def _topics(driver: Driver) -> None:
    await driver.press("t")


async def _groups(driver: Driver) -> None:
    await driver.press("c")


async def _group(driver: Driver) -> None:
    await driver.press("c", "enter")


async def _segments(_driver: Driver) -> None:
    pass


async def _queue(driver: Driver) -> None:
    await driver.press("t", "slash")
    await driver.type("traffic-retry")
    await driver.press("enter", "enter")


async def _log(driver: Driver) -> None:
    await driver.press("l")


async def _files(driver: Driver) -> None:
    await driver.press("i", "slash")
    await driver.type("checkpoint")
    await driver.press("enter")


@pytest.mark.parametrize("way", [_topics, _groups, _group, _segments, _queue, _log, _files])
def test_same_rows(
    way: Callable[[Driver], object], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The command line that a screen names gives the rows that the screen has."""
    store = fixture_store("rocketmq-4.9.3-traffic", tmp_path)
    shown: list[dict[str, object]] = []
    line = ""

    async def script(driver: Driver) -> None:
        nonlocal line
        await way(driver)  # type: ignore[misc]
        await driver.settle()
        source = driver.screen.sheet.source
        first = source.rows(0, 40)
        await driver.until(lambda: None not in source.rows(0, 40))
        first = source.rows(0, 40)
        shown.extend(dict(row or {}) for row in first)
        line = driver.screen.sheet.line

    drive(store, script)
    there = said(line, capfd)[: len(shown)]
    assert shown
    common = shown[0].keys() & there[0].keys()
    assert len(common) > 2
    own = json.loads(json.dumps([{name: row[name] for name in common} for row in shown]))
    assert own == [{name: row[name] for name in common} for row in there]
