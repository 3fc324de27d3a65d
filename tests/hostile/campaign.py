"""Damage stores at random, and hold every command against what is promised.

    python -m tests.hostile.campaign [--stores 20] [--seed 1] [--seconds 600]

Of each command: no traceback, an exit code of the table, an end within 20 seconds of a processor,
less than 1 GiB of memory, a store as it was, and nothing changed beside it. What it and its
children work counts; a clock decides only about a command that waits, after a time that is long
enough for a machine with many others to run. A command that changes the store in place is taken
back by `repair --undo`, and then the store is as it was, times included. What breaks is printed
with its seed, and `--seed` with `--stores 1` makes the same store again. Ctrl-C, SIGTERM, or the
end of the time, prints the table of what was run. What a command writes is removed before the next
one runs.

Commands run in children of this process, which has loaded all that they need; every so many runs
as a program of its own, which has to leave nothing in the temporary directory. Those of Spark are
in `tests/spark/test_hostile.py`: to start a JVM for each would take a day.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np

from rmqtool.cli.main import main as rmqtool
from tests.hostile.commands import SOUND, given, silence
from tests.hostile.damages import OF_ARCHIVES, damage_some, one_of
from tests.hostile.lines import ARCHIVE, COMMANDS, IN_PLACE, KEPT, UNDO
from tests.hostile.stranger import NOBODY, give, look
from tests.sending.cluster import running_cluster
from tests.stores import FIXTURES, fixture_store

# ruff: noqa: T201 - a campaign prints
CODES: Final = frozenset({0, 1, 2, 3})
WITHOUT_MISTAKES: Final = CODES - {2}  # nothing to take back is 2, too
SECONDS: Final = 20  # of a processor, with all that the command starts
WAITING_SECONDS: Final = 600  # of a clock, on a machine that has other things to do
MOST_MEMORY: Final = 1 << 20  # KiB
FRESH_EACH: Final = 97  # of the commands: in a program of its own
MOST_ZIPPED: Final = 1 << 26  # bytes of a file in a zip
LARGE: Final = 1 << 28  # bytes; a file that nobody hashes before and after
OURS: Final = ("lock", "rmqtool-")  # a broker makes its lock, and so do we


class Run(NamedTuple):
    """How a command ended.

    Attributes:
        ends: what it did that it must not.
        seconds: of a processor that it took.
        memory: KiB, at most.
        code: its exit code, -1 when it was killed.
    """

    ends: list[str]
    seconds: float
    memory: int
    code: int


def run(command: list[str], said: Path, *, is_fresh: bool) -> Run:
    """Run a command in a child."""
    child = os.fork()
    if not child:
        _become(command, said, is_fresh=is_fresh)
    status, used, is_late = ended(child)
    seconds = used.ru_utime + used.ru_stime
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what it started
    ends, text = [], said.read_text(errors="replace")
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGXCPU or seconds > SECONDS:
        ends.append(f"works for {seconds:.0f} s")
    elif is_late:
        ends.append(f"waits for {WAITING_SECONDS} s, works for {seconds:.0f} s")
    elif code < 0:
        ends.append(f"killed by {signal.Signals(-code).name}")
    elif code not in CODES:
        ends.append(f"exit code {code}")
    if "Traceback" in text or "bug in rmqtool" in text:
        ends.append(f"traceback: {text[-300:]}")
    if used.ru_maxrss > MOST_MEMORY:
        ends.append(f"{used.ru_maxrss >> 10} MiB")
    return Run(ends, seconds, used.ru_maxrss, max(code, -1))


def ended(child: int) -> tuple[int, resource.struct_rusage, bool]:
    """Wait for a child, which is killed when it takes too long; say what it used, and whether.

    Only the parent can tell: the program has its own use for an alarm.
    """
    end = time.monotonic() + WAITING_SECONDS
    is_late, pause = False, 0.001
    try:
        while True:
            pid, status, used = os.wait4(child, os.WNOHANG)
            if pid:
                return status, used, is_late
            if time.monotonic() > end:
                is_late = True
                with suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)
            time.sleep(pause)
            pause = min(2 * pause, 0.01)
    except KeyboardInterrupt:
        os.killpg(child, signal.SIGKILL)
        raise


def _become(command: list[str], said: Path, *, is_fresh: bool) -> None:
    """Run the command as this process."""
    code = 99
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, 2 * SECONDS))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(os.open(said, os.O_WRONLY | os.O_TRUNC), 2)
        if is_fresh:
            os.execv(sys.executable, [sys.executable, "-m", "rmqtool", *command])  # noqa: S606
        code = rmqtool(command)
    finally:
        sys.stderr.flush()
        os._exit(code)


Facts = dict[str, tuple[int, ...]]


def facts(top: Path, *, changes: bool) -> Facts:
    """Give mode, owner, length and times of all that lies in a directory.

    Args:
        top: the directory.
        changes: with inode and time of change, which nobody can set: then no byte has changed.
    """
    found: Facts = {}
    for path in [top, *top.rglob("*")]:
        one = path.lstat()
        found[str(path.relative_to(top))] = (
            *(one.st_mode, one.st_uid, one.st_gid, one.st_size, one.st_mtime_ns),
            *((one.st_ino, one.st_nlink, one.st_ctime_ns) if changes else ()),
        )
    return found


class Attack:
    """A damaged store, what lies beside it, and what commands did to them."""

    def __init__(self, top: Path, seed: int, sound: Path, servers: str) -> None:
        chance = np.random.default_rng(seed)
        self.top = top / str(seed)
        self.fixture = one_of(chance, sorted(path.name for path in FIXTURES.glob("rocketmq-*")))
        self.outside = self.top / "outside"
        (self.outside / "directory").mkdir(parents=True)
        (self.outside / "file").write_bytes(bytes(5000))
        self.store = fixture_store(self.fixture, self.top)
        damage_some(self.store, chance)
        archive = self._pack(chance)
        self.given = given(self.store, archive, sound, self.fixture, servers, chance)
        self.work = self.given.work
        give(self.store, NOBODY)
        self._beside = look(self.outside)
        self._bytes = None if self._is_large() else _contents(self.store)
        self._facts, self._before = self._look()

    def _pack(self, chance: np.random.Generator) -> Path:
        """Make an archive of the store; half of them are damaged, too."""
        self.kind = one_of(chance, [".tar", ".tar.gz", ".tar.zst", ".zip"])
        archive = pack(self.store, self.top / f"archive{self.kind}")
        if one_of(chance, [False, True]):
            one_of(chance, OF_ARCHIVES)(archive, chance)
        return archive

    def _is_large(self) -> bool:
        return any(path.lstat().st_size > LARGE for path in self.store.rglob("*"))

    def _look(self) -> tuple[Facts, Facts]:
        return facts(self.store, changes=True), _without_ours(facts(self.store, changes=False))

    def wrong(self, command: tuple[str, ...]) -> Iterator[str]:
        """Yield what a command that has run did to the store and beside it."""
        if self._beside != look(self.outside):
            yield "something outside has changed"
        if command == UNDO:
            now = _without_ours(facts(self.store, changes=False))
            if self._before != now:
                names = sorted(dict(self._before.items() ^ now.items()))
                yield f"not as it was after --undo: {names[:5]}"
            elif self._bytes is not None and self._bytes != _contents(self.store):
                yield "other bytes after --undo"
            self._facts, self._before = self._look()
        elif not set(IN_PLACE) & set(command) and self._facts != facts(self.store, changes=True):
            yield "the store has changed"


def _contents(store: Path) -> dict[str, str]:
    found = {name: seen.content for name, seen in look(store).items()}
    return {name: digest for name, digest in found.items() if not name.startswith(OURS)}


def _without_ours(found: Facts) -> Facts:
    return {name: one for name, one in found.items() if name != "." and not name.startswith(OURS)}


class Tally:
    """What was run, and what it took at most."""

    def __init__(self) -> None:
        self.runs, self.codes = Counter[str](), Counter[int]()
        self.stores = self.fresh = self.broken = 0
        self.kinds = Counter[str]()  # of archives
        self.in_rocksdb = self.rocksdb_runs = self.on_archives = 0
        self._is_rocksdb = False
        self._most = dict[str, list[float]]()

    def begin(self, attack: Attack) -> None:
        """Count a store."""
        self.stores += 1
        self.kinds[attack.kind] += 1
        self._is_rocksdb = "rocksdb" in attack.fixture
        self.in_rocksdb += self._is_rocksdb

    def add(self, command: tuple[str, ...], done: Run, disk: int, *, is_fresh: bool) -> None:
        """Count a run, which took some bytes of the disk."""
        name = command[0]
        self.rocksdb_runs += self._is_rocksdb
        self.on_archives += ARCHIVE in command
        self.runs[name] += 1
        self.codes[done.code] += 1
        self.fresh += is_fresh
        took = (done.seconds, done.memory / 1024, disk / (1 << 20))
        self._most[name] = [*map(max, took, self._most.get(name, took))]

    def show(self) -> None:
        """Print the table."""
        print("command | runs | most seconds of a processor | memory, MiB | disk, MiB")
        for name, count in sorted(self.runs.items()):
            seconds, memory, disk = self._most[name]
            print(f"{name} | {count:,} | {seconds:.1f} | {memory:,.0f} | {disk:,.0f}")
        codes = ", ".join(f"{code}: {count:,}" for code, count in sorted(self.codes.items()))
        total = f"{self.runs.total():,} commands ({self.fresh:,} as programs of their own)"
        print(f"{self.stores:,} stores, {total}; exit codes {codes}")
        archives = ", ".join(f"{self.kinds[kind]} {kind}" for kind in sorted(self.kinds))
        print(f"{self.in_rocksdb} stores with RocksDB, {self.rocksdb_runs:,} commands on them")
        print(f"archives: {archives}; {self.on_archives:,} commands on them")
        print(f"{self.broken:,} broke what is promised", flush=True)


def campaign(seeds: range, seconds: float, top: Path, tally: Tally, servers: str) -> None:
    """Run all commands on the store of each seed, and print what breaks."""
    end = time.monotonic() + seconds
    path = top / "said"
    path.touch()
    scratch = _temporary_directory(top)
    sound = top / "sound"
    sound.mkdir()
    _warm_up(top, sound, servers)
    own = frozenset(path.name for path in scratch.iterdir())  # of this process, and its children
    for seed in seeds:
        if time.monotonic() > end:
            return
        attack = Attack(top, seed, sound, servers)
        tally.begin(attack)
        for command in COMMANDS:
            is_fresh = tally.runs.total() % FRESH_EACH == FRESH_EACH - 1
            done = run(attack.given.words_of(command), path, is_fresh=is_fresh)
            left = sorted({path.name for path in scratch.iterdir()} - own)
            if is_fresh and done.code >= 0 and left:
                done.ends.append(f"left in the temporary directory: {left[:5]}")
            disk = empty(attack.work, KEPT) + empty(scratch, own)
            for one in own:
                disk += empty(scratch / one, frozenset())
            tally.add(command, done, disk, is_fresh=is_fresh)
            for what in (*done.ends, *attack.wrong(command)):
                tally.broken += 1
                print(f"seed {seed} | {attack.fixture} | {' '.join(command)} | {what}", flush=True)
        shutil.rmtree(attack.top)


def _temporary_directory(top: Path) -> Path:
    """Make one that commands use, for what those that are killed leave in it."""
    scratch = top / "tmp"
    scratch.mkdir()
    os.environ["TMPDIR"] = tempfile.tempdir = str(scratch)
    return scratch


def _warm_up(top: Path, sound: Path, servers: str) -> None:
    """Run each command in this process, so that its children have all that they load."""
    warm = top / "warm"
    warm.mkdir()
    copy = fixture_store(SOUND, warm)
    archive = pack(copy, warm / "archive.tar")
    (warm / "outside").mkdir()  # for links
    words = given(copy, archive, sound, SOUND, servers, np.random.default_rng(0))
    words = words._replace(manifest=sound / SOUND / "manifest")  # a damaged one may be refused
    with silence():
        for command in COMMANDS:
            code = rmqtool(words.words_of(command))
            # A new log that would be damaged is refused, with what to do; so is what is no key.
            may_refuse = command == UNDO or command[0] == "rebuild-log" or "--tls" in command
            assert code in (CODES if may_refuse else WITHOUT_MISTAKES), (command, code)
    empty(warm, frozenset())
    gc.freeze()  # children that collect garbage would copy all of these pages


def pack(store: Path, archive: Path) -> Path:
    """Make a tar of a store, with its holes, compressed where its name says so."""
    if archive.suffix == ".zip":
        return _zipped(store, archive)
    words = ["tar", "--sparse", "--auto-compress", "--create", "--file", str(archive), store.name]
    subprocess.run(words, cwd=store.parent, check=True, stderr=subprocess.DEVNULL)  # noqa: S603
    return archive


def _zipped(store: Path, archive: Path) -> Path:
    """Make a zip of a store, which has no holes: of a longer file, the first bytes."""
    with ZipFile(archive, "w", ZIP_DEFLATED) as packed:
        for path in sorted(store.rglob("*")):
            if path.is_file() and not path.is_symlink():
                name = path.relative_to(store.parent).as_posix()
                with path.open("rb") as file:
                    packed.writestr(name, file.read(MOST_ZIPPED))
    return archive


def empty(directory: Path, kept: frozenset[str]) -> int:
    """Remove what a command has left in a directory; give the bytes that it took of the disk."""
    taken = 0
    for path in directory.rglob("*"):
        with suppress(FileNotFoundError):
            taken += path.lstat().st_blocks * 512
    for path in directory.iterdir():
        if path.name in kept:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    return taken


def main() -> int:
    """Print what breaks, then a table of what was run; 1 when something broke."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stores", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=600)
    asked = parser.parse_args()
    tally = Tally()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    with (
        tempfile.TemporaryDirectory(prefix="rmqtool-campaign-") as top,
        running_cluster() as servers,
    ):
        with suppress(KeyboardInterrupt):
            seeds = range(asked.seed, asked.seed + asked.stores)
            campaign(seeds, asked.seconds, Path(top), tally, servers.address)
        tally.show()
    return int(tally.broken > 0)


if __name__ == "__main__":
    sys.exit(main())
