"""Without Java or pyspark, what needs Spark says what to install; with them, Spark is quiet."""

from __future__ import annotations

import importlib.util
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from rmqtool.cli.engines import EngineChoice, EngineName, decide
from rmqtool.errors import EngineMissing, UsageError
from rmqtool.reads.options import SourceOptions
from rmqtool.spark import available, session
from rmqtool.spark.available import check_java
from rmqtool.spark.engine import SparkEngine
from rmqtool.spark.jobs import SparkFailed, living_java
from rmqtool.spark.sql import SparkQuestions
from tests.stores import fixture_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRAFFIC = "rocketmq-5.3.3-traffic"
MASTER = "local[1]"
ROOT = Path(__file__).parents[2]


def java_that_says(text: str, home: Path) -> Path:
    """Make a Java that says something to `-version`."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    program.chmod(0o755)
    return home


@pytest.mark.parametrize(
    ("text", "is_enough"),
    [
        ('openjdk version "17.0.15" 2025-04-15', True),
        ('openjdk version "21" 2023-09-19', True),
        ('openjdk version "11.0.2" 2019-01-15', False),
        ('java version "1.8.0_402"', False),
        ("something else", True),
    ],
)
def test_java(text: str, is_enough: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Java that is too old is named, with what installs another one."""
    monkeypatch.setenv("JAVA_HOME", str(java_that_says(text, tmp_path)))
    if is_enough:
        check_java()
        return
    with pytest.raises(EngineMissing, match=r"Java 17 or newer.*is (11|8).*apt install openjdk"):
        check_java()


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java at all is the same."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineMissing, match=r"^Java 17 or newer is missing; install it with: apt"):
        check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EngineMissing):
        check_java()


@pytest.mark.parametrize("package", ["pyspark", "pandas"])
def test_no_package(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing package gives the line that installs it."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == package else found(name)
    )
    with pytest.raises(EngineMissing, match=rf"{package}.*pip install '\.\[spark\]' in a clone"):
        available.check_spark(MASTER)


STOPPED = """An error occurred while calling None.org.apache.spark.sql.classic.SparkSession.
: java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.
This stopped SparkContext was created at:

org.apache.spark.api.java.JavaSparkContext.<init>(JavaSparkContext.scala:59)"""
REFUSED = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.spark.SparkException: cores has to be >= 1.
	at org.apache.spark.SparkContext.<init>(SparkContext.scala:128)"""
EXITED = "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number."


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (STOPPED, "no master answered at spark://h:7, or it refused: is it one of this Spark's"),
        (REFUSED, "cores has to be >= 1."),
        (EXITED, "Java ended at once: is spark://h:7 a master's address"),
    ],
)
def test_failure(said: str, reason: str) -> None:
    """That Spark did not start is told in one line without Java's names, and what to try."""
    failed = session.failure(RuntimeError(said), "spark://h:7", None)
    assert str(failed).startswith(f"Spark failed: {reason}")
    assert "--verbose" in failed.next_step
    logged = session.failure(RuntimeError(said), "spark://h:7", "spark.log")
    assert "what spark.log says" == logged.next_step


def test_no_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark Connect needs no Java, but packages of its own."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "grpc" else found(name)
    )
    with pytest.raises(EngineMissing, match=r"pip install 'pyspark\[connect\]'"):
        available.check_spark("sc://localhost")


