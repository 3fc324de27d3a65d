"""Damage stores at random, run every command on them, repair them, and see what is left.

    python -m tests.repair.fuzz [--seed N] [--seconds S] [--only NUMBER] [--keep DIR]

Each case is a copy of a fixture with one to four random damages. No command may crash; a repair
must leave nothing worse than what the table of damages allows, must keep every undamaged record
that its plan does not give up, and a broker must start on what it leaves, and lose no more messages
than before. A line for each problem
says how to see it again; the exit code is 1 when there was one.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from rmqtool.cli.main import main as rmqtool
from tests import plain_store
from tests.plain_store import Record
from tests.repair.repaired import STAYS, cost_of
from tests.stores import broker_conf, fixture_names, fixture_store

FIXTURES: Final = tuple(
    name
    for name in fixture_names()
    if not any(word in name for word in ("rocksdb", "geometry", "crash"))
)
HANGS_SECONDS: Final = 300
CRASHED: Final = 70
FREE: Final = ("no message lost", "starting it loses nothing")
# Beside what the table of damages leaves: JSON of which there is no whole copy.
LEFT: Final = STAYS | {"CF-JSON"}
NO_COPY: Final = "cannot be parsed, and the file itself neither"
FIRST: Final = '"why":"first '  # the plan says what a person has to do before
Thing = TypeVar("Thing")
INTEGERS: Final = (
    b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", bytes(8), b"\xff" * 8,
    b"\x7f" + b"\xff" * 7,
)  # fmt: skip
KINDS: Final = (
    "flip", "zero", "random", "cut", "extend", "delete", "exchange", "copy", "integer",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """One damaged store.

    Attributes:
        seed: of the campaign.
        number: of the case.
        fixture: whose copy it is.
        root: of the store.
        harms: kind, path and position of each damage.
        arguments: the broker's configuration, where it is given.
    """

    seed: int
    number: int
    fixture: str
    root: Path
    harms: tuple[str, ...]
    arguments: tuple[str, ...]

    @property
    def conf(self) -> str | None:
        """The broker's configuration; None where it is not given."""
        return self.arguments[1] if self.arguments else None

    @property
    def version(self) -> str:
        """Release of the broker that wrote it."""
        return self.fixture.split("-")[1]

    def __str__(self) -> str:
        again = f"--seed {self.seed} --only {self.number}"
        return f"{again}: {self.fixture} {' '.join(self.arguments[:1])}: {', '.join(self.harms)}"


def case(seed: int, number: int, into: Path) -> Case:
    """Copy a fixture and damage it; the same numbers give the same damage."""
    dice = np.random.default_rng((seed, number))
    fixture = _one(FIXTURES, dice)
    root = fixture_store(fixture, into)
    harms = tuple(_harm(root, dice) for _ in range(_one((1, 1, 2, 4), dice)))
    given = ("--broker-conf", str(broker_conf(fixture))) if dice.integers(2) else ()
    return Case(seed, number, fixture, root, harms, given)


def _one(things: Sequence[Thing], dice: np.random.Generator) -> Thing:
    return things[int(dice.integers(len(things)))]


def _harm(root: Path, dice: np.random.Generator) -> str:
    """Damage one file, one in two times of the log; say what was done."""
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.stat().st_size)
    logs = [path for path in files if "commitlog" in path.parts]
    path = _one(files if dice.integers(2) or not logs else logs, dice)
    kind, position = _one(KINDS, dice), int(dice.integers(path.stat().st_size))
    if kind == "delete":
        path.unlink()
    elif kind == "exchange":
        other = _one(files, dice)
        if other != path:
            shutil.copyfile(other, path)
    else:
        _edit(path, kind, position, dice)
    return f"{kind} {path.relative_to(root)} {position}"


def _edit(path: Path, kind: str, position: int, dice: np.random.Generator) -> None:
    size = path.stat().st_size
    if kind == "cut":
        os.truncate(path, position)
        return
    if kind == "extend":
        os.truncate(path, size + _one((1, 20, 4096), dice))
        return
    with path.open("r+b") as file:
        file.seek(position)
        if kind == "flip":
            new = bytes([file.read(1)[0] ^ (1 << int(dice.integers(8)))])
        elif kind == "copy":
            file.seek(int(dice.integers(size)))
            new = file.read(512)
        elif kind == "integer":
            new = _one(INTEGERS, dice)
        elif kind == "zero":
            new = bytes(_one((1, 20, 512, 4096, 100_000), dice))
        else:
            new = dice.bytes(_one((4, 20, 512, 4096), dice))
        file.seek(position)
        file.write(new[: size - position])


