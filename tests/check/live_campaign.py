"""Every reading command beside a real broker under load, again and again: is one ever wrong?

    python -m tests.check.live_campaign --version 5.3.3 --seconds 720 [--rocksdb]

`live_load` keeps the broker at work: files roll every few hundred messages, and the broker is asked
to delete expired ones. In each round all commands run, two at once, then nothing, then `validate`
alone. Wrong is an exit code other than 0, a finding above a note, and a message that was
acknowledged before and is not found. In the last quarter a byte of an old record is flipped: from
then on `validate` has to find it each time.

Commands are children of processes that have loaded all, as `tests.cli.loaded` forks them, and `sql`
has one process for all questions (`live_sql`); every so many runs are programs of their own.
Printed are the runs of each command, what was wrong, and how long a send took beside what, after
Ctrl-C, too. The exit code is 1 when something was wrong.
"""

from __future__ import annotations

import argparse
import itertools
import queue
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.broker.broker import SMALL_GEOMETRY, Broker, running_broker
from tests.broker.client import wait_until
from tests.check.live_judge import Done, Judge
from tests.check.live_load import GROUP, QUEUES, TOPIC, Load
from tests.check.live_sql import Answering
from tests.check.live_watch import follow, keep_watch
from tests.cli.loaded import Loaded
from tests.cli.run import COMMAND, Run, rmqtool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.broker.message import Sent

# ruff: noqa: T201 - a campaign prints
ROCKSDB: Final = {"storeType": "defaultRocksDB"}
# A 4.9.3 that deletes a topic deletes the queues of all that are not configured, and counts them
# from 0 again (CL-QOFF-BACK): this one is its own, and not configured (observed).
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
SETTLING_SECONDS: Final = 12  # a broker writes what groups have consumed each 5 s
ENOUGH: Final = 50  # messages that are acknowledged before the first command
LOOKED_UP: Final = 20_000  # of them, in what lists messages
AT_ONCE: Final = 2
HEAP: Final = ("-Xmx4g",)  # what Python was given of each message stays there
FRESH_EACH: Final = 19  # of the commands: in a program of its own
LENGTH: Final = struct.Struct(">84xi")  # of the body that follows, hosts being IPv4
DAMAGED: Final = 0.75  # of the time passes before a byte is flipped
LEAST_SECONDS: Final = 300
TOLD_EACH: Final = 10  # rounds, where nobody looks on
QUESTION: Final = (
    f"SELECT unique_key, segment, code FROM messages WHERE topic = '{TOPIC}' OR code IS NOT NULL"  # noqa: S608 - all of it is ours
)
COMMANDS: Final = {
    "validate": "validate STORE --level full --format jsonl",
    "validate deep": "validate STORE --level deep --format jsonl",
    "validate quick": "validate STORE --level quick --format jsonl",
    "dump": f"dump STORE --topic {TOPIC} --columns unique_key --format jsonl",
    "dump tail": "dump STORE --tail 500 --format jsonl",
    "dump queues": "dump STORE --as consume-queue --limit 500 --format jsonl",
    "dump all": "dump STORE --as all --limit 500 --format jsonl",
    "query key": f"query STORE --key KEY --topic {TOPIC}",
    "query id": "query STORE --id OFFSET_ID",
    "query unique": "query STORE --id UNIQUE",
    "query place": f"query STORE --topic {TOPIC} --queue QUEUE --queue-offset NUMBER",
    "query time": f"query STORE --topic {TOPIC} --time '2s ago' --format jsonl",
    "query group": f"query STORE --group {GROUP} --topic {TOPIC} --format jsonl",
    "info": "info STORE --format jsonl",
    "doctor": "doctor STORE --format json",
    "startup": "startup STORE",
    "rebuild": "rebuild STORE --check --format jsonl",
    "rebuild-cq": "rebuild-cq STORE --check --format jsonl",
    "rebuild-index": "rebuild-index STORE --check",
    "report": "report STORE --output NEW",
    "export": "export STORE --table messages --engine local --output NEW",
    "extract": f"extract STORE --topic {TOPIC} --output NEW.jsonl",
    "repair": "repair STORE --format json",
    "hash": "hash STORE --format jsonl",
    "export queues": "export STORE --table queue_units --engine local --output NEW",
    "rebuild-log": "rebuild-log STORE --output NEW",
    "diff": "diff STORE STORE --format json",
    "sql": f'sql STORE "{QUESTION}" --format jsonl',
}
WATCHES: Final = {"validate --every": keep_watch, "dump --follow": follow}


