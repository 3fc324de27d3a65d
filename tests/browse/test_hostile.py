"""What strangers wrote is escaped on each screen, and in what is copied."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from tests.browse.driver import Driver, drive
from tests.browse.test_screens import rows
from tests.evidence import Evidence
from tests.stores import fixture_store

TOPIC: Final = "traffic-hostile"
EVIL: Final = "[red]\x1b[31mevil\u202e[bold]"  # of a directory, thus of a topic


def test_messages(tmp_path: Path) -> None:
    """Messages with escape sequences and markup are shown as text, whatever the screen."""
    store = fixture_store("rocketmq-4.9.3-traffic", tmp_path)
    seen = ""

    async def script(driver: Driver) -> None:
        nonlocal seen
        await driver.press("slash")
        await driver.type(f"{TOPIC} 0 0")
        count = driver.screen.sheet.source.count
        for _ in range(count):
            await driver.press("enter")
            seen += driver.text
            await driver.press("x")
            seen += driver.text
            await driver.press("escape", "y", "escape", "j")
            assert driver.browser.clipboard.isprintable()

    drive(store, script)
    assert all(line.isprintable() for line in seen.split("\n"))
    assert "\\x" in seen or "\\u" in seen


def test_names(tmp_path: Path, evidence: Evidence) -> None:
    """A name of a topic is no markup, steers no terminal, and is quoted in commands."""
    store = fixture_store("rocketmq-4.9.3-traffic", tmp_path)
    shutil.copytree(store / "consumequeue" / "traffic-retry", store / "consumequeue" / EVIL)
    evidence.keep(store)

    async def script(driver: Driver) -> None:
        await driver.press("t", "slash")
        await driver.type("evil")
        assert "[red]\\x1b[31mevil\\u202e[bold]" in driver.text
        await driver.press("enter", "enter")
        assert all(line.isprintable() for line in driver.text.split("\n"))
        assert "\\x1b" in driver.text
        assert rows(driver.screen.sheet.source)
        await driver.press("Y")
        assert driver.browser.clipboard.isprintable()

    drive(store, script)
