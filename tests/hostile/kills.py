"""Kill each command that writes before each call that changes something.

    python -m tests.hostile.kills [--work repair undo send] [--how killed full broken] [--step 1]

`full` and `broken` let the call fail instead, as a full or a broken disk does. After a repair, an
undo and a rebuild in the store, `undo`, as often as there is something to take back, has to give
the store as it was: bytes, owners, modes, times; and nothing outside of it has changed. What other
commands have to leave is said in `outputs.py`. What is not so is printed, then a table.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from rmqtool.errors import RmqtoolError
from rmqtool.repair import undo
from tests.hostile import outputs
from tests.hostile.races import ROCKSDB, WORKS, Race, races
from tests.hostile.stranger import look
from tests.store.faults import Faults, killed_at, operations

# ruff: noqa: T201 - a program that prints
HOW: Final = ("killed", *outputs.FAILING)
ALL: Final = (*WORKS, *outputs.OUTPUTS)
MOST_UNDOS: Final = 3
OURS: Final = ("lock", "rmqtool-", ".")  # a broker makes its lock, and so do we
Facts = dict[str, tuple[int, tuple[int, int], int, str]]


def facts(store: Path) -> Facts:
    """Give mode, owner, mtime and digest of all that is the store's own."""
    return {
        name: (one.mode, one.owner, one.mtime_ns, one.content)
        for name, one in look(store, reads=True).items()
        if not name.startswith(OURS)
    }


def take_back(store: Path) -> None:
    """Finish what was interrupted, and take back whatever there is."""
    for _ in range(MOST_UNDOS):
        with suppress(RmqtoolError):
            undo(store)


def wrong_after(race: Race, how: str, begin: int = 0, step: int = 1) -> tuple[int, list[str]]:
    """Do the work once for each call of it, which is the last one, or fails.

    Returns:
        How many calls were tried, and what was not as it has to be.
    """
    store, wrong, tries = race.made.store, [], 0
    race.prepare()
    count = operations(race.go)
    take_back(store)
    race.prepare()
    if race.work.removeprefix(ROCKSDB) == "undo":
        take_back(store)
    before = facts(store)
    for number in range(begin % step, count, step):
        race.prepare()
        if how == "killed":
            tries += killed_at(number, race.go)
        else:
            with Faults(number, outputs.FAILING[how]).injected():
                race.go()
            tries += 1
        take_back(store)
        left = sorted(path.name for path in store.iterdir() if path.name.startswith("rmqtool-"))
        if left or before != facts(store):
            names = sorted(dict(before.items() ^ facts(store).items()))
            wrong.append(f"call {number}: not as it was: {[*left, *names][:5]}")
        if not race.is_whole_outside():
            wrong.append(f"call {number}: something outside has changed")
    return tries, wrong


def tried(work: str, how: str, step: int) -> tuple[int, list[str]]:
    """Give how many calls were tried, and what was not as it has to be."""
    if work in WORKS:
        with races(work) as race:
            return wrong_after(race, how, 0, step)
    with outputs.output_of(work) as output:
        return outputs.wrong_of(output, how, 0, step)


def main() -> int:
    """Print what is not as it has to be, then a table of what was tried; 1 when there is any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", nargs="+", choices=ALL, default=[*ALL])
    parser.add_argument("--how", nargs="+", choices=HOW, default=[*HOW])
    parser.add_argument("--step", type=int, default=1)
    asked = parser.parse_args()
    failed = 0
    for work in asked.work:
        for how in asked.how:
            tries, wrong = tried(work, how, asked.step)
            for what in wrong:
                print(f"{work} | {how} | {what}")
            print(f"{work} | {how} | {tries:,} calls | {len(wrong):,} wrong", flush=True)
            failed += len(wrong)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