def commands(one: Case, beside: Path) -> Iterator[list[str]]:
    """Yield what is run on a damaged store, beside `repair`."""
    store, quiet = str(one.root), [*one.arguments, "-q"]
    yield ["validate", "--level", "deep", store, "--format", "jsonl", *quiet]
    yield ["info", store, "--format", "json", "-q"]
    yield ["dump", store, "--format", "jsonl", *quiet]
    yield ["dump", store, "--as", "all", "--format", "jsonl", *quiet]
    yield ["query", store, "--time", "2026-11-21T03:00:00", "-q"]
    yield ["query", store, "--key", "ORDER-1", "--trace", "-q"]
    yield ["startup", store, "--broker-version", one.version, "--format", "json", *quiet]
    yield ["rebuild", store, "--output", str(beside / "rebuilt"), *quiet]
    yield ["rebuild", store, "--check", *quiet]
    yield ["report", store, "--output", str(beside / "report.html"), *quiet]


def problems(one: Case, beside: Path, *, is_whole: bool = True) -> Iterator[str]:
    """Run everything on one case; yield what is wrong, a line or more each.

    Args:
        one: the case; its store stays as it is.
        beside: directory for what is written.
        is_whole: all commands; else only those that a repair is judged by.
    """
    for arguments in commands(one, beside) if is_whole else ():
        code, _, said = run(arguments, beside)
        if code == CRASHED or "Traceback" in said:
            yield f"CRASH {one}\n  {' '.join(arguments)}: {code}\n{said[-1500:]}"
    yield from _repaired(one, beside)


def _repaired(one: Case, beside: Path) -> Iterator[str]:
    output = beside / "repaired"
    options = ["--output", str(output), "--format", "jsonl", "--bridge-missing", "--clamp-offsets"]
    code, rows, said = run(["repair", str(one.root), *options, *one.arguments], beside)
    if code == CRASHED or "Traceback" in said:
        yield f"CRASH {one}\n  repair: {code}\n{said[-1500:]}"
        return
    if not output.is_dir() or "dledger" in one.fixture:  # a node's log comes from its group
        return
    full = ["validate", "--level", "full", str(output), "--format", "jsonl", *one.arguments]
    found = [json.loads(line) for line in run(full, beside)[1].splitlines()]
    worse = sorted({row["code"] for row in found if row["severity"] != "note"} - LEFT)
    if worse and FIRST not in rows:
        yield f"LEFT {one}\n  {' '.join(worse)}"
    is_free = any(words in said for words in FREE)
    if "would refuse" in said or ("would start" in said and not is_free):
        verdict = next(line for line in said.splitlines() if "broker would" in line)
        if NO_COPY not in verdict:
            yield f"START {one}\n  {verdict}"
    costs = [cost_of(root, one.conf, one.version) for root in (one.root, output)]
    if costs[0] is not None and (costs[1] is None or costs[1] > costs[0]):
        yield f"WORSE {one}\n  refused, messages: {costs[0]} before, {costs[1]} after"
    gone = _gone(_sound(one.fixture), one.root, output)
    if gone and "given up" not in rows:
        yield f"LOST {one}\n  {len(gone)} undamaged records, the first one at {gone[0]}"


def _gone(before: tuple[Record, ...], damaged: Path, repaired: Path) -> list[int]:
    """Give the places of records that the damage has left as they were, but not the repair."""
    logs = [
        {path.name: path.read_bytes() for path in (root / "commitlog").glob("[0-9]*")}
        for root in (damaged, repaired)
    ]
    return [
        record.physical_offset
        for record in before
        if _raw(logs[0], record) == record.raw and _raw(logs[1], record) != record.raw
    ]


def _raw(logs: dict[str, bytes], one: Record) -> bytes:
    return logs.get(one.path.name, b"")[one.position : one.position + one.size]


@cache
def _sound(fixture: str) -> tuple[Record, ...]:
    """Give the records of a fixture."""
    with tempfile.TemporaryDirectory() as directory:
        return tuple(plain_store.records(fixture_store(fixture, Path(directory))))


def run(arguments: list[str], beside: Path) -> tuple[int, str, str]:
    """Run a command in this process: exit code, standard output, standard error."""
    out, err = beside / "out", beside / "err"
    with (
        out.open("w") as stdout,
        err.open("w") as stderr,
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
    ):
        code = rmqtool(arguments)
    return code, out.read_text(), err.read_text()


def campaign(seed: int, seconds: float, only: int | None, keep: Path | None) -> Iterator[str]:
    """Try cases one after the other, and yield what is wrong with them."""
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end or only is not None:
        number = number + 1 if only is None else only
        faulthandler.dump_traceback_later(HANGS_SECONDS, exit=True)
        with tempfile.TemporaryDirectory() as directory:
            into = keep or Path(directory)
            one = case(seed, number, into)
            yield from problems(one, into)
        faulthandler.cancel_dump_traceback_later()
        if only is not None:
            return
    sys.stderr.write(f"seed {seed}: {number} cases\n")


def main() -> int:
    """Run a campaign; say what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.repair.fuzz")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this case only")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="an empty directory for --only")
    asked = parser.parse_args()
    is_sound = True
    for problem in campaign(asked.seed, asked.seconds, asked.only, asked.keep):
        sys.stdout.write(f"{problem}\n")
        sys.stdout.flush()
        is_sound = False
    return 0 if is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
