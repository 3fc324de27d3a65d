"""What is foretold of stores with RocksDB is what real message stores then do."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from unittest import mock

import pytest

from rmqtool import repair
from rmqtool.formats.consume_queue import CQ_UNIT_SIZE
from rmqtool.formats.rocksdb_queue import CHECKPOINT_KEY, MAX, offset_key, unit_key
from rmqtool.queues.rocks import end_values
from rmqtool.startup import predict, start
from rmqtool.startup.pull import MESSAGES_OF_A_PULL
from rmqtool.store.place import Place
from rmqtool.store.rocksdb_manifest import read_manifest
from rmqtool.store.tree import open_store
from tests import inflict, rocksdb
from tests.broker.broker import conf_text
from tests.damage_rocksdb import DAMAGES, table_of
from tests.startup import harm
from tests.startup.compare import rocks_differences
from tests.startup.rocks_oracle import observe
from tests.startup.small_store import SETTINGS, outlines, write_small_store
from tests.stores import fixture_before, fixture_store, manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.startup.oracle import Oracle

    Harm = Callable[[Path], None]

pytestmark = pytest.mark.broker

ROCKSDB: Final[dict[str, object]] = {**SETTINGS, "storeType": "defaultRocksDB"}
COMBINED: Final[dict[str, object]] = {**SETTINGS, "rocksdbCQDoubleWriteEnable": True}
ALL_FILES: Final = {"commitLogRecoverMaxNum": 1000}
QUEUES: Final = "consumequeue"
OF_ROCKSDB: Final = frozenset({"5.3.3", "5.3.4", "5.4.0", "5.5.0", "5.5.1"})
TOPIC: Final = b"orders"
PART: Final = 560  # of 700 messages, where the database of some trials ends


@dataclass(frozen=True, slots=True)
class Trial:
    """One damaged store.

    Attributes:
        name: unique.
        steps: what is done to it, in order.
        base: `clean`, `crashed`, `behind` or `combined`.
        settings: of the broker.conf beyond those of the base.
    """

    name: str
    steps: tuple[Harm, ...] = ()
    base: str = "clean"
    settings: Mapping[str, object] | None = None

    @property
    def in_sample(self) -> bool:
        """Whether it is opened in each run, not only when all are asked for."""
        return self.name in SAMPLE

    def __str__(self) -> str:
        return self.name


def _in_queues(change: Callable[[Path], object]) -> Harm:
    def harm_it(store: Path) -> None:
        change(store / QUEUES)

    return harm_it


def _no_database(store: Path) -> None:
    """Delete the files of the database, not the queues in files beside it."""
    for path in (store / QUEUES).iterdir():
        if path.is_file():
            path.unlink()


def _no_files(store: Path) -> None:
    """Delete the queues in files, not the database beside them."""
    for path in (store / QUEUES).iterdir():
        if path.is_dir():
            shutil.rmtree(path)


def _earlier_checkpoint(store: Path) -> None:
    """Write CHECKPOINT - 1, so that the comparison includes the next record."""
    rows = dict(rocksdb.rows_of(store / QUEUES, QUEUES)["offset"])
    value = int.from_bytes(rows[CHECKPOINT_KEY], "big") - 1
    put = {CHECKPOINT_KEY: value.to_bytes(8, "big")}
    rocksdb.edit(store / QUEUES, "offset", put=put)


def _hole(number: int) -> Harm:
    keys = (unit_key(TOPIC, 1, number),)
    return _in_queues(lambda directory: rocksdb.edit(directory, delete=keys))


def _astray(number: int) -> Harm:
    """Let a unit point far past the end of the log."""

    def inflict(directory: Path) -> None:
        key = unit_key(TOPIC, 1, number)
        unit = dict(rocksdb.rows_of(directory, QUEUES)["default"])[key]
        rocksdb.edit(directory, put={key: (1 << 35).to_bytes(8, "big") + unit[8:]})

    return _in_queues(inflict)


def _shortened(number: int) -> Harm:
    """Leave of a unit what it is in a file, without the store time."""

    def inflict(directory: Path) -> None:
        key = unit_key(TOPIC, 1, number)
        unit = dict(rocksdb.rows_of(directory, QUEUES)["default"])[key]
        rocksdb.edit(directory, put={key: unit[:CQ_UNIT_SIZE]})

    return _in_queues(inflict)


def _shorter(store: Path) -> None:
    """Lower one max row by a unit: the two parts of a combined store then differ."""
    rows = rocksdb.rows_of(store / QUEUES, QUEUES)
    key = offset_key(TOPIC, 1, MAX)
    last = int.from_bytes(dict(rows["offset"])[key][8:], "big") - 1
    before = dict(rows["default"])[unit_key(TOPIC, 1, last)]
    put = {key: end_values((int.from_bytes(before[:8], "big"), last))}
    rocksdb.edit(store / QUEUES, "offset", put=put)


def _missing_manifest(directory: Path) -> None:
    (directory / read_manifest(Place.of(directory)).name).unlink()


def _zero_segments(store: Path) -> None:
    """Make the two newest segments zeros, as a lost disk cache does."""
    for path in sorted((store / "commitlog").iterdir())[-2:]:
        path.write_bytes(bytes(path.stat().st_size))


def _cut(where: float) -> Harm:
    """Flip a body: the log ends there."""
    return inflict.flip_field("body", where=where)


ABORT: Final = harm.touch("abort")
NO_QUEUES: Final = harm.remove(QUEUES)
TRIALS: Final = (
    Trial("untouched"),
    Trial("crashed", base="crashed"),
    Trial("no queues", (NO_QUEUES,)),
    Trial("no queues, abort", (NO_QUEUES, ABORT)),
    Trial("no queues, all files", (NO_QUEUES,), settings=ALL_FILES),
    Trial("no queues, all files, abort", (NO_QUEUES, ABORT), settings=ALL_FILES),
    Trial("behind", base="behind"),
    Trial("behind, abort", (ABORT,), base="behind"),
    Trial("behind, CHECKPOINT - 1", (_earlier_checkpoint,), base="behind"),
    Trial("no CURRENT", (_in_queues(lambda d: (d / "CURRENT").unlink()),)),
    Trial("CURRENT longer", (_in_queues(lambda d: os.truncate(d / "CURRENT", 5000)),)),
    Trial("IDENTITY longer", (_in_queues(lambda d: os.truncate(d / "IDENTITY", 5000)),)),
    Trial("no MANIFEST", (_in_queues(_missing_manifest),)),
    Trial("no table", (_in_queues(lambda d: table_of(d).unlink()),)),
    Trial("cut MANIFEST", (DAMAGES["cut MANIFEST"].inflict,)),
    Trial("flipped block", (_in_queues(lambda d: inflict.flip_bits(table_of(d), 60, 1)),)),
    Trial("format 6", (DAMAGES["write format 6"].inflict,)),
    Trial("two databases", (DAMAGES["copy queues"].inflict,)),
    *(
        Trial(f"cut log at {where}{name}", (_cut(where), *steps))
        for where in (0.55, 0.9, 0.95)
        for name, steps in (("", ()), (", abort", (ABORT,)))
    ),
    Trial("zero segments", (_zero_segments,)),
    Trial("zero segments, abort", (_zero_segments, ABORT)),
    Trial("hole", (_hole(40),)),
    Trial("hole after a pull", (_hole(MESSAGES_OF_A_PULL),)),
    Trial("unit astray", (_astray(3),)),
    Trial("unit without its time", (_shortened(3),)),
    Trial("first segments gone", (harm.remove_segments(0, 2),)),
    Trial("combined", base="combined"),
    Trial("combined, no database", (_no_database,), base="combined"),
    Trial("combined, no database, all", (_no_database,), base="combined", settings=ALL_FILES),
    Trial("combined, no database, abort", (_no_database, ABORT), base="combined"),
    Trial("combined, no files", (_no_files,), base="combined"),
    Trial("combined, no files, abort", (_no_files, ABORT), base="combined"),
    Trial("combined, shorter", (_shorter,), base="combined"),
    Trial(
        "combined, read, no database",
        (_no_database,),
        base="combined",
        settings={"combineCQPreferCQType": "defaultRocksDB"},
    ),
)  # fmt: skip


SAMPLE: Final = frozenset(
    {
        "no queues",
        "IDENTITY longer",
        "hole",
        "hole after a pull",
        "unit astray",
        "unit without its time",
        "combined, shorter",
        "cut log at 0.95",
    }
)


# What a repair leaves: of two databases a person chooses one.
LEFT: Final = frozenset({"two databases"})


@pytest.fixture(scope="session")
def rocks_stores(oracle: Oracle, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Give the stores that trials are made of, written by the version at hand."""
    if oracle.jvm.version not in OF_ROCKSDB:
        pytest.skip("no queues in RocksDB, or an old store of them")
    into = tmp_path_factory.mktemp("rocks")
    part, whole = into / "part", into / "whole"
    part.mkdir()
    whole.mkdir()
    messages = list(outlines())
    behind = write_small_store(oracle.jvm, part, messages[:PART], ROCKSDB)["clean"]
    database = into / "database"
    shutil.copytree(behind / QUEUES, database)
    shutil.rmtree(part / "crashed")
    found = write_small_store(oracle.jvm, part, messages[PART:], ROCKSDB)
    stores = {"clean": found["clean"], "crashed": found["crashed"], "behind": into / "behind"}
    shutil.copytree(found["clean"], stores["behind"])
    shutil.rmtree(stores["behind"] / QUEUES)
    shutil.copytree(database, stores["behind"] / QUEUES)
    stores["combined"] = write_small_store(oracle.jvm, whole, messages, COMBINED)["clean"]
    return stores


