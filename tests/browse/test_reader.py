"""What reads: searches that are left, bugs, stores in buckets, memory that does not grow."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from threading import Event, Semaphore
from typing import Any, cast

import pytest

from rmqtool.browse.app import Browser, browse
from rmqtool.browse.records import LogRecords, QueueMessages
from rmqtool.browse.sources import PAGE, PAGES_KEPT, StoreReader
from rmqtool.errors import UnreadablePath
from rmqtool.query.lookup import Lookup
from tests.browse.driver import CHILD, Driver, drive
from tests.browse.test_screens import TOUR, rows
from tests.s3_server import s3_server
from tests.stores import fixture_store


def test_search_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Esc leaves a search that takes long; all other screens go on."""
    is_left = Event()

    def find(_self: Lookup, _request: object) -> None:
        is_left.wait(60)

    monkeypatch.setattr(Lookup, "find", find)

    async def script(driver: Driver) -> None:
        await driver.press("slash")
        await driver.type("nothing")
        assert "searching" in driver.text
        await driver.press("escape")
        assert "the search was left" in driver.text
        await driver.press("l")
        assert rows(driver.screen.sheet.source)
        is_left.set()

    drive(TOUR, script)


def test_bug_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug ends the screens, and is raised for main to report."""

    def broken(_lookup: object) -> None:
        message = "a bug"
        raise ValueError(message)

    monkeypatch.setattr("rmqtool.browse.app.glance", broken)
    browser = Browser(CHILD, str(TOUR))
    monkeypatch.setattr(Browser, "run", lambda self: asyncio.run(self.run_async(headless=True)))
    with pytest.raises(ValueError, match="a bug"):
        browse(browser)


def test_unreadable_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that cannot be read say why."""

    def refuse(*_: object) -> None:
        raise UnreadablePath(path="commitlog", reason="refused by the disk")

    monkeypatch.setattr(LogRecords, "read", refuse)

    async def script(driver: Driver) -> None:
        await driver.press("l", "enter")
        assert "refused by the disk" in driver.text

    drive(TOUR, script)


def test_few_pages_are_kept() -> None:
    """However far somebody scrolls, few rows are in memory."""

    async def script(driver: Driver) -> None:
        await driver.press("slash")
        await driver.type("traffic-orders 0 0")
        source = driver.screen.sheet.source
        assert isinstance(source, QueueMessages)
        source.count = PAGE * PAGES_KEPT * 4  # rows past the end say that they are not there
        source._ends[-1] = source.count  # noqa: SLF001 - a queue so long would take minutes to make
        for page in range(PAGES_KEPT * 2):
            source.rows(page * PAGE, PAGE)
        await driver.until(lambda: not source._asked)  # noqa: SLF001 - likewise
        assert len(source._pages) <= PAGES_KEPT  # noqa: SLF001 - likewise

    drive(TOUR, script)


def test_bucket(tmp_path: Path) -> None:
    """A store in a bucket has the same screens."""
    uri = s3_server().put(TOUR, f"browse/{tmp_path.name}")
    seen: dict[str, list[dict[str, object]]] = {}

    for store in (str(TOUR), uri):

        async def script(driver: Driver, store: str = store) -> None:
            await driver.press("t", "slash")
            await driver.type("traffic-retry")
            await driver.press("enter", "enter")
            seen[store] = rows(driver.screen.sheet.source)

        drive(store, script)
    assert seen[str(TOUR)] == seen[uri]
    assert 10 == len(seen[uri])


def test_read_again(tmp_path: Path) -> None:
    """`r` opens the store again: what came meanwhile is there."""
    store = fixture_store("rocketmq-4.9.3-traffic", tmp_path)

    async def script(driver: Driver) -> None:
        await driver.press("t")
        before = driver.screen.sheet.source.count
        queues = store / "consumequeue"
        shutil.copytree(queues / "traffic-retry", queues / "traffic-new")
        await driver.press("r")
        assert "overview" == driver.screen.sheet.title
        await driver.press("t")
        assert before + 1 == driver.screen.sheet.source.count

    drive(store, script)


def test_start_over() -> None:
    """What is being read is dropped; the other questions go to a store that is opened again."""
    stores: list[Opened] = []
    begun, goes_on, answered = Event(), Event(), Semaphore(0)
    told: list[object] = []

    def opens() -> Opened:
        stores.append(Opened())
        return stores[-1]

    def slow(_store: object) -> str:
        begun.set()
        goes_on.wait(60)
        return "dropped"

    def done(answer: object) -> None:
        told.append(answer)
        answered.release()

    reader = StoreReader(cast(Any, opens), lambda result: result())
    reader.ask(slow, done, told.append)
    assert begun.wait(60)
    for _ in range(2):
        reader.ask(lambda store: stores.index(cast(Opened, store)), done, told.append)
    reader.start_over()
    assert all(answered.acquire(timeout=60) for _ in range(2))
    goes_on.set()
    assert stores[0].is_closed.wait(60)
    reader.leave()
    assert stores[1].is_closed.wait(60)
    assert [1, 1] == told


class Opened:
    """Stands for a store."""

    def __init__(self) -> None:
        self.is_closed = Event()

    def __exit__(self, *_error: object) -> None:
        self.is_closed.set()
