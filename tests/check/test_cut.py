"""Where the log of a running broker is cut: what it writes while it is read is not judged."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from rmqtool.check.log import commitlog
from rmqtool.findings.catalogue import Severity
from rmqtool.store.place import OpenFile
from tests.check.validation import run
from tests.stores import broker_conf, fixture_store, held_by_another
from tests.tables.dumped import rows


@pytest.mark.parametrize("is_live", [False, True])
@pytest.mark.parametrize("name", ["rocketmq-4.9.3-traffic", "rocketmq-5.5.0-traffic"])
def test_rolled_meanwhile(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_live: bool
) -> None:
    """A file was in use when it was read; the next one, read later, is not its continuation.

    Without a broker nobody wrote meanwhile: then records are missing.
    """
    store = fixture_store(name, tmp_path)
    used = [path for path in sorted((store / "commitlog").iterdir()) if any(path.read_bytes()[:8])]
    raw, start = used[-2].read_bytes(), int(used[-2].name)
    offsets = [row["physical_offset"] - start for row in rows(store)]
    written = next(offset for offset in offsets if offset > len(raw) // 2)
    used[-2].write_bytes(raw[:written].ljust(len(raw), b"\0"))
    monkeypatch.setattr(commitlog, "last_used_start", lambda _: start)
    with ExitStack() as held:
        if is_live:
            held.enter_context(held_by_another(store))
        findings, _, summary = run(store, "deep", broker_conf(name))
    above = [str(finding.code) for finding in findings if finding.severity is not Severity.NOTE]
    if is_live:
        assert [] == [
            one for one in above if one.startswith("CL-")
        ]  # queues are read before the log
        assert summary.account.records
    else:
        assert "CL-QOFF-GAP" in above


@pytest.mark.parametrize("is_live", [False, True])
@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("torn", [48, 4096], ids=["record", "page"])
def test_torn_window(
    torn: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, always: bool, is_live: bool
) -> None:
    """A record that is written while its window is copied is no damage; one that stays so is."""
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    last = [row for row in rows(store) if row.get("size")][-40]
    begin, place = last["position"], store / last["segment"]
    read, count = OpenFile.read_into, [0]

    def read_into(file: OpenFile, buffer: bytearray, position: int) -> int:
        got = read(file, buffer, position)
        view = memoryview(buffer).cast("B")
        is_here = os.fstat(file._descriptor).st_ino == place.stat().st_ino  # noqa: SLF001 - of which file
        if is_here and position <= begin < begin + torn <= position + got:
            count[0] += 1
            if always or count[0] == 1:
                view[begin - position : begin - position + torn] = bytes(torn)
        return got

    monkeypatch.setattr(OpenFile, "read_into", read_into)
    with ExitStack() as held:
        if is_live:
            held.enter_context(held_by_another(store))
        findings, _, _ = run(store, "full")
    above = {str(finding.code) for finding in findings if finding.severity is not Severity.NOTE}
    assert count[0]
    assert (not is_live or always) == bool(above)
