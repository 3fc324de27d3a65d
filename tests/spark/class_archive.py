"""Spark's classes as Java keeps them once they are loaded.

    python -m tests.spark.class_archive

makes the archive; `packaging/set-up tests` does so. A driver takes 3.6 s of CPU to start instead of
7.5 (Spark 4.3, Java 17), and tests start some thirty JVMs of Spark.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tests.class_archive import archive, make, reading, writing

ROOT = Path(__file__).parents[2]
STORE = "rocketmq-5.3.3-traffic"
# What runs once, for a minute, is not worth a second compiler, nor threads that collect garbage.
MODEST = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


@cache
def java_options() -> str:
    """Give the options of Java for each JVM of Spark that tests start."""
    return " ".join((*MODEST, *reading(_path())))


def _path() -> Path | None:
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        return None
    return archive("spark", Path(spark.origin).parent.glob("jars/*.jar"))


def _run(new: Path, scratch: Path) -> None:
    code = f"from tests.spark.class_archive import ask; ask({str(new)!r}, {str(scratch)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)  # noqa: S603


def ask(new: str, scratch: str) -> None:
    """Ask a session a few questions, and wait until its Java has ended, which writes the archive.

    Args:
        new: path of the archive.
        scratch: a directory.
    """
    from rmqtool.spark import register
    from rmqtool.spark.session import session
    from tests.stores import fixture_store

    java = " ".join((*MODEST, *writing(Path(new))))
    options = {"spark.driver.defaultJavaOptions": java, "spark.sql.shuffle.partitions": "2"}
    spark = register(session("local[2]", options=options))
    store = fixture_store(STORE, Path(scratch))
    messages = spark.read.format("rocketmq").option("table", "messages").load(str(store))
    messages.createOrReplaceTempView("messages")
    question = "SELECT topic, count(*) AS n, max(queue_offset) FROM messages GROUP BY topic"
    spark.sql(f"{question} ORDER BY n").collect()
    messages.limit(3).write.parquet(f"{scratch}/parquet")
    spark.read.parquet(f"{scratch}/parquet").count()
    process = spark.sparkContext._gateway.proc  # type: ignore[union-attr]  # noqa: SLF001 - Java's
    spark.stop()
    process.stdin.close()
    process.wait()


if __name__ == "__main__":
    path = _path()
    if path is not None:
        make(path, _run)
