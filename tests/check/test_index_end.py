"""Keys after the last entry of the index: late where the next start indexes them, lost else."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from rmqtool import repair
from rmqtool.formats.consume_queue import CQ_UNIT
from tests import plain_store
from tests.broker.jvm import Jvm
from tests.check.validation import run
from tests.plain_store import index_files
from tests.repair.broker.reading import OpenStore
from tests.startup.test_against_stores import ALWAYS
from tests.stores import broker_conf, fixture_store, manifest

if TYPE_CHECKING:
    from rmqtool.findings.finding import Finding

SLOTS: Final = 100  # of these stores
NAMES: Final = ("rocketmq-4.9.3-expired", "rocketmq-5.3.3-expired", "rocketmq-5.5.0-expired")


def _without_last(name: str, tmp_path: Path) -> tuple[Path, int]:
    """Give a store without its newest index file, and the place of the first record in that."""
    root = fixture_store(name, tmp_path)
    newest = index_files(root, SLOTS)[-1]
    _, first, *_ = newest.entry(1)
    newest.path.unlink()
    return root, first


def _missing(name: str, root: Path, conf: Path | None = None) -> Finding:
    findings, _, _ = run(root, conf=conf or broker_conf(name), version=name.split("-")[1])
    [missing] = [finding for finding in findings if finding.code == "IX-MISSING"]
    return missing


@pytest.mark.parametrize("name", NAMES)
def test_lost(name: str, tmp_path: Path) -> None:
    """After a clean stop nothing indexes a record that has its unit: a warning, and mended."""
    root, first = _without_last(name, tmp_path)
    missing = _missing(name, root)
    assert ("warning", first) == (missing.severity, missing.physical_offset)
    plan = repair.plan(root, broker_conf=str(broker_conf(name)))
    assert {"IX-MISSING"} == {edit.code for edit in plan.edits}
    repair.apply(plan, in_place=True)
    assert not repair.plan(root, broker_conf=str(broker_conf(name))).edits


def _late(name: str, tmp_path: Path) -> Path:
    """Give a store whose last messages are in no queue, and in no index file."""
    root, first = _without_last(name, tmp_path)
    places = [record.physical_offset for record in plain_store.records(root)]
    first = max(place for place in places if place < first)  # that one stays without from 5.3.2 on
    for path in (root / "consumequeue").rglob("0000*"):
        units = np.frombuffer(path.read_bytes(), CQ_UNIT.dtype).copy()
        units[units["physical_offset"] >= first] = 0
        path.write_bytes(units.tobytes())
    return root


@pytest.mark.parametrize("name", NAMES)
def test_late(name: str, tmp_path: Path) -> None:
    """Records without their units, too, are dispatched by the next start: a note."""
    assert "note" == _missing(name, _late(name, tmp_path)).severity


@pytest.mark.parametrize("name", [*NAMES, "rocketmq-5.3.3-compaction"])
def test_no_index(name: str, tmp_path: Path) -> None:
    """An index that is gone as a whole is missed, whatever the checkpoint says, and made anew."""
    root = fixture_store(name, tmp_path)
    shutil.rmtree(root / "index")
    assert "warning" == _missing(name, root).severity
    plan = repair.plan(root, broker_conf=str(broker_conf(name)))
    assert {"index"} == {Path(edit.path).parts[0] for edit in plan.edits}
    assert not plan.left
    repair.apply(plan, in_place=True)
    findings, _, _ = run(root, conf=broker_conf(name), version=name.split("-")[1])
    assert not [one for one in findings if one.severity != "note"]


def test_no_configuration(tmp_path: Path) -> None:
    """Without a broker.conf nobody knows whether there should be an index."""
    name = NAMES[1]
    root = fixture_store(name, tmp_path)
    shutil.rmtree(root / "index")
    findings, _, _ = run(root, version="5.3.3")
    assert ["note"] == [one.severity for one in findings if one.code == "IX-MISSING"]


def test_not_asked_for(tmp_path: Path) -> None:
    """A broker that shall not index loses no key."""
    name = NAMES[1]
    root, _ = _without_last(name, tmp_path)
    conf = tmp_path / "broker.conf"
    conf.write_text(broker_conf(name).read_text() + "\nmessageIndexEnable=false\n")
    assert "note" == _missing(name, root, conf).severity


def test_unreadable(tmp_path: Path) -> None:
    """A file that cannot be read may have the keys."""
    name = NAMES[1]
    root, _ = _without_last(name, tmp_path)
    newest = index_files(root, SLOTS)[-1].path
    newest.unlink()
    newest.mkdir()
    findings, _, _ = run(root, conf=broker_conf(name))
    assert ["note"] == [one.severity for one in findings if one.code == "IX-MISSING"]


@pytest.mark.broker
@pytest.mark.parametrize("name", NAMES)
def test_real_broker(name: str, tmp_path: Path) -> None:
    """A start and a clean stop leave the index without them."""
    root, _ = _without_last(name, tmp_path)
    before = _missing(name, root)
    _start(name, root, tmp_path)
    after = _missing(name, root)
    assert (before.message, before.severity) == (after.message, after.severity)


@pytest.mark.broker
@pytest.mark.parametrize("name", NAMES)
def test_real_broker_catches_up(name: str, tmp_path: Path) -> None:
    """What is a note the next start indexes."""
    root = _late(name, tmp_path)
    _start(name, root, tmp_path)
    findings, _, _ = run(root, conf=broker_conf(name), version=name.split("-")[1])
    assert "IX-MISSING" not in {one.code for one in findings}


def _start(name: str, root: Path, tmp_path: Path) -> None:
    """Start a real message store, and stop it cleanly."""
    home = tmp_path / "home"
    home.mkdir()
    with Jvm(name.split("-")[1], home) as jvm:
        OpenStore(jvm, root, {**manifest(name)["settings"], **ALWAYS}).close()
