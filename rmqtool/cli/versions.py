"""What `--version` says: rmqtool, Python, and every library that it stands on."""

from __future__ import annotations

import os
import platform
import sys
from importlib.util import find_spec
from typing import Final

from rmqtool import __version__

_SUFFIX: Final = ".dist-info"
LIBRARIES: Final = (
    "construct",
    "numpy",
    "numba",
    "llvmlite",
    "pyarrow",
    "isal",
    "lz4",
    "zstandard",
    "mmh3",
    "orjson",
    "typer",
    "rich",
    "drawsvg",
    "jinja2",
    "duckdb",
    "pyspark",
    "pandas",
)


def versions() -> list[str]:
    """Give a line each, rmqtool first; a library that is not installed is said to be missing."""
    installed = _installed()
    lines = [f"{name} {installed.get(name) or _asked(name)}" for name in LIBRARIES]
    return [f"rmqtool {__version__}", f"python {platform.python_version()}", *lines]


def _installed() -> dict[str, str]:
    """Read names and versions off the directories that installers leave.

    `importlib.metadata` says the same, but takes longer to import than all else here together.
    """
    versions: dict[str, str] = {}
    for place in sys.path:
        try:
            names = os.listdir(place or ".")  # noqa: PTH208 - a Path costs more than the listing
        except OSError:
            continue
        for name in names:
            if name.endswith(_SUFFIX):
                distribution, _, version = name.removesuffix(_SUFFIX).rpartition("-")
                versions.setdefault(distribution.lower(), version)
    return versions


def _asked(name: str) -> str:
    """Ask the long way, for what was installed in some other way."""
    try:
        if find_spec(name) is None:
            return "not installed"
    except ModuleNotFoundError:  # what commands hide, where it is not there either
        return "not installed"
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return "of an unknown version"
