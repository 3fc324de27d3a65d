"""Imports: a single lookup pays for construct and nothing heavier."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"numpy", "numba", "pyarrow", "pandas", "pyspark", "rich", "typer", "orjson", "lz4", "isal"}
LIGHT = {
    "rmqtool.formats.message": HEAVY | {"mmh3", "json", "zstandard", "socket"},
    "rmqtool.formats.registry": HEAVY | {"mmh3", "zstandard"},
    "rmqtool.formats.compression": HEAVY | {"zstandard"},
    "rmqtool.formats.config_shapes": HEAVY | {"mmh3"},
    "rmqtool.formats.annotate": HEAVY | {"mmh3"},
}


@pytest.mark.parametrize(("module", "unwanted"), LIGHT.items(), ids=LIGHT)
def test_imports(module: str, unwanted: set[str]) -> None:
    """None of the unwanted packages is loaded by the import."""
    code = f"import {module}, sys; print(*sys.modules)"
    done = subprocess.run(  # noqa: S603 - this interpreter, our own code
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not unwanted & set(done.stdout.split())
