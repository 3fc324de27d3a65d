"""What is derived of a benchmark's log is what its builder wrote by numpy alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.derive.part import DeriveOptions, derive
from rmqtool.formats.index import INDEX_ENTRY, INDEX_HEADER, entry_position
from rmqtool.scan.index import Chains, EntryBatch
from rmqtool.store.parts import parts
from rmqtool.store.tree import open_store
from tests.bench.store_builder import Builder, Spec

if TYPE_CHECKING:
    from pathlib import Path

SPEC = Spec(total_bytes=2 << 20, segment_bytes=1 << 20, slots=500, entries=20_000)


def test_bench_store(tmp_path: Path) -> None:
    """Queues, index entries and chains agree, so benchmarks compare like with like."""
    root = tmp_path / "store"
    Builder(root, SPEC).build()
    found = [derive(part, DeriveOptions()) for part in parts(open_store(root).commitlog, 1 << 20)]
    assert SPEC.records == sum(runs.records for runs in found)
    for runs in found:
        for run in runs.queues:
            directory = root / "consumequeue" / run.topic.decode() / str(run.queue_id)
            raw = (directory / f"{0:020}").read_bytes()
            start = run.queue_offset * 20
            assert raw[start : start + len(run.units)] == run.units
    (path,) = (root / "index").iterdir()
    raw = path.read_bytes()
    count = INDEX_HEADER.parse(raw)["index_count"] - 1
    first = entry_position(SPEC.slots, 1)
    entries = np.frombuffer(bytearray(raw[first : first + 20 * count]), INDEX_ENTRY.dtype)
    hashes = np.concatenate([runs.index.hashes for runs in found])
    assert entries["key_hash"].tolist() == hashes.tolist()
    chains = Chains(SPEC.slots)
    assert [] == chains.follow(EntryBatch(1, entries.view(np.uint8).reshape(count, 20)))
    slots = np.frombuffer(raw, ">i4", SPEC.slots, 40)
    assert slots.tolist() == chains.newest.tolist()
