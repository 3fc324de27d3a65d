"""Damage stores at random, and let real message stores judge all that is said and done about them.

    python -m tests.repair.broker.campaign [--seed N] [--cases N] [--only NUMBER]
        [--release V ...] [--patience SECONDS]

Each case is a copy of a fixture with one to four of the faults of `tests.repair.faults`, as it was
left by a clean stop or a crash. Asked of each: does `validate` say that it is sound although a real
store loses something; is what a start does predicted exactly; does a real store deliver, after
`repair`, each message that is undamaged, and take a new one; is a second repair empty; is what
stays named in the plan. A line for each failure says how to see it again, the table counts them;
the exit code is 1 when there was one.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import re
import shutil
import sys
import tempfile
import threading
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, TextIO

import numpy as np
from py4j.protocol import Py4JJavaError

from rmqtool import repair
from rmqtool.broker.release import Version
from rmqtool.broker.rules import Rules
from rmqtool.check.options import CheckLevel, ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.errors import RmqtoolError
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.finding import Finding
from rmqtool.formats.message import MESSAGE_MAGIC_BYTES
from rmqtool.repair.plans import Plan
from rmqtool.repair.remedies import NO_LOG
from rmqtool.startup import Prediction
from tests import plain_store
from tests.broker.jars import VERSIONS
from tests.broker.jvm import Jvm
from tests.repair import faults
from tests.repair.broker import survivors
from tests.repair.broker.reading import OpenStore
from tests.repair.broker.survivors import QueueKey, Truth
from tests.repair.broker.test_all_damages import put_one
from tests.startup.compare import differences
from tests.startup.oracle import Oracle, files_of
from tests.startup.test_against_stores import ALWAYS, foretell
from tests.stores import broker_conf, fixture_names, fixture_store, manifest

SCENARIOS: Final = ("traffic", "crash", "expired", "lmq", "batch-queue", "timer", "ext", "ipv6")
BESIDE: Final = ("config/", "timer")  # read by the broker, and not by its message store
PATIENCE_SECONDS: Final = 90
ADVICE_FOLLOWED: Final = 4  # times, until nothing is asked any more
HEAP_BYTES: Final = 1 << 30  # many stores are opened in one process
CROSS: Final = 8  # one case in so many is opened by another release
# A store that is stopped while its machine is busy leaves threads behind, each of which polls.
STORES_OF_A_PROCESS: Final = 50
SAID_EACH: Final = 100  # cases; then the counts so far go to stderr


@dataclass(frozen=True, slots=True)
class Case:
    """One damaged store.

    Attributes:
        seed: of the campaign.
        number: of the case.
        fixture: whose copy it is.
        release: of the message store that judges.
        root: of the store.
        truth: what the sound store holds.
        harms: what was done, a text each.
    """

    seed: int
    number: int
    fixture: str
    release: str
    root: Path
    truth: Truth
    harms: tuple[str, ...]

    def __str__(self) -> str:
        again = f"--seed {self.seed} --only {self.number}"
        return f"{again}: {self.fixture} for {self.release}: {'; '.join(self.harms)}"


def case(seed: int, number: int, into: Path, releases: tuple[str, ...] = VERSIONS) -> Case:
    """Copy a fixture and damage it; the same numbers give the same damage."""
    dice = np.random.default_rng((seed, number))
    names = [name for name in fixture_names() if name.endswith(SCENARIOS)]
    fixture = faults.chosen(names, dice)
    own = fixture.split("-")[1]
    release = own if dice.integers(CROSS) else faults.chosen(VERSIONS, dice)
    if release not in releases:
        release = own
    root = fixture_store(fixture, into)
    truth = Truth.of(root)
    if dice.integers(2):
        (root / "abort").touch()
    harms = faults.harm(root, dice, int(faults.chosen((1, 1, 2, 3, 4), dice)))
    return Case(seed, number, fixture, release, root, truth, harms)


@dataclass(slots=True)
class Judge:
    """Real message stores of each release, and what they have said so far."""

    jvms: dict[str, Jvm]
    counts: Counter[str]
    patience: int = PATIENCE_SECONDS

    def problems(self, one: Case, beside: Path) -> Iterator[str]:
        """Judge one case; yield a text for each thing that is wrong."""
        self.counts["cases"] += 1
        self.counts["undamaged messages"] += _total(one.truth.expected(one.root))
        jvm = self.jvms[one.release]
        patience = threading.Timer(self.patience, jvm.halt)
        patience.start()
        try:
            yield from self._start(one, beside)
            yield from self._repair(one)
        except Exception:  # noqa: BLE001  (a campaign goes on, and says what it met)
            kind = "CRASH" if jvm.is_running else "HANGS"
            self.counts[kind.lower()] += 1
            yield f"{kind} {one}\n{traceback.format_exc()[-1500:]}"
        finally:
            patience.cancel()

    def _start(self, one: Case, beside: Path) -> Iterator[str]:
        """Hold what is said of the damaged store against what a real store does with it."""
        settings = {**manifest(one.fixture)["settings"], **ALWAYS}
        opened = beside / "opened" / "store"
        shutil.copytree(one.root, opened)
        try:
            prediction = _foretold(one)
        except RmqtoolError:
            self.counts["start not predicted"] += 1
            return
        if any(refusal.path.startswith(BESIDE) for refusal in prediction.refusals):
            self.counts["refused for what a store alone does not read"] += 1
            return
        expected = {(queue.topic, queue.queue_id): queue.readable for queue in prediction.queues}
        seen = Oracle(self.jvms[one.release]).observe(opened, settings, expected)
        wrong = differences(prediction, files_of(one.root), seen)
        self.counts["starts predicted exactly"] += not wrong
        if wrong:
            yield "\n    ".join([f"START {one}", *wrong[:8]])
        lost = _total(one.truth.expected(one.root)) - sum(seen.delivered.values())
        self.counts["delivered without repair"] += sum(
            min(seen.delivered.get(key, 0), len(queue))
            for key, queue in one.truth.expected(one.root).items()
        )
        if (not seen.loaded or lost > 0) and not _findings(one, one.root):
            self.counts["said to be sound"] += 1
            yield f"FINE {one}\n    loads: {seen.loaded}, messages out of reach: {lost}"

    def _repair(self, one: Case) -> Iterator[str]:
        """Repair in place; let a real store deliver what is there, and take a message."""
        expected = one.truth.expected(one.root)
        plan = _plan(one)
        for _ in range(ADVICE_FOLLOWED):
            if not _follow(one, plan):
                break
            self.counts["advice followed"] += 1
            plan = _plan(one)
        is_left = {(left.code, left.path) for left in plan.left}
        repair.apply(plan, in_place=True)
        stays = {(found.code, found.path) for found in _findings(one, one.root)} - is_left
        if stays:
            self.counts["stays, and is not in the plan"] += 1
            yield f"STAYS {one}\n    {sorted(stays)[:6]}"
        again = _plan(one)
        if again.edits:
            self.counts["second repair not empty"] += 1
            edits = [(edit.code, edit.path, edit.position) for edit in again.edits]
            yield f"AGAIN {one}\n    {edits[:6]}"
        yield from self._open(one, plan, expected)

    def _open(self, one: Case, plan: Plan, expected: dict[QueueKey, list[int]]) -> Iterator[str]:
        if any(left.why == NO_LOG for left in plan.left):
            self.counts["no commitlog, as the plan says"] += 1
            return
        is_told = _has_unreadable(one, expected) and not _foretold(one).is_whole
        opened = survivors.open_store(self.jvms[one.release], one.root, one.fixture)
        if not opened.loads or opened.behind:
            self.counts["does not start after repair"] += 1
            left = [f"{left.code} {left.path}: {left.why}" for left in plan.left]
            yield "\n    ".join([f"REFUSED {one}", *left[:6]])
            opened.close_later()
            return
        delivered = dict(survivors.delivered(opened, one.truth))
        missing = {key: len({*wanted} - {*delivered[key]}) for key, wanted in expected.items()}
        # Asked for offset 0, MappedFileQueue#findMappedFileByOffset gives the oldest file.
        oldest = min(
            (record.physical_offset for record in plain_store.records(one.root)), default=0
        )
        known = {
            key: {*queue, *([oldest] if 0 in queue else ())}
            for key, queue in one.truth.queues.items()
        }
        strange = {key: len({*got} - known[key]) for key, got in delivered.items()}
        self.counts["delivered after repair"] += _total(expected) - sum(missing.values())
        if any(missing.values()) and is_told:
            self.counts["stores with records that their release cannot read, as predicted"] += 1
            opened.close_later()
            return
        if any(missing.values()):
            self.counts["undamaged messages lost"] += 1
            given_up = any("given up" in edit.lost for edit in plan.edits)
            yield f"LOST {one}\n    {_some(missing)}{', given up in the plan' if given_up else ''}"
        if any(strange.values()):
            self.counts["delivers what no queue held"] += 1
            yield f"STRANGE {one}\n    {_some(strange)}"
        yield from self._put(one, opened)
        opened.close_later()

    def _put(self, one: Case, opened: OpenStore) -> Iterator[str]:
        try:
            new = put_one(self.jvms[one.release], opened, one.truth)
        except (Py4JJavaError, AssertionError, TimeoutError, StopIteration) as error:
            self.counts["takes no new message"] += 1
            yield f"PUT {one}\n    {str(error)[:300]}"
            return
        for key, physical_offset in new.items():
            if physical_offset not in opened.all_of(*key)[-1:]:
                self.counts["new message not delivered"] += 1
                yield f"NEW {one}\n    {key}: not delivered last"


def _has_unreadable(one: Case, expected: dict[QueueKey, list[int]]) -> bool:
    """Tell whether a release is older than some of the records: it takes V2 for the log's end."""
    raws = (one.truth.records[place].raw for queue in expected.values() for place in queue)
    known = 1 + Rules(Version.parse(one.release)).has_v2
    return any(raw[4:8] not in MESSAGE_MAGIC_BYTES[:known] for raw in raws)


