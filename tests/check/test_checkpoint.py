"""The checkpoint of a running broker, which goes on while the log is read."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from rmqtool.check.options import UNREAD
from rmqtool.check.state import checkpoint
from rmqtool.findings.catalogue import NOTE
from rmqtool.formats.checkpoint import CHECKPOINT
from tests.check.validation import preceded, run
from tests.stores import fixture_store, held_by_another


def test_checkpoint_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A running broker's checkpoint is read before its log: later it may be ahead of what was."""
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    path = store / "checkpoint"

    def flush() -> None:
        raw = bytearray(path.read_bytes())
        for name in ("physic_msg_timestamp", "logics_msg_timestamp"):
            at = CHECKPOINT.positions[name]
            raw[at : at + 8] = (int.from_bytes(raw[at : at + 8]) + 600_000).to_bytes(8)
        path.write_bytes(raw)

    monkeypatch.setattr(checkpoint, "check", preceded(flush, checkpoint.check))
    with held_by_another(store):
        findings, exit_code, _ = run(store)
    assert (0, set()) == (exit_code, {str(o.code) for o in findings if o.severity is not NOTE})
    findings, exit_code, _ = run(store)  # without a broker it counts
    assert (1, {"CP-AHEAD"}) == (
        exit_code,
        {str(o.code) for o in findings if o.severity is not NOTE},
    )


@pytest.mark.parametrize("is_live", [False, True])
def test_segment_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_live: bool) -> None:
    """A segment that the checkpoint points into expires: it is named, and not the checkpoint."""
    store = fixture_store("rocketmq-5.5.0-traffic", tmp_path)
    gone, path, judge = store / "commitlog" / f"{0:020}", store / "checkpoint", checkpoint._judge  # noqa: SLF001 - after the log was read
    raw, at = bytearray(path.read_bytes()), CHECKPOINT.positions["logics_physical_offset"]
    raw[at : at + 8] = (1).to_bytes(8)
    path.write_bytes(raw)

    monkeypatch.setattr(checkpoint, "_judge", preceded(gone.unlink, judge))
    with ExitStack() as held:
        if is_live:
            held.enter_context(held_by_another(store))
        findings, exit_code, summary = run(store)
    name = f"commitlog/{gone.name}"
    unread = [finding.path for finding in findings if finding.code == UNREAD]
    wanted = ([], 0, {name}) if is_live else ([name], 3, set())
    assert wanted == (unread, exit_code, summary.account.expired)
