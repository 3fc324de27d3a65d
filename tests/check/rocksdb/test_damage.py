"""No miss: each named damage to a database is found, under its own codes and no others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import orjson
import pytest

from rmqtool.check.options import CheckLevel, ValidateOptions
from rmqtool.check.state import offsets
from rmqtool.check.validate import Findings, validate
from rmqtool.findings import registry_rocksdb
from rmqtool.findings.catalogue import NOTE, Code, Severity
from rmqtool.findings.registry import CODES
from rmqtool.queues.discovery import Queues
from rmqtool.repair import plan
from rmqtool.store import rocksdb_cell
from rmqtool.store.tree import open_store
from tests.check.validation import preceded, run
from tests.damage_rocksdb import (
    CLEAN,
    CRASH,
    DAMAGES,
    DELETE_TOPIC,
    EXPIRE,
    OLD_V2,
    STORE,
    V2,
    RocksDamage,
)
from tests.rocksdb import NAMES, never_flushed, state_of
from tests.stores import broker_conf, fixture_store, held_by_another

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.findings.finding import Finding

# Killed: the rest is dispatched at the next start. Version 2 stores what administrators made.
BEFORE: Final = {
    CRASH: {"RQ-BEHIND"},
    "rocketmq-5.3.3-rocksdb-crash": {"RQ-BEHIND"},
    V2: {"MV-TOPIC", "MV-SWAP"},
    OLD_V2: {"MV-TOPIC"},
}


def _codes(found: list[Finding], *, notes: bool) -> set[str]:
    return {str(finding.code) for finding in found if (finding.severity is Severity.NOTE) == notes}


@pytest.mark.parametrize("has_conf", [False, True], ids=["alone", "with-conf"])
@pytest.mark.parametrize("name", [*NAMES, STORE])
def test_no_false_alarm(name: str, tmp_path: Path, *, has_conf: bool) -> None:
    """What brokers wrote is sound, and reading it changes nothing."""
    store = fixture_store(name, tmp_path)
    before = state_of(store)
    findings, exit_code, summary = run(store, "deep", broker_conf(name) if has_conf else None)
    expected = BEFORE.get(name, set())
    assert expected == _codes(findings, notes=False)
    assert ("MV-TOPIC" in expected) == exit_code
    assert [] == summary.account.left_out
    assert (summary.verdict == "sound") == (not expected)
    assert summary.account.units > 50
    assert before == state_of(store)


@pytest.mark.every_case
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage(damage: RocksDamage, tmp_path: Path) -> None:
    """A damage has its codes, damage has an exit code, and the store is not sound."""
    store = fixture_store(damage.fixture, tmp_path)
    damage.inflict(store)
    findings, exit_code, summary = run(store, "deep", broker_conf(damage.fixture))
    known = BEFORE.get(damage.fixture, set())
    assert {*damage.codes} | known == _codes(findings, notes=False) | known
    assert {*damage.notes} <= _codes(findings, notes=True)
    is_damage = any(finding.severity is Severity.DAMAGE for finding in findings)
    assert is_damage == (exit_code > 0)
    assert "sound" != summary.verdict
    assert all(finding.repair and finding.message for finding in findings)
    for code in damage.codes:
        severities = {CODES[code].also[0] if code in damage.other else CODES[code].severity}
        assert severities == {finding.severity for finding in findings if finding.code == code} - {
            Severity.NOTE
        }


def test_wrong_unit(tmp_path: Path) -> None:
    """A unit that is not as in the log is shown as it is, beside what it should be."""
    store = fixture_store(CLEAN, tmp_path)
    DAMAGES["move unit"].inflict(store)
    (finding,) = (finding for finding in run(store)[0] if finding.code == "RQ-UNIT")
    start = f"physical offset {finding.physical_offset}, "
    assert re.fullmatch(rf"{start}size \d+, tags code -?\d+", finding.expected)
    moved = f"physical offset {finding.physical_offset + 8}, "  # type: ignore[operator]  # it has one
    assert finding.expected.replace(start, moved) == finding.actual


def test_every_row() -> None:
    """Each code, in each of its severities, has a damage of its own above."""
    produced = {
        (code, CODES[code].also[0] if code in damage.other else CODES[code].severity)
        for damage in DAMAGES.values()
        for code in damage.codes
        if code[0] in "RM"
    }
    produced |= {
        (code, NOTE)
        for damage in (*DAMAGES.values(), EXPIRE, DELETE_TOPIC)
        for code in damage.notes
        if code[0] in "RM"
    }
    produced.add(("RQ-BEHIND", NOTE))  # beside a running broker, below
    produced.add(("RQ-LIGHT", CODES["RQ-LIGHT"].severity))  # test_selective: a broker.conf does it
    wanted = {
        (code.name, severity)
        for code in vars(registry_rocksdb).values()
        if isinstance(code, Code)
        for severity in (code.severity, *code.also)
    }
    assert wanted == produced


def test_deleted_topic(tmp_path: Path) -> None:
    """A topic that was deleted has no queue: a note, and no repair brings its queues back."""
    store = fixture_store(DELETE_TOPIC.fixture, tmp_path)
    DELETE_TOPIC.inflict(store)
    findings, exit_code, summary = run(store, "full", broker_conf(DELETE_TOPIC.fixture))
    assert (0, "sound") == (exit_code, summary.verdict)
    said = [finding for finding in findings if finding.code == "RQ-RANGE"]
    assert {(NOTE, "none needed: brokers delete the queues of a topic with it")} == {
        (finding.severity, finding.repair) for finding in said
    }
    assert ([], []) == (plan(store).edits, plan(store).left)


def test_expired(tmp_path: Path) -> None:
    """Units of expired messages are a note."""
    store = fixture_store(EXPIRE.fixture, tmp_path)
    EXPIRE.inflict(store)
    findings, _, _ = run(store, "full", broker_conf(CLEAN))
    assert {*EXPIRE.notes} <= _codes(findings, notes=True)
    assert not {code for code in _codes(findings, notes=False) if code.startswith("RQ-U")}


def test_behind_a_running_broker(tmp_path: Path) -> None:
    """What a running broker has not flushed is no damage: its database is behind all the time."""
    store = fixture_store(CLEAN, tmp_path)
    never_flushed(store / "consumequeue")
    findings, exit_code, _ = run(store, "full", None)
    assert ("RQ-BEHIND", Severity.DAMAGE) in {
        (str(finding.code), finding.severity) for finding in findings
    }
    assert exit_code == 1
    with held_by_another(store):
        findings, exit_code, _ = run(store, "full", None)
    assert ("RQ-BEHIND", NOTE) in {(str(finding.code), finding.severity) for finding in findings}
    assert exit_code == 0


@pytest.mark.parametrize("name", ["rocketmq-5.3.3-rocksdb-crash", "rocketmq-5.5.0-rocksdb-crash"])
def test_offsets_behind(name: str, tmp_path: Path) -> None:
    """No offset is ahead of a queue that was not flushed, at any level and in any round."""
    store = fixture_store(name, tmp_path)
    never_flushed(store / "consumequeue")
    seen = []
    for level in CheckLevel:
        findings = validate(ValidateOptions(store, level=level))
        seen += [str(finding.code) for finding in findings]
    first = validate(ValidateOptions(store, keeps_book=True))
    list(first)
    assert first.ledger is not None
    before = first.ledger.manifest
    again = Findings(ValidateOptions(store), lambda _: None, before=before)
    seen += [str(finding.code) for finding in again]
    assert again.summary.account.left_out, "segments are taken over"
    for segment in sorted((store / "commitlog").iterdir())[:-3]:
        segment.unlink()  # they expired, and were never flushed
    seen += [str(finding.code) for finding in run(store)[0]]
    assert not {"CO-RANGE", "DO-RANGE"} & {*seen}


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library a store is incomplete, and the install line is said."""
    store = fixture_store(CLEAN, tmp_path)
    monkeypatch.setattr(rocksdb_cell, "PACKAGE", "no_such_package")
    findings, exit_code, summary = run(store)
    assert {"FS-READ"} == _codes(findings, notes=False)
    assert (3, "incomplete") == (exit_code, summary.verdict)
    assert all("pip install" in error.reason for error in summary.account.unread.values())


