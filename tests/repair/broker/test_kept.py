"""The README says what brokers keep, as it is now."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.repair.broker import kept

pytestmark = [pytest.mark.broker, pytest.mark.all_variants]

README = Path(__file__).parents[3] / "README.md"


def test_table() -> None:
    """The README has the table that real message stores give; after a repair none loses a thing."""
    rows = kept.rows()
    assert all(row.repaired == row.undamaged for row in rows)
    assert "\n".join(kept.table(rows)) in README.read_text(encoding="utf-8")
