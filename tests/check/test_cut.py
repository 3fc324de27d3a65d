"""Where the log of a running broker is cut: what it writes while it is read is not judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from rmqtool.check.log import commitlog
from rmqtool.findings.catalogue import Severity
from rmqtool.writing.lock import StoreLock
from tests.check.validation import run
from tests.stores import broker_conf, fixture_store
from tests.tables.dumped import rows


def _and_then(write: Callable[[], object]) -> Callable[..., Iterator[object]]:
    """Give what reads all parts of the log; then the broker writes."""
    read = commitlog.run_joined

    def run_joined(*arguments: Any, **options: Any) -> Iterator[object]:  # noqa: ANN401 - as they come
        yield from read(*arguments, **options)
        write()

    return run_joined


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
    written = next(one for one in offsets if one > len(raw) // 2)
    used[-2].write_bytes(raw[:written].ljust(len(raw), b"\0"))
    monkeypatch.setattr(commitlog, "last_used_start", lambda _: start)
    monkeypatch.setattr(commitlog, "run_joined", _and_then(lambda: used[-2].write_bytes(raw)))
    with ExitStack() as held:
        if is_live:
            held.enter_context(StoreLock(store))
        found, _, summary = run(store, "deep", broker_conf(name))
    above = [str(one.code) for one in found if one.severity is not Severity.NOTE]
    if is_live:
        assert [] == [
            one for one in above if one.startswith("CL-")
        ]  # queues are read before the log
        assert summary.account.records
    else:
        assert "CL-QOFF-GAP" in above
