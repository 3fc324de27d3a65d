"""What reads of tables take that need little of a store: columns, a topic, a key, a question.

    python -m tests.bench.bench_reads [columns] [topic] [key] [question] [skew] [questions]
        [--gib 2]

| figure | beside |
|---|---|
| `columns`: `scanner` of two columns of 128 MiB, CPU | the readers of the same columns |
| `topic`: `export --topic` of one topic in twenty, bytes of log and queues | the log; same rows |
| `key`: `export --key`, bytes of log, queues and index | the log; same rows |
| `question`: `sql` on a fixture, CPU of the whole process | a start of duckdb, pyarrow, numpy |
| `skew`: a group by topic and `rebuild-cq` on `local[2]`, one topic with 90 % | topics in turn |
| `questions`: five questions in SQL at `--gib`, CPU of the whole process, bytes read | |

CPU time is the least of rounds: other work on the machine adds to it. The exit code is 1 where a
figure is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final
from unittest import mock

import pyarrow.parquet

import rmqtool
from rmqtool.engine import LocalEngine
from rmqtool.reads.export import ExportRun
from rmqtool.reads.export_options import ExportOptions
from rmqtool.reads.options import SourceOptions
from rmqtool.reads.plan import tasks
from rmqtool.reads.readers import batches
from rmqtool.tables import assisted
from tests.bench.bench_spark import MIB, report
from tests.bench.processors import Ended, run_to_end
from tests.bench.store_builder import GIB, Spec, bench_store

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS: Final = 5
RMQTOOL: Final = (sys.executable, "-m", "rmqtool")
FIXTURE: Final = Path(__file__).parents[2] / "fixtures" / "rocketmq-5.3.3-traffic" / "store"
TWENTY: Final = Spec(total_bytes=256 * MIB, topics=20, queues=2, segment_bytes=128 * MIB)
COLUMNS: Final = ("topic", "size")
TOPIC: Final = "BenchTopic07"
QUESTIONS: Final = {
    "disk use per topic": "SELECT * FROM disk_use_per_topic",
    "largest messages": "SELECT * FROM largest_messages",
    "one topic and queue": (
        "SELECT count(*), sum(size) FROM messages WHERE topic = 'BenchTopic07' AND queue_id = 1"
    ),
    "hot keys": "SELECT * FROM hot_keys",
    "traffic per minute": "SELECT * FROM traffic_per_minute",
}
_missed: list[str] = []


def main() -> int:
    """Measure what is asked for, and print JSON lines."""
    figures = {
        "columns": columns, "topic": topic, "key": key, "question": question, "skew": skew,
    }  # fmt: skip
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures", nargs="*", default=[*figures, "questions"])
    parser.add_argument("--gib", type=int, default=2)
    asked = parser.parse_args()
    for name in asked.figures:
        if name == "questions":
            questions(asked.gib)
        else:
            figures[name]()
    return 1 if _missed else 0


def check(what: str, value: float, at_most: float | None = None) -> None:
    """Print a figure, and keep whether it is missed."""
    report(what, value, at_most)
    if at_most is not None and value > at_most:
        _missed.append(what)


def cpu(function: Callable[[], object]) -> float:
    """Give the processor time of this process for a function, the least of rounds."""
    taken = []
    for _ in range(ROUNDS):
        began = time.process_time()
        function()
        taken.append(time.process_time() - began)
    return min(taken)


def columns() -> None:
    """Read two columns of 128 MiB."""
    store = bench_store(Spec(total_bytes=128 * MIB, segment_bytes=128 * MIB))
    source = SourceOptions(str(store), columns=COLUMNS)

    def by_scanner() -> int:
        opened = rmqtool.open_store(str(store))
        return sum(batch.num_rows for batch in opened.scanner(columns=COLUMNS))

    def by_readers() -> int:
        return sum(
            batch.num_rows for task in tasks(source) for batch in batches(task, source, COLUMNS)
        )

    assert by_scanner() == by_readers()
    readers = cpu(by_readers)
    check("readers of two columns of 128 MiB: s of CPU", readers)
    check("scanner: times the readers", cpu(by_scanner) / readers, 1.1)


def topic() -> None:
    """Export one topic of twenty."""
    exported("export --topic, one of twenty", {"topic": TOPIC}, 0.15)


def key() -> None:
    """Export the messages with one key."""
    store = bench_store(TWENTY)
    first = next(rmqtool.open_store(str(store)).scanner(columns=["unique_key"]))
    exported("export --key", {"key": first.column(0)[-1].as_py()}, 0.15)


def exported(what: str, limit: dict[str, str], at_most: float) -> None:
    """Export some records by queues and index, and by reading all of the log."""
    store = bench_store(TWENTY)
    log = sum(file.stat().st_size for file in (store / "commitlog").iterdir())
    source = SourceOptions.of({"path": str(store), **limit})
    with tempfile.TemporaryDirectory(dir=store.parent) as above:
        some = ExportRun(ExportOptions(source, f"{above}/some")).run(LocalEngine(1))
        with mock.patch.object(assisted, "WORTH", -1.0):  # nothing is worth less than all
            whole = ExportRun(ExportOptions(source, f"{above}/all")).run(LocalEngine(1))
        rows = [pyarrow.parquet.read_table(f"{above}/{name}") for name in ("some", "all")]
    assert rows[0].equals(rows[1]), "other rows"
    assert some.rows == whole.rows > 0
    check(f"{what}: bytes read for each byte of the log", some.read / log, at_most)
    check(f"{what}, all of the log read: the same", whole.read / log)


def question() -> None:
    """Ask about a fixture, beside a start of Python with what every engine of SQL needs."""
    start = least([sys.executable, "-c", "import duckdb, pyarrow, numpy"])
    asked = least(sql(FIXTURE, "SELECT topic, count(*) FROM messages GROUP BY topic"))
    check("python -c 'import duckdb, pyarrow, numpy': s of CPU", start.processor)
    check("sql on a fixture: s of CPU", asked.processor, 1.5 * start.processor + 0.5)


def skew() -> None:
    """Let Spark group and shuffle a log of which one topic has 90 %."""
    shuffling = [*RMQTOOL, "rebuild-cq", "STORE", "--output", "NEW", "--master", "local[2]"]
    grouping = "SELECT topic, count(*) AS n, sum(size) AS bytes FROM messages GROUP BY topic"
    grouping_there = [*RMQTOOL, "sql", "STORE", grouping, "--master", "local[2]"]
    for what, words in (("rebuild-cq", shuffling), ("group by topic", grouping_there)):
        taken: list[Ended] = []
        for of_first in (0, 9):
            store = bench_store(Spec(total_bytes=512 * MIB, segment_bytes=64 * MIB, skew=of_first))
            with tempfile.TemporaryDirectory(dir=store.parent) as above:
                paths = {"STORE": str(store), "NEW": f"{above}/new"}
                taken.append(least([paths.get(word, word) for word in words], rounds=1))
        equal, skewed = taken
        check(f"{what}, 90 % in one topic: times the CPU", skewed.processor / equal.processor)
        check(f"{what}, 90 % in one topic: times the time", skewed.wall / equal.wall)


def questions(gib: int) -> None:
    """Ask five questions about a log of one day."""
    store = bench_store(Spec(total_bytes=gib * GIB, span_ms=86_400_000))
    for name, text in QUESTIONS.items():
        ended = least(sql(store, text), rounds=2)
        check(f"sql at {gib} GiB, {name}: s of CPU", ended.processor)
        check(f"sql at {gib} GiB, {name}: s by clock", ended.wall)


def sql(store: Path, text: str) -> list[str]:
    """Give the command that asks."""
    return [*RMQTOOL, "sql", str(store), text]


def least(words: list[str], rounds: int = ROUNDS) -> Ended:
    """Run a command some times; give the run that took the least processor time."""
    ended = [run_to_end(words) for _ in range(rounds)]
    assert not any(one.code for one in ended), words
    return min(ended, key=lambda one: one.processor)


if __name__ == "__main__":
    sys.exit(main())
