"""`rmqtool export` to Parquet against `rmqtool dump --format jsonl`, in bytes of the log a second.

    python -m tests.bench.bench_export [--gib 2] [--rounds 3]
    python -m tests.bench.bench_export --engines [--gib 2] [--rounds 3]
    python -m tests.bench.bench_export --partitioned [--gib 2] [--rounds 3]

Records of 470 bytes, warm, all processors, medians of rounds in turn. Bytes are those of the log
that is read, not of what is written. What is fixed is left out of both: `dump` is a process whose
time for a log of two segments of 64 KiB is taken away; exports run in one Spark session, whose
start is given apart, as is an export of that small log. All columns are written, and then the ones
that analyses mostly use: Parquet is read by column, so few are asked for where many rows are.
Beside them stand a plain construct loop, of which `dump` has to do ten times as much, and what
Arrow's writer alone does with columns that are ready: no export is faster than that.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

# ruff: noqa: T201 - a benchmark prints
import duckdb
import pyarrow as pa

from rmqtool.engine import default_jobs
from rmqtool.reads.export import ExportRun
from rmqtool.reads.export_options import ExportOptions
from rmqtool.reads.export_task import FEW_TEXTS, open_writer
from rmqtool.reads.options import SourceOptions
from rmqtool.reads.readers import batches
from rmqtool.reads.tasks import LogTask
from rmqtool.spark.engine import SparkEngine
from rmqtool.spark.session import FORWARDING, session
from rmqtool.store.parts import parts
from rmqtool.store.tree import open_store
from tests.bench.bench_dump import construct_rate
from tests.bench.processors import Ended, run_to_end
from tests.bench.store_builder import GIB, Spec, bench_store

RMQTOOL: Final = (sys.executable, "-m", "rmqtool")
RECORD_BYTES: Final = 470
LEAST_RATIO: Final = 5.0
MOST_RATIO: Final = 2.0  # of partitioned to unpartitioned
SMALL: Final = Spec(
    total_bytes=1 << 17,
    record_bytes=RECORD_BYTES,
    segment_bytes=1 << 16,
    queues=2,
    slots=100,
    entries=1000,
)
PART_BYTES: Final = 64 << 20
ALONE_ROUNDS: Final = 5
SPARK_WRITER: Final = "spark's own writer"
WRITE_BY_SPARK: Final = """
import sys
from rmqtool.spark import register
from rmqtool.spark.session import session
spark = register(session("local[*]"))
spark.read.format("rocketmq").load(sys.argv[1]).write.parquet(sys.argv[2])
spark.stop()
"""
ALL: Final = ExportOptions(SourceOptions(""), "").names
FEW: Final = "topic,queue_id,queue_offset,physical_offset,size,store_time,unique_key"


def run(*arguments: object) -> float:
    """Run a command, its rows thrown away; give the seconds."""
    began = time.perf_counter()
    command = [*RMQTOOL, *map(str, arguments)]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)  # noqa: S603 - ourselves
    return time.perf_counter() - began


def export(cluster: SparkEngine, store: Path, names: str | None) -> tuple[float, int]:
    """Export into a new directory; give the seconds and the bytes of its files."""
    columns = None if names is None else tuple(names.split(","))
    with tempfile.TemporaryDirectory(dir=store.parent) as above:
        began = time.perf_counter()
        source = SourceOptions(str(store), columns=columns)
        result = ExportRun(ExportOptions(source, f"{above}/output")).run(cluster)
        return time.perf_counter() - began, result.bytes


def engines(store: Path, rounds: int) -> int:
    """Export whole by each engine; print the time of each; 1 where the rows differ."""
    taken: dict[str, list[Ended]] = {}
    digests: dict[str, dict[str, str]] = {}
    rows: dict[str, tuple[int, int]] = {}
    for number in range(rounds):
        for engine in ("local", "spark", *([] if number else [SPARK_WRITER])):
            with tempfile.TemporaryDirectory(dir=store.parent) as above:
                output = Path(above, "output")
                words = [*RMQTOOL, "export", str(store), "--output", str(output), "--quiet"]
                words += ["--engine", engine]
                if engine == SPARK_WRITER:
                    words = [sys.executable, "-c", WRITE_BY_SPARK, str(store), str(output)]
                done = run_to_end(words)
                if done.code:
                    print(f"{engine}: exit code {done.code}")
                    return 1
                taken.setdefault(engine, []).append(done)
                digests[engine] = {
                    path.name: hashlib.sha256(path.read_bytes()).hexdigest()
                    for path in output.rglob("*.parquet")
                }
                rows[engine] = fingerprint(output)
    for engine, ended in taken.items():
        processor = statistics.median(one.processor for one in ended)
        wall = statistics.median(one.wall for one in ended)
        files = len(digests[engine])
        print(
            f"{engine}: {processor:.1f} s of CPU, {wall:.1f} s, {files} files, "
            f"{rows[engine][0]:,} rows, sum of their hashes {rows[engine][1]:x}"
        )
    same = digests["local"] == digests["spark"]
    print(f"files of local and spark: {'the same, byte for byte' if same else 'DIFFERENT'}")
    print(f"rows of all: {'the same' if len({*rows.values()}) == 1 else 'DIFFERENT'}")
    return 0 if same and len({*rows.values()}) == 1 else 1


def partitioned(store: Path, rounds: int) -> int:
    """Export with and without a directory for each topic and day; 1 where that takes too long."""
    taken: dict[str, list[Ended]] = {}
    files: dict[str, int] = {}
    for _ in range(rounds):
        for by in ("", "topic,date"):
            with tempfile.TemporaryDirectory(dir=store.parent) as above:
                words = [*RMQTOOL, "export", str(store), "--output", f"{above}/output", "--quiet"]
                done = run_to_end([*words, *(["--partition-by", by] if by else [])])
                if done.code:
                    print(f"exit code {done.code}")
                    return 1
                taken.setdefault(by, []).append(done)
                files[by] = len(list(Path(above).rglob("*.parquet")))
    processor = {by: statistics.median(one.processor for one in taken[by]) for by in taken}
    wall = {by: statistics.median(one.wall for one in taken[by]) for by in taken}
    for by in taken:
        said = f"partitioned by {by}" if by else "not partitioned"
        print(f"{said}: {processor[by]:.1f} s of CPU, {wall[by]:.1f} s, {files[by]} files")
    ratio = processor["topic,date"] / processor[""]
    print(f"{ratio:.2f} times the CPU, {wall['topic,date'] / wall['']:.2f} times the time")
    return 0 if ratio <= MOST_RATIO else 1


def fingerprint(output: Path) -> tuple[int, int]:
    """Give the number of rows of a directory of Parquet, and a sum of hashes of each row's values.

    DuckDB reads the files, which nobody else here has anything to do with. The sum depends on no
    order, neither of rows nor of files. Spark writes times in another type: they are numbers here.
    """
    with duckdb.connect() as database:
        database.sql(f"CREATE VIEW files AS FROM read_parquet('{output}/**/*.parquet')")
        columns = database.sql("DESCRIBE files").fetchall()
        values = ", ".join(
            f"epoch_us({name})" if kind.startswith("TIMESTAMP") else name
            for name, kind, *_ in sorted(columns)
        )
        question = f"SELECT count(*), sum(hash({values})) FROM files"  # noqa: S608 - names of ours
        ((count, total),) = database.sql(question).fetchall()
    return count, int(total)


def writing_alone(store: Path, columns: tuple[str, ...]) -> float:
    """Give the MB of log a second that all processors write as Parquet, of columns in memory."""
    part = next(iter(parts(open_store(store).commitlog, PART_BYTES)))
    source = SourceOptions(str(store), columns=columns)
    ready = list(batches(LogTask(part), source, columns, FEW_TEXTS))
    table = pa.Table.from_batches(ready).unify_dictionaries()
    options = ExportOptions(source, "")
    seconds = []
    for number in range(ALONE_ROUNDS):
        with tempfile.TemporaryDirectory(dir=store.parent) as above:
            began = time.process_time()
            with Path(above, f"{number}.parquet").open("wb") as file:
                writer = open_writer(file, table.schema, options)
                writer.write(table)
                writer.close()
            seconds.append(time.process_time() - began)
    return part.length / min(seconds) / 1e6 * default_jobs()


def against_dump(store: Path, total: int, rounds: int) -> int:
    """Compare with `dump`; print; 1 when a bound is not kept."""
    small = bench_store(SMALL)
    run("dump", small, "--format", "jsonl")  # the kernels are compiled
    began = time.perf_counter()
    cluster = SparkEngine.on(session("local[*]", options=FORWARDING))  # as the command starts it
    export(cluster, small, None)
    print(f"start of Spark and of its workers: {time.perf_counter() - began:.1f} s")
    segment = min((store / "commitlog").iterdir())
    loop = (
        max(construct_rate(segment, RECORD_BYTES) for _ in range(ALONE_ROUNDS)) * RECORD_BYTES / 1e6
    )
    print(f"plain construct loop: {loop:.1f} MB/s")
    ratios = []
    for name, columns in (("all columns", None), ("few columns", FEW)):
        shown = () if columns is None else ("--columns", columns)
        taken: dict[str, list[float]] = {}
        size = 0
        for _ in range(rounds):
            for what, path in (("fixed", small), ("whole", store)):
                dumped = run("dump", path, "--format", "jsonl", *shown)
                exported, size = export(cluster, path, columns)
                taken.setdefault(f"dump {what}", []).append(dumped)
                taken.setdefault(f"export {what}", []).append(exported)
        median = {what: statistics.median(seconds) for what, seconds in taken.items()}
        dump = total / (median["dump whole"] - median["dump fixed"]) / 1e6
        rate = total / (median["export whole"] - median["export fixed"]) / 1e6
        ratios.append(rate / dump)
        print(
            f"{name}: dump {dump:.0f} MB/s; export {rate:.0f} MB/s "
            f"({median['export whole']:.2f} s, {median['export fixed']:.2f} s of it fixed), "
            f"{size / 1e6:.0f} MB of Parquet: {rate / dump:.1f} times dump, "
            f"{rate / loop:.0f} times the loop; writing alone "
            f"{writing_alone(store, tuple(columns.split(',')) if columns else ALL):.0f} MB/s"
        )
    cluster.spark.stop()
    return 0 if min(ratios) >= LEAST_RATIO else 1


def main() -> int:
    """Measure and print; 1 when something is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engines", action="store_true", help="local against Spark, whole")
    parser.add_argument("--partitioned", action="store_true", help="with directories, and without")
    asked = parser.parse_args()
    total = asked.gib * GIB
    store = bench_store(Spec(total_bytes=total, record_bytes=RECORD_BYTES))
    if asked.engines:
        return engines(store, asked.rounds)
    if asked.partitioned:
        return partitioned(store, asked.rounds)
    return against_dump(store, total, asked.rounds)


if __name__ == "__main__":
    sys.exit(main())
