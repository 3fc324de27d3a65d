"""Random damages to RocksDB files, and what a validation makes of each.

    python -m tests.check.rocksdb.damage_campaign --count 1000 --seed 1

A damage must never end the process, never leave a store sound, and never cost a row without a
finding. Two damages leave what an earlier moment of the same database left, and nothing tells:

- a write-ahead log that ends after another of its records: its later writes are gone;
- a MANIFEST that ends after another of its edits, where each table file on the disk is one that
  the edits name, and each that they leave alive is on the disk. The lost edits then added no table:
  they dropped one, or moved a number. So no row is lost, which is compared, row by row; a lost edit
  that added a table is RD-ORPHAN, or RD-OPEN where a table that it replaced is gone.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import numpy as np

from rmqtool.errors import UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.store.place import Place
from rmqtool.store.rocksdb_manifest import read_log, read_manifest
from tests.check.validation import run
from tests.rocksdb import databases, rows_of
from tests.stores import broker_conf, fixture_store

FIXTURES: Final = (
    "rocketmq-5.3.3-rocksdb-crash",
    "rocketmq-5.5.0-rocksdb-crash",
    "rocketmq-5.5.0-rocksdb-single",
    "rocketmq-5.5.0-rocksdb-v2",
    "rocketmq-5.3.3-rocksdb-pop",
    "rocketmq-5.5.0-rocksdb-combined",
    "rocketmq-5.5.0-rocksdb",
    "rocketmq-5.5.0-rocksdb-store",
)
PATTERNS: Final = ("*.sst", "MANIFEST-*", "CURRENT", "*.log")
KINDS: Final = ("flip", "cut", "zeros", "noise", "remove", "append")


class Damaged(NamedTuple):
    """One damage, and what was found.

    Attributes:
        what: the damage, so that it can be done again.
        verdict: of the validation.
        codes: codes of warnings and damage.
        problem: what is wrong with the answer; empty when it is right.
    """

    what: str
    verdict: str
    codes: tuple[str, ...]
    problem: str


T = TypeVar("T")


def _one_of(rng: np.random.Generator, things: Sequence[T]) -> T:
    return things[int(rng.integers(len(things)))]


def damage(rng: np.random.Generator, store: Path) -> tuple[Path, str] | None:
    """Do one damage to one file of one database; None when it changes nothing that can be told."""
    directory = _one_of(rng, list(databases(store).values()))
    files = sorted(directory.glob(_one_of(rng, PATTERNS)))
    if not files:
        return None
    path = _one_of(rng, files)
    raw = path.read_bytes()
    kind = _one_of(rng, KINDS)
    changed = _changed(rng, kind, raw)
    if kind == "remove" and path.suffix != ".log":
        path.unlink()
    elif changed is None or changed == raw or not raw:
        return None
    else:
        path.write_bytes(changed)
        if path.suffix == ".log" and not read_log(Place.of(path), lambda *_: None).problem:
            return None  # cut after a record, or zeros appended: as if it had ended there
    return path, f"{kind} {path.relative_to(store).as_posix()}"


def _changed(rng: np.random.Generator, kind: str, raw: bytes) -> bytes | None:
    if not raw:
        return None
    position = int(rng.integers(len(raw)))
    length = int(rng.integers(1, 65))
    if kind == "flip":
        return (
            raw[:position]
            + bytes([raw[position] ^ 1 << int(rng.integers(8))])
            + raw[position + 1 :]
        )
    if kind == "cut":
        return raw[:position]
    if kind == "append":
        return raw + rng.bytes(length)
    if kind in {"zeros", "noise"}:
        part = raw[position : position + length]
        new = bytes(len(part)) if kind == "zeros" else rng.bytes(len(part))
        return raw[:position] + new + raw[position + length :]
    return None


Rows = list[tuple[str, bytes, bytes]]


def rows_at(path: str, directory: Path) -> Rows | None:
    """Read all rows of a database, with their families; None where that ends in an error."""
    try:
        rows = rows_of(directory, path)
    except UnreadablePath:
        return None
    return [(family, *pair) for family in sorted(rows) for pair in rows[family]]


def all_rows(store: Path) -> dict[str, Rows | None]:
    """Read all rows of each database."""
    return {path: rows_at(path, directory) for path, directory in databases(store).items()}


@cache
def rows_before(name: str) -> dict[str, Rows | None]:
    """Read all rows of a fixture, once."""
    with tempfile.TemporaryDirectory() as work:
        return all_rows(fixture_store(name, Path(work)))


def is_earlier(path: Path) -> bool:
    """Tell whether a MANIFEST ends after one of its edits, and names what is on the disk."""
    if not path.name.startswith("MANIFEST-") or not path.is_file():
        return False
    manifest = read_manifest(Place.of(path.parent))
    there = {int(table.stem) for table in path.parent.glob("*.sst")}
    return not manifest.problem and manifest.tables.keys() <= there <= manifest.named


def one(seed: int, work: Path) -> Damaged | None:
    """Do one damage, validate, and judge the answer; None when the damage changes nothing."""
    rng = np.random.default_rng(seed)
    name = _one_of(rng, FIXTURES)
    store = fixture_store(name, work)
    before = rows_before(name)
    done = damage(rng, store)
    if done is None:
        return None
    what = f"seed {seed}: {name}: {done[1]}"
    findings, _, summary = run(store, "full", broker_conf(name))
    codes = tuple(sorted({str(o.code) for o in findings if o.severity is not Severity.NOTE}))
    own = [o for o in findings if str(o.code).startswith(("RD-", "RQ-")) and o.code != "RQ-BEHIND"]
    problem = ""
    path = done[0].parent.relative_to(store).as_posix()
    after = before | {path: rows_at(path, done[0].parent)}  # of the others no file has changed
    if not own and is_earlier(done[0]) and before == after:
        return None
    if summary.verdict == "sound":
        problem = "the store is said to be sound"
    elif not own:
        problem = "nothing is said of the database"
    lost = [
        path for path, rows in before.items() if rows and len(after.get(path) or ()) < len(rows)
    ]
    if lost and not [o for o in own if any(path in o.path for path in lost)]:
        problem = f"rows of {lost} are missing without a finding"
    return Damaged(what, summary.verdict, codes, problem)


def main() -> int:
    """Do many damages; say what was found, and what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    verdicts: Counter[str] = Counter()
    codes: Counter[str] = Counter()
    problems: list[Damaged] = []
    seed = asked.seed
    while verdicts.total() < asked.count:
        work = Path(tempfile.mkdtemp(prefix="rmqtool-campaign-"))
        try:
            done = one(seed, work)
        finally:
            shutil.rmtree(work)
        seed += 1
        if done is None:
            continue
        verdicts[done.verdict] += 1
        sys.stderr.write(f"\r{verdicts.total()} damages, seed {seed}, {len(problems)} wrong")
        codes.update(done.codes)
        if done.problem:
            problems.append(done)
            sys.stdout.write(f"{done.what}: {done.problem}; {done.verdict}, {done.codes}\n")
    sys.stdout.write(f"{verdicts.total()} damages: {dict(verdicts)}\n{dict(codes)}\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
