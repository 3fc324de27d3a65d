"""While root works on a stranger's store with RocksDB, names are exchanged: nothing gets out."""

from __future__ import annotations

import os

import pytest

from tests.hostile.exchanges import WAYS, wrong_after

TRIES = 2  # more of them: `exchanges`


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can show what root does")
@pytest.mark.parametrize("way", WAYS)
def test_nothing_gets_out(way: str) -> None:
    """Nothing outside changes, and nothing of it is said."""
    assert [] == [what for what in (wrong_after(way) for _ in range(TRIES)) if what]
