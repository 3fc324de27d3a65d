"""How units differ is judged alike in files, in batch queues and in RocksDB."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from rmqtool import rebuild
from rmqtool.broker.names import SCHEDULE_TOPIC
from rmqtool.findings.catalogue import Severity
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.consume_queue import CQ_UNIT, PRE_BLANK_SIZE
from rmqtool.formats.consume_queue_ext import LARGEST_ADDRESS
from rmqtool.formats.rocksdb_queue import ROCKSDB_CQ_UNIT
from rmqtool.ledger.differences import difference_of, differing_fields, point_alike, tags_right
from rmqtool.queues.kinds import as_units
from rmqtool.rebuild.options import StoreType
from tests import inflict, plain_store, rocksdb
from tests.check.validation import run
from tests.stores import fixture_store

TRAFFIC: Final = "rocketmq-5.3.3-traffic"
QUEUES: Final = "consumequeue"
SOUND: Final = {"physical_offset": 4096, "size": 300, "tags_code": 7}
MINUTE_MS: Final = 60_000


def units(**changed: int) -> np.ndarray:
    """Give one unit, sound but for what is changed."""
    return as_units(CQ_UNIT.build({**SOUND, **changed}))


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"tags_code": 8}, "CQ-TAG"),
        ({"tags_code": LARGEST_ADDRESS}, "CQ-EXTADDR"),
        ({"size": 301}, "CQ-MISMATCH"),
        ({"physical_offset": 0}, "CQ-MISMATCH"),
        ({"size": -1}, "CQ-HOLE"),
        ({"physical_offset": 0, "size": 0, "tags_code": 0}, "CQ-GAP"),
        ({"physical_offset": 0, "size": PRE_BLANK_SIZE, "tags_code": 0}, "CQ-PREBLANK"),
    ],
)
def test_kinds(changed: dict[str, int], code: str) -> None:
    """Each kind by what is there."""
    assert difference_of(units(), units(**changed)).code.name == code


def test_stretch() -> None:
    """A stretch of several kinds has the name of what they share, and else of the worst."""
    wanted = np.concatenate([units(), units()])
    gone = units(physical_offset=0, size=0, tags_code=0)
    others = np.concatenate([units(tags_code=8), units(size=301)])
    assert difference_of(wanted, np.concatenate([gone, gone])).code.name == "CQ-GAP"
    assert difference_of(wanted, np.concatenate([units(size=9), gone])).code.name == "CQ-HOLE"
    assert difference_of(wanted, np.concatenate([gone, units()])).code.name == "CQ-HOLE"
    assert difference_of(wanted, others).code.name == "CQ-MISMATCH"
    assert ("size", "tags_code") == differing_fields(wanted, others)
    assert [True, False] == point_alike(wanted, others).tolist()


@pytest.mark.parametrize("field", BATCH_CQ_UNIT.positions)
def test_batch_fields(field: str) -> None:
    """One field of a batch queue's unit."""
    sound = dict.fromkeys(BATCH_CQ_UNIT.positions, 5)
    want, have = (
        as_units(BATCH_CQ_UNIT.build({**sound, field: value}), BATCH_CQ_UNIT) for value in (5, 6)
    )
    assert (field,) == differing_fields(want, have)
    assert difference_of(want, have).batch_code.name == "BQ-UNIT"


def test_delays() -> None:
    """A deliver time of other levels is right in the delay queues, and nowhere else."""
    want = np.array([MINUTE_MS, MINUTE_MS], np.int64)
    have = want + np.array([MINUTE_MS, 1])
    assert [True, False] == tags_right(SCHEDULE_TOPIC, want, have, None).tolist()
    assert [False, False] == tags_right("orders", want, have, None).tolist()


def checked(store: Path) -> tuple[set[str], int]:
    """Give the damages that `validate` finds, and how many differences `rebuild --check` does."""
    findings, _, _ = run(store)
    result = rebuild.consume_queues(store, check=True)
    damages = {finding.code.name for finding in findings if finding.severity is Severity.DAMAGE}
    return damages, len(result.differences)


@pytest.mark.parametrize(("change", "codes"), [(MINUTE_MS, set()), (1, {"CQ-TAG"})])
def test_delays_in_files(change: int, codes: set[str], tmp_path: Path) -> None:
    """What `validate` calls sound, `rebuild --check` calls the same."""
    store = fixture_store(TRAFFIC, tmp_path)
    levels = (store / QUEUES / SCHEDULE_TOPIC).iterdir()
    level = max(levels, key=lambda queue: len(plain_store.units(queue)))
    (file,) = level.iterdir()  # of several units: the others tell the delay of the level
    at = CQ_UNIT.positions["tags_code"]
    code = int.from_bytes(file.read_bytes()[at : at + 8]) + change
    inflict.write_at(file, at, code.to_bytes(8))
    assert (codes, len(codes)) == checked(store)


@pytest.mark.parametrize(("change", "codes"), [(MINUTE_MS, set()), (1, {"RQ-UNIT"})])
def test_delays_in_rocksdb(change: int, codes: set[str], tmp_path: Path) -> None:
    """What holds for delay queues in files holds for those in RocksDB."""
    store = fixture_store(TRAFFIC, tmp_path)
    rebuild.consume_queues(store, tmp_path / "new", store_type=StoreType.ROCKSDB)
    shutil.rmtree(store / QUEUES)
    (tmp_path / "new" / QUEUES).rename(store / QUEUES)
    rows = dict(rocksdb.rows_of(store / QUEUES, QUEUES)["default"])
    key = next(key for key in rows if SCHEDULE_TOPIC.encode() in key)
    unit = ROCKSDB_CQ_UNIT.parse(rows[key])
    unit["tags_code"] += change
    rocksdb.edit(store / QUEUES, put={key: ROCKSDB_CQ_UNIT.build(unit)})
    assert (codes, len(codes)) == checked(store)