@pytest.mark.parametrize(
    ("choice", "path", "expected"),
    [
        (
            EngineChoice(),
            "/data",
            (False, "as no master is named and the store is on this machine"),
        ),
        (EngineChoice(EngineName.AUTO), "file:///data", (False, "as no master")),
        (EngineChoice(EngineName.LOCAL), "s3://bucket/store", (False, "as --engine says")),
        (EngineChoice(EngineName.SPARK), "/data", (True, "as --engine says")),
        (EngineChoice(None, MASTER), "/data", (True, "as --master names one")),
        (EngineChoice(EngineName.AUTO, MASTER), "/data", (True, "as --master names one")),
    ],
)
def test_auto(
    choice: EngineChoice, path: str, expected: tuple[bool, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark is taken when a master is named, else this process; the reason is said."""
    for name in (*available.CONFIGURED, "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    is_spark, why = decide(choice, [path])
    assert (expected[0], True) == (is_spark, why.startswith(expected[1]))


def test_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A master that is configured for Spark counts, from the environment or from its file."""
    monkeypatch.setenv("SPARK_MASTER", "spark://somewhere:7077")
    assert (True, "as SPARK_MASTER names a master") == decide(EngineChoice(), ["/data"])
    monkeypatch.delenv("SPARK_MASTER")
    (tmp_path / "spark-defaults.conf").write_text("# x\nspark.master   yarn\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert ("yarn", str(tmp_path / "spark-defaults.conf")) == available.configured_master()


def test_master_without_spark() -> None:
    """A master and the local engine contradict each other."""
    with pytest.raises(UsageError, match="--master"):
        decide(EngineChoice(EngineName.LOCAL, MASTER), ["/data"])


def rmqtool(
    *arguments: str, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command line as a process of its own."""
    import os

    return subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "rmqtool", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
        cwd=cwd,
    )


def test_without_java_as_a_command(tmp_path: Path) -> None:
    """Without Java, --engine spark ends with exit code 2 and one line; all else works."""
    store = str(fixture_store(TRAFFIC, tmp_path))
    nowhere = str(tmp_path)
    done = rmqtool("dump", store, "--engine", "spark", JAVA_HOME=nowhere)
    assert (2, "") == (done.returncode, done.stdout)
    assert 1 == len(done.stderr.splitlines())
    assert "apt install openjdk" in done.stderr
    assert 0 == rmqtool("dump", store, "--limit", "1", JAVA_HOME=nowhere).returncode


@pytest.mark.spark
def test_quiet(tmp_path: Path) -> None:
    """Spark says nothing on stdout and stderr: rows are those of this process, and one remark.

    Nor does it put anything where one stands.
    """
    store = str(fixture_store(TRAFFIC, tmp_path))
    expected = rmqtool("dump", store, "--format", "csv")
    log, here = tmp_path / "tmp", tmp_path / "here"
    log.mkdir()
    here.mkdir()
    found = rmqtool(
        *("dump", store, "--format", "csv", "--master", MASTER, "--verbose"),
        cwd=here,
        XDG_STATE_HOME=str(log),
        PYTHONPATH=str(ROOT),
    )
    assert [] == list(here.iterdir())
    assert expected.stdout == found.stdout
    assert expected.returncode == found.returncode
    (file,) = log.glob("rmqtool/spark-*.txt")
    assert [
        "rmqtool: engine: spark, as --master names one",
        f"rmqtool: Spark's log is {file}",
    ] == found.stderr.splitlines()
    assert 0o600 == stat.S_IMODE(file.stat().st_mode)
    assert "INFO" in file.read_text() or "WARN" in file.read_text()


def as_they_are(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give rows back."""
    yield from batches


@pytest.mark.spark
def test_sockets(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are reached through sockets in a directory of this user; of a long name, by TCP."""
    directory = Path(str(spark.sparkContext.getConf().get(session.SOCKET_DIRECTORY)))
    assert stat.S_IRWXU == stat.S_IMODE(directory.stat().st_mode)
    assert 2 == spark.range(0, 2, 1, 2).mapInArrow(as_they_are, "id bigint").count()
    assert list(directory.glob(".*.sock"))
    monkeypatch.setattr(session, "top", lambda: "/" + "x" * session.LONGEST_SOCKET_DIRECTORY)
    assert {} == session._sockets()  # noqa: SLF001


@pytest.mark.spark
def test_secret(spark: SparkSession) -> None:
    """Whoever reaches Spark over loopback needs a secret; Spark made it, and nobody else has it."""
    told = dict(spark.sparkContext.getConf().getAll())
    assert "true" == told["spark.authenticate"]
    assert not [name for name in told if "secret" in name]


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "refused"), BrokenPipeError()])
def test_java_is_gone(error: ConnectionError) -> None:
    """The system kills a process that takes much memory: that is no bug of ours."""
    with pytest.raises(SparkFailed, match="its Java process is gone"), living_java():
        raise error


def described(spark: SparkSession) -> set[str]:
    """Give the descriptions of jobs, as Spark's own page shows them."""
    jobs = spark._jsparkSession.sparkContext().statusStore().jobsList(None)  # noqa: SLF001
    options = (jobs.apply(number).description() for number in range(jobs.size()))
    return {str(option.get()) for option in options if option.isDefined()}


@pytest.mark.spark
def test_descriptions(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's own page says what jobs are for: the question, or the function over parts."""
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    text = "SELECT count(*) AS described FROM segments"
    answer = SparkQuestions(spark, SourceOptions(str(store))).ask(text)
    assert [row for chunk in answer.chunks for row in chunk]
    assert list(SparkEngine.on(spark).run(len, ["a", "bc"])) == [1, 2]
    assert {f"rmqtool: {text}", "rmqtool: builtins builtin_function_or_method"} <= described(spark)


@pytest.mark.spark
def test_patience(spark: SparkSession) -> None:
    """Java waits for Python on a busy machine longer than Spark's own 15 s."""
    assert spark.conf.get("spark.python.authenticate.socketTimeout") == "120s"
    assert os.environ["SPARK_AUTH_SOCKET_TIMEOUT"] == "120"
