"""Root works on a stranger's store with RocksDB, and the stranger exchanges names all the while.

    python -m tests.hostile.exchanges [--way repair linked directory] [--tries 30]

Unlike `races`, both run at the same time: what the library itself looks up is raced, too. Where
root writes (`repair`, `rebuild`, `linked`, `output`), the stranger exchanges the undo directory, or
the staged directory, for one of his own, full of links that lead out of the store. Where root reads
(`directory`, `files`), he exchanges a database, or its files, for links to root's. A try is wrong
when anything outside has changed, or is in what a command says.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
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


def exchange_for_ever(attack: Attack) -> NoReturn:
    """Be the stranger."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    here = os.open(attack.place, os.O_RDONLY | os.O_DIRECTORY)
    evil = attack.evil.encode()
    while True:
        with os.scandir(here) as found:
            names = [one.name for one in found if one.name.startswith(attack.prefix)]
        for name in names or [""]:
            LIBRARY.renameat2(here, name.encode(), here, evil, EXCHANGE)
            time.sleep(attack.pause * int.from_bytes(os.urandom(1)) / 255)


@contextmanager
def stranger(attack: Attack) -> Iterator[None]:
    """Let him exchange names until the block ends."""
    child = os.fork()
    if not child:
        with suppress(BaseException):
            exchange_for_ever(attack)
        os._exit(1)
    try:
        yield
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


def wrong_after(way: str) -> str:
    """Try once; say what is wrong, or nothing."""
    with scene(0, IN_ROCKSDB, spare if way in READING else damage_rocksdb) as made:
        attack = prepare(made, way)
        before, secret = made.seen(), SECRET[:20]
        with stranger(attack):
            for words in commands(made, way):
                line = [sys.executable, "-m", "rmqtool", *words]
                done = subprocess.run(line, capture_output=True, timeout=SECONDS, check=False)  # noqa: S603
                said = done.stdout + done.stderr
                if secret in said or secret.hex().encode() in said.replace(b" ", b""):
                    return f"{words[0]} says what is root's"
                if b"Traceback" in said or done.returncode not in {0, 1, 2, 3}:
                    return f"{words[0]} ended with {done.returncode}: {said[-300:]!r}"
        if before != made.seen():
            return "something outside has changed"
    return ""


def main() -> int:
    """Print a row for each way; 1 when a try was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--way", nargs="+", choices=WAYS, default=[*WAYS])
    parser.add_argument("--tries", type=int, default=30)
    asked = parser.parse_args()
    failed = 0
    for way in asked.way:
        wrong = [what for what in (wrong_after(way) for _ in range(asked.tries)) if what]
        for what in sorted({*wrong}):
            print(f"{way} | {what}")
        print(f"{way} | {asked.tries} tries | {len(wrong)} wrong", flush=True)
        failed += len(wrong)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
