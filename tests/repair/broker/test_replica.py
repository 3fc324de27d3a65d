"""A store repaired from a replica that is damaged, too: a real store delivers what either had."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.broker.jvm import Jvm
from tests.repair.broker import damaged_case
from tests.repair.broker.campaign import Judge

pytestmark = pytest.mark.broker

SEED: Final = 7
# Of these both stores have records that the other one has lost.
NUMBERS: Final = {"4.9.3": (17,), "5.3.3": (55,), "5.5.0": (20, 57)}


def test_delivered(jvm: Jvm, tmp_path: Path) -> None:
    """All messages that either store has undamaged are delivered, and a new one is the last."""
    for number in NUMBERS[jvm.version]:
        into = tmp_path / str(number)
        into.mkdir()
        case = damaged_case.damaged(SEED, number, into, has_replica=True)
        judge = Judge({jvm.version: jvm})
        assert [] == [*judge.problems(case, into)]
        assert judge.counts["all undamaged messages delivered"]
