"""Each single bit that is flipped is found, or lies in a field of which we say that it cannot be.

`python -m tests.check.flip_campaign` prints the rates.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqtool.findings.undetectable import UNDETECTABLE
from tests.check.flip_campaign import TARGETS, Campaign

LIMITS = Path(__file__).parents[2] / "docs" / "limits.md"
# Of so many bits one is flipped in each run; a prime, so that all bits have turns.
SAMPLED_BITS = 521


@pytest.mark.usefixtures("every_finding")
def test_sample_of_flips(tmp_path: Path) -> None:
    """A bit here and there in each kind of record, unit and entry."""
    campaign = Campaign(tmp_path)
    kinds = 0
    for number, (name, target) in enumerate(campaign.targets()):
        score = campaign.score(name, target, SAMPLED_BITS, first=number * 7 % SAMPLED_BITS)
        assert set() == score.unexplained, target.kind
        kinds += 1
    assert kinds >= len(TARGETS)


@pytest.mark.all_variants
@pytest.mark.usefixtures("every_finding")
def test_every_flip(tmp_path: Path) -> None:
    """Every bit; each field that is called undetectable really is; docs/limits.md has the rate."""
    campaign = Campaign(tmp_path)
    missed: set[str] = set()
    flips = found = 0
    for name, target in campaign.targets():
        score = campaign.score(name, target, 1)
        assert set() == score.unexplained, target.kind
        missed |= score.missed_fields
        flips, found = flips + score.flips, found + score.found.total()
    # By one bit only luck leads to the start of another record.
    assert UNDETECTABLE.keys() - {"checkpoint.logics_physical_offset"} == missed
    told = LIMITS.read_text(encoding="utf-8")
    assert f"Of {flips:,} bits" in told
    assert f"finds {100 * found / flips:.1f} %" in told
