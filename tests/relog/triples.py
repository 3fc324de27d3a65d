"""Three replicas with random damages each, rebuilt into one log, again and again.

    python -m tests.relog.triples [--count 500] [--seed 0]

Of a store of a real 5.3.3 three copies get flipped bits and lost sectors of their own. Each message
that any of them has intact must be in the new log once; of what nothing tells, one copy is written
and its place is named. It prints how many records there were, how they were told apart, and each
seed that broke this; the exit code is 1 when one did.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from rmqtool.relog.options import LogOptions
from rmqtool.relog.report import LogResult
from rmqtool.relog.work import LogRun
from tests.plain_store import Record, records
from tests.stores import fixture_store
from tests.tables.test_content_hash import plain_hash

# ruff: noqa: T201 - a campaign prints
TRAFFIC: Final = "rocketmq-5.3.3-traffic"
SECTOR: Final = 512
MOST: Final = 5  # damages of a replica


class Triple(NamedTuple):
    """What became of three damaged replicas."""

    intact: int  # records that at least one of them has undamaged
    lost: int  # records that none of them has undamaged
    by_majority: int  # records whose right copy the majority told
    by_evidence: int  # records whose right copy queues, index or checksums told
    named: int  # records of which nothing tells the right copy
    broken: list[int]  # physical offsets that are not in the new log once, and are not named


def replicas(place: Path, count: int) -> list[Path]:
    """Give copies of a store."""
    first = fixture_store(TRAFFIC, place)
    copies = [place / f"replica-{number}" for number in range(count)]
    for copy in copies:
        shutil.copytree(first, copy)
    return copies


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


def triple(seed: int, place: Path) -> Triple:
    """Damage three replicas, and rebuild one log of them."""
    random = np.random.default_rng(seed)
    stores = replicas(place, 3)
    every = records(stores[0])
    for store in stores:
        damage(store, every, random)
    intact = [record for record in every if any(is_intact(store, record) for store in stores)]
    result, hashes = written(stores, place / "new")
    votes = result.votes
    assert votes is not None
    named = {*votes.untold}
    offsets = [one.integer("physical_offset") for one in intact if hashes[plain_hash(one)] != 1]
    broken = [offset for offset in offsets if offset not in named]
    # What none of them has undamaged is there once at most.
    assert len(every) >= hashes.total() >= len(intact), seed
    lost = len(every) - len(intact)
    return Triple(
        len(intact), lost, len(votes.by_majority), len(votes.by_evidence), len(named), broken
    )


def main() -> int:
    """Run the campaign; 1 when a triple broke what is promised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0, help="of the first triple")
    asked = parser.parse_args()
    results: dict[int, Triple] = {}
    for seed in range(asked.seed, asked.seed + asked.count):
        with tempfile.TemporaryDirectory() as name:
            results[seed] = triple(seed, Path(name))
        if results[seed].broken:
            print(f"seed {seed}: not there once: {results[seed].broken}")
    broken = sum(bool(result.broken) for result in results.values())
    total = [
        sum(column) for column in zip(*(result[:-1] for result in results.values()), strict=True)
    ]
    names = dict(zip(Triple._fields, total, strict=False))
    print(f"{asked.count} triples from seed {asked.seed}: {names}; {broken} broke what is promised")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
