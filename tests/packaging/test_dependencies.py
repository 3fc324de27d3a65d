"""What rmqtool stands on: bounds, reasons and licences, as DEPENDENCIES.md lists them."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.imports import imports

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "DEPENDENCIES.md"
LINE: Final = re.compile(
    r'^    "(?P<name>[a-z0-9_.-]+)(\[[a-z0-9,]+\])?(?P<bounds>[^"; ]+)[^"]*", +# (?P<why>.+)$'
)
FAMILIES: Final = (
    ("MIT", r"\bMIT\b(?!-)"), ("MIT-CMU", r"MIT-CMU"), ("BSD", r"\bBSD\b|BSD-\d"),
    ("Apache-2.0", r"Apache"),
    ("MPL-2.0", r"MPL|Mozilla Public"), ("PSF-2.0", r"PSF|Python Software Foundation"),
)  # fmt: skip
PERMISSIVE: Final = {"MIT", "MIT-CMU", "BSD", "Apache-2.0", "PSF-2.0"}
# Weak copyleft, by file: it binds who changes the library, not who uses it.
BY_FILE: Final = {"orjson", "hypothesis"}
HEAD: Final = """# Dependencies

Each with its bounds, its licence and the reason why it is there. A lower bound is the oldest
release that has what is used; an upper bound ends before the next release that may break it.
rmqtool itself is under the Apache License 2.0, see [LICENSE](LICENSE).

`pytest tests/packaging --update-golden` writes this page from `pyproject.toml` and from what the
packages say of themselves.
"""


class Dependency(NamedTuple):
    """One line of pyproject.toml."""

    name: str
    bounds: str
    why: str

    @property
    def licence(self) -> str:
        """The families of licences that the package names."""
        found: Any = metadata(self.name)
        classifiers = [one for one in found.get_all("Classifier") or [] if "License ::" in one]
        told = [found.get("License-Expression") or "", *classifiers]
        if not any(told):
            told = [(found.get("License") or "").partition("\n")[0]]
        text = " ".join(told)
        return ", ".join(name for name, pattern in FAMILIES if re.search(pattern, text))


def groups() -> dict[str, list[Dependency]]:
    """Read the dependencies: `rmqtool` itself, and each extra."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    wanted = {"rmqtool": project["dependencies"], **project["optional-dependencies"]}
    lines = [
        Dependency(m["name"], m["bounds"], m["why"])
        for m in map(LINE.match, text.splitlines())
        if m
    ]
    known = {re.sub(r"\[.*\]", "", line.name): line for line in lines}
    return {
        group: [known[re.split(r"[\[<>=]", line)[0]] for line in listed]
        for group, listed in wanted.items()
    }


def page() -> str:
    """Write the page."""
    parts = [HEAD]
    for group, listed in groups().items():
        title = "Always" if group == "rmqtool" else f"With `pip install '.[{group}]'`"
        parts.append(f"## {title}\n\n| package | versions | licence | why |\n|---|---|---|---|")
        parts[-1] += "".join(
            f"\n| {needed.name} | `{needed.bounds}` | {needed.licence} | {needed.why} |"
            for needed in listed
        )
        parts[-1] += "\n"
    return "\n".join(parts)


def test_page(*, update_golden: bool) -> None:
    """The page lists what pyproject.toml asks for."""
    if update_golden:
        PAGE.write_text(page(), encoding="utf-8")
    assert page() == PAGE.read_text(encoding="utf-8")


ALL: Final = [dependency for listed in groups().values() for dependency in listed]


def test_bounds() -> None:
    """Each has a lower and an upper bound, a reason, and a licence that lets anybody use it."""
    assert [] == [dependency for dependency in ALL if not all(claims(dependency))]


def claims(one: Dependency) -> Iterator[bool]:
    """Yield what must be true of a dependency."""
    yield bool(re.fullmatch(r">=[\d.]+,<[\d.]+", one.bounds))
    yield len(one.why) > 10
    yield bool(one.licence)
    yield not PERMISSIVE.isdisjoint(one.licence.split(", ")) or one.name in BY_FILE


def test_used() -> None:
    """What is asked for is imported, and what is imported is asked for."""
    asked = {
        dependency.name
        for group, listed in groups().items()
        if group != "dev"
        for dependency in listed
    }
    used = {dependency.imported.split(".")[0] for dependency in imports()}
    loaded = {"isal", "pandas"}  # by the loader of its library, and by pyspark
    indirect = {"markupsafe", "typing_extensions", "py4j"}  # of jinja2, of typer, of pyspark
    outside = {name for name in used if name not in sys.stdlib_module_names and name != "rmqtool"}
    assert set() == asked - used - loaded
    assert set() == outside - asked - indirect
