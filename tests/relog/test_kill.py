"""A rebuilt store appears complete or not at all: a full disk, a process that is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqtool.errors import WriteFailed
from rmqtool.relog.options import LogOptions
from rmqtool.relog.work import LogRun
from tests.evidence import Evidence, snapshot
from tests.store import faults
from tests.stores import fixture_store

POINTS = 7  # of all operations that change something, evenly


def test_full_disk_and_kill(tmp_path: Path, evidence: Evidence) -> None:
    """Whatever write fails or is the last one, the store is whole or is not there."""
    store = fixture_store("rocketmq-5.3.3-lmq", tmp_path)
    evidence.keep(store)
    output = tmp_path / "out" / "store"
    output.parent.mkdir()
    options = LogOptions((str(store),), str(output), jobs=1)

    def work() -> None:
        LogRun(options).run()

    count = faults.operations(work)
    whole = {path: trace.digest for path, trace in snapshot(output).items()}
    moved = tmp_path / "first"
    output.rename(moved)
    last = 0
    for number in sorted({*range(0, count, count // POINTS), *range(count - 3, count)}):
        full = faults.Faults(number, faults.no_space, lasting=faults.PERSISTENT)
        with full.injected(), pytest.raises(WriteFailed, match="No space left on device"):
            work()
        assert not output.exists()
        assert faults.killed_at(number, work)
        if output.exists():
            assert whole == {path: trace.digest for path, trace in snapshot(output).items()}
            output.rename(tmp_path / f"at-{number}")
        last = number
    assert count - 1 == last
    work()
    assert ["store"] == [path.name for path in output.parent.iterdir()]
    assert whole == {path: trace.digest for path, trace in snapshot(output).items()}
