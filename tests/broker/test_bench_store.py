"""The store that benchmarks run on is one that real brokers accept as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.bench.store_builder import Builder, Spec
from tests.broker.bare_store import BareStore
from tests.broker.jvm import Jvm
from tests.evidence import snapshot

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.broker

SPEC: Final = Spec(total_bytes=4 << 20, segment_bytes=2 << 20, slots=5000, entries=100_000)
SETTINGS: Final = {
    "mappedFileSizeCommitLog": SPEC.segment_bytes,
    "maxHashSlotNum": SPEC.slots,
    "maxIndexNum": SPEC.entries,
}


@pytest.mark.parametrize("version", ["4.9.3", "5.3.3"])
def test_accepted(version: str, tmp_path: Path) -> None:
    """A broker recovers all of it and changes neither log, nor queues, nor index."""
    root = tmp_path / "store"
    Builder(root, SPEC).build()
    places = [root / "commitlog", root / "consumequeue", root / "index"]
    before = [{name: trace.digest for name, trace in snapshot(place).items()} for place in places]
    with Jvm(version, tmp_path / "home") as jvm:
        store = BareStore(jvm, root, SETTINGS)
        assert store.load()
        last = (SPEC.segments - 1) * SPEC.segment_bytes
        assert (0, last + (SPEC.in_segment - 1) * SPEC.record_bytes) == store.physical_offsets()
    after = [{name: trace.digest for name, trace in snapshot(place).items()} for place in places]
    assert before == after
