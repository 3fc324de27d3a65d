"""What is foretold is what real message stores then do, on hundreds of damaged stores."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from rmqtool.startup import Prediction, predict
from rmqtool.startup.settings import settings_of
from rmqtool.store.tree import open_store
from tests.broker.broker import conf_text
from tests.evidence import Evidence
from tests.inflict import NotApplicable
from tests.startup.compare import differences
from tests.startup.oracle import Oracle, files_of
from tests.startup.small_store import SETTINGS
from tests.startup.variants import FIXTURE_VARIANTS, VARIANTS, Variant
from tests.stores import fixture_names, fixture_store, manifest

pytestmark = pytest.mark.broker

HEAP_BYTES: Final = 512 << 20  # of the Java processes of these tests
NEVER_EXPIRES: Final = {"fileReservedTime": 500000}


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_small_store(
    oracle: Oracle,
    small_stores: dict[str, Path],
    variant: Variant,
    tmp_path: Path,
    evidence: Evidence,
) -> None:
    """A damaged store is refused, cut and dispatched as foretold."""
    root = tmp_path / "store"
    shutil.copytree(small_stores[variant.base], root)
    compare(oracle, root, variant, SETTINGS, evidence)


@pytest.mark.parametrize("variant", FIXTURE_VARIANTS, ids=str)
@pytest.mark.parametrize("name", fixture_names())
def test_fixture(
    oracle: Oracle, name: str, variant: Variant, tmp_path: Path, evidence: Evidence
) -> None:
    """The same for stores of real brokers of all versions, whichever version opens them."""
    root = fixture_store(name, tmp_path)
    compare(oracle, root, variant, manifest(name)["settings"], evidence)


def compare(
    oracle: Oracle,
    root: Path,
    variant: Variant,
    geometry: Mapping[str, object],
    evidence: Evidence,
) -> None:
    """Damage a store, foretell, let a real message store open a copy, compare."""
    try:
        for step in variant.steps:
            step(root)
    except NotApplicable as reason:
        pytest.skip(str(reason))
    settings = {**geometry, **NEVER_EXPIRES, **variant.settings}
    opened = root.with_name("opened")
    shutil.copytree(root, opened)
    prediction = foretell(evidence.keep(root), oracle.jvm.version, settings)
    expected = {(queue.topic, queue.queue_id): queue.readable for queue in prediction.queues}
    seen = oracle.observe(opened, settings, expected)
    assert [] == differences(prediction, files_of(root), seen)


def foretell(root: Path, version: str, settings: Mapping[str, object]) -> Prediction:
    """Foretell what a broker with these settings would do."""
    conf = root.with_name("broker.conf")
    conf.write_text(conf_text(settings), encoding="utf-8")
    store = open_store(root, conf)
    return predict(store, version, replace(settings_of(store.broker_conf), heap_bytes=HEAP_BYTES))
