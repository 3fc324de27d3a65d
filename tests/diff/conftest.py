"""Two copies of one fixture, to be changed and compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from rmqtool.diff import StoreDifference, difference
from rmqtool.store.tree import open_store
from tests.stores import fixture_store


@dataclass(frozen=True)
class Pair:
    """Two stores."""

    a: Path
    b: Path

    def compare(self) -> StoreDifference:
        """Compare them."""
        return difference(open_store(self.a), open_store(self.b), jobs=1)


@pytest.fixture
def pair(tmp_path: Path) -> Callable[[str], Pair]:
    """Give two copies of a fixture by its name."""

    def made(name: str) -> Pair:
        found = []
        for side in ("a", "b"):
            (tmp_path / side).mkdir()
            found.append(fixture_store(name, tmp_path / side))
        return Pair(*found)

    return made
