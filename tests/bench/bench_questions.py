"""What questions in SQL read and take on `local[CORES]`: splits, and the dearest views.

    python -m tests.bench.bench_questions [--gib 2] [--cores 2]

The log is that of one day, of ten topics in turn. Each question is asked twice, and the second
answer counts. Bytes are what executors report of all files that they read, for each byte of the
log. Processor time counts Java and Python workers.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Final

from rmqtool.reads.options import SourceOptions
from rmqtool.spark import register
from rmqtool.spark.session import session
from rmqtool.spark.sql import SparkQuestions
from tests.bench.bench_spark import MIB, report
from tests.bench.processors import processor_seconds
from tests.bench.store_builder import GIB, Spec, bench_store

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

DAY_MS: Final = 86_400_000
COUNTED: Final = "SELECT count(*) AS n, sum(size) AS bytes FROM messages WHERE extent IS NULL"
VIEWS: Final = ("undecided_transactions", "hot_keys", "duplicate_unique_keys")


def main() -> None:
    """Ask, and print JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=int, default=2)
    parser.add_argument("--cores", type=int, default=2)
    asked = parser.parse_args()
    store = bench_store(Spec(total_bytes=asked.gib * GIB, span_ms=DAY_MS))
    spark = register(session(f"local[{asked.cores}]"))
    for what, text, at_most, options in (
        ("all records", COUNTED, 1.1, {}),
        ("all records, split of 64 MiB", COUNTED, 1.1, {"split": str(64 * MIB)}),
        *((view, f"SELECT count(*) AS n FROM {view}", 1.1, {}) for view in VIEWS),  # noqa: S608 - ours
    ):
        measure(spark, store, (what, text), at_most, options)
    spark.stop()


def measure(
    spark: SparkSession,
    store: Path,
    question: tuple[str, str],
    at_most: float,
    options: dict[str, str],
) -> None:
    """Ask twice, and report the second answer."""
    what, text = question
    log = sum(path.stat().st_size for path in (store / "commitlog").iterdir())
    questions = SparkQuestions(spark, SourceOptions.of({"path": str(store), **options}))
    rows: list[dict[str, object]] = []

    def ask() -> None:
        rows[:] = [row for chunk in questions.ask(text).chunks for row in chunk]

    ask()
    questions.read_so_far()
    began = time.perf_counter()
    processors = processor_seconds(ask)
    seconds = time.perf_counter() - began
    read = questions.read_so_far()
    assert rows, text
    assert read is not None
    report(f"{what}: bytes for each byte of the log", read.bytes / log, at_most)
    report(f"{what}: s by clock", seconds)
    report(f"{what}: s of processors", processors)


if __name__ == "__main__":
    main()
