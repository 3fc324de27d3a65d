"""Kill a repair of log and queues in RocksDB before each call that changes something.

    python -m tests.repair.rocksdb_kills [--step 1]

Both are one transaction. Finished after a kill, the log and the database are both the old ones or
both the new ones; one undo gives the store as it was, bytes and times. What is not so is printed,
then how often it was killed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final
from unittest import mock

from rmqtool import repair
from rmqtool.errors import RepairError
from rmqtool.writing.lock import StoreLock
from rmqtool.writing.undo import resume
from tests import inflict
from tests.repair.repaired import traces
from tests.store.faults import killed_at
from tests.stores import broker_conf, fixture_store

# ruff: noqa: T201 - a program that prints
NAME: Final = "rocketmq-5.5.0-rocksdb"
OLD: Final[frozenset[str]] = frozenset()
NEW: Final = frozenset({"commitlog", "consumequeue"})
FEWEST: Final = 40  # calls that such a repair makes


def wrong_after(work: Path, step: int) -> Iterator[tuple[int, str]]:
    """Kill at each call; yield its number, and what is wrong after it, or nothing."""
    was, store = fixture_store(NAME, work), work / "repaired"
    inflict.flip_field("body")(was)
    shutil.copytree(was, store)
    before, ends, number = traces(store), set(), 0
    plan = repair.plan(store, broker_conf=str(broker_conf(NAME)))
    while killed_at(number, lambda: repair.apply(plan, in_place=True)):
        wrong = ""
        if number % 2:
            with StoreLock(store) as lock:
                resume(lock)
            now = traces(store)
            paths = before.keys() | now.keys()
            changed = {path for path in paths if before.get(path) != now.get(path)}
            end = frozenset(path.partition("/")[0] for path in changed)
            ends.add(end)
            wrong = "" if end in {OLD, NEW} else f"only {sorted(end)} is new"
        with suppress(RepairError):  # nothing was changed yet
            repair.undo(store)
        if before != traces(store):
            wrong = f"{wrong} not as it was"
        yield number, wrong
        shutil.rmtree(store)
        shutil.copytree(was, store)
        number += step
    if ends != {OLD, NEW} or number < FEWEST:
        yield number, f"the seam was not seen: {ends}"


def main() -> int:
    """Print what is wrong, then how often the repair was killed; 1 when anything is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--step", type=int, default=1)
    asked = parser.parse_args()
    kills = wrong = 0
    with (
        tempfile.TemporaryDirectory() as work,
        mock.patch.object(StoreLock, "_others", return_value=[]),
    ):
        for number, what in wrong_after(Path(work), asked.step):
            kills += 1
            if what:
                wrong += 1
                print(f"call {number}: {what}")
    print(f"{kills} kills | {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
