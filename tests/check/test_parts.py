"""An area that is validated alone is judged as it is in a whole validation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rmqtool.check.options import CheckLevel, ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.findings.catalogue import Area
from tests.damaged import SAMPLE, damaged_store
from tests.stores import broker_conf, fixture_names, fixture_store

if TYPE_CHECKING:
    from rmqtool.findings.finding import Finding

# What is lost of the log is said of the log: without it, of whoever points there.
OF_LOST = "CQ-NOREC"
FULL = CheckLevel.FULL


def _found(store: Path, conf: Path, *only: str, level: CheckLevel = FULL) -> list[Finding]:
    options = ValidateOptions(store, broker_conf=str(conf), only=frozenset(only), level=level)
    return list(validate(options))


def _named(findings: list[Finding], area: Area) -> set[tuple[str, str, str]]:
    return {
        (str(one.code), str(one.severity), one.path) for one in findings if one.code.area == area
    }


@pytest.mark.parametrize("name", SAMPLE)
def test_damage(name: str, tmp_path: Path) -> None:
    """Each area that has a finding says the same when nothing else is asked for.

    The log alone is judged without what its records say, unless a code or the deep level asks.
    """
    store, conf = damaged_store(name, tmp_path)
    whole = _found(store, conf)
    for area in sorted({one.code.area for one in whole}):
        wanted, alone = _named(whole, area), _named(_found(store, conf, area), area)
        assert {OF_LOST} >= {code for code, *_ in alone - wanted}, area
        if area == Area.COMMITLOG:
            codes = {code for code, *_ in wanted}
            assert wanted == _named(_found(store, conf, *codes), area)
            wanted = _named(_found(store, conf, level=CheckLevel.DEEP), area)
            alone = _named(_found(store, conf, area, level=CheckLevel.DEEP), area)
        assert wanted <= alone, area


def test_left_out(tmp_path: Path) -> None:
    """What the log alone is not asked for is said, and no guess stands for it."""
    store = fixture_store(next(name for name in fixture_names() if "traffic" in name), tmp_path)
    findings = validate(ValidateOptions(store, only=frozenset({Area.COMMITLOG})))
    assert [] == list(findings)
    (left_out,) = [what for what, _ in findings.summary.account.left_out if "records" in what]
    assert left_out == "topics, properties, transactions and queue offsets of records"


@pytest.mark.parametrize("name", fixture_names())
def test_sound(name: str, tmp_path: Path) -> None:
    """No area of a sound store has a finding that the whole validation has not."""
    store, conf = fixture_store(name, tmp_path), broker_conf(name)
    whole = _found(store, conf)
    for area in sorted(Area):
        wanted, alone = _named(whole, area), _named(_found(store, conf, area), area)
        assert alone <= wanted, area
        assert area == Area.COMMITLOG or alone == wanted, area


@pytest.mark.parametrize("damage", ["no-timercheck-nor-its-queue", "no-topics"])
def test_lost_queues(damage: str, tmp_path: Path) -> None:
    """What is missing of a configuration is told where the queues are lost, too."""
    store, conf = damaged_store(damage, tmp_path)
    for queues in store.glob("consumequeue*"):
        for path in sorted(queues.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    whole = {str(one.code) for one in _found(store, conf)} & {"TC-GONE", "CF-TOPICS"}
    alone = {str(one.code) for one in _found(store, conf, Area.CONFIG, Area.TIMER)}
    assert whole
    assert whole <= alone