def test_never_flushed(tmp_path: Path) -> None:
    """Killed before RocksDB flushed for the first time: all is dispatched again, nothing is lost.

    A 5.3.3 broker that had run for seconds left exactly this.
    """
    name = "rocketmq-5.3.3-rocksdb-crash"
    store = fixture_store(name, tmp_path)
    never_flushed(store / "consumequeue")
    findings, exit_code, summary = run(store, "full", None)
    assert ({"RQ-BEHIND"}, 0) == (_codes(findings, notes=False), exit_code)
    assert "sound" != summary.verdict
    assert not plan(str(store)).edits, "no queue files beside the database"
    with Queues(open_store(store)) as queues:
        assert queues.database.source is not None
        assert [] == list(queues.database.queues())


def test_offsets_written_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets that a broker writes after the log was read are not held against it."""
    store = fixture_store("rocketmq-5.5.0-rocksdb-crash", tmp_path)
    path, check = store / "config" / "delayOffset.json", offsets.check
    written = {"offsetTable": {1: 10**9}}

    def write() -> None:
        path.write_bytes(orjson.dumps(written, option=orjson.OPT_NON_STR_KEYS))

    monkeypatch.setattr(offsets, "check", preceded(write, check))
    for expected in (set(), {"DO-RANGE"}):
        findings, _, _ = run(store, "full")
        assert expected == {"DO-RANGE"} & _codes(findings, notes=False)