def _foretold(one: Case) -> Prediction:
    settings = {**manifest(one.fixture)["settings"], **ALWAYS}
    return foretell(one.root, one.release, settings, HEAP_BYTES)


def _follow(one: Case, plan: Plan) -> bool:
    """Do what the plan asks a person to do first, where it is about names of commitlog files."""
    for left in plan.left:
        paths = [one.root / name for name in re.findall(r"commitlog/\d+", left.why)]
        if left.why.startswith("first exchange the names of "):
            aside = one.root / "aside"
            paths[0].rename(aside)
            paths[1].rename(paths[0])
            aside.rename(paths[1])
        elif found := re.match(r"first rename \S+ to (\d+)", left.why):
            assert not paths[0].with_name(found[1]).exists(), "never a name that is there"
            paths[0].rename(paths[0].with_name(found[1]))
        elif left.why.startswith("first move commitlog/"):
            paths[0].unlink()
        else:
            continue
        return True
    return False


def _total(queues: dict[QueueKey, list[int]]) -> int:
    return sum(map(len, queues.values()))


def _some(counts: dict[QueueKey, int]) -> str:
    return ", ".join(f"{key}: {count}" for key, count in counts.items() if count)[:400]


def _findings(one: Case, root: Path) -> list[Finding]:
    """Validate; give what is worse than a note."""
    options = ValidateOptions(
        root, broker_conf=_conf(one.fixture), broker_version=one.release, level=CheckLevel.FULL
    )
    return [found for found in validate(options) if found.severity is not Severity.NOTE]


