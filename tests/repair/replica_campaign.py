"""Damage a store and its replica at random, repair one from the other, and see what is there.

    python -m tests.repair.replica_campaign [--seed N] [--first NUMBER] [--cases N] [--only NUMBER]

Each case is two copies of a fixture. One has one to four of the faults of `tests.repair.faults`,
the other none to three. After `repair A --from B` each record that either had undamaged lies at
its place, byte for byte; the replica is as it was; a second repair has nothing to do; and what a
validation still finds is named in the plan. A replica that has no log is refused, and the store is
repaired without it. Whether a real store delivers all of it says `tests.repair.broker.campaign
--replica`, of the same cases.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rmqtool import repair
from rmqtool.errors import UsageError
from rmqtool.repair.plans import Plan
from tests.evidence import snapshot
from tests.repair.advice import follow
from tests.repair.broker import damaged_case
from tests.repair.broker.damaged_case import Case

NUMBERS = re.compile(r"\b\d+\b")
DIFFER = "nothing tells which is damaged"
ADVICE_FOLLOWED = 4  # times, until nothing is asked any more


def problems(one: Case, counts: Counter[str]) -> Iterator[str]:
    """Repair a case in place; yield a text for each thing that is wrong.

    Args:
        one: a case with a replica.
        counts: what was seen is added.
    """
    assert one.replica is not None
    counts["cases"] += 1
    replica, before = one.replica, snapshot(one.replica)
    own, lent = one.truth.undamaged(one.root), one.truth.undamaged(one.replica)
    try:
        plan, again = _repaired(one, counts)
    except UsageError as error:
        if own & lent:
            yield f"REFUSED {one}\n    {error}"
            return
        counts["repaired alone: nothing is in both logs"] += 1
        one = replace(one, replica=None)
        plan, again = _repaired(one, counts)
    counts["repaired"] += 1
    counts["records lent"] += len(lent - own)
    counts["cases with a record lent"] += bool(lent - own)
    counts["bridges where neither has the record"] += sum(bool(edit.lost) for edit in plan.edits)
    gone = sorted((own | lent) - one.truth.undamaged(one.root))
    named = {int(at) for note in plan.notes if DIFFER in note for at in NUMBERS.findall(note)}
    counts["records that differ, and nothing tells which is damaged"] += len({*gone} & named)
    gone = [at for at in gone if at not in named]
    counts["every record that either has is there, or named"] += not gone
    if gone:
        kept = "own" if own & {*gone} else "lent"
        yield f"GONE {one}\n    {len(gone)} {kept}, {gone[:4]}: {plan.notes[:3]}"
    counts["second repair empty"] += not again.edits
    if again.edits:
        edits = [(edit.code, edit.path, edit.position) for edit in again.edits]
        yield f"AGAIN {one}\n    {edits[:6]}"
    is_left = {(left.code, left.path) for left in plan.left}
    finding = {(finding.code, finding.path) for finding in damaged_case.findings(one, one.root)}
    counts["what stays is in the plan"] += not finding - is_left
    if finding - is_left:
        yield f"STAYS {one}\n    {sorted(finding - is_left)[:6]}"
    if snapshot(replica) != before:
        yield f"WRITTEN {one}\n    the replica was changed"


def _repaired(one: Case, counts: Counter[str]) -> tuple[Plan, Plan]:
    """Repair a case in place, as the plan advises; give its plan and a second one."""
    plan = damaged_case.plan(one)
    for _ in range(ADVICE_FOLLOWED):
        if not follow(one.root, plan):
            break
        counts["advice followed"] += 1
        plan = damaged_case.plan(one)
    repair.apply(plan, in_place=True)
    return plan, damaged_case.plan(one)


def main() -> int:
    """Run a campaign; say what is wrong, then count."""
    parser = argparse.ArgumentParser(prog="python -m tests.repair.replica_campaign")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, metavar="NUMBER")
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this case only")
    asked = parser.parse_args()
    logging.disable()
    numbers = range(asked.first, asked.first + asked.cases)
    if asked.only is not None:
        numbers = range(asked.only, asked.only + 1)
    counts: Counter[str] = Counter()
    is_sound = True
    for number in numbers:
        with tempfile.TemporaryDirectory() as place:
            case = damaged_case.damaged(asked.seed, number, Path(place), has_replica=True)
            try:
                found = [*problems(case, counts)]
            except Exception:  # noqa: BLE001  (a campaign goes on, and says what it met)
                found = [f"CRASH {case}\n{traceback.format_exc()[-1500:]}"]
        for problem in found:
            sys.stdout.write(f"{problem}\n")
            sys.stdout.flush()
            is_sound = False
    for name, count in sorted(counts.items()):
        sys.stdout.write(f"{count:>10,}  {name}\n")
    return 0 if is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
