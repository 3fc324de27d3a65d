"""The page says what brokers keep, as it is now."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.repair.broker import kept

pytestmark = [pytest.mark.broker, pytest.mark.all_variants]

COMPARISON = Path(__file__).parents[3] / "docs" / "comparison.md"


def test_table() -> None:
    """docs/comparison.md has the table of real message stores; a repair loses nothing more."""
    rows = kept.rows()
    assert all(row.repaired == row.undamaged for row in rows)
    assert "\n".join(kept.table(rows)) in COMPARISON.read_text(encoding="utf-8")
