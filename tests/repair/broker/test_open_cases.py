"""Damages that campaigns have found and that were not foretold, or not mended.

Each is as small as it still failed, or the case of the campaign as it was. One that is open is an
expected failure, and stands in docs/limits.md. A seed is another case once `tests.repair.faults`
draws otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import plain_store
from tests.broker.jvm import Jvm
from tests.inflict import write_at
from tests.repair.broker.campaign import Judge
from tests.repair.broker.damaged_case import Case, damaged
from tests.repair.broker.survivors import Truth
from tests.stores import fixture_store

pytestmark = pytest.mark.broker


def _zeroed(path: str, begin: int, end: int) -> Callable[[Path], None]:
    """Fill a stretch of a file with zeros."""

    def inflict(store: Path) -> None:
        with (store / path).open("r+b") as file:
            file.seek(begin)
            file.write(bytes(end - begin))

    return inflict


def _batches_zeroed(store: Path) -> None:
    for record in plain_store.records(store):
        if (store / "batchconsumequeue" / record.topic).is_dir():
            write_at(record.path, record.position, bytes(record.size))


LOST: dict[str, Callable[[Path], None]] = {
    "and the log goes on": _batches_zeroed,
    "and the log ends there": _zeroed("commitlog/00000000000000000000", 1024, 103424),
}


@pytest.mark.parametrize("how", LOST)
def test_batch_queue_without_records(how: str, tmp_path: Path) -> None:
    """A real store does what is said of one that has lost all its records, and takes new ones."""
    name = "rocketmq-5.3.3-batch-queue"
    root = fixture_store(name, tmp_path)
    truth = Truth.of(root)
    LOST[how](root)
    _judge(Case(0, 0, name, name.split("-")[1], root, truth, (how,)), tmp_path)


@pytest.mark.parametrize(
    ("seed", "number"),
    [
        (41, 87),
        (101, 206),
        (101, 975),
        (102, 420),
        (101, 747),
        (101, 825),
        (102, 783),
        (3001, 59),
        (3001, 809),
        (3001, 1131),
        (3001, 1355),
        (3101, 953),
        (3101, 1841),
        (3301, 265),
        (3401, 344),
        (3403, 145),
        (3403, 191),
        (3403, 334),
        (3701, 640),
        (3801, 338),
        (5001, 71),
        (5003, 39),
        (5101, 439),
        (5203, 159),
        (5201, 299),
        (6401, 248),
        (6501, 161),
        (7101, 212),
        (101, 677),
    ],
)
def test_seeds(seed: int, number: int, tmp_path: Path) -> None:
    """All that failed in thousands of cases."""
    _judge(damaged(seed, number, tmp_path), tmp_path)


@pytest.mark.parametrize(
    ("seed", "number"), [(2902, 54), (2902, 55), (3002, 33), (3002, 75), (3002, 79)]
)
def test_seeds_in_rocksdb(seed: int, number: int, tmp_path: Path) -> None:
    """The same of stores with queues in RocksDB."""
    _judge(damaged(seed, number, tmp_path, in_rocksdb=True), tmp_path)


def _judge(one: Case, tmp_path: Path) -> None:
    home, beside = tmp_path / "home", tmp_path / "beside"
    home.mkdir()
    beside.mkdir()
    with Jvm(one.release, home) as jvm:
        problems = [*Judge({one.release: jvm}).problems(one, beside)]
    assert not problems
