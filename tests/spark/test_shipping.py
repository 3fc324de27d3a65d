"""What executors get is the package, unpacked once where it is asked for; no session is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from rmqtool.spark.engine import package_file

ASK = "import rmqtool, rmqtool.formats.message; print(rmqtool.__file__)"


def test_unpacked_once(tmp_path: Path) -> None:
    """A Python that finds the zip imports the package from one place of its own, each time."""
    given = {**os.environ, "PYTHONPATH": package_file(), "TMPDIR": str(tmp_path)}
    seen = {
        subprocess.check_output([sys.executable, "-c", ASK], env=given, cwd=tmp_path)  # noqa: S603
        for _ in range(2)
    }
    (place,) = tmp_path.iterdir()
    assert {f"{place}/rmqtool/__init__.py\n".encode()} == seen
    assert place.name.startswith("rmqtool-")
