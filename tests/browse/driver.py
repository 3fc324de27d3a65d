"""Drives the screens of `browse` by keys, without a terminal."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from textual.pilot import Pilot, WaitForScreenTimeout

from rmqtool.browse.app import Browser, Ending, SheetScreen
from rmqtool.browse.sources import READING
from rmqtool.cli.commands.browse import PROGRAM

SIZE: Final = (100, 30)
LONGEST: Final = 60.0  # seconds that a screen may take on a busy machine
CHILD: Final = (sys.executable, "-P", "-c", PROGRAM.format([path for path in sys.path if path]))


class Driver:
    """Presses keys, and says what is seen."""

    def __init__(self, browser: Browser, pilot: Pilot[Ending]) -> None:
        self.browser, self.pilot = browser, pilot

    @property
    def screen(self) -> SheetScreen:
        """What is seen."""
        return self.browser.here

    @property
    def text(self) -> str:
        """The characters of the terminal."""
        strips = self.browser.screen._compositor.render_strips()  # noqa: SLF001 - no other way
        return "\n".join("".join(part.text for part in strip).rstrip() for strip in strips)

    async def until(self, is_there: Callable[[], bool]) -> None:
        """Wait for something that is read meanwhile."""
        end = time.monotonic() + LONGEST
        while not self._is_there(is_there):
            assert time.monotonic() < end, self.text
            await self._pause(0.02)
        await self._pause()

    def _is_there(self, is_there: Callable[[], bool]) -> bool:
        if self.browser.bug is not None:  # what is seen then says nothing
            raise self.browser.bug
        return is_there()

    async def press(self, *keys: str) -> None:
        """Press keys one after the other; after each one, wait until all is read."""
        for key in keys:
            await self._strike(key)
            await self.settle()

    async def settle(self) -> None:
        """Wait until all that the screen shows is read."""
        await self._pause()
        await self.until(self._is_read)

    def _is_read(self) -> bool:
        if not isinstance(self.browser.screen, SheetScreen) or not self.screen.is_mounted:
            return False
        source = self.screen.sheet.source
        if source.state.startswith(READING) or self.screen.table.size.height == 0:
            return False
        return None not in source.rows(self.screen.table.scroll_offset.y, 30)

    async def type(self, text: str) -> None:
        """Type into the prompt, and press Enter."""
        for character in text:
            await self._strike("space" if character == " " else character)
        await self.press("enter")

    # The pilot waits in vain for a widget that goes away meanwhile.

    async def _strike(self, key: str) -> None:
        with suppress(WaitForScreenTimeout):
            await self.pilot.press(key)

    async def _pause(self, seconds: float | None = None) -> None:
        with suppress(WaitForScreenTimeout):
            await self.pilot.pause(seconds)


def drive(
    store: Path | str, script: Callable[[Driver], Awaitable[None]], broker_conf: str | None = None,
    size: tuple[int, int] = SIZE,
) -> Browser:  # fmt: skip
    """Browse a store as a script says; give the browser when it has ended."""
    browser = Browser(CHILD, str(store), broker_conf)

    async def run() -> None:
        async with browser.run_test(size=size) as pilot:
            driver = Driver(browser, pilot)
            await driver.settle()
            await script(driver)
        browser.diagnosis.forget()
        browser.reader.leave()

    asyncio.run(run())
    if browser.bug is not None:
        raise browser.bug
    return browser
