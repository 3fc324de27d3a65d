"""Replicas with damages of their own: each message that any of them has intact is there once."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from rmqtool.relog.options import LogOptions, QueueOffsets
from rmqtool.relog.work import LogRun
from tests.plain_store import Record, records
from tests.relog.triples import flip, replicas, triple, written
from tests.stores import broker_conf, fixture_store
from tests.tables.test_content_hash import plain_hash


def unique_key_at(record: Record) -> int:
    """Give the place of a byte of the unique key."""
    return record.raw.index(b"UNIQ_KEY\x01") + len("UNIQ_KEY\x01") + 20


@pytest.mark.parametrize("seed", range(5))
def test_random_damages(seed: int, tmp_path: Path) -> None:
    """What any of three has intact is there, once; what nothing tells is named."""
    result = triple(seed, tmp_path)
    assert result.intact
    assert [] == result.broken


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


def test_each_of_three_is_different(tmp_path: Path) -> None:
    """Where two of three copies have a damage of their own, the whole one is taken.

    One has another queue offset, which the queues deny; the other a bit that nothing checks.
    """
    stores = replicas(tmp_path, 3)
    every = [one for one in records(stores[0]) if one.topic.startswith("traffic-orders")]
    before = Counter(map(plain_hash, records(stores[0])))
    record = every[300]
    flip(stores[0], record, record.places()["queue_offset"][0] + 7, 6)
    flip(stores[2], record, record.size - 2, 6)
    result, found = written(stores, tmp_path / "new")
    assert result.votes is not None
    assert [record.integer("physical_offset")] == result.votes.by_evidence
    assert before == found


@pytest.mark.parametrize("place", ["commitlog", "compaction"])
def test_compaction_stores(place: str, tmp_path: Path) -> None:
    """Replicas with compaction topics give the log of a sound one, wherever each is damaged."""
    name = "rocketmq-5.3.3-compaction-run"
    first = fixture_store(name, tmp_path)
    conf = str(broker_conf(name))
    LogRun(LogOptions((str(first),), str(tmp_path / "sound"), broker_conf=conf)).run()
    expected = Counter(map(plain_hash, records(tmp_path / "sound")))
    stores = []
    for number in range(3):
        shutil.copytree(first, tmp_path / f"replica-{number}")
        stores.append(tmp_path / f"replica-{number}")
        files = [path for path in (stores[-1] / place).rglob("0*") if path.is_file()]
        raw = bytearray(files[0].read_bytes())
        raw[400 * (number + 1)] ^= 1 << number
        files[0].write_bytes(raw)
    options = LogOptions(tuple(map(str, stores)), str(tmp_path / "new"), broker_conf=conf)
    LogRun(options).run()
    found = Counter(map(plain_hash, records(tmp_path / "new")))
    assert expected.total() == found.total()
    assert expected == found


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
