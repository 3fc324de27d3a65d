"""Kernels see what the plain check sees: the same prediction, field by field."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqtool.startup import predict, walk
from rmqtool.store.tree import open_store
from tests.evidence import Evidence
from tests.inflict import NotApplicable
from tests.startup.variants import FIXTURE_VARIANTS, Variant
from tests.stores import broker_conf, fixture_names, fixture_store

SCENARIOS = ("traffic", "crash", "ipv6", "batch-queue", "lmq", "property-crc", "expired")
DAMAGES = [one for one in FIXTURE_VARIANTS if one.name in {"rebuild after crash", "body flip"}]
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
