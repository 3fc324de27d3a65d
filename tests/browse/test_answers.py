"""Five questions in five keys each, what is copied and extracted, and how it is left."""

from __future__ import annotations

import os
import shlex
import time
from pathlib import Path
from typing import Final

import pytest
from textual.events import MouseScrollDown

from rmqtool.browse.app import Browser, SheetScreen
from rmqtool.browse.pages import Sheet, extract_lines
from rmqtool.browse.sources import TurnedRows
from rmqtool.browse.table import RowTable
from rmqtool.cli.main import main
from tests.browse.driver import Driver, drive
from tests.browse.test_screens import TOUR, rows

KEY: Final = "ORDER-480"


def number(driver: Driver, name: str) -> int:
    """Give a number of the row below the cursor."""
    return int(str(driver.screen.row[name]))


def test_pasted_id() -> None:
    """`/`, an ID, Enter: the message, with what points to it."""

    async def script(driver: Driver) -> None:
        await driver.press("slash")
        await driver.type("C000020265084E0E2F2A679C81110204")
        assert driver.screen.sheet.title == "message at 158380"
        fields = rows(driver.screen.sheet.source)
        kinds = {row["field"] for row in fields}
        assert {"queue unit", "index entry", "verified", "body", "property KEYS"} <= kinds

    drive(TOUR, script)


def test_early_tick() -> None:
    """The clock may tick before a new screen has its parts: on a busy machine it does."""

    async def script(driver: Driver) -> None:
        screen = SheetScreen(driver.browser, Sheet("early", "", TurnedRows([("x", "seen")])))
        screen.tick()
        screen.remark("too early")
        driver.browser.push_screen(screen)
        await driver.settle()
        assert "early" in driver.text
        assert "seen" in driver.text

    drive(TOUR, script)


def test_tick_without_a_screen() -> None:
    """The clock may tick before the first screen is there, and after the last one is gone."""
    Browser(("rmqtool",), str(TOUR))._tick()  # noqa: SLF001 - what the clock calls


def test_around_a_time() -> None:
    """`/`, a time, Enter: the log around it; an hour alone is of the newest message's day."""

    async def script(driver: Driver) -> None:
        await driver.press("slash")
        await driver.type("2026-11-21T02:52:00Z")
        assert driver.screen.sheet.title == "log"
        row = driver.screen.row
        assert "2026-11-21T02:52:00.000Z" <= str(row["store_time"])
        before = driver.screen.sheet.source.rows(driver.screen.table.cursor - 1, 1)[0] or {}
        assert str(before["store_time"]) < "2026-11-21T02:52:00.000Z"
        assert driver.browser.newest is not None

    drive(TOUR, script)


