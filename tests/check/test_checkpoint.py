"""The checkpoint of a running broker, which goes on while the log is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqtool.check.inspection import Inspection
from rmqtool.check.state import checkpoint
from rmqtool.findings.catalogue import NOTE
from rmqtool.formats.checkpoint import CHECKPOINT
from rmqtool.writing.lock import StoreLock
from tests.check.validation import run
from tests.stores import fixture_store


def test_checkpoint_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A running broker's checkpoint is read before its log: later it may be ahead of what was."""
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    path = store / "checkpoint"

    def flush(inspection: Inspection) -> None:
        early(inspection)
        raw = bytearray(path.read_bytes())
        for name in ("physic_msg_timestamp", "logics_msg_timestamp"):
            at = CHECKPOINT.positions[name]
            raw[at : at + 8] = (int.from_bytes(raw[at : at + 8]) + 600_000).to_bytes(8)
        path.write_bytes(raw)

    early = checkpoint.read_early
    monkeypatch.setattr(checkpoint, "read_early", flush)
    with StoreLock(store):
        found, exit_code, _ = run(store)
    assert (0, set()) == (exit_code, {str(o.code) for o in found if o.severity is not NOTE})
    found, exit_code, _ = run(store)  # without a broker it counts
    assert (1, {"CP-AHEAD"}) == (exit_code, {str(o.code) for o in found if o.severity is not NOTE})
