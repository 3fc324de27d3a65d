"""The pictures of docs/browse.md are what the screens show."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Final

import pytest

from tests.browse.driver import Driver, drive

ROOT: Final = Path(__file__).parents[2]
PICTURES: Final = ROOT / "docs"
STORE: Final = Path("fixtures/tour/store")
FONTS: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)  # of a server
WORDS: Final = re.compile(r"<text [^>]*>(.*?)</text>")
# The end of a scroll bar's handle, drawn with an eighth of a cell, and only while it moves.
BAR: Final = re.compile("[▁▂▃▄▅▆▇]{2}")
# What is pressed, after the diagnosis is there.
KEYS: Final = {
    "browse-overview": (),
    "browse-finding": ("f", "j", "enter"),
    "browse-bytes": ("slash", "188000", "enter", "x"),
}
SIZE: Final = (100, 28)


@pytest.mark.parametrize("name", KEYS)
def test_picture(name: str, monkeypatch: pytest.MonkeyPatch, *, update_golden: bool) -> None:
    """The words of a picture are those of the screen."""
    monkeypatch.chdir(ROOT)
    drawn = ""

    async def script(driver: Driver) -> None:
        nonlocal drawn
        await driver.until(lambda: driver.browser.diagnosis.document is not None)
        driver.screen.tick()
        for key in KEYS[name]:
            await (driver.type(key) if key.isdecimal() else driver.press(key))
        await driver.pilot.pause(0.2)
        drawn = driver.browser.export_screenshot(title=f"rmqtool browse {STORE}")

    drive(STORE, script, size=SIZE)
    path = PICTURES / f"{name}.svg"
    if update_golden:
        path.write_text(FONTS.sub("", drawn), encoding="utf-8")
    assert words(path.read_text(encoding="utf-8")) == words(drawn)


def words(picture: str) -> list[str]:
    """Give the texts of a picture; where they stand is the library's to say."""
    texts = [html.unescape(text).replace("\xa0", " ").strip() for text in WORDS.findall(picture)]
    return [text for text in texts if text and not BAR.fullmatch(text)]
