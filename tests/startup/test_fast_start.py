"""Real message stores start on stores whose recovery was spared, and miss nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rmqtool import repair
from tests.repair.test_fast_start import CRASHES, NAMES, Crash
from tests.startup.oracle import Oracle
from tests.startup.test_against_stores import ALWAYS, compare
from tests.stores import fixture_store, manifest

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("crash", CRASHES)
@pytest.mark.parametrize("written", NAMES)
def test_real_store(oracle: Oracle, written: str, crash: Crash, tmp_path: Path) -> None:
    """What a message store of any release then has and delivers is what was foretold."""
    kept = crash(fixture_store(NAMES[written], tmp_path))
    repair.apply(repair.plan(kept, fast_start=True), in_place=True)
    assert not (kept / "abort").exists()
    opened = tmp_path / "opened"
    shutil.copytree(kept, opened)
    compare(oracle, kept, opened, {**manifest(NAMES[written])["settings"], **ALWAYS})
