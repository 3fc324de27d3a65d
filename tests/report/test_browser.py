"""The page as a person sees it: headless Chromium, no script, no network."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from PIL import Image, ImageChops, ImageStat
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM: Final = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
GOLDEN: Final = Path(__file__).parent / "golden"
SECTIONS: Final = ("header", "#map", "#traffic", "#queues")
SHRINK: Final = 4  # what is compared has a quarter of the pixels each way: letters become grey
# Browsers and fonts differ a little from machine to machine; a missing bar differs by far more.
MEAN_DIFFERENCE, STRONG, MOST_STRONG = 2.0, 48, 0.01

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None and not os.environ.get("CI"),
        reason="needs Chromium: apt-get install chromium fonts-liberation",
    ),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start the browser that is installed; none is downloaded."""
    assert CHROMIUM is not None, "CI installs Chromium, see .ci/run"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


class Visit:
    """A page that is open, and what happened since.

    Attributes:
        page: the page.
        said: messages of the console, and errors of scripts.
        asked: addresses that were requested.
    """

    def __init__(self, page: Page, file: Path) -> None:
        self.page = page
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.goto(file.as_uri())


@pytest.fixture(scope="module")
def file(html: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Put the page where a browser can open it."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(html, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def visit(browser: Browser, file: Path) -> Iterator[Visit]:
    """Open the page without scripts and without network."""
    context = browser.new_context(
        java_script_enabled=False, offline=True, viewport={"width": 1280, "height": 900}
    )
    yield Visit(context.new_page(), file)
    context.close()


@pytest.mark.parametrize("section", SECTIONS)
def test_looks(section: str, visit: Visit, *, update_golden: bool) -> None:
    """A section looks as it did; `--update-golden` keeps what is seen now."""
    path = GOLDEN / f"{section.strip('#')}.png"
    raw = visit.page.locator(section).first.screenshot()
    seen = Image.open(io.BytesIO(raw)).convert("L")
    seen = seen.resize((seen.width // SHRINK, seen.height // SHRINK), Image.Resampling.BOX)
    if update_golden:
        seen.save(path, optimize=True)
    with Image.open(path) as file:
        expected = file.convert("L")
    assert expected.width == seen.width
    assert expected.height == pytest.approx(seen.height, abs=4)
    size = (0, 0, expected.width, min(expected.height, seen.height))
    difference = ImageChops.difference(expected.crop(size), seen.crop(size))
    strong = sum(difference.histogram()[STRONG:])
    assert ImageStat.Stat(difference).mean[0] < MEAN_DIFFERENCE
    assert strong < MOST_STRONG * expected.width * expected.height


def test_quiet(visit: Visit, file: Path) -> None:
    """Nothing is said on the console, and nothing but the file is asked for."""
    assert ([], [file.as_uri()]) == (visit.said, visit.asked)


def test_with_scripts(browser: Browser, file: Path) -> None:
    """A browser that runs scripts shows the same; names that look like HTML do nothing."""
    with browser.new_context(offline=True, viewport={"width": 1280, "height": 900}) as context:
        visit = Visit(context.new_page(), file)
        assert ([], [file.as_uri()]) == (visit.said, visit.asked)
        assert 0 == visit.page.locator("script, img, form").count()
        for section in ("findings", "map", "traffic", "queues", "lag", "dead-letters", "scope"):
            assert visit.page.locator(f"#{section}").is_visible()
        assert visit.page.locator("svg.bar .gap").first.bounding_box() is not None


@pytest.mark.parametrize("width", [600, 1280, 2000])
def test_fits(width: int, browser: Browser, file: Path) -> None:
    """The page is as wide as the window; what is wider scrolls by itself."""
    with browser.new_context(offline=True, viewport={"width": width, "height": 900}) as context:
        visit = Visit(context.new_page(), file)
        assert width >= visit.page.evaluate("document.documentElement.scrollWidth")
