"""Parts that do not belong to a store, or are broken beside sound ones: real stores start, or not.

A consume queue of a topic with batch queues, a database beside queues in files, and one without its
CURRENT; a queue of zeros from far back after a crash.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from rmqtool import repair
from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.findings.catalogue import Severity
from rmqtool.startup import Prediction, predict
from rmqtool.store.tree import open_store
from tests import plain_store
from tests.broker.jvm import Jvm
from tests.repair.broker import run_on, survivors
from tests.startup.compare import differences
from tests.startup.oracle import Oracle, files_of
from tests.startup.test_against_stores import ALWAYS, predicted
from tests.stores import broker_conf, fixture_store, manifest

KEPT_UNITS: Final = 20


@dataclass(frozen=True, slots=True)
class Stray:
    """A part that is broken, and whether a store of the release starts on it."""

    name: str
    fixture: str
    inflict: Callable[[Path], object]
    starts: bool
    code: str

    def __str__(self) -> str:
        return self.name


def plain_units(store: Path) -> None:
    """Put units of a batch topic where consume queues are."""
    topic = next((store / "batchconsumequeue").iterdir()).name
    records = [record for record in plain_store.records(store) if record.topic == topic][:5]
    units = (plain_store.UNIT.pack(record.physical_offset, record.size, 0) for record in records)
    queue = store / "consumequeue" / topic / "0"
    queue.mkdir(parents=True)
    (queue / ("0" * 20)).write_bytes(b"".join(units).ljust(2000, b"\0"))


def without_current(directory: str) -> Callable[[Path], None]:
    """Take the file away that names the MANIFEST of a database."""
    return lambda store: (store / directory / "CURRENT").unlink()


STRAYS: Final = (
    Stray("units of a batch topic", "rocketmq-5.3.3-batch-queue", plain_units, False, "FS-ORPHAN"),
    Stray(
        "a second store, 5.3.3", "rocketmq-5.3.3-rocksdb-combined",
        without_current("consumequeue"), True, "RD-OPEN",
    ),
    Stray(
        "a second store, 5.5.0", "rocketmq-5.5.0-rocksdb-combined",
        without_current("consumequeue"), False, "RD-OPEN",
    ),
    Stray(
        "rocksdbstore", "rocketmq-5.5.0-rocksdb-store",
        without_current("rocksdbstore"), True, "RD-OPEN",
    ),
)  # fmt: skip


def codes(store: Path, fixture: str) -> set[str]:
    """Give the codes of what is worse than a note."""
    options = ValidateOptions(str(store), broker_conf=str(broker_conf(fixture)))
    return {str(it.code) for it in validate(options) if it.severity is not Severity.NOTE}


@pytest.mark.broker
@pytest.mark.parametrize("stray", STRAYS, ids=str)
def test_starts(stray: Stray, tmp_path: Path) -> None:
    """Whether a real store starts is predicted; one that does takes messages."""
    version = str(manifest(stray.fixture)["version"])
    root = fixture_store(stray.fixture, tmp_path)
    truth = survivors.Truth.of(root)
    stray.inflict(root)
    assert stray.code in codes(root, stray.fixture)
    prediction = predict(open_store(root, broker_conf(stray.fixture)), version)
    assert stray.starts is prediction.starts
    with Jvm(version, tmp_path / "home") as jvm:
        opened = survivors.open_store(jvm, root, stray.fixture)
        assert stray.starts is opened.loads
        if stray.starts:
            assert run_on.MESSAGES == run_on.put_more(jvm, opened, truth)
            opened.close()


def test_units_of_a_batch_topic_are_taken_out(tmp_path: Path) -> None:
    """A repair takes the queue out, and nothing else is left to do."""
    fixture = STRAYS[0].fixture
    root = fixture_store(fixture, tmp_path)
    plain_units(root)
    plan = repair.plan(root, broker_conf=str(broker_conf(fixture)))
    (edit,) = plan.edits
    assert ("FS-ORPHAN", "consumequeue/batch-queue") == (str(edit.code), edit.path)
    repair.apply(plan, in_place=True)
    assert set() == codes(root, fixture)
    assert predict(open_store(root, broker_conf(fixture)), "5.3.3").is_whole


@pytest.mark.broker
@pytest.mark.parametrize("keeps_files", [True, False], ids=["files of zeros", "files gone"])
def test_zeroed_from_far_back(oracle: Oracle, keeps_files: bool, tmp_path: Path) -> None:
    """A queue that has lost most units in a crash is damaged, and what a start makes of it known.

    Where a broker hands its newest messages over again they take the numbers of older ones.
    """
    version = oracle.jvm.version
    if version not in {"4.9.3", "5.3.3", "5.5.0"}:
        pytest.skip("no such store of this release")
    name = f"rocketmq-{version}-traffic"
    root = fixture_store(name, tmp_path)
    (root / "abort").touch()
    queue = max((root / "consumequeue" / "traffic-orders").iterdir())
    first, *others = sorted(queue.iterdir())
    raw = first.read_bytes()
    kept = KEPT_UNITS * plain_store.UNIT.size
    first.write_bytes(raw[:kept].ljust(len(raw), b"\0"))
    for path in others:
        if keeps_files:
            path.write_bytes(bytes(len(raw)))
        else:
            path.unlink()
    assert "CQ-GAP" in codes(root, name)
    assert 0 < agreed(oracle, root, name, tmp_path).unreachable


def agreed(oracle: Oracle, root: Path, name: str, into: Path) -> Prediction:
    """Give what is predicted of a start, once a real store has done the same."""
    settings = {**manifest(name)["settings"], **ALWAYS}
    opened = into / "opened" / "store"
    shutil.copytree(root, opened)
    prediction = predicted(root, oracle.jvm.version, settings)
    expected = {(it.topic, it.queue_id): it.readable for it in prediction.queues}
    seen = oracle.observe(opened, settings, expected)
    assert [] == differences(prediction, files_of(root), seen)
    return prediction


@pytest.mark.broker
@pytest.mark.parametrize("has_crashed", [False, True], ids=["stopped", "crashed"])
@pytest.mark.parametrize("kept_bytes", [8, 12], ids=["place", "place and size"])
def test_torn_unit(oracle: Oracle, kept_bytes: int, has_crashed: bool, tmp_path: Path) -> None:
    """A unit that was written in part: as many messages are out of reach as a real store lacks."""
    version = oracle.jvm.version
    if version not in {"4.9.3", "5.3.3", "5.5.0"}:
        pytest.skip("no such store of this release")
    name = f"rocketmq-{version}-traffic"
    root = fixture_store(name, tmp_path)
    if has_crashed:
        (root / "abort").touch()
    newest = max((root / "consumequeue" / "traffic-orders" / "1").iterdir())
    raw = newest.read_bytes()
    used = len(raw.rstrip(b"\0")) // plain_store.UNIT.size * plain_store.UNIT.size
    torn = used - 10 * plain_store.UNIT.size
    newest.write_bytes(raw[: torn + kept_bytes].ljust(len(raw), b"\0"))
    assert codes(root, name)
    agreed(oracle, root, name, tmp_path)
    plan = repair.plan(root, broker_version=version, broker_conf=str(broker_conf(name)))
    repair.apply(plan, in_place=True)
    assert set() == codes(root, name)


@pytest.mark.broker
def test_extensions_of_no_topic(oracle: Oracle, tmp_path: Path) -> None:
    """Extension files that no queue opens are a note: a real store starts, and leaves them."""
    version = oracle.jvm.version
    if version not in {"4.9.3", "5.3.3", "5.5.0"}:
        pytest.skip("no such store of this release")
    name = f"rocketmq-{version}-ext"
    root = fixture_store(name, tmp_path)
    (sound, *_) = sorted((root / "consumequeue_ext").iterdir())
    shutil.copytree(sound, root / "consumequeue_ext" / "no-such-topic")
    options = ValidateOptions(str(root), broker_conf=str(broker_conf(name)))
    (note,) = [it for it in validate(options) if it.topic == "no-such-topic"]
    assert ("FS-ORPHAN", Severity.NOTE) == (str(note.code), note.severity)
    agreed(oracle, root, name, tmp_path)
    assert (tmp_path / "opened" / "store" / "consumequeue_ext" / "no-such-topic").is_dir()