def _plan(one: Case) -> Plan:
    return repair.plan(
        one.root,
        broker_version=one.release,
        broker_conf=_conf(one.fixture),
        bridge_missing=True,
        clamp_offsets=True,
    )


@cache
def _conf(fixture: str) -> str:
    return str(broker_conf(fixture))


def campaign(asked: argparse.Namespace, counts: Counter[str]) -> Iterator[str]:
    """Judge cases one after the other; yield what is wrong."""
    releases = tuple(asked.release or VERSIONS)
    numbers = [asked.only] if asked.only is not None else range(asked.cases)
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        judge = Judge({}, counts, asked.patience)
        opened: Counter[str] = Counter()
        for number in numbers:
            into = place / str(number)
            into.mkdir()
            one = case(asked.seed, number, into, releases)
            if one.release in releases:
                there = judge.jvms.get(one.release)
                if there is None or not there.is_running:
                    home = place / f"jvm-{number}"
                    home.mkdir()
                    jvm = stack.enter_context(
                        Jvm(one.release, home, options=(f"-Xmx{HEAP_BYTES}",))
                    )
                    judge.jvms[one.release] = jvm
                yield from judge.problems(one, into)
                opened[one.release] += 1
                if not opened[one.release] % STORES_OF_A_PROCESS:
                    judge.jvms[one.release].halt()
            shutil.rmtree(into, ignore_errors=True)
            if not (number + 1) % SAID_EACH:
                _say(counts, sys.stderr)


def main() -> int:
    """Run a campaign; say what is wrong, then count."""
    parser = argparse.ArgumentParser(prog="python -m tests.repair.broker.campaign")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this case only")
    parser.add_argument("--release", nargs="*", choices=VERSIONS, help="only stores for these")
    parser.add_argument("--patience", type=int, default=PATIENCE_SECONDS, metavar="SECONDS")
    asked = parser.parse_args()
    logging.disable()  # py4j tells the whole story of each process that was halted
    counts: Counter[str] = Counter()
    is_sound = True
    for problem in campaign(asked, counts):
        sys.stdout.write(f"{problem}\n")
        sys.stdout.flush()
        is_sound = False
    _say(counts, sys.stdout)
    return 0 if is_sound else 1


def _say(counts: Counter[str], stream: TextIO) -> None:
    stream.writelines(f"{count:>10,}  {name}\n" for name, count in sorted(counts.items()))
    stream.flush()


if __name__ == "__main__":
    sys.exit(main())
