"""Stores of which two commands have once said two things: now each says the same.

A seed is another case once `tests.repair.faults` draws otherwise.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ledger.answers_campaign import problems_of
from tests.repair.broker.damaged_case import damaged


@pytest.mark.parametrize(
    ("seed", "number"),
    [
        pytest.param(1, 6, id="files exchanged"),
        pytest.param(1, 10, id="topics as JSON lines"),
        pytest.param(2, 1, id="a damaged unit of a batch queue"),
        pytest.param(2, 4, id="a damaged physical offset"),
        pytest.param(3, 58, id="units beside their place"),
        pytest.param(3, 61, id="units of another queue, and beside their place"),
        pytest.param(3, 93, id="a queue file under another name"),
        pytest.param(3, 96, id="a queue file that stops the broker"),
        pytest.param(4, 20, id="a file of the log in place of another"),
        pytest.param(4, 28, id="a damaged queue id"),
        pytest.param(7101, 212, id="zeros, a file too long, and a gap"),
    ],
)
def test_answers(seed: int, number: int, tmp_path: Path) -> None:
    """No command says another thing than the next one."""
    (tmp_path / "store").mkdir()
    assert [] == problems_of(damaged(seed, number, tmp_path / "store"), tmp_path)
