"""Commands that write something new, killed or failing at each call that changes something.

What such a command was asked for is then not there, or there as a whole; the store and what lies
beside it are as they were; and the same command makes it, with nothing left beside it. A file of
messages that is sent arrives as a whole: at most what was on its way comes twice, one of a queue.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final
from unittest import mock

from rmqtool.cli.main import main as rmqtool
from rmqtool.sending import producer
from rmqtool.store import rocksdb_cell
from rmqtool.store.place import Place
from rmqtool.writing.lock import StoreLock
from tests import rocksdb_process
from tests.hostile.commands import silence
from tests.hostile.stranger import FIXTURE, Scene, look, scene
from tests.rocksdb import rows_of
from tests.sending.cluster import Cluster, running_cluster
from tests.store.faults import Faults, bad_disk, killed_at, no_space, operations
from tests.stores import fixture_store

FAILING: Final[dict[str, Callable[..., object]]] = {"full": no_space, "broken": bad_disk}
PAGE: Final = 4096  # bytes
ENDED: Final = frozenset({0, 1, 3})  # 3: part of the store cannot be read
COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "extract-jsonl": ("extract", "{store}", "--output", "{work}/all.jsonl", "--held"),
    "extract-rmq": ("extract", "{store}", "--output", "{work}/all.rmq"),
    "extract-parquet": ("extract", "{store}", "--output", "{work}/all.parquet"),
    "extract-lost": ("extract", "{store}", "--output", "{work}/lost.rmq", "--lost-in", "{other}"),
    "rebuild-log": (
        *("rebuild-log", "{store}", "--output", "{work}/log"),
        *("--queue-offsets", "renumber"),
    ),
    "rebuild-log-two": (
        *("rebuild-log", "{store}", "{other}", "--output", "{work}/log"),
        *("--queue-offsets", "renumber"),
    ),
    "rebuild-log-kept": (
        *("rebuild-log", "{store}", "--output", "{work}/log", "--positions", "keep"),
    ),
    "carve": ("carve", "{store}/commitlog/{log}", "--output", "{work}/carved.rmq"),
    "carve-by-store": (
        *("carve", "{store}/commitlog/{log}", "{other}/commitlog/{log}"),
        *("--output", "{work}/carved", "--by-store", "--lone"),
    ),
    "merge-offsets": (
        *("diff", "{store}", "{other}", "--merge-offsets"),
        *("--output", "{work}/consumerOffset.json"),
    ),
    "dump-config": (
        *("dump", "{store}", "--as", "config", "--format", "broker-json"),
        *("--output", "{work}/config"),
    ),
    "copy": ("repair", "{store}", "--output", "{work}/copy"),
    "copy-from": ("repair", "{store}", "--from", "{other}", "--output", "{work}/copy"),
    "plan": ("repair", "{store}", "--plan", "{work}/plan"),
    "rebuild-copy": ("rebuild", "{store}", "--output", "{work}/rebuilt"),
    "rebuild-cq-copy": ("rebuild-cq", "{store}", "--output", "{work}/queues"),
    "rebuild-cq-rocksdb": (
        *("rebuild-cq", "{store}", "--as", "rocksdb", "--output", "{work}/queues"),
    ),
    "rebuild-index-copy": ("rebuild-index", "{store}", "--output", "{work}/index"),
}
SEND: Final = "send"
OUTPUTS: Final = (*COMMANDS, SEND)
SENT: Final = "sent.jsonl"


class Output:
    """One command, again and again.

    Attributes:
        made: the store, and what lies outside of it.
        name: out of `COMMANDS`.
        target: what the command makes.
    """

    def __init__(self, made: Scene, name: str, other: Path) -> None:
        self.made, self.name = made, name
        places = {"store": made.store, "work": made.work, "other": other, "log": f"{0:020}"}
        self._words = [word.format(**places) for word in COMMANDS[name]]
        at = self._words.index("--plan" if name == "plan" else "--output")
        self.target = Path(self._words[at + 1])
        self._before = look(made.store, reads=False), made.seen()
        self.prepare()
        assert self.go() in ENDED
        self._whole = contents(self.target)
        assert self._whole is not None

    def prepare(self) -> None:
        """Remove what was written."""
        remove_all(self.made.work)

    def go(self) -> int:
        """Run the command; give its exit code."""
        with silence():
            return rmqtool([*self._words, "--quiet"])

    def wrong(self, code: int | None) -> Iterator[str]:
        """Yield what is not as it has to be; then let the command do its work.

        Args:
            code: that it ended with; None where it was killed.
        """
        there = contents(self.target)
        if there not in (None, self._whole):
            yield "what is there is not whole"
        if there is None and code in ENDED:
            yield f"nothing is there, and the exit code is {code}"
        if there is None:
            again = self.go()
            if again not in ENDED or contents(self.target) != self._whole:
                yield f"the same command does not make it: exit code {again}"
            left = sorted({path.name for path in self.made.work.iterdir()} - {self.target.name})
            if left:
                yield f"left beside it: {left}"
        if self._before != (look(self.made.store, reads=False), self.made.seen()):
            yield "the store, or what lies beside it, has changed"


QUEUES: Final = 4  # of the topic


class Sending:
    """A file of messages that is sent, again and again."""

    def __init__(self, work: Path, cluster: Cluster) -> None:
        self._cluster, self._work = cluster, work
        self._lines = [f'{{"topic": "orders", "body": "body {n}"}}\n' for n in range(30)]
        self._bodies = {b"body %d" % n for n in range(30)}
        self.prepare()

    def prepare(self) -> None:
        """Begin anew: nothing was sent."""
        remove_all(self._work)
        (self._work / SENT).write_text("".join(self._lines))
        self._cluster.sent.clear()

    def go(self) -> int:
        """Send the file; give the exit code."""
        words = ["send", str(self._work / SENT), "--name-server", self._cluster.address]
        with silence():
            return rmqtool([*words, "--rate", "10000", "--quiet"])

    def wrong(self, code: int | None) -> Iterator[str]:
        """Yield what is not as it has to be, once the same command has gone on."""
        arrived = {body for _, body in self._cluster.sent}
        if code == 0 and arrived != self._bodies:
            yield "the exit code is 0, and not all messages have arrived"
        again = self.go()
        bodies = [body for _, body in self._cluster.sent]
        if again not in ENDED or set(bodies) != self._bodies:
            yield f"the same command does not send all: exit code {again}"
        if len(bodies) > len(self._bodies) + QUEUES:
            yield f"{len(bodies) - len(self._bodies)} messages came twice"


def contents(path: Path) -> dict[str, str] | None:
    """Give digests of what lies at a path; None for nothing."""
    if not path.exists():
        return None
    files = [path, *path.rglob("*")] if path.is_dir() else [path]
    found = {
        str(file.relative_to(path)): "" if file.is_dir() else digest_of(file) for file in files
    }
    for current in (file for file in files if file.name == "CURRENT"):
        # RocksDB writes an identity and times into its files: what they hold is compared.
        above = current.parent
        for name in [path.name for path in above.iterdir() if path.is_file()]:
            found[str((above / name).relative_to(path))] = "of a database"
        rows = rows_of(above, above.name)
        found[str(above.relative_to(path))] = hashlib.sha256(repr(rows).encode()).hexdigest()
    return found


def digest_of(path: Path) -> str:
    """Digest a file by its size and its pages that are not zeros: holes are not read."""
    digest = hashlib.sha256(b"%d" % path.stat().st_size)
    with Place(str(path)).open() as file:
        position = file.next_data(0)
        while position is not None and position < file.size:
            page = file.read_at(position // PAGE * PAGE, PAGE)
            if page.count(0) != len(page):
                digest.update(b"%d" % (position // PAGE) + page)
            position = file.next_data((position // PAGE + 1) * PAGE)
    return digest.hexdigest()


def remove_all(directory: Path) -> None:
    """Remove all that lies in a directory."""
    for path in sorted(directory.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


@contextmanager
def output_of(name: str) -> Iterator[Output | Sending]:
    """Make what a command reads, and a place to write to."""
    with ExitStack() as stack:
        # Nobody looks through all processes for a broker, thousands of times.
        stack.enter_context(mock.patch.object(StoreLock, "_others", return_value=[]))
        stack.enter_context(mock.patch.object(rocksdb_cell, "_start", rocksdb_process.start))
        stack.enter_context(mock.patch.object(producer, "FIRST_WAIT", 0.0001))
        made = stack.enter_context(scene(os.geteuid()))
        made.yield_to_stranger()
        if name == SEND:
            yield Sending(made.work, stack.enter_context(running_cluster()))
        else:
            (made.top / "two").mkdir()
            yield Output(made, name, fixture_store(FIXTURE, made.top / "two"))


def wrong_of(
    output: Output | Sending, how: str, begin: int = 0, step: int = 1
) -> tuple[int, list[str]]:
    """Run the command once for each call of it, which is the last one, or fails.

    Returns:
        How many calls were tried, and what was not as it has to be.
    """
    tries, wrong = 0, []
    output.prepare()
    count = operations(output.go)
    for number in range(begin % step, count, step):
        output.prepare()
        code = None
        if how == "killed":
            tries += killed_at(number, output.go)
        else:
            with Faults(number, FAILING[how]).injected():
                code = output.go()
            tries += 1
        wrong += [f"call {number}: {what}" for what in output.wrong(code)]
    return tries, wrong
