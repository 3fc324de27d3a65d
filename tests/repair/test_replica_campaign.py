"""A sample of the campaign of replicas: `python -m tests.repair.replica_campaign` tries more."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.repair import replica_campaign
from tests.repair.broker import damaged_case

SEED: Final = 7


@pytest.mark.parametrize("number", [17, 18, 20, 30, 55, 57])
def test_case(number: int, tmp_path: Path) -> None:
    """Each record that either store has is there, and a second repair has nothing to do."""
    case = damaged_case.damaged(SEED, number, tmp_path, has_replica=True)
    counts: Counter[str] = Counter()
    assert [] == [*replica_campaign.problems(case, counts)]
    assert counts["repaired"] == counts["every record that either has is there, or named"]
