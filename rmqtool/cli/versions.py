"""What `--version` says: rmqtool, Python, and every library that touches the bytes of a store."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from rmqtool import __version__

LIBRARIES: Final = (
    "construct",
    "numpy",
    "numba",
    "pyarrow",
    "isal",
    "lz4",
    "zstandard",
    "mmh3",
    "orjson",
    "pyspark",
)


def versions() -> list[str]:
    """Give a line each, rmqtool first; a library that is not installed is said to be missing."""
    lines = [f"rmqtool {__version__}", f"python {platform.python_version()}"]
    for name in LIBRARIES:
        try:
            lines.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            lines.append(f"{name} not installed")
    return lines
