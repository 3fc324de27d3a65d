"""Replicas with damages of their own: each message that any of them has intact is there once."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from rmqtool.relog.options import LogOptions, QueueOffsets
from rmqtool.relog.report import LogResult
from rmqtool.relog.work import LogRun
from tests.plain_store import Record, records
from tests.stores import fixture_store
from tests.tables.test_content_hash import plain_hash

TRAFFIC: Final = "rocketmq-5.3.3-traffic"
SECTOR: Final = 512
MOST: Final = 5  # damages of a replica


def replicas(tmp_path: Path, count: int) -> list[Path]:
    """Give copies of a store."""
    first = fixture_store(TRAFFIC, tmp_path)
    paths = [tmp_path / f"replica-{number}" for number in range(count)]
    for place in paths:
        shutil.copytree(first, place)
    return paths


def flip(store: Path, record: Record, at: int, bit: int = 0) -> None:
    """Flip a bit of a record."""
    path = store / "commitlog" / record.path.name
    raw = bytearray(path.read_bytes())
    raw[record.position + at] ^= 1 << bit
    path.write_bytes(raw)


def damage(store: Path, every: list[Record], random: np.random.Generator) -> None:
    """Flip bits of some records, and lose a sector."""
    for _ in range(random.integers(MOST)):
        record = every[random.integers(len(every))]
        flip(store, record, int(random.integers(record.size)), int(random.integers(8)))
    if random.random() < 0.5:
        record = every[random.integers(len(every))]
        path = store / "commitlog" / record.path.name
        raw = bytearray(path.read_bytes())
        begin = record.position // SECTOR * SECTOR
        raw[begin : begin + SECTOR] = bytes(SECTOR)
        path.write_bytes(raw)


def is_intact(store: Path, record: Record) -> bool:
    """Say whether a replica has a record byte for byte."""
    raw = (store / "commitlog" / record.path.name).read_bytes()
    return raw[record.position : record.position + record.size] == record.raw


def written(stores: list[Path], output: Path) -> tuple[LogResult, Counter[int]]:
    """Write a new log; give the hashes of its records, without what their places change."""
    options = LogOptions(tuple(map(str, stores)), str(output))
    result = LogRun(options).run()
    return result, Counter(map(plain_hash, records(output)))


def unique_key_at(record: Record) -> int:
    """Give the place of a byte of the unique key."""
    return record.raw.index(b"UNIQ_KEY\x01") + len("UNIQ_KEY\x01") + 20


@pytest.mark.parametrize("seed", range(5))
def test_random_damages(seed: int, tmp_path: Path) -> None:
    """What any of three has intact is there, once; what nothing tells is named."""
    random = np.random.default_rng(seed)
    stores = replicas(tmp_path, 3)
    every = records(stores[0])
    for store in stores:
        damage(store, every, random)
    intact = [record for record in every if any(is_intact(store, record) for store in stores)]
    result, found = written(stores, tmp_path / "new")
    assert result.votes is not None
    named = {*result.votes.untold}
    missing = [
        record.integer("physical_offset") for record in intact if found[plain_hash(record)] != 1
    ]
    assert {*missing} <= named
    assert len(every) - len(intact) >= found.total() - len(intact) >= 0


@pytest.mark.parametrize("damaged", [0, 1])
def test_two_replicas(damaged: int, tmp_path: Path) -> None:
    """Of two, index and queues tell which unique key and which queue offset are right."""
    stores = replicas(tmp_path, 2)
    every = [record for record in records(stores[0]) if record.topic.startswith("traffic-orders")]
    before = Counter(map(plain_hash, records(stores[0])))
    flip(stores[damaged], every[100], unique_key_at(every[100]))
    flip(stores[damaged], every[200], every[200].places()["queue_offset"][0] + 7, 4)
    flip(stores[damaged], every[300], every[300].places()["store_timestamp"][0] + 7)
    result, found = written(stores, tmp_path / "new")
    votes = result.votes
    offsets = [every[number].integer("physical_offset") for number in (100, 200, 300)]
    assert votes is not None
    assert ([], offsets[:2], offsets[2:], True) == (*votes,)
    assert result.is_damaged
    assert found.total() == before.total()
    assert (damaged == 1) == (found == before)


def test_strangers_have_no_vote(tmp_path: Path) -> None:
    """A store of another broker at the same offsets is another log: all its records are written."""
    (stores := replicas(tmp_path, 2))[0].exists()
    (tmp_path / "other").mkdir()
    other = fixture_store("rocketmq-5.5.0-traffic", tmp_path / "other")
    record = records(stores[0])[40]
    flip(stores[0], record, record.places()["born_timestamp"][0] + 7)
    options = LogOptions(
        (str(stores[0]), str(other), str(stores[1])),
        dry_run=True,
        queue_offsets=QueueOffsets.RENUMBER,
    )
    result = LogRun(options).run()
    assert result.votes is not None
    assert [record.integer("physical_offset")] == [*result.votes.by_evidence, *result.votes.untold]
