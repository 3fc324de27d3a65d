"""Every reading command beside a real broker under load, again and again: is one ever wrong?

    python -m tests.check.live_campaign --version 5.3.3 --seconds 300 [--rocksdb]

Producers send without a pause: plain, delayed and transactional messages. A consumer takes them and
refuses some, so that they are retried. Files roll every few hundred messages, and the broker is
asked to delete expired ones. Meanwhile each command runs in turn. Wrong is an exit code other than
0, a finding above a note, and a message that was acknowledged before and is not found. In the last
quarter a byte of an old record is flipped: from then on `validate` has to find it each time.

Printed are the runs of each command, what was wrong, and how long a send took while commands ran
and while none did. The exit code is 1 when something was wrong.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.broker.broker import SMALL_GEOMETRY, Broker, running_broker
from tests.broker.consumer import PushConsumer
from tests.broker.message import Outgoing, Received, Sent
from tests.broker.producer import Producer, TransactionProducer
from tests.cli.run import COMMAND

# ruff: noqa: T201 - a campaign prints
TOPIC: Final = "in-flight"
QUEUES: Final = 4
EXPIRE_SECONDS: Final = 20
BODY: Final = 90  # a byte of the body of a file's first record
ROCKSDB: Final = {"storeType": "defaultRocksDB"}
IN_THE_LOG: Final = (
    "info",
    "validate",
    "dump",
    "report",
    "export",
    "extract",
    "doctor",
    "startup",
    "rebuild-log",
)
COMMANDS: Final = {
    "validate": "validate STORE --level full --format jsonl",
    "validate deep": "validate STORE --level deep --format jsonl",
    "dump": "dump STORE --tail 500 --format jsonl",
    "dump queues": "dump STORE --as consume-queue --limit 500 --format jsonl",
    "query key": "query STORE --key KEY --topic in-flight",
    "query id": "query STORE --id OFFSET_ID",
    "query unique": "query STORE --id UNIQUE",
    "query time": "query STORE --topic in-flight --time '2s ago'",
    "info": "info STORE --format jsonl",
    "doctor": "doctor STORE --format json",
    "startup": "startup STORE",
    "rebuild-cq": "rebuild-cq STORE --check",
    "rebuild-index": "rebuild-index STORE --check",
    "report": "report STORE --output NEW",
    "export": "export STORE --table messages --engine local --output NEW",
    "extract": "extract STORE --topic in-flight --output NEW.jsonl",
    "rebuild-log": "rebuild-log STORE --output NEW",
    "diff": "diff STORE STORE --format json",
}


class Load:
    """Clients that keep a broker at work from their own threads.

    Attributes:
        acknowledged: the last messages of the plain producers.
        taken: milliseconds of sends, by whether a command ran.
        count: messages that were sent.
    """

    def __init__(self, broker: Broker) -> None:
        self.acknowledged: deque[Sent] = deque(maxlen=50)
        self.taken: defaultdict[bool, list[float]] = defaultdict(list)
        self.count = 0
        self.is_beside, self.expires = False, True
        self.errors: list[str] = []
        self._broker, self._ended = broker, threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Keep the broker at work while the block runs."""
        works = [lambda: self._plain(0), lambda: self._plain(1), self._transactions, self._expire]
        threads = [threading.Thread(target=self._guarded, args=(one,)) for one in works]
        with PushConsumer(self._broker, "taking", TOPIC, refuse=_is_refused):
            for one in threads:
                one.start()
            try:
                yield
            finally:
                self._ended.set()
                for one in threads:
                    one.join()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - told at the end
            self.errors.append(repr(error)[:300])

    def _plain(self, which: int) -> None:
        with Producer(self._broker, f"producer-{which}") as producer:
            while not self._ended.is_set():
                self.count += 1
                number = self.count
                body = bytes([number % 251]) * (number * 37 % 1500 + 1)
                keys = (f"KEY-{which}-{number}", "all")
                level = number // 50 % 2 + 1 if number % 50 == 0 else 0
                message = Outgoing(TOPIC, body, tags="TagA", keys=keys, delay_level=level)
                is_beside, began = self.is_beside, time.perf_counter()
                sent = producer.send(message, number % QUEUES)
                self.taken[is_beside].append((time.perf_counter() - began) * 1000)
                if not level:
                    self.acknowledged.append(sent)

    def _transactions(self) -> None:
        with TransactionProducer(self._broker, "deciding") as producer:
            number = 0
            while not self._ended.wait(0.05):
                number += 1
                outcome = ("committed", "rolled-back", "undecided")[number % 3]
                producer.send(Outgoing(TOPIC, b"x" * 50, keys=(f"T-{number}",)), outcome)

    def _expire(self) -> None:
        while not self._ended.wait(EXPIRE_SECONDS):
            if self.expires:
                self._broker.store.executeDeleteFilesManually()


