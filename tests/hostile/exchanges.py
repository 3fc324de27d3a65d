"""Root works on a stranger's store with RocksDB, and the stranger exchanges names all the while.

    python -m tests.hostile.exchanges [--way repair linked directory] [--tries 30]

Unlike `races`, both run at the same time: what the library itself looks up is raced, too. Where
root writes (`repair`, `rebuild`, `linked`, `output`), the stranger exchanges the undo directory, or
the staged directory, for one of his own, full of links that lead out of the store. Where root reads
(`directory`, `files`), he exchanges a database, or its files, for links to root's. A try is wrong
when anything outside has changed, or is in what a command says. How often names were exchanged
while commands ran is counted: a way in which none was shows nothing.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from tests.hostile.stranger import (
    IN_ROCKSDB,
    NOBODY,
    SECRET,
    Scene,
    damage_rocksdb,
    give,
    scene,
    spare,
)

# ruff: noqa: T201 - a program that prints
WRITING: Final = ("repair", "rebuild", "linked", "output")
READING: Final = ("directory", "files")
WAYS: Final = (*WRITING, *READING)
EXCHANGE: Final = 2  # RENAME_EXCHANGE
NUMBERS: Final = range(1, 60)  # of what an edit stages
SECONDS: Final = 300
PROGRAM: Final = (sys.executable, "-m", "rmqtool")
SLOWLY: Final = 0.4  # a whole database is read meanwhile
LIBRARY: Final = ctypes.CDLL(None, use_errno=True)
QUEUES: Final = "consumequeue"
ROOMS: Final = ("rocksdb-0", "rocksdb-1")  # in which RocksDB writes
# What RocksDB and its library make.
OWN_FILES: Final = ("rocksdict-config.json", "MANIFEST-000001", "MANIFEST-000005", "LOCK")


class Attack(NamedTuple):
    """What the stranger does."""

    place: Path  # his directory, in which names are exchanged
    prefix: str  # of the names
    evil: str  # the name in the same directory that takes their place
    pause: float = 0.002  # seconds between two exchanges, at most


def prepare(made: Scene, way: str) -> Attack:
    """Make what takes the place of other things; all of it is the stranger's."""
    if way == "output":
        attack = _output(made)
    elif way in READING:
        attack = _database(made, way)
    else:
        attack = _undo_directory(made, way)
    for top in {made.store, attack.place}:
        give(top, NOBODY)
    return attack


def _output(made: Scene) -> Attack:
    place = made.top / "theirs"
    evil = place / ".evil"
    evil.mkdir(parents=True)
    for name in (QUEUES, "index", *ROOMS):
        (evil / name).symlink_to(made.outside)
    for name in OWN_FILES:
        (evil / name).symlink_to(made.outside / "secret")
    return Attack(place, ".out.rmqtool-", ".evil")


def _database(made: Scene, way: str) -> Attack:
    evil = made.store / ".evil"
    if way == "directory":
        evil.symlink_to(made.outside / QUEUES)
    else:
        evil.mkdir()
        for file in (made.outside / QUEUES).iterdir():
            (evil / file.name).symlink_to(file)
    return Attack(made.store, QUEUES, ".evil", SLOWLY)


def _undo_directory(made: Scene, way: str) -> Attack:
    aside = made.store / ".evil/aside"
    aside.mkdir(parents=True)
    outside = os.path.relpath(made.outside, aside)
    for name in [*(f"{number:04}" for number in NUMBERS), *ROOMS]:
        if way != "linked":
            (aside / name).symlink_to(outside)
            continue
        (aside / name).mkdir()
        for file in OWN_FILES:
            (aside / name / file).symlink_to(f"../{outside}/secret")
    return Attack(made.store, "rmqtool-discard-", ".evil")


class Try(NamedTuple):
    """What a try has shown."""

    wrong: str  # empty when nothing was
    exchanges: int  # of names, while commands ran


def exchange_for_ever(attack: Attack, counter: mmap.mmap) -> NoReturn:
    """Be the stranger; count what succeeds."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    here = os.open(attack.place, os.O_RDONLY | os.O_DIRECTORY)
    evil = attack.evil.encode()
    while True:
        with os.scandir(here) as found:
            names = [one.name for one in found if one.name.startswith(attack.prefix)]
        for name in names or [""]:
            if not LIBRARY.renameat2(here, name.encode(), here, evil, EXCHANGE):
                counter[:] = (int.from_bytes(counter[:]) + 1).to_bytes(len(counter))
            time.sleep(attack.pause * int.from_bytes(os.urandom(1)) / 255)


@contextmanager
def stranger(attack: Attack) -> Iterator[mmap.mmap]:
    """Let him exchange names until the block ends; give what counts them."""
    counter = mmap.mmap(-1, 8)  # both have it
    child = os.fork()
    if not child:
        with suppress(BaseException):
            exchange_for_ever(attack, counter)
        os._exit(1)
    try:
        yield counter
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def commands(made: Scene, way: str) -> Iterator[list[str]]:
    """Give what root does."""
    store = str(made.store)
    if way in READING:
        yield ["dump", store, "--as", "rocksdb"]
        yield ["dump", store, "--as", "rocksdb", "--hex"]
        yield ["validate", store]
        yield ["query", store, "--topic", "rocksdb-orders", "--queue", "0", "--queue-offset", "1"]
        yield ["info", store]
    elif way == "output":
        yield ["rebuild-cq", store, "--as", "rocksdb", "--output", str(made.top / "theirs/out")]
    else:
        yield ["repair" if way == "linked" else way, store, "--in-place", "--yes"]


def tried(way: str, program: Sequence[str] = PROGRAM) -> Try:
    """Try once.

    Args:
        way: of the attack.
        program: what root runs, with the words of commands.
    """
    with scene(0, IN_ROCKSDB, spare if way in READING else damage_rocksdb) as made:
        attack = prepare(made, way)
        before = made.seen()
        with stranger(attack) as counter:
            wrong = next(
                filter(None, (_wrong(program, command) for command in commands(made, way))), ""
            )
            count = int.from_bytes(counter[:])
        if not wrong and before != made.seen():
            wrong = "something outside has changed"
    return Try(wrong, count)


def _wrong(program: Sequence[str], words: list[str]) -> str:
    """Run a command; say what is wrong with what it says, or nothing."""
    secret = SECRET[:20]
    done = subprocess.run([*program, *words], capture_output=True, timeout=SECONDS, check=False)  # noqa: S603
    said = done.stdout + done.stderr
    if secret in said or secret.hex().encode() in said.replace(b" ", b""):
        return f"{words[0]} says what is root's"
    if b"Traceback" in said or done.returncode not in {0, 1, 2, 3}:
        return f"{words[0]} ended with {done.returncode}: {said[-300:]!r}"
    return ""


def main() -> int:
    """Print a row for each way; 1 when a try was wrong, or none was one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--way", nargs="+", choices=WAYS, default=[*WAYS])
    parser.add_argument("--tries", type=int, default=30)
    asked = parser.parse_args()
    failed = 0
    for way in asked.way:
        found = [tried(way) for _ in range(asked.tries)]
        wrong = [one.wrong for one in found if one.wrong]
        count = sum(one.exchanges for one in found)
        for what in sorted({*wrong}):
            print(f"{way} | {what}")
        print(f"{way} | {asked.tries} tries | {count:,} exchanges | {len(wrong)} wrong", flush=True)
        failed += len(wrong) + (not count)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
