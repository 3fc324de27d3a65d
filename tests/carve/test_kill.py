"""What is carved appears complete or not at all: a full disk, a process that is killed."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from rmqtool.carve.carving import Carving
from rmqtool.carve.options import CarveOptions
from rmqtool.cli.main import main
from rmqtool.errors import WriteFailed
from tests.carve.images import log
from tests.evidence import Evidence, snapshot
from tests.store import faults

POINTS = 9  # of all operations that change something, evenly
OTHER_HOST = bytes([10, 0, 0, 2])


@pytest.mark.parametrize("by_store", [False, True])
def test_full_disk_and_kill(by_store: bool, tmp_path: Path, evidence: Evidence) -> None:
    """Whatever write fails or is the last one, the output is whole or is not there."""
    image = tmp_path / "image"
    image.write_bytes(log(40) + bytes(512) + log(40, seed=1, host=OTHER_HOST))
    evidence.keep(image)
    output = tmp_path / "out" / "carved"
    output.parent.mkdir()
    options = CarveOptions((str(image),), str(output), by_store=by_store, jobs=1)

    def work() -> None:
        with ExitStack() as keep:
            Carving(options, keep).run()

    def found() -> dict[str, str | None]:
        return {path: trace.digest for path, trace in snapshot(output.parent / "carved").items()}

    count = faults.operations(work)
    whole = found()
    output.rename(tmp_path / "first")
    for number in sorted({*range(0, count, max(count // POINTS, 1)), *range(count - 3, count)}):
        full = faults.Faults(number, faults.no_space, lasting=faults.PERSISTENT)
        with full.injected(), pytest.raises(WriteFailed, match="No space left on device"):
            work()
        assert not output.exists()
        assert faults.killed_at(number, work)
        if output.exists():
            assert whole == found()
            output.rename(tmp_path / f"at-{number}")
    work()
    assert ["carved"] == [path.name for path in output.parent.iterdir()]
    assert whole == found()


def test_map_on_a_full_disk_or_killed(
    tmp_path: Path,
    evidence: Evidence,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """File and map are each whole or not there; a map never stands alone."""
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.0)  # the map says when it was made
    image = tmp_path / "image"
    image.write_bytes(log(40))
    evidence.keep(image)
    output, page = tmp_path / "out" / "carved.rmq", tmp_path / "out" / "map.html"
    output.parent.mkdir()
    command = ["carve", str(image), "--output", str(output), "--map", str(page), "--jobs", "1"]
    ends = []

    def work() -> None:
        ends.append(main(command))

    def found() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in (output, page) if path.exists()}

    count = faults.operations(work)
    whole = found()
    assert [output, page] == [*whole]
    output.unlink()
    page.unlink()
    for number in range(count):
        full = faults.Faults(number, faults.no_space, lasting=faults.PERSISTENT)
        with full.injected():
            work()
        assert 2 == ends.pop()
        assert "No space left on device" in capfd.readouterr().err
        assert page not in found()
        output.unlink(missing_ok=True)
        assert faults.killed_at(number, work)
        left = found()
        assert left.items() <= whole.items()
        assert output in left or page not in left
        for path in left:
            path.unlink()
    work()
    assert {output.name, page.name} == {path.name for path in output.parent.iterdir()}
    assert whole == found()
