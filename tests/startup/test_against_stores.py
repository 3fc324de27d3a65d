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
# What DLedger nodes agree on is not in the files of a store alone; RocksDB has tests of its own.
FORESEEABLE: Final = [
    name for name in fixture_names() if not name.endswith("dledger") and "-rocksdb" not in name
]
ALWAYS: Final = {
    "enableCalcFilterBitMap": False,  # brokers do that, and not their message stores
    "fileReservedTime": 500000,  # hours, or files of old stores would expire
    "haListenPort": 0,
}


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
    harm(root, variant)
    opened = tmp_path / "opened"
    shutil.copytree(root, opened)
    compare(oracle, evidence.keep(root), opened, {**SETTINGS, **variant.settings})


@pytest.mark.parametrize("variant", FIXTURE_VARIANTS, ids=str)
@pytest.mark.parametrize("name", FORESEEABLE)
def test_fixture(
    oracle: Oracle, name: str, variant: Variant, tmp_path: Path, evidence: Evidence
) -> None:
    """The same for stores of real brokers of all versions, whichever version opens them."""
    roots = []
    for copy in ("kept", "opened"):
        (tmp_path / copy).mkdir()
        roots.append(fixture_store(name, tmp_path / copy))
        harm(roots[-1], variant)
    settings = {**manifest(name)["settings"], **ALWAYS, **variant.settings}
    compare(oracle, evidence.keep(roots[0]), roots[1], settings)


def harm(root: Path, variant: Variant) -> None:
    """Do to a store what the variant says; skip where it cannot be done."""
    try:
        for step in variant.steps:
            step(root)
    except NotApplicable as reason:
        pytest.skip(str(reason))


def compare(oracle: Oracle, root: Path, opened: Path, settings: Mapping[str, object]) -> None:
    """Foretell, let a real message store open a copy, compare."""
    prediction = predicted(root, oracle.jvm.version, settings)
    expected = {(queue.topic, queue.queue_id): queue.readable for queue in prediction.queues}
    seen = oracle.observe(opened, settings, expected)
    shutil.rmtree(opened, ignore_errors=True)  # or hundreds of them pile up
    assert [] == differences(prediction, files_of(root), seen)


def predicted(
    root: Path, version: str, settings: Mapping[str, object], heap_bytes: int = HEAP_BYTES
) -> Prediction:
    """Foretell what a broker with these settings would do."""
    conf = root.with_name("broker.conf")
    conf.write_text(conf_text(settings), encoding="utf-8")
    store = open_store(root, conf)
    return predict(store, version, replace(settings_of(store.broker_conf), heap_bytes=heap_bytes))
