"""Seconds of the processor that each command takes for a large store, beside another checkout.

    python -m tests.bench.bench_trees --against TREE [--gib 1] [--rounds 5] [NAME ...]

Whole processes, warm, the trees in turns; the figure is the least of the rounds, which other work
on the machine disturbs least. What is compiled is compiled before. The exit code is 1 when a
command takes over 5 % more than in the other tree.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.bench.store_builder import GIB, Spec, bench_store

# ruff: noqa: T201 - a benchmark prints
LARGEST_RATIO: Final = 1.05
ROOT: Final = Path(__file__).parents[2]
NOT_DONE: Final = 2
LIMIT: Final = "500000"  # rows of a dump
COMMANDS: Final = {
    "validate": "validate STORE --level full",
    "validate deep": "validate STORE --level deep",
    "validate log": "validate STORE --only commitlog",
    "info": "info STORE",
    "startup": "startup STORE --broker-version 5.3.3",
    "repair": "repair STORE",
    "rebuild check": "rebuild STORE --check",
    "rebuild": "rebuild STORE --output NEW",
    "rebuild-cq": "rebuild-cq STORE --output NEW",
    "rebuild-index": "rebuild-index STORE --output NEW",
    "dump": f"dump STORE --limit {LIMIT} --format jsonl",
    "dump queues": f"dump STORE --as consume-queue --limit {LIMIT} --format jsonl",
    "export": "export STORE --engine local --output NEW",
    "query scan": "query STORE --key none --scan",
}


def seconds(tree: Path, command: str, store: Path, above: Path) -> float | None:
    """Give the seconds of the processor of a command; None where the tree cannot do it."""
    new = above / "new"
    paths = {"STORE": str(store), "NEW": str(new)}
    line = [paths.get(word, word) for word in command.split()]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, "-P", "-m", "rmqtool", *line, "--quiet"],
        cwd=above,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if new.is_dir():
        shutil.rmtree(new)
    new.unlink(missing_ok=True)
    if done.returncode >= NOT_DONE:
        return None
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(command: str, trees: tuple[Path, Path], store: Path, rounds: int) -> float | None:
    """Print what a command takes in both trees; give the ratio, None where one cannot do it."""
    least = [float("inf")] * len(trees)
    with tempfile.TemporaryDirectory() as above:
        for _ in range(rounds + 1):  # in the first one it compiles
            for number, tree in enumerate(trees):
                taken = seconds(tree, COMMANDS[command], store, Path(above))
                if taken is None:
                    print(f"{command:15} cannot be done in {tree.name}")
                    return None
                least[number] = min(least[number], taken)
    here, there = least
    print(f"{command:15} {here:8.2f} {there:8.2f} {here / there:6.3f}", flush=True)
    return here / there


def main() -> int:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these commands")
    parser.add_argument("--against", type=Path, required=True, help="another checkout")
    parser.add_argument("--gib", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    spec = Spec(total_bytes=int(asked.gib * GIB), segment_bytes=GIB // 4)
    store, trees = bench_store(spec), (ROOT, asked.against.resolve())
    print(f"seconds of the processor: here, {asked.against.name}, ratio")
    ratios = [compare(name, trees, store, asked.rounds) for name in asked.names or COMMANDS]
    return 0 if max((one for one in ratios if one is not None), default=0) <= LARGEST_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
