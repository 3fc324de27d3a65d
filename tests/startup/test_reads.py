"""Which files of a log are read to count what is lost: of a sound log only what a start changes.

And of one that a validation has nothing at all to say of, nothing where the start changes nothing.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.doctor.examination import examine_store, has_sound_log, has_spotless_log
from rmqtool.errors import RmqtoolError
from rmqtool.findings.registry_layout import FS_LOCK
from rmqtool.formats.consume_queue import CQ_UNIT_SIZE
from rmqtool.repair.options import RepairOptions
from rmqtool.startup import losses, predict
from rmqtool.startup.census import SegmentCensus, censuses
from rmqtool.startup.files import ModelFile
from rmqtool.startup.losses import LogReading
from rmqtool.startup.records import RecordCheck
from rmqtool.store.tree import open_store
from tests.bench.store_builder import Builder, Spec
from tests.damage import DAMAGES, NotApplicable
from tests.damage_rocksdb import DAMAGES as OF_ROCKSDB
from tests.stores import broker_conf, fixture_names, fixture_store

SPEC: Final = Spec(total_bytes=1 << 20, segment_bytes=1 << 18, topics=2, queues=20)


def _without_newest_unit(store: Path) -> None:
    """Take the newest unit of a queue away."""
    queue = min((store / "consumequeue").glob("*/*/*"))
    raw = queue.read_bytes()
    units = [raw[at : at + CQ_UNIT_SIZE] for at in range(0, len(raw), CQ_UNIT_SIZE)]
    end = next(n for n, unit in enumerate(units) if unit == bytes(CQ_UNIT_SIZE)) * CQ_UNIT_SIZE
    queue.write_bytes(raw[: end - CQ_UNIT_SIZE].ljust(len(raw), b"\0"))


def _without_queue(store: Path) -> None:
    """Take a queue away."""
    shutil.rmtree(min((store / "consumequeue").glob("*/*")))


SHORT: Final = {"newest unit": _without_newest_unit, "queue": _without_queue}
# Damages of which none touches what messages the log holds, and what units lead to them.
SOUND_LOG: Final = (
    *("false-compression", "flip-store-host", "flip-born-port", "flip-attempts"),
    *("property-without-separator", "property-not-utf8", "old-bytes-in-blank"),
    "remove-first-segment",
)


def same(store: Path, release: str | None = None, conf: str | None = None) -> LogReading:
    """Demand the same prediction whether all of a sound log is read or only what changes.

    Returns:
        How little of the log is enough for it.
    """
    validation = validate(ValidateOptions(str(store), broker_version=release, broker_conf=conf))
    findings = [finding for finding in validation if finding.code != FS_LOCK]
    opened = open_store(str(store), conf)
    if not has_sound_log(findings):
        return LogReading.ALL
    whole = predict(opened, release, reads=LogReading.ALL)
    assert whole == predict(opened, release, reads=LogReading.WHAT_CHANGES)
    if not has_spotless_log(validation.summary):
        return LogReading.WHAT_CHANGES
    assert whole == predict(opened, release, reads=LogReading.IF_ANY_CHANGES)
    return LogReading.IF_ANY_CHANGES


@pytest.mark.parametrize("name", [name for name in fixture_names() if "dledger" not in name])
@pytest.mark.parametrize("has_conf", [False, True], ids=["alone", "conf"])
def test_fixtures(name: str, has_conf: bool, tmp_path: Path) -> None:
    """What real brokers wrote."""
    conf = broker_conf(name)
    given = str(conf) if has_conf and conf.is_file() else None
    assert same(fixture_store(name, tmp_path), conf=given) is not LogReading.ALL


@pytest.mark.parametrize("damage", SOUND_LOG)
def test_damaged(damage: str, tmp_path: Path) -> None:
    """What a validation calls no loss is none to a start that was read to the last byte."""
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    DAMAGES[damage].inflict(store)
    assert same(store) is not LogReading.ALL


@pytest.mark.parametrize("release", ["4.9.3", "5.1.4", "5.3.3", "5.5.1"])
@pytest.mark.parametrize("damage", ["", "no-checkpoint", "abort", *SHORT])
def test_spotless(damage: str, release: str, tmp_path: Path) -> None:
    """What needs no look at units: each release starts elsewhere, and cuts and writes otherwise."""
    store = tmp_path / "store"
    Builder(store, SPEC).build()
    if damage in SHORT:
        SHORT[damage](store)
    elif damage:
        DAMAGES[damage].inflict(store)
    expected = LogReading.ALL if damage in SHORT else LogReading.IF_ANY_CHANGES
    assert same(store, release) is expected


@pytest.mark.parametrize("damage", sorted(DAMAGES))
def test_every_damage(damage: str, tmp_path: Path) -> None:
    """Whatever a validation says nothing of costs nothing, or is read."""
    names = [name for name in fixture_names() if (DAMAGES[damage].fixture or "traffic") in name]
    store = fixture_store(names[sum(map(ord, damage)) % len(names)], tmp_path)
    try:
        DAMAGES[damage].inflict(store)
    except NotApplicable as error:
        pytest.skip(str(error))
    if DAMAGES[damage].fixture != "dledger":
        same(store)


@pytest.mark.parametrize("damage", ["", *sorted(OF_ROCKSDB)])
def test_rocksdb(damage: str, tmp_path: Path) -> None:
    """So it is with queues in RocksDB."""
    name = OF_ROCKSDB[damage].fixture if damage else "rocketmq-5.5.0-rocksdb"
    store = fixture_store(name, tmp_path)
    if damage:
        OF_ROCKSDB[damage].inflict(store)
    with contextlib.suppress(RmqtoolError):
        assert same(store) is not LogReading.ALL or damage


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

    def counted(
        files: Sequence[ModelFile], *, check: RecordCheck, by_kernels: bool, jobs: int | None
    ) -> Iterator[SegmentCensus]:
        read.extend(file.path for file in files)
        return censuses(files, check=check, by_kernels=by_kernels, jobs=jobs)

    monkeypatch.setattr(losses, "censuses", counted)
    examination = examine_store(RepairOptions(str(store)))
    assert examination.prediction is not None
    assert bool(read) is is_read
