"""Brokers start on repaired stores, delete nothing, and deliver all that was not damaged."""

from __future__ import annotations

import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from _pytest.mark import ParameterSet

from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.findings.catalogue import Severity
from tests.broker.jvm import Jvm
from tests.inflict import NotApplicable
from tests.repair.broker import survivors
from tests.repair.broker.survivors import DAMAGES, Damage
from tests.stores import broker_conf, fixture_names, fixture_store

pytestmark = pytest.mark.broker

# What DLedger nodes agree on, and what is in RocksDB, is not in the files of a store alone.
SCENARIOS: Final = sorted(
    {name.split("-", 2)[2] for name in fixture_names()} - {"dledger", "rocksdb", "default-geometry"}
)
SAMPLED: Final = ("traffic",)


def _parameters() -> list[ParameterSet]:
    return [
        pytest.param(
            scenario,
            damage,
            id=f"{scenario}-{damage}",
            marks=() if damage.in_sample and scenario in SAMPLED else pytest.mark.all_variants,
        )
        for scenario in SCENARIOS
        for damage in DAMAGES
    ]


def findings(root: Path, name: str, version: str) -> Counter[str]:
    """Count the codes that a validation finds above a note."""
    options = ValidateOptions(str(root), broker_version=version, broker_conf=str(broker_conf(name)))
    return Counter(
        finding.code for finding in validate(options) if finding.severity is not Severity.NOTE
    )


@cache
def found_before(name: str, version: str) -> Counter[str]:
    """Count the same for the sound fixture: topics that no broker accepts any more, for one."""
    with tempfile.TemporaryDirectory() as into:
        return findings(fixture_store(name, Path(into)), name, version)


@pytest.mark.parametrize(("scenario", "damage"), _parameters())
def test_store_keeps_all(jvm: Jvm, scenario: str, damage: Damage, tmp_path: Path) -> None:
    """A real message store delivers each undamaged message, in order, and no bridge."""
    name = f"rocketmq-{jvm.version}-{scenario}"
    if name not in fixture_names():
        pytest.skip(f"no fixture {name}")
    try:
        truth, root = survivors.damaged_store(name, tmp_path, damage)
    except NotApplicable as reason:
        pytest.skip(str(reason))
    expected = truth.expected(root)
    survivors.repair_in_place(name, root, jvm.version, damage)
    assert findings(root, name, jvm.version) <= found_before(name, jvm.version)
    unused = truth.unused(root)
    opened = survivors.open_store(jvm, root, name)
    assert (True, 0) == (opened.loads, opened.behind)
    assert not {*opened.deleted} - unused
    for key, got in survivors.delivered(opened, truth):
        lost = len(truth.queues[key]) - len(expected[key])
        assert sorted({*got}) == expected[key], key
        assert sorted(got) == got, key
        assert len(got) <= len(expected[key]) + lost, key
    opened.close_later()
