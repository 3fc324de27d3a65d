"""Damage stores at random, and let real message stores judge all that is said and done about them.

    python -m tests.repair.broker.campaign [--seed N] [--first NUMBER] [--cases N]
        [--only NUMBER] [--release V ...] [--judged-by V] [--patience SECONDS] [--replica]
        [--without-stores] [--second-look] [--rocksdb]

Each case is a copy of a fixture with one to four of the faults of `tests.repair.faults`, as it was
left by a clean stop or a crash. Asked of each: does `validate` say that it is sound although a real
store loses something; is what a start does predicted exactly; does a real store deliver, after
`repair`, each message that is undamaged, and take a new one; is a second repair empty; is what
stays named in the plan. With `--replica` each is repaired from a second copy, sound or damaged
otherwise, and a real store has to deliver what either has undamaged; without it, if the replica is
refused as it has no log. A line for each failure says how to see it again, the table counts them.
With `--without-stores` nothing is opened: only a second repair and what stays are judged, in a
third of the time. With `--second-look` the repaired store takes more messages, is asked for keys,
and is stopped cleanly; what `validate` says then and did not say before counts, and so does each
message that a key gives and that has not got it. With `--rocksdb` stores with something in RocksDB
are damaged. The exit code is 1 when there was one. A run that
is ended by SIGTERM or Ctrl-C prints its table at once, and again after the case at work; `--first`
goes on with a later case.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Final

from py4j.protocol import Py4JJavaError

from rmqtool import repair
from rmqtool.check.queues.orphans import REFUSE
from rmqtool.errors import RmqtoolError, UsageError
from rmqtool.repair.plans import Plan
from rmqtool.repair.remedies import NO_LOG
from rmqtool.repair.state.config import BOTH_BROKEN
from rmqtool.startup import Prediction
from tests import plain_store
from tests.broker.client import wait_until
from tests.broker.jars import VERSIONS
from tests.broker.jvm import Jvm
from tests.repair.advice import follow
from tests.repair.broker import damaged_case, survivors
from tests.repair.broker.campaign_table import write_table
from tests.repair.broker.damaged_case import HEAP_BYTES, Case, Queues
from tests.repair.broker.reading import OpenStore
from tests.repair.broker.run_on import answers, put_more, records_of
from tests.repair.broker.survivors import QueueKey
from tests.repair.broker.test_all_damages import NEW_KEY, put_one
from tests.startup import rocks_oracle
from tests.startup.compare import differences, rocks_differences
from tests.startup.oracle import Oracle, files_of
from tests.startup.test_against_stores import ALWAYS
from tests.stores import manifest

BESIDE: Final = ("config/", "timer")  # read by the broker, and not by its message store
PATIENCE_SECONDS: Final = 600  # for a busy machine
ADVICE_FOLLOWED: Final = 4  # times, until nothing is asked any more
# A store that is stopped while its machine is busy leaves threads behind, each of which polls.
STORES_OF_A_PROCESS: Final = 50
DYING_SECONDS: Final = 2  # from the error of a call until its process has ended
TURNS: Final = 3  # for a case whose process died, not from patience
PORT_TAKEN: Final = "java.net.BindException"  # by another process: nothing of the store
# Starts of a store with queues in RocksDB: a thread writes what recovery dispatches, before or
# after next offsets are lowered, and so do these differ. RocksDBConsumeQueueStore#truncateDirty.
RACES: Final = 4
SAID_EACH: Final = 50  # cases; then the counts so far go to stderr


@dataclass(slots=True)
class Judge:
    """A real message store of each release, and what is counted of one case.

    Attributes:
        jvms: by release.
        patience: seconds for a case; its process is ended then.
        counts: of the case at work.
        has_died: whether its process ended early, by itself: stores that are being closed share
            it, and a file that one of them unmaps may be read by another of its threads.
        opens: whether stores are opened at all.
        looks_again: whether each is validated once more, after its store has run on.
    """

    jvms: dict[str, Jvm]
    patience: int = PATIENCE_SECONDS
    counts: Counter[str] = field(default_factory=Counter)
    has_died: bool = False
    opens: bool = True
    looks_again: bool = False

    def problems(self, one: Case, beside: Path) -> Iterator[str]:
        """Judge one case; yield a text for each thing that is wrong."""
        self.counts = Counter({"cases": 1})
        self.counts["undamaged messages"] = _total(one.expected())
        if not self.opens:
            yield from self._repair(one)
            return
        jvm = self.jvms[one.release]
        is_over = threading.Event()

        def end() -> None:
            is_over.set()
            jvm.halt()

        patience = threading.Timer(self.patience, end)
        patience.start()
        try:
            if one.replica is None:
                yield from self._start(one, beside)
            yield from self._repair(one)
        except Exception:  # noqa: BLE001  (a campaign goes on, and says what it met)
            time.sleep(DYING_SECONDS)
            is_lost = not jvm.is_running or PORT_TAKEN in traceback.format_exc()
            self.has_died = not is_over.is_set() and is_lost
            kind = "HANGS" if is_over.is_set() else "DIED" if self.has_died else "CRASH"
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
            prediction = damaged_case.foretold(one)
        except RmqtoolError:
            self.counts["start not predicted"] += 1
            return
        if any(refusal.path.startswith(BESIDE) for refusal in prediction.refusals):
            self.counts["refused for what a store alone does not read"] += 1
            return
        expected = {(queue.topic, queue.queue_id): queue.readable for queue in prediction.queues}
        jvm = self.jvms[one.release]
        if one.in_rocksdb:
            in_rocksdb = rocks_oracle.observe(jvm, opened, settings, expected)
            wrong = [*rocks_differences(prediction, in_rocksdb, settings)]
            for turn in range(RACES if wrong and not in_rocksdb.has_failed else 0):
                again = beside / f"again-{turn}" / "store"
                shutil.copytree(one.root, again)
                in_rocksdb = rocks_oracle.observe(jvm, again, settings, expected)
                if not [*rocks_differences(prediction, in_rocksdb, settings)]:
                    self.counts["differs from one start to the next; one was foretold"] += 1
                    wrong = []
                    break
            if in_rocksdb.has_failed and prediction.unread:
                self.counts["its database fails, which is said not to be read whole"] += 1
                return
            loaded = in_rocksdb.loaded
            delivered = {key: count for key, (*_, count) in in_rocksdb.queues.items()}
        else:
            seen = Oracle(jvm).observe(opened, settings, expected)
            wrong = differences(prediction, files_of(one.root), seen)
            loaded, delivered = seen.loaded, seen.delivered
        self.counts["starts judged"] += 1
        self.counts["starts predicted exactly"] += not wrong
        if wrong:
            yield "\n    ".join([f"START {one}", *wrong[:8]])
        lost = _total(one.truth.expected(one.root)) - sum(delivered.values())
        self.counts["delivered without repair"] += sum(
            min(delivered.get(key, 0), len(queue))
            for key, queue in one.truth.expected(one.root).items()
        )
        is_called_fine = (not loaded or lost > 0) and not damaged_case.findings(one, one.root)
        self.counts["not said to be sound, or is"] += not is_called_fine
        if is_called_fine:
            yield f"FINE {one}\n    loads: {loaded}, messages out of reach: {lost}"

    def _repair(self, one: Case) -> Iterator[str]:
        """Repair in place; let a real store deliver what is there, and take a message."""
        expected = one.expected()
        try:
            plan = damaged_case.plan(one)
        except UsageError:
            if one.truth.undamaged(one.root) and one.replica and one.truth.undamaged(one.replica):
                raise
            self.counts["repaired alone: nothing is in both logs"] += 1
            one = replace(one, replica=None)
            plan = damaged_case.plan(one)
        for _ in range(ADVICE_FOLLOWED):
            if not follow(one.root, plan):
                break
            self.counts["advice followed"] += 1
            plan = damaged_case.plan(one)
        is_left = {(left.code, left.path) for left in plan.left}
        repair.apply(plan, in_place=True)
        stays = {
            (finding.code, finding.path) for finding in damaged_case.findings(one, one.root)
        } - is_left
        self.counts["repaired"] += 1
        self.counts["what stays is in the plan"] += not stays
        if stays:
            yield f"STAYS {one}\n    {sorted(stays)[:6]}"
        again = damaged_case.plan(one)
        self.counts["second repair empty"] += not again.edits
        if again.edits:
            edits = [(edit.code, edit.path, edit.position) for edit in again.edits]
            yield f"AGAIN {one}\n    {edits[:6]}"
        if self.opens:
            yield from self._open(one, plan, expected)

    def _open(self, one: Case, plan: Plan, expected: Queues) -> Iterator[str]:
        if any(left.why == NO_LOG for left in plan.left):
            self.counts["no commitlog, as the plan says"] += 1
            return
        foretold = damaged_case.foretold(one) if damaged_case.has_unreadable(one) else None
        opened = survivors.open_store(self.jvms[one.release], one.root, one.fixture)
        if not opened.loads and any(
            left.why == BOTH_BROKEN or left.message.endswith(REFUSE) for left in plan.left
        ):
            self.counts["refused, as the plan says"] += 1
            opened.close_later()
            return
        self.counts["opened after repair"] += 1
        if not opened.loads or opened.behind:
            left = [f"{left.code} {left.path}: {left.why}" for left in plan.left]
            yield "\n    ".join([f"REFUSED {one}", *left[:6]])
            opened.close_later()
            return
        self.counts["starts after repair"] += 1
        delivered, missing = _delivered(opened, one, expected)
        for _ in range(RACES if one.in_rocksdb else 0):
            if not any(missing.values()):
                break
            time.sleep(RACES)  # a broker writes units to RocksDB later than it says that it has
            delivered, missing = _delivered(opened, one, expected)
            self.counts["delivers all when it is asked again"] += not any(missing.values())
        self.counts["delivered after repair"] += _total(expected) - sum(missing.values())
        self.counts["all undamaged messages delivered"] += not any(missing.values())
        if any(missing.values()) and foretold is not None and _is_as(foretold, delivered):
            self.counts["records that their release cannot read, as predicted"] += 1
        else:
            yield from self._compare(one, plan, delivered, missing)
        before = damaged_case.findings(one, one.root) if self.looks_again else []
        yield from self._put(one, opened)
        if self.looks_again:
            yield from self._look_again(one, opened, {(it.code, it.path) for it in before})
        else:
            opened.close_later()

    def _look_again(
        self, one: Case, opened: OpenStore, before: set[tuple[str, str]]
    ) -> Iterator[str]:
        """Stop the store, which has taken more messages, and validate it."""
        put_more(self.jvms[one.release], opened, one.truth)
        by_key = [*answers(opened, one.truth)]
        opened.close()
        records = records_of(one.root)
        strangers = {f"{it.topic} {it.key}": it.strangers(records) for it in by_key}
        strangers = {key: places for key, places in strangers.items() if places}
        self.counts["run on after repair"] += 1
        self.counts["keys asked for"] += len(by_key)
        self.counts["no key gives a message of another"] += not strangers
        if strangers:
            yield f"KEYS {one}\n    {[*strangers.items()][:6]}"
        findings = damaged_case.findings(one, one.root)
        worse = [it for it in findings if (it.code, it.path) not in before]
        self.counts["as sound after the broker has run on"] += not worse
        if worse:
            seen = [f"{it.code} {it.path}: {it.message}" for it in worse]
            yield "\n    ".join([f"SECOND LOOK {one}", *seen[:6]])

    def _compare(
        self, one: Case, plan: Plan, delivered: Queues, missing: dict[QueueKey, int]
    ) -> Iterator[str]:
        # Asked for offset 0, MappedFileQueue#findMappedFileByOffset gives the oldest file.
        oldest = min(
            (record.physical_offset for record in plain_store.records(one.root)), default=0
        )
        known = {
            key: {*queue, *([oldest] if 0 in queue else ())}
            for key, queue in one.truth.queues.items()
        }
        strange = {key: len({*got} - known[key]) for key, got in delivered.items()}
        if any(missing.values()):
            given_up = any("given up" in edit.lost for edit in plan.edits)
            self.counts["undamaged messages lost, given up in the plan"] += given_up
            yield f"LOST {one}\n    {_some(missing)}{', given up in the plan' if given_up else ''}"
        if any(strange.values()):
            self.counts["delivers what no queue held"] += 1
            yield f"STRANGE {one}\n    {_some(strange)}"

    def _put(self, one: Case, opened: OpenStore) -> Iterator[str]:
        """Append a message; read it back, the last of its queue."""
        try:
            new = put_one(self.jvms[one.release], opened, one.truth)
        except (Py4JJavaError, AssertionError, TimeoutError, StopIteration) as error:
            yield f"PUT {one}\n    {str(error)[:300]}"
            return

        def is_last(key: QueueKey) -> bool:
            return opened.all_of(*key)[-1:] == [new[key]]

        if one.in_rocksdb:  # its queues are written by a thread of their own
            with contextlib.suppress(TimeoutError):
                wait_until(lambda: all(map(is_last, new)), "units")
        astray = [
            key for key in new if not is_last(key) or NEW_KEY not in _bytes_at(one.root, new[key])
        ]
        self.counts["new message appended and read back"] += not astray
        if astray:
            yield f"NEW {one}\n    {astray}: not delivered last, or not as it was sent"


def _delivered(
    opened: OpenStore, one: Case, expected: Queues
) -> tuple[Queues, dict[QueueKey, int]]:
    """Give what each queue delivers, and how many messages that it should are missing."""
    delivered = dict(survivors.delivered(opened, one.truth))
    return delivered, {key: len({*wanted} - {*delivered[key]}) for key, wanted in expected.items()}


def _is_as(foretold: Prediction, delivered: Queues) -> bool:
    """Tell whether a store gives what was foretold, and that is not all.

    Of a broker that would refuse for what a store alone does not read, nothing is foretold.
    """
    readable = {(queue.topic, queue.queue_id): queue.readable for queue in foretold.queues}
    counts = {key: len(queue) for key, queue in delivered.items()}
    is_so = bool(foretold.refusals) or counts == {key: readable.get(key, 0) for key in counts}
    return is_so and not foretold.is_whole


def _bytes_at(root: Path, physical_offset: int) -> bytes:
    """Read a record of a log."""
    starts = sorted((int(path.name), path) for path in (root / "commitlog").iterdir())
    start, path = next(found for found in reversed(starts) if found[0] <= physical_offset)
    rest = path.read_bytes()[physical_offset - start :]
    return rest[: int.from_bytes(rest[:4])]


def _total(queues: Queues) -> int:
    return sum(map(len, queues.values()))


def _some(counts: dict[QueueKey, int]) -> str:
    return ", ".join(f"{key}: {count}" for key, count in counts.items() if count)[:400]


def campaign(
    asked: argparse.Namespace, counts: Counter[str], ended: threading.Event
) -> Iterator[str]:
    """Judge cases one after the other, those whose process died again; yield what is wrong."""
    releases = (asked.judged_by,) if asked.judged_by else tuple(asked.release or VERSIONS)
    numbers = range(asked.first, asked.first + asked.cases)
    if asked.only is not None:
        numbers = range(asked.only, asked.only + 1)
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        judge = Judge(
            {},
            asked.patience,
            opens=not asked.without_stores,
            looks_again=asked.second_look,
        )
        opened: Counter[str] = Counter()
        for number in numbers:
            if ended.is_set():
                yield f"ended before case {number}"
                break
            for turn in range(TURNS):
                into = place / f"{number}-{turn}"
                into.mkdir()
                case = damaged_case.damaged(
                    asked.seed,
                    number,
                    into,
                    releases,
                    has_replica=asked.replica,
                    in_rocksdb=asked.rocksdb,
                )
                case = replace(case, release=asked.judged_by or case.release)
                if case.release not in releases:
                    break
                there = judge.jvms.get(case.release)
                if judge.opens and (there is None or not there.is_running):
                    home = place / f"jvm-{number}-{turn}"
                    home.mkdir()
                    judge.jvms[case.release] = stack.enter_context(
                        Jvm(case.release, home, options=(f"-Xmx{HEAP_BYTES}",))
                    )
                judge.has_died = False
                problems = [*judge.problems(case, into)]
                opened[case.release] += 1
                if judge.opens and not opened[case.release] % STORES_OF_A_PROCESS:
                    judge.jvms[case.release].halt()
                shutil.rmtree(into, ignore_errors=True)
                if not judge.has_died or turn == TURNS - 1:
                    counts.update(judge.counts)
                    yield from problems
                    break
                counts["process died, judged again"] += 1
            if not (number + 1) % SAID_EACH:
                write_table(counts, sys.stderr)


def main() -> int:
    """Run a campaign; say what is wrong, then count."""
    parser = argparse.ArgumentParser(prog="python -m tests.repair.broker.campaign")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, metavar="NUMBER")
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this case only")
    parser.add_argument("--release", nargs="*", choices=VERSIONS, help="only stores for these")
    parser.add_argument("--judged-by", metavar="V", help="all by this release, any from 4.9.3 on")
    parser.add_argument("--replica", action="store_true", help="repair each from a replica")
    parser.add_argument("--without-stores", action="store_true", help="open none of them")
    parser.add_argument("--second-look", action="store_true", help="validate after it has run")
    parser.add_argument("--rocksdb", action="store_true", help="stores with RocksDB")
    parser.add_argument("--patience", type=int, default=PATIENCE_SECONDS, metavar="SECONDS")
    asked = parser.parse_args()
    logging.disable()  # py4j tells the whole story of each process that was halted
    counts: Counter[str] = Counter()

    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        # No exception: py4j, in the middle of a call, would make another one of it.
        ended.set()
        write_table(counts, sys.stdout)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    is_sound = True
    for problem in campaign(asked, counts, ended):
        sys.stdout.write(f"{problem}\n")
        sys.stdout.flush()
        is_sound = False
    write_table(counts, sys.stdout)
    return 0 if is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
