"""Damage stores at random, and hold every command that reads or plans against what is promised.

    python -m tests.hostile.campaign [--stores 20] [--seed 1] [--seconds 600]

Of each command: no traceback, an exit code of the table, an end within 20 seconds, less than 1 GiB
of memory, and a store whose bytes, names, modes and times are what they were. What breaks is
printed with its seed, and `--seed` with `--stores 1` makes the same store again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from rmqtool.cli.main import main as rmqtool
from tests.hostile.stranger import look
from tests.stores import fixture_names, fixture_store

# ruff: noqa: T201 - a campaign prints
Thing = TypeVar("Thing")
COMMANDS: Final = (
    ("validate",), ("validate", "--level", "deep", "--format", "jsonl"),
    ("validate", "--level", "quick"),
    ("info",), ("info", "--format", "json"),
    ("dump", "--body", "text", "--format", "jsonl"), ("dump", "--as", "all", "--format", "jsonl"),
    ("dump", "--hex", "--limit", "500"), ("dump", "--tail", "20", "--fillers"),
    ("query", "--key", "none"), ("query", "--at", "0"),
    ("startup", "--broker-version", "5.3.3"), ("startup", "--broker-version", "4.9.3"),
    ("rebuild", "--check"), ("repair",), ("repair", "--bridge-missing", "--format", "jsonl"),
)  # fmt: skip
CODES: Final = frozenset({0, 1, 2, 3})
SECONDS: Final = 20
MOST_MEMORY: Final = 1 << 20  # KiB
MOST_DAMAGES: Final = 6
LARGE: Final = 1 << 28  # bytes; a file that nobody hashes before and after


def damages(top: Path, chance: np.random.Generator) -> None:
    """Damage some files of a store, each in one of several ways."""
    files = sorted(path for path in top.rglob("*") if path.is_file())
    for _ in range(int(chance.integers(MOST_DAMAGES)) + 1):
        path = _one(chance, files)
        if path.exists():
            _one(chance, DAMAGES)(path, chance)


def _below(chance: np.random.Generator, end: int) -> int:
    return int(chance.integers(end))


def _one(chance: np.random.Generator, things: Sequence[Thing]) -> Thing:
    return things[_below(chance, len(things))]


def _flip(path: Path, chance: np.random.Generator) -> None:
    raw = _used(path)
    for _ in range(min(int(chance.integers(40)) + 1, len(raw))):
        raw[_below(chance, len(raw))] ^= 1 << _below(chance, 8)
    _write(path, raw)


def _numbers(path: Path, chance: np.random.Generator) -> None:
    """Put numbers at the ends of their range where numbers may be."""
    raw = _used(path)
    for _ in range(int(chance.integers(10)) + 1):
        at = _below(chance, max(len(raw) // 4, 1)) * 4
        extreme = _one(chance, [0, 1, -1, 2**31 - 1, -(2**31), 2**30, 4096])
        raw[at : at + 4] = extreme.to_bytes(4, "big", signed=True)
    _write(path, raw)


def _zeros(path: Path, chance: np.random.Generator) -> None:
    raw = _used(path)
    at = _below(chance, len(raw) or 1)
    length = _one(chance, [1, 20, 512, 4096])
    raw[at : at + length] = bytes(len(raw[at : at + length]))
    _write(path, raw)


def _cut(path: Path, chance: np.random.Generator) -> None:
    os.truncate(path, _below(chance, path.stat().st_size + 1))


def _extend(path: Path, chance: np.random.Generator) -> None:
    os.truncate(path, path.stat().st_size + _one(chance, [1, 4096, 1 << 30, 1 << 40]))


def _rename(path: Path, chance: np.random.Generator) -> None:
    number = _one(chance, [0, 1, 2**63 - 1, _below(chance, 2**40), 4096 * _below(chance, 99)])
    target = path.with_name(f"{number:020}")
    if not target.exists():
        path.rename(target)


def _replace(path: Path, chance: np.random.Generator) -> None:
    path.unlink()
    kind = _one(chance, ["fifo", "directory", "link"])
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to("nowhere")


def _used(path: Path) -> bytearray:
    """Read the part of a file in which something lies, and a bit more."""
    raw = path.read_bytes()
    return bytearray(raw[: len(raw.rstrip(b"\0")) + 64])


def _write(path: Path, raw: bytes | bytearray) -> None:
    with path.open("r+b") as file:
        file.write(raw)


DAMAGES: Final[tuple[Callable[[Path, np.random.Generator], None], ...]] = (
    *(_flip, _flip, _numbers, _numbers, _zeros, _cut, _extend, _rename, _replace),
)


def wrong(store: Path, command: tuple[str, ...], said: Path) -> Iterator[str]:
    """Run a command on a store, and yield what it did that it must not."""
    before = _look(store)
    child = os.fork()
    if not child:
        _run(store, command, said)
    _, status, used = os.wait4(child, 0)
    text = said.read_text(errors="replace")
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        yield f"hangs for {SECONDS} s" if name == "SIGALRM" else f"killed by {name}"
    elif os.WEXITSTATUS(status) not in CODES:
        yield f"exit code {os.WEXITSTATUS(status)}"
    if "Traceback" in text or "bug" in text:
        yield f"traceback: {text[-300:]}"
    if used.ru_maxrss > MOST_MEMORY:
        yield f"{used.ru_maxrss >> 10} MiB"
    if before != _look(store):
        yield "the store has changed"


def _look(store: Path) -> dict[str, object]:
    """Give what lies in a store; of a file of many gigabytes only its facts."""
    facts = {str(path): path.lstat() for path in store.rglob("*")}
    if any(one.st_size > LARGE for one in facts.values()):
        return {
            name: (one.st_mode, one.st_ino, one.st_size, one.st_mtime_ns, one.st_nlink)
            for name, one in facts.items()
        }
    return dict(look(store))


def _warm_up(store: Path) -> None:
    """Run each command in this process, so that its children have all that they load."""
    kept = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for command in COMMANDS:
        rmqtool([command[0], str(store), *command[1:], "--quiet"])
    os.dup2(kept, 1)


def _run(store: Path, command: tuple[str, ...], said: Path) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(SECONDS)
    nothing, errors = os.open(os.devnull, os.O_WRONLY), os.open(said, os.O_WRONLY | os.O_TRUNC)
    os.dup2(nothing, 1)
    os.dup2(errors, 2)
    code = 99
    try:
        code = rmqtool([command[0], str(store), *command[1:], "--quiet"])
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> int:
    """Print what breaks, then a table of what was run; 1 when something broke."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stores", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=600)
    asked = parser.parse_args()
    end = time.monotonic() + asked.seconds
    runs, broken, stores = Counter[str](), 0, 0
    with tempfile.TemporaryDirectory(prefix="rmqtool-campaign-") as top:
        said = Path(top) / "said"
        said.touch()
        _warm_up(fixture_store(fixture_names()[0], Path(top) / "sound"))
        for seed in range(asked.seed, asked.seed + asked.stores):
            if time.monotonic() > end:
                break
            chance = np.random.default_rng(seed)
            name = _one(chance, fixture_names())
            store = fixture_store(name, Path(top) / str(seed))
            damages(store, chance)
            stores += 1
            for command in COMMANDS:
                runs[command[0]] += 1
                for what in wrong(store, command, said):
                    broken += 1
                    print(f"seed {seed} | {name} | {' '.join(command)} | {what}", flush=True)
            shutil.rmtree(Path(top) / str(seed))
    table = ", ".join(f"{name} {count:,}" for name, count in runs.items())
    print(
        f"{stores:,} stores, {runs.total():,} commands ({table}): {broken} broke what is promised"
    )
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