def test_hour_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """14:32 is of the day of the newest message, in the zone of this machine."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()

    async def script(driver: Driver) -> None:
        await driver.press("slash")
        await driver.type("02:52")
        assert str(driver.screen.row["store_time"]) >= "2026-11-21T02:52:00.000Z"

    try:
        drive(TOUR, script)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_first_damage() -> None:
    """`f`, Enter, `x`: the worst finding, and its bytes; `n` in the log goes to it."""

    async def script(driver: Driver) -> None:
        await driver.press("f")
        await driver.until(lambda: driver.screen.sheet.source.count > 0)
        assert "damage" == driver.screen.row["severity"]
        await driver.press("j", "enter")
        fields = {str(row["field"]): row["value"] for row in rows(driver.screen.sheet.source)}
        assert {"code", "repair", "repair would", "lost"} <= fields.keys()
        await driver.press("x")
        assert "--hex" in driver.screen.sheet.line
        assert driver.screen.sheet.source.count
        await driver.press("o", "l", "n")
        assert 158380 == number(driver, "physical_offset")
        await driver.press("m")
        assert 158750 == number(driver, "physical_offset")
        await driver.press("M")
        assert 158380 == number(driver, "physical_offset")

    drive(TOUR, script)


def test_lag_of_a_group() -> None:
    """`c`, `/`, a name, Enter: its lag; Enter: queue by queue."""

    async def script(driver: Driver) -> None:
        await driver.press("c", "slash")
        await driver.type("traffic-slow")
        assert 806 == number(driver, "lag")
        await driver.press("enter")
        lags = [row.get("lag") for row in rows(driver.screen.sheet.source)]
        assert 806 == sum(lag for lag in lags if isinstance(lag, int))

    drive(TOUR, script)


def test_disk_use_of_a_topic() -> None:
    """`t`, `/`, a name, Enter: bytes in the log, and of the files of its queues."""

    async def script(driver: Driver) -> None:
        await driver.press("t", "slash")
        await driver.type("traffic-orders")
        row = driver.screen.row
        assert (234240, 18000) == (row["message_bytes"], row["size"])
        assert "234240" in driver.text
        assert "18000" in driver.text

    drive(TOUR, script)


def test_places() -> None:
    """Offsets of all kinds are found, and what is not there is said."""

    async def script(driver: Driver) -> None:
        await driver.press("slash")
        await driver.type("traffic-orders 1 100")
        assert 100 == number(driver, "queue_offset")
        await driver.press("slash")
        await driver.type("42")
        assert 42 == number(driver, "queue_offset")
        await driver.press("slash")
        await driver.type("2026-11-21T02:51:50Z")
        assert "2026-11-21T02:51:50" <= str(driver.screen.row["store_time"])
        await driver.press("o", "slash")
        await driver.type("no-such-key")
        await driver.until(lambda: "not found: --key no-such-key" in driver.text)
        await driver.press("slash")
        await driver.type(KEY)
        await driver.until(lambda: driver.screen.sheet.title != "overview")
        assert KEY in driver.text or "message at" in driver.text

    drive(TOUR, script)


def test_filter() -> None:
    """`&` shows messages with a tag, or with a property, alone."""

    async def script(driver: Driver) -> None:
        await driver.press("slash")
        await driver.type("traffic-orders 0 0")
        await driver.press("ampersand")
        await driver.type("TagB")
        found = rows(driver.screen.sheet.source)
        tags = {row["tags"] for row in found if not row["code"]}  # damage is shown, too
        assert {"TagB"} == tags
        assert "--topic traffic-orders --queue 0 --tag TagB" in driver.screen.sheet.line

    drive(TOUR, script)


def test_mouse() -> None:
    """A click goes to a row, a second one opens it; the wheel turns."""

    async def script(driver: Driver) -> None:
        await driver.press("l")
        await driver.pilot.click(RowTable, offset=(10, 4))
        assert 3 == driver.screen.table.cursor
        await driver.pilot.click(RowTable, offset=(10, 4))
        await driver.settle()
        assert driver.screen.sheet.title.startswith("message at ")
        before = driver.text
        await driver.pilot._post_mouse_events([MouseScrollDown], RowTable, (10, 4))  # noqa: SLF001 - no other way
        await driver.pilot.pause(0.5)
        assert before != driver.text

    drive(TOUR, script)


def test_extract(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`e` leaves with commands that extract what is marked, and they do."""

    async def script(driver: Driver) -> None:
        await driver.press("slash")
        await driver.type("traffic-orders 0 7")
        await driver.press("space", "space", "e")

    browser = drive(TOUR, script)
    assert browser.return_value is not None
    lines = browser.return_value.lines
    assert 2 == len(lines)
    for which, line in enumerate(lines, 1):
        words = shlex.split(line)
        words[-1] = str(tmp_path / f"{which}.jsonl")
        assert 0 == main([*words[1:], "--quiet"])
        assert (tmp_path / f"{which}.jsonl").read_text(encoding="utf-8").count("\n") == 1
    capfd.readouterr()


def test_extract_topics() -> None:
    """Topics that are marked are extracted together."""

    async def script(driver: Driver) -> None:
        await driver.press("t", "G", "space", "e")

    browser = drive(TOUR, script)
    assert browser.return_value is not None
    (line,) = browser.return_value.lines
    assert line.endswith("--topic traffic-transaction --output extract.jsonl")
    marks = [("--topic", "a b"), ("--topic", "c"), ("--topic", "c", "--queue", "1"), ()]
    assert 2 == len(extract_lines(browser.commander, marks))
    assert "--topic 'a b' --topic c" in extract_lines(browser.commander, marks)[0]


def test_copies() -> None:
    """`y` copies an ID, `Y` the command that finds the row."""

    async def script(driver: Driver) -> None:
        await driver.press("l", "y")
        assert driver.screen.row["unique_key"] == driver.browser.clipboard
        await driver.press("Y")
        assert "rmqtool query" in driver.browser.clipboard
        assert driver.browser.clipboard.endswith("--at 0")

    drive(TOUR, script)


@pytest.mark.parametrize(("key", "code"), [("q", 0), ("ctrl+c", 130)])
def test_left_at_once(key: str, code: int) -> None:
    """A diagnosis, or a list, that is being read is left with it, and its process ends."""
    began = 0.0

    async def script(driver: Driver) -> None:
        nonlocal began
        driver.browser.diagnosis.forget()
        await driver.pilot.press("d", "t")
        await driver.pilot.pause(0.2)
        began = time.monotonic()
        await driver.pilot.press(key)

    browser = drive(TOUR, script)
    assert time.monotonic() - began < 2
    assert browser.return_value is not None
    assert code == browser.return_value.code
    time.sleep(0.5)
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    pids = " ".join(path.read_text(encoding="ascii") for path in children).split()
    running = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids]
    assert not [line for line in running if b"doctor" in line and b"--quiet" in line]
