"""Whatever writes a store: after exit code 0 it is sound, and nothing is left to repair."""

from __future__ import annotations

import contextlib
import zlib
from pathlib import Path
from typing import Final

import pytest

from rmqtool import rebuild, repair
from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.errors import NotSound, RmqtoolError
from rmqtool.findings.catalogue import Severity
from rmqtool.relog.options import LogOptions, Positions, QueueOffsets
from rmqtool.relog.report import LogResult
from rmqtool.relog.work import LogRun
from tests.damage import DAMAGES
from tests.repair.repaired import Broken, broken, cost_of
from tests.repair.test_damage import COMMON, sample
from tests.stores import FIXTURES, broker_conf, fixture_store

WAYS: Final = [(positions, numbering) for positions in Positions for numbering in QueueOffsets]


def new_log(options: LogOptions) -> LogResult | None:
    """Write a new log; None where it is refused, with a next step if it would not be sound."""
    try:
        return LogRun(options).run()
    except RmqtoolError as refused:
        is_refusal = isinstance(refused, NotSound)
        if is_refusal and not refused.next_step:
            raise
        return None


def edits(store: Broken) -> list[object]:
    """Give what a repair would do if nothing is asked for beside."""
    plan = repair.plan(store.root, broker_conf=store.conf, broker_version=store.version)
    return [(str(edit.code), edit.path, edit.position) for edit in plan.edits]


@pytest.mark.parametrize(("name", "fixture"), sample(), ids=[name for name, _ in sample()])
def test_new_log(name: str, fixture: str, quick_path: Path, *, is_whole: bool) -> None:
    """A new log of a damaged store is sound, or it is not there, or what is wrong is said.

    Each damage takes two ways of four; `--all-variants` takes all.
    """
    store = broken(fixture, DAMAGES[name], quick_path)
    if store is None:
        pytest.skip(f"{fixture} has nothing to damage so")
    first = zlib.crc32(name.encode()) % len(WAYS)
    ways = WAYS[first:] + WAYS[:first]
    for number, (positions, numbering) in enumerate(ways if is_whole else ways[::2]):
        target = quick_path / f"new-{number}"
        options = LogOptions(
            (str(store.root),),
            str(target),
            positions=positions,
            queue_offsets=numbering,
            broker_conf=store.conf,
        )
        result = new_log(options)
        assert target.exists() == bool(result and result.messages)
        if result is None or not result.messages:
            continue
        new = Broken(target, store.conf, store.version)
        findings = new.findings()
        codes = {str(finding.code) for finding in findings if finding.code.prefix != "BC"}
        assert {
            str(defect.code) for defect in result.defects if defect.code.prefix != "BC"
        } == codes
        if not result.is_damaged:
            assert not findings
        if not findings:
            assert [] == edits(new), (positions, numbering)


@pytest.mark.parametrize(("name", "fixture"), sample(), ids=[name for name, _ in sample()])
def test_rebuilt_in_place(name: str, fixture: str, quick_path: Path) -> None:
    """A rebuild never costs a start more than before; where all is rebuilt, nothing is left."""
    store = broken(fixture, DAMAGES[name], quick_path)
    if store is None:
        pytest.skip(f"{fixture} has nothing to damage so")
    before = cost_of(store.root, store.conf, store.version)
    with contextlib.suppress(RmqtoolError):
        rebuild.all(store.root, in_place=True, broker_conf=store.conf)
    after = cost_of(store.root, store.conf, store.version)
    if before is not None and after is not None:
        assert after <= before
    if not store.findings():
        assert [] == edits(store)


def test_common() -> None:
    """The sample has a fixture of each line."""
    assert {fixture for _, fixture in sample()} >= set(COMMON)


EVERY: Final = sorted(
    path.name for path in FIXTURES.glob("rocketmq-*") if not path.name.endswith("geometry")
)


@pytest.mark.parametrize("name", EVERY)
def test_nothing_to_repair(name: str, quick_path: Path) -> None:
    """What validation calls sound, repair leaves alone, with and without the configuration."""
    root = fixture_store(name, quick_path)
    for conf in (None, str(broker_conf(name))):
        options = ValidateOptions(root, broker_conf=conf)
        if not any(finding.severity is not Severity.NOTE for finding in validate(options)):
            assert [] == repair.plan(root, broker_conf=conf).edits
