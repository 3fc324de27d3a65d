"""The compaction store: what brokers wrote is sound, and each damage is found."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

import pytest

from rmqtool.findings.catalogue import Severity
from tests import inflict
from tests.check.validation import run
from tests.stores import broker_conf, fixture_names, fixture_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAMES: Final = [
    *fixture_names(scenario="compaction"),
    *fixture_names(scenario="compaction-run"),
]
UNIT: Final = 46
QUEUE: Final = "compaction-orders/1"


def _codes(store: Path, name: str) -> set[str]:
    findings, _, _ = run(store, "full", broker_conf(name))
    return {str(finding.code) for finding in findings if finding.severity is not Severity.NOTE}


@pytest.mark.parametrize("name", NAMES)
def test_no_false_alarm(name: str, tmp_path: Path) -> None:
    """Units are those of the records, before a run and after it, and gaps in names are none."""
    findings, exit_code, summary = run(fixture_store(name, tmp_path), "deep", broker_conf(name))
    assert [] == [finding.code for finding in findings if finding.severity is not Severity.NOTE]
    assert (0, "sound") == (exit_code, summary.verdict)
    assert summary.account.units == (492 if "run" in name else 840)


def _first(store: Path, kind: str) -> Path:
    return min((store / "compaction" / kind / QUEUE).iterdir())


def _flip_unit(store: Path) -> None:
    inflict.flip_bits(_first(store, "compactionCq"), 3 * UNIT + 19, 1)


def _flip_base(store: Path) -> None:
    inflict.flip_bits(_first(store, "compactionCq"), 3 * UNIT + 35, 1)


def _flip_record(store: Path) -> None:
    inflict.flip_bits(_first(store, "compactionLog"), 120, 1)


def _flip_magic(store: Path) -> None:
    inflict.flip_bits(_first(store, "compactionLog"), 4, 1)


def _drop_units(store: Path) -> None:
    path = _first(store, "compactionCq")
    inflict.write_at(path, 5 * UNIT, bytes(path.stat().st_size - 5 * UNIT))


def _raise_position(store: Path) -> None:
    path = store / "compaction" / "position-checkpoint"
    path.write_text('{"empty":false,"queueOffsetMap":{"compaction-orders_1":1000}}')


def _remove_queue_file(store: Path) -> None:
    _first(store, "compactionCq").unlink()


def _remove_all(store: Path) -> None:
    shutil.rmtree(store / "compaction")


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (_flip_unit, "CC-UNIT"),
        (_flip_base, "CC-UNIT"),
        (_flip_record, "CC-UNIT"),
        (_flip_magic, "CC-UNIT"),
        (_drop_units, "CC-UNIT"),
        (_raise_position, "CC-BASE"),
        (_remove_queue_file, "CC-PAIR"),
        (_remove_all, "CC-BEHIND"),
    ],
)
@pytest.mark.parametrize("name", [NAMES[0], NAMES[-1]])
def test_damage(damage: Callable[[Path], None], code: str, name: str, tmp_path: Path) -> None:
    """Each damage has its code and no other."""
    store = fixture_store(name, tmp_path)
    damage(store)
    assert {code} == _codes(store, name)


def test_behind(tmp_path: Path) -> None:
    """What the next start hands over is a warning; what it does not come to is damage."""
    store = fixture_store(NAMES[0], tmp_path)
    _remove_all(store)
    (store / "abort").touch()
    assert {Severity.DAMAGE} == _severities(store)  # the checkpoint says that all is dispatched
    (store / "checkpoint").unlink()
    assert {Severity.WARNING} == _severities(store)


def _severities(store: Path) -> set[Severity]:
    findings, _, _ = run(store, "full", broker_conf(NAMES[0]))
    return {finding.severity for finding in findings if finding.severity is not Severity.NOTE}


@pytest.mark.parametrize("time", [2**62, -(2**62)])
def test_no_calendar_has_it(time: int, tmp_path: Path) -> None:
    """A store time that is no time is damage of that record, and no end of the command."""
    store = fixture_store(NAMES[0], tmp_path)
    file = _first(store, "compactionLog")
    at = 4 + 4 + 4 + 4 + 4 + 8 + 8 + 4 + 8 + 8  # of storeTimestamp in a record
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(time.to_bytes(8, signed=True))
    assert "CC-UNIT" in _codes(store, NAMES[0])
