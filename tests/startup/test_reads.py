"""Which files of a log are read to count what is lost: of a sound log only what a start changes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.doctor.examination import examine_store, has_sound_log
from rmqtool.findings.registry_layout import FS_LOCK
from rmqtool.repair.options import RepairOptions
from rmqtool.startup import losses, predict
from rmqtool.startup.census import SegmentCensus, census
from rmqtool.startup.files import ModelFile
from rmqtool.startup.losses import LogReading
from rmqtool.startup.records import RecordCheck
from rmqtool.store.tree import open_store
from tests.bench.store_builder import Builder, Spec
from tests.damage import DAMAGES
from tests.stores import fixture_names, fixture_store

SPEC: Final = Spec(total_bytes=1 << 20, segment_bytes=1 << 18, topics=2, queues=20)
# Damages of which none touches what messages the log holds, and what units lead to them.
SOUND_LOG: Final = (
    *("false-compression", "flip-store-host", "flip-born-port", "flip-attempts"),
    *("property-without-separator", "property-not-utf8", "old-bytes-in-blank"),
    "remove-first-segment",
)


def same(store: Path) -> bool:
    """Demand the same prediction whether all of a sound log is read or only what changes."""
    findings = [one for one in validate(ValidateOptions(str(store))) if one.code != FS_LOCK]
    opened = open_store(str(store))
    if not has_sound_log(findings):
        return False
    assert predict(opened, reads=LogReading.ALL) == predict(opened, reads=LogReading.WHAT_CHANGES)
    return True


@pytest.mark.parametrize("name", [name for name in fixture_names() if "dledger" not in name])
def test_fixtures(name: str, tmp_path: Path) -> None:
    """What real brokers wrote."""
    assert same(fixture_store(name, tmp_path))


@pytest.mark.parametrize("damage", SOUND_LOG)
def test_damaged(damage: str, tmp_path: Path) -> None:
    """What a validation calls no loss is none to a start that was read to the last byte."""
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    DAMAGES[damage].inflict(store)
    assert same(store)


@pytest.mark.parametrize(
    ("damage", "is_read"),
    [("", False), ("no-checkpoint", False), ("abort", False), ("flip-body-middle", True)],
)
def test_doctor(
    damage: str, is_read: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`doctor` counts the messages of a log again only where something is wrong."""
    store = tmp_path / "store"
    Builder(store, SPEC).build()
    if damage:
        DAMAGES[damage].inflict(store)
    read = list[str]()

    def counted(file: ModelFile, *, check: RecordCheck, by_kernels: bool) -> SegmentCensus:
        read.append(file.path)
        return census(file, check=check, by_kernels=by_kernels)

    monkeypatch.setattr(losses, "census", counted)
    examination = examine_store(RepairOptions(str(store)))
    assert examination.prediction is not None
    assert bool(read) is is_read
