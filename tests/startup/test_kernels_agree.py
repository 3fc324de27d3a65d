"""Kernels see what the plain check sees: the same prediction, field by field."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rmqtool.startup import census, predict, walk
from rmqtool.store.tree import open_store
from tests.bench.store_builder import Builder, Spec
from tests.evidence import Evidence
from tests.inflict import NotApplicable
from tests.startup.variants import FIXTURE_VARIANTS, Variant
from tests.stores import broker_conf, fixture_names, fixture_store

SCENARIOS = ("traffic", "crash", "ipv6", "batch-queue", "lmq", "property-crc", "expired")
DAMAGES = [one for one in FIXTURE_VARIANTS if one.name in {"rebuild after crash", "body flip"}]
SPEC = Spec(total_bytes=3 << 18, segment_bytes=1 << 18, topics=2, queues=3)
NAMES = [name for name in fixture_names() if name.endswith(SCENARIOS)]


@pytest.mark.parametrize("damage", DAMAGES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_same_prediction(
    name: str,
    damage: Variant,
    tmp_path: Path,
    evidence: Evidence,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On damaged stores of all kinds, for the oldest and the newest broker."""
    root = fixture_store(name, tmp_path)
    try:
        for step in damage.steps:
            step(root)
    except NotApplicable as reason:
        pytest.skip(str(reason))
    store = open_store(evidence.keep(root), broker_conf(name))
    for version in ("4.9.3", "5.5.0"):
        monkeypatch.setattr(walk, "KERNELS_FROM", 1 << 62)
        plain = predict(store, version)
        monkeypatch.setattr(walk, "KERNELS_FROM", 0)
        assert plain == predict(store, version)


def hurt(log: Path, seed: int) -> None:
    """Flip bits, zero stretches, and copy records to where others are, a few times."""
    chance = np.random.default_rng(seed)
    raw = bytearray(log.read_bytes())
    for _ in range(int(chance.integers(1, 7))):
        at = int(chance.integers(len(raw)))
        length = int(chance.choice((1, 4, 40, 700, 9000, 70_000)))
        what = int(chance.integers(3))
        if what == 0:
            raw[at] ^= 1 << int(chance.integers(8))
        elif what == 1:
            raw[at : at + length] = bytes(len(raw[at : at + length]))
        else:
            source = int(chance.integers(len(raw)))
            piece = raw[source : source + length][: len(raw) - at]
            raw[at : at + len(piece)] = piece
    log.write_bytes(raw)


@pytest.mark.parametrize("has_crashed", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_parts(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_crashed: bool
) -> None:
    """However a log is cut into parts, and whatever is wrong in it, threads see what one sees."""
    root = tmp_path / "store"
    Builder(root, SPEC).build()
    hurt(sorted((root / "commitlog").iterdir())[seed % 3], seed)
    if has_crashed:
        (root / "abort").touch()
    store = open_store(root)
    monkeypatch.setattr(walk, "KERNELS_FROM", 1 << 62)
    plain = predict(store, "5.3.3")
    monkeypatch.setattr(walk, "KERNELS_FROM", 0)
    for part_bytes in (1 << 30, 100_000, 5_000):
        for module in (walk, census):
            monkeypatch.setattr(module, "PART_BYTES", part_bytes)
        assert plain == predict(store, "5.3.3"), part_bytes