class Trial:
    """Runs commands beside a broker, and has what they say judged.

    Attributes:
        runs: of each command.
        seconds: that they took.
        judge: of what they say.
    """

    def __init__(
        self, broker: Broker, load: Load, work: Path, forkers: list[Loaded], answering: Answering
    ) -> None:
        self.runs: Counter[str] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.judge = Judge(broker.conf.parent / "store")
        self._load, self._work, self._conf = load, work, broker.conf
        self._store = broker.conf.parent / "store"
        self._forkers: queue.SimpleQueue[Loaded] = queue.SimpleQueue()
        for one in forkers:
            self._forkers.put(one)
        self._numbers = itertools.count(1)
        self._answering = answering

    def one(self, name: str) -> None:
        """Run a command."""
        before = self._load.acknowledged[-LOOKED_UP:]
        sent = before[-1]
        forker = self._forkers.get()
        try:
            with tempfile.TemporaryDirectory(dir=self._work) as directory:
                new = Path(directory) / "new"
                began = time.monotonic()
                done = self._run(forker, self._line(name, sent, new))
                self.seconds[name] += time.monotonic() - began
                self.judge.judge(Done(name, done, sent, before, new))
        except subprocess.TimeoutExpired as error:
            self.judge.note(f"{name}: no end after {error.timeout:.0f} s")
            forker = Loaded()
        finally:
            self._forkers.put(forker)
        self.runs[name] += 1

    def _line(self, name: str, sent: Sent, new: Path) -> list[str]:
        words = {
            "STORE": str(self._store),
            "KEY": sent.keys[0],
            "OFFSET_ID": sent.offset_message_id,
            "UNIQUE": sent.unique_key or "",
            "QUEUE": str(sent.queue_id),
            "NUMBER": str(sent.queue_offset),
            "NEW": str(new),
            "NEW.jsonl": f"{new}.jsonl",
        }
        line = [words.get(one, one) for one in shlex.split(COMMANDS[name])]
        return line if name == "diff" else [*line, "--broker-conf", str(self._conf)]

    def _run(self, forker: Loaded, line: list[str]) -> Run:
        if next(self._numbers) % FRESH_EACH:
            is_sql = line[0] == "sql"
            return self._answering.run(line) if is_sql else rmqtool(*line, by=forker)
        done = subprocess.run([*COMMAND, *line], capture_output=True, check=False)  # noqa: S603
        return Run(done.returncode, done.stdout, done.stderr.decode())

    def round(self, names: Iterable[str]) -> None:
        """Run all commands, then nothing, then one `validate` alone."""
        with self._beside("two commands"), ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self.one, names))
        with self._beside("one validate"):
            began = time.monotonic()
            self.one("validate")
            taken = time.monotonic() - began
        time.sleep(taken)

    @contextmanager
    def _beside(self, what: str) -> Iterator[None]:
        self._load.beside = what
        try:
            yield
        finally:
            self._load.beside = "nothing"

    def watch(self, ended: threading.Event) -> None:
        """Start what keeps watch, one after the other, until the end."""
        for name, start in itertools.cycle(WATCHES.items()):
            if ended.is_set():
                return
            for what in start(self._store, self._conf, self._load, ended):
                if not (self.judge.has_flipped and "commitlog/" in what):
                    self.judge.note(f"{name}: {what}")
            self.runs[name] += 1

    def flip(self) -> None:
        """Change a byte of an old record, in a file that is full; nothing expires from then on.

        What the broker was asked to delete before it may still delete: then another one is changed.
        """
        self._load.expires = False
        if self.judge.flipped is not None and self.judge.flipped.exists():
            return
        self.judge.flipped = None
        end = max(one.physical_offset for one in self._load.acknowledged[-ENOUGH:])
        full = [
            path
            for path in sorted((self._store / "commitlog").iterdir())
            if int(path.name) + path.stat().st_size <= end and _has_body(path)
        ]
        if not full:
            return
        chosen = full[-1]  # it expires last
        self.judge.has_flipped = True
        with chosen.open("r+b") as file:
            file.seek(LENGTH.size)
            (byte,) = file.read(1)
            file.seek(LENGTH.size)
            file.write(bytes([byte ^ 1]))
        self.judge.flipped = chosen