@pytest.mark.parametrize("variant", TRIALS, ids=str)
def test_trial(
    oracle: Oracle, rocks_stores: dict[str, Path], variant: Trial, tmp_path: Path
) -> None:
    """A damaged store is refused, cut and dispatched as foretold, and delivers as foretold."""
    root = tmp_path / "store"
    shutil.copytree(rocks_stores[variant.base], root)
    for step in variant.steps:
        step(root)
    base = COMBINED if variant.base == "combined" else ROCKSDB
    judge(oracle, root, {**base, **(variant.settings or {})})


@pytest.mark.parametrize("variant", [trial for trial in TRIALS if trial.name not in LEFT], ids=str)
def test_repaired(
    oracle: Oracle, rocks_stores: dict[str, Path], variant: Trial, tmp_path: Path
) -> None:
    """After a repair a real message store delivers whatever the log holds."""
    root, conf = tmp_path / "store", tmp_path / "broker.conf"
    shutil.copytree(rocks_stores[variant.base], root)
    for step in variant.steps:
        step(root)
    base = COMBINED if variant.base == "combined" else ROCKSDB
    settings = {**base, **(variant.settings or {})}
    conf.write_text(conf_text(settings), encoding="utf-8")
    plan = repair.plan(root, broker_conf=str(conf), broker_version=oracle.jvm.version)
    repair.apply(plan, in_place=True)
    judge(oracle, root, settings)
    assert not predict(open_store(root, conf), oracle.jvm.version).loses


