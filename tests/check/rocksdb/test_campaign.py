"""Random damages: no crash, never sound, never fewer rows without a finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.check.rocksdb.damage_campaign import one

if TYPE_CHECKING:
    from pathlib import Path

QUICK = 40


@pytest.mark.parametrize("seed", range(QUICK))
def test_random_damage(seed: int, tmp_path: Path) -> None:
    """Each damage of a fixed sequence has its finding; 1,000 are done by the module itself."""
    done = one(seed, tmp_path)
    assert done is None or "" == done.problem, done
