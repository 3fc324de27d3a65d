"""Places to write to."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_MEMORY = Path("/dev/shm")  # noqa: S108 - a directory of its own is made in it


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory, where fsync costs nothing; an ordinary one where there is none."""
    if not os.access(_MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=_MEMORY, prefix="rmqtool-test-") as path:
        yield Path(path)