@pytest.mark.parametrize("scenario", ["rocksdb-crash", "rocksdb-expired"])
def test_fixture(oracle: Oracle, scenario: str, tmp_path: Path) -> None:
    """The same for what brokers wrote."""
    if oracle.jvm.version not in OF_ROCKSDB:
        pytest.skip("no queues in RocksDB, or an old store of them")
    name = fixture_before(oracle.jvm.version, scenario)
    kept = {"fileReservedTime": 500000, "haListenPort": 0}
    judge(oracle, fixture_store(name, tmp_path), {**manifest(name)["settings"], **kept})


def judge(oracle: Oracle, root: Path, settings: Mapping[str, object]) -> None:
    """Foretell, let a real message store open a copy, compare."""
    opened, conf = root.with_name("opened"), root.with_name("told.conf")
    shutil.copytree(root, opened)
    conf.write_text(conf_text(settings), encoding="utf-8")
    before = rocksdb.state_of(root)
    # Keys that contradict each other are refused by whole brokers: see `test_whole_broker`.
    with mock.patch.object(start, "refuse_combination"):
        prediction = predict(open_store(root, conf), oracle.jvm.version)
    assert before == rocksdb.state_of(root)
    keys = {(queue.topic, queue.queue_id) for queue in prediction.queues}
    seen = observe(oracle.jvm, opened, settings, keys)
    assert [] == [*rocks_differences(prediction, seen, settings)], prediction.refusals
