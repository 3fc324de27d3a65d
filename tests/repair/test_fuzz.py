"""A sample of the fuzz campaign, the same in each run: `python -m tests.repair.fuzz` tries more."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.repair import fuzz

SEED: Final = 20
CASES: Final = 8


@pytest.mark.parametrize("number", range(CASES))
def test_case(number: int, tmp_path: Path) -> None:
    """No command crashes, and a repair keeps all that is undamaged and leaves what starts."""
    assert [] == [*fuzz.problems(fuzz.case(SEED, number, tmp_path), tmp_path)]
