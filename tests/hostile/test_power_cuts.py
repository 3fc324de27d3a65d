"""The power is cut at any moment: the next command gives the new store, and undo the old one."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

import pytest

from rmqtool.writing.lock import StoreLock
from tests.hostile.power_cuts import ORDERS, WORKS, Cuts

STATES: Final = {"rocksdb": 8}  # of each order, if all are asked for; RocksDB starts processes
OTHERS: Final = 32


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", WORKS)
def test_power_cuts(
    quick_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, order: str, *, is_whole: bool
) -> None:
    """In whatever state a disk is after a cut: new by the same command, old by undo."""
    monkeypatch.setattr(StoreLock, "_others", lambda _: [])
    with tempfile.TemporaryDirectory(dir=quick_path) as top:
        cuts = Cuts(name, Path(top))
        count = STATES.get(name, OTHERS) // (1 if is_whole else 2)
        states = [*cuts.states(order, count, seed=ORDERS.index(order) + 1)]
        wrong = [found for number, disk in states for found in cuts.wrong(number, disk)]
    assert [] == wrong
    assert len(states) > count // 2
