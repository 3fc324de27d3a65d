"""How long lookups take: cold processes, searches of the log, many requests in one run.

    python -m tests.bench.bench_query STORE [--pairs 20] [--many 100000]

STORE is one that `tests.bench.store_builder` made. A cold lookup is timed in pairs with a bare
interpreter that imports what every command needs; the medians are compared, by the clock and,
which other work on the machine disturbs less, by the time of processors.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

from rmqtool.query import ByKey, Lookup, message_row
from rmqtool.query.batch import find_all
from rmqtool.query.explain import Trail
from rmqtool.query.log import LogRange, LogRecord
from rmqtool.query.lookup import search
from rmqtool.query.match import RecordNeed
from rmqtool.store.tree import open_store

BARE: Final = ("-c", "import typer, rich, construct")
HEAVY: Final = {"numpy", "numba", "pyarrow", "pandas"}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--many", type=int, default=100_000)
    asked = parser.parse_args()
    with Lookup(open_store(asked.store)) as lookup:
        cases, keys = _cases(lookup, asked.many)
        size = lookup.log.end - lookup.log.start
        medians = [_cold(asked.store, case, asked.pairs) for case in cases]
        _search(lookup, size)
        _many(lookup, keys, statistics.median(medians))


def _cases(lookup: Lookup, many: int) -> tuple[list[list[str]], list[str]]:
    """Choose records all over the log, and each way to ask for one."""
    step = max((lookup.log.end - lookup.log.start) // many, 1)
    keys: list[str] = []
    for offset in range(lookup.log.start, lookup.log.end - 1, step):
        head = lookup.log.next_record(offset) if len(keys) < 2 * many else None
        if head is None:
            break
        record = lookup.log.record_at(head.physical_offset)
        keys += record.message.keys if isinstance(record, LogRecord) else ()
    middle = lookup.log.record_at(_middle(lookup))
    if not isinstance(middle, LogRecord):
        sys.exit("the store has no records")
    row = message_row(middle)
    place = ["--topic", str(row["topic"]), "--queue", str(row["queue_id"])]
    named = row["keys"]
    key = named[0] if isinstance(named, list) and named else ""
    return [
        ["--id", str(row["message_id"])],
        ["--id", str(row["unique_key"])],
        ["--key", key, "--topic", str(row["topic"])],
        ["--key", key],
        ["--at", str(middle.physical_offset + 7)],
        [*place, "--queue-offset", str(row["queue_offset"])],
        ["--time", str(row["store_time"])],
        [*place, "--time", str(row["store_time"])],
    ], keys[:many]


def _middle(lookup: Lookup) -> int:
    """Give the offset of a record in the middle of the log; the log's end when there is none."""
    head = lookup.log.next_record((lookup.log.start + lookup.log.end) // 2)
    return head.physical_offset if head else lookup.log.end


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Cost(NamedTuple):
    """What a process took, in seconds: by the clock, and of processors."""

    wall: float
    cpu: float


def _run(arguments: tuple[str, ...]) -> Cost:
    before, start = _children(), time.perf_counter()
    subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, *arguments], check=True, capture_output=True
    )
    return Cost(time.perf_counter() - start, _children() - before)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _cold(store: Path, case: list[str], pairs: int) -> float:
    """Time one lookup against a bare interpreter, alternating; give its median."""
    command = ("-m", "rmqtool", "query", str(store), *case)
    loaded = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-X", "importtime", *command], check=True, capture_output=True, text=True
    ).stderr
    heavy = sorted(name for name in HEAVY if f"| {name}\n" in loaded)
    times = [(_run(BARE), _run(command)) for _ in range(pairs)]
    words = " ".join(case)
    for what in Cost._fields:
        bare = statistics.median(getattr(cost, what) for cost, _ in times)
        ours = statistics.median(getattr(cost, what) for _, cost in times)
        ratio = f"{ours:.3f} s {what}, bare {bare:.3f} s, {ours / bare:.2f}x"
        _say(f"{words[:60]:60} {ratio} {heavy or ''}")
        words = ""
    return statistics.median(cost.wall for _, cost in times)


def _search(lookup: Lookup, size: int) -> None:
    """Time searches of the whole log for what is not there."""
    whole = [LogRange(lookup.log.start, lookup.log.end)]
    for name, wanted in (
        ("an ID by its bytes", RecordNeed("0A00000112345A6B4C000000FFFFFFFF")),
        ("a short key by kernels", RecordNeed("nobody", as_key=True)),
    ):
        rates = []
        found: list[object] = []
        for _ in range(3):
            start = time.perf_counter()
            found = list(search(lookup.log, wanted, whole, Trail()))
            rates.append(size / (time.perf_counter() - start) / 1e9)
        _say(f"{name:60} {max(rates):.2f} GB/s, {len(found)} found")


def _many(lookup: Lookup, keys: list[str], alone: float) -> None:
    """Time many lookups in one run."""
    requests = [ByKey(key) for key in keys]
    start = time.perf_counter()
    found = sum(len(answer.hits) for answer in find_all(lookup, requests))
    taken = time.perf_counter() - start
    each = taken / len(requests)
    _say(f"{len(requests)} keys in one run: {taken:.1f} s, {found} found, "
          f"{each * 1e6:.0f} us each, {alone / each:.0f}x as fast as one by one")  # fmt: skip


if __name__ == "__main__":
    main()
