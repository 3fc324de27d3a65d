"""An edit has the code by which `validate` names what it mends."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import pytest

from rmqtool import repair
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_consume_queue import CQ_GAP, CQ_HOLE, CQ_RANGE, CQ_TAG
from rmqtool.findings.registry_layout import FS_LEN
from rmqtool.repair.plans import Action, Edit
from rmqtool.repair.remedies import FindingsByPlace, named_as_found
from tests.damage import DAMAGES
from tests.damage_queues import QUEUES
from tests.repair.repaired import broken
from tests.repair.test_damage import sample

NAMES: Final = {one.name for one in QUEUES}
PAIRS: Final = [pair for pair in sample() if pair[0] in NAMES]
PATH: Final = "consumequeue/orders/0/00000000000000000000"


@pytest.mark.parametrize(("name", "fixture"), PAIRS, ids=[name for name, _ in PAIRS])
def test_damage(name: str, fixture: str, quick_path: Path) -> None:
    """Where an edit and a finding are of the same bytes, they have the same code."""
    store = broken(fixture, DAMAGES[name], quick_path)
    if store is None:
        pytest.skip(f"{fixture} has nothing to damage so")
    findings = [one for one in store.findings() if one.severity is not Severity.NOTE]
    plan = repair.plan(store.root, broker_conf=store.conf, broker_version=store.version)
    for edit in plan.edits:
        end = edit.position + max(edit.length, 1)
        there = {
            str(one.code)
            for one in findings
            if one.path == edit.path
            and (one.position or 0) < end
            and (one.length is None or edit.position < (one.position or 0) + one.length)
        }
        assert not there or str(edit.code) in there, (edit, there)


def test_place() -> None:
    """The first finding that shares a byte counts; one of the whole file is everywhere."""
    findings = [
        finding(CQ_TAG, At(PATH, 40, 20)),
        finding(CQ_HOLE, At(PATH, 0, 60)),
        finding(CQ_RANGE, At(PATH, 200, 20), severity=Severity.NOTE),
        finding(FS_LEN, At("checkpoint")),
    ]
    known = FindingsByPlace(findings)
    assert CQ_HOLE == known.code_at(PATH, 40, 60)
    assert CQ_TAG == known.code_at(PATH, 40, 60, CQ_TAG.name)
    assert known.code_at(PATH, 20, 40, CQ_TAG.name) is None
    assert known.code_at(PATH, 60, 400) is None
    assert FS_LEN == known.code_at("checkpoint", 4000, 4001)


def test_many() -> None:
    """Many findings and edits of one file cost each a look, and not a walk."""
    count = 20_000
    findings = [finding(CQ_HOLE, At(PATH, 20 * number, 20)) for number in range(count)]
    edits = [
        Edit(Action.WRITE, PATH, 20 * number, 20, 20, "", "", CQ_GAP, "")
        for number in range(2 * count)
    ]
    began = time.process_time()
    named = [edit.code for edit in named_as_found(edits, findings)]
    assert [CQ_HOLE] * count + [CQ_GAP] * count == named
    assert time.process_time() - began < 20  # a walk of all takes minutes