def _has_body(path: Path) -> bool:
    """Tell whether the first record of a file has a body: all else of it is in queues or index."""
    with path.open("rb") as file:
        (length,) = LENGTH.unpack(file.read(LENGTH.size))
    return bool(length > 0)


def tell(trial: Trial, load: Load, names: Iterable[str], seconds: float) -> None:
    """Print what was run beside what, and what was wrong."""
    for name in names:
        runs = trial.runs[name]
        print(f"{name:16} {runs:5} runs, {trial.seconds[name] / max(runs, 1):7.3f} s each")
    print(f"{trial.runs.total():,} runs beside {load.count:,} messages, {seconds:.0f} s")
    print(f"{load.passed:,} topics were created, written to and deleted")
    if load.failed:
        print(f"{load.failed:,} sends were given up")
    print(f"the flipped byte was found {trial.judge.found} of {trial.judge.looked} times")
    for line in (*load.latencies(), *(f"client: {error}" for error in load.errors)):
        print(line)
    for what, count in trial.judge.wrong.most_common():
        print(f"{count:5} wrong: {what}")
    print(f"{trial.judge.wrong.total()} wrong", flush=True)


def main() -> int:
    """Run all commands in turn; print what was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="5.3.3", help="release of the broker")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--runs", type=int, default=50, help="of each command end it, too")
    parser.add_argument("--pause", type=float, default=0.01, help="seconds between two sends")
    parser.add_argument("--rocksdb", action="store_true", help="queues in RocksDB")
    parser.add_argument("--only", nargs="*", choices=COMMANDS, help="only these commands")
    asked = parser.parse_args()
    # What a script starts in the background would not see Ctrl-C.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    settings = {**SMALL_GEOMETRY, "fileReservedTime": 0, **(ROCKSDB if asked.rocksdb else {})}
    names = asked.only or [*COMMANDS]
    forkers = [Loaded() for _ in range(AT_ONCE)]  # before there is a JVM, and threads
    with ExitStack() as stack:
        answering = Answering()
        stack.callback(answering.close)
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rmqtool-live-")))
        started = running_broker(asked.version, work / "home", settings, options=HEAP)
        broker = stack.enter_context(started)
        broker.create_topic(TOPIC, QUEUES)
        broker.create_topic(HALF_TOPIC, 1)
        load = Load(broker, asked.pause)
        stack.enter_context(load.running())
        trial = Trial(broker, load, work, forkers, answering)
        time.sleep(SETTLING_SECONDS)
        wait_until(lambda: len(load.acknowledged) >= ENOUGH, "messages are acknowledged")
        ended = threading.Event()
        watch = threading.Thread(target=trial.watch, args=(ended,))
        watch.start()
        began, passed = time.monotonic(), 0.0
        try:
            while (passed := time.monotonic() - began) < asked.seconds:
                rounds = min(trial.runs[name] for name in names) + 1
                if passed > asked.seconds * DAMAGED or rounds > asked.runs * DAMAGED:
                    trial.flip()
                trial.round(names)
                if sys.stderr.isatty() or not rounds % TOLD_EACH:
                    print(f"{rounds} rounds, {passed:.0f} s", file=sys.stderr, flush=True)
                if rounds >= asked.runs and passed >= LEAST_SECONDS:
                    break
        except KeyboardInterrupt:
            pass  # what has been seen is printed
        finally:
            ended.set()
            watch.join()
    tell(trial, load, (*names, *WATCHES), passed)
    return int(bool(trial.judge.wrong or load.errors))


if __name__ == "__main__":
    sys.exit(main())