def _is_refused(received: Received) -> bool:
    return sum(received.body[:8]) % 97 == 0


class Trial:
    """Runs commands beside a broker, and judges what they say.

    Attributes:
        runs: of each command.
        wrong: what was wrong, and how often.
    """

    def __init__(self, broker: Broker, load: Load, work: Path) -> None:
        self.runs: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()
        self.flipped: Path | None = None
        self._load, self._work = load, work
        self._store, self._conf = broker.conf.parent / "store", broker.conf

    def one(self, name: str) -> None:
        """Run a command."""
        sent = self._load.acknowledged[-1]
        new = self._work / "new"
        words = {
            "STORE": str(self._store),
            "KEY": sent.keys[0],
            "OFFSET_ID": sent.offset_message_id,
            "UNIQUE": sent.unique_key or "",
            "NEW": str(new),
            "NEW.jsonl": f"{new}.jsonl",
        }
        line = [words.get(one, one) for one in shlex.split(COMMANDS[name])]
        conf = [] if name == "diff" else ["--broker-conf", str(self._conf)]
        self._load.is_beside = True
        done = subprocess.run(  # noqa: S603 - ourselves
            [*COMMAND, *line, *conf],
            capture_output=True,
            text=True,
            check=False,
        )
        self._load.is_beside = False
        self._clean(new)
        self.runs[name] += 1
        if name.startswith("validate"):
            self._judge_findings(name, done)
        elif name == "diff":
            self._judge_difference(done)
        elif name.startswith("query") and self._has_expired(sent):
            return  # on a busy machine a command may begin when its message is gone
        elif name == "dump" and "expired meanwhile" in done.stderr:
            return  # likewise: what it listed was all of the log
        elif done.returncode != 0 and not self._may_differ(name, done.returncode):
            self._note(f"{name}: exit {done.returncode}: {_last(done.stderr)}")
        elif name.startswith("query") and not done.stdout:
            self._note(f"{name}: nothing found: {_last(done.stderr)}")

    def _has_expired(self, sent: Sent) -> bool:
        """Tell whether the broker has deleted a message."""
        first = min(path.name for path in (self._store / "commitlog").iterdir())
        return sent.physical_offset < int(first)

    def _may_differ(self, name: str, exit_code: int) -> bool:
        """Tell whether a command may say that something is wrong.

        Queues in RocksDB lag behind the log until they are flushed. A broker that is killed before
        the first flush starts without what lies before the files that it recovers.
        """
        if name == "startup" and (self._store / "consumequeue" / "CURRENT").exists():
            return exit_code == 1
        return self.flipped is not None and name.startswith(IN_THE_LOG)

    def flip(self) -> None:
        """Change a byte of an old record, in the middle of the log; nothing expires from then on.

        What the broker was asked to delete before it may still delete: then another one is changed.
        """
        self._load.expires = False
        if self.flipped is not None and self.flipped.exists():
            return
        segments = sorted((self._store / "commitlog").iterdir())
        self.flipped = segments[len(segments) // 2]
        with self.flipped.open("r+b") as file:
            file.seek(BODY)
            (byte,) = file.read(1)
            file.seek(BODY)
            file.write(bytes([byte ^ 1]))

    def _judge_findings(self, name: str, done: subprocess.CompletedProcess[str]) -> None:
        found = [json.loads(line) for line in done.stdout.splitlines()]
        above = [one for one in found if one["severity"] != "note"]
        if self.flipped is not None and not self.flipped.exists():
            return  # it expired meanwhile, and may have been there when the command began
        path = f"commitlog/{self.flipped.name}" if self.flipped else None
        for one in above:
            if one["path"] != path:
                self._note(f"{name}: {one['code']} {one['path']}: {one['message']}")
        if path and not [one for one in above if one["path"] == path]:
            self._note(f"{name}: the flipped byte of {path} was not found")
        if done.returncode != int(path is not None):
            self._note(f"{name}: exit {done.returncode}: {_last(done.stderr)}")

    def _judge_difference(self, done: subprocess.CompletedProcess[str]) -> None:
        """A store is its own log up to where it was read first; all that follows is new."""
        if done.returncode not in {0, 1}:
            self._note(f"diff: exit {done.returncode}: {_last(done.stderr)}")
            return
        (said,) = json.loads(done.stdout)["verdict"]
        is_new = said["end_a"] == said["end_b"] or said["messages_only_b"]
        parts_at = said["first_difference"] in {None, said["common_end"]}
        if not (said["is_complete"] and is_new and parts_at):
            self._note(f"diff: {_last(done.stderr)}")

    def _note(self, what: str) -> None:
        self.wrong[what] += 1
        print(f"  wrong: {what}", flush=True)

    @staticmethod
    def _clean(new: Path) -> None:
        shutil.rmtree(new, ignore_errors=True)
        for one in new.parent.glob("new*"):
            one.unlink(missing_ok=True)


def _last(text: str) -> str:
    return " / ".join(text.strip().splitlines()[-3:])[:400]


def _percentiles(taken: list[float]) -> str:
    if len(taken) < 100:
        return f"{len(taken)} sends"
    cuts = statistics.quantiles(taken, n=100)
    return f"{len(taken)} sends, ms: median {cuts[49]:.2f}, p99 {cuts[98]:.2f}"


def main() -> int:
    """Run all commands in turn; print what was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="5.3.3", help="release of the broker")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--pause", type=float, default=0.5, help="seconds after each command")
    parser.add_argument("--rocksdb", action="store_true", help="queues in RocksDB")
    parser.add_argument("--only", nargs="*", choices=COMMANDS, help="only these commands")
    asked = parser.parse_args()
    settings = {**SMALL_GEOMETRY, "fileReservedTime": 0, **(ROCKSDB if asked.rocksdb else {})}
    names = asked.only or [*COMMANDS]
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rmqtool-live-")))
        broker = stack.enter_context(running_broker(asked.version, work / "home", settings))
        broker.create_topic(TOPIC, QUEUES)
        load = Load(broker)
        stack.enter_context(load.running())
        trial = Trial(broker, load, work)
        while len(load.acknowledged) < load.acknowledged.maxlen:  # type: ignore[operator]
            time.sleep(0.1)
        began = time.monotonic()
        while (passed := time.monotonic() - began) < asked.seconds:
            if passed > asked.seconds * 0.75:
                trial.flip()
            for name in names:
                trial.one(name)
                time.sleep(asked.pause)
    for name in names:
        print(f"{name:14} {trial.runs[name]:5} runs")
    print(f"{load.count} messages; beside commands: {_percentiles(load.taken[True])}")
    print(f"alone: {_percentiles(load.taken[False])}")
    for error in load.errors:
        print(f"client: {error}")
    for what, count in trial.wrong.most_common():
        print(f"{count:5} wrong: {what}")
    return int(bool(trial.wrong or load.errors))


if __name__ == "__main__":
    sys.exit(main())
