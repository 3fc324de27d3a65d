"""Damages that a campaign has found and that are not foretold, or not mended: see docs/limits.md.

Each is as small as it still fails, or the case of the campaign as it was. Who mends one moves it to
the tests of what it was. A seed is another case once `tests.repair.faults` draws otherwise.
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


OPEN: dict[str, tuple[str, Callable[[Path], None]]] = {
    "a batch queue all of whose records are lost": (
        "rocketmq-5.3.3-batch-queue",
        _batches_zeroed,
    ),
}


@pytest.mark.xfail(strict=True, reason="open: docs/limits.md")
@pytest.mark.parametrize("what", OPEN)
def test_open(what: str, tmp_path: Path) -> None:
    """A real store does what is said of it, and delivers after a repair what it held."""
    _judge_one(what, *OPEN[what], tmp_path)


def test_batch_queue_past_the_log(tmp_path: Path) -> None:
    """The same holds where the log ends before all records of a batch queue."""
    cut = _zeroed("commitlog/00000000000000000000", 1024, 103424)
    _judge_one("cut", "rocketmq-5.3.3-batch-queue", cut, tmp_path)


def _judge_one(what: str, fixture: str, inflict: Callable[[Path], None], place: Path) -> None:
    root = fixture_store(fixture, place)
    truth = Truth.of(root)
    inflict(root)
    _judge(Case(0, 0, fixture, fixture.split("-")[1], root, truth, (what,)), place)


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
        (101, 677),
    ],
)
def test_seeds(seed: int, number: int, tmp_path: Path) -> None:
    """All that failed in 2,000 cases: what is mended, and what is open."""
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
