"""Get a Spark session, quietly: what Java and log4j have to say goes to a file, or nowhere.

A session that is there already is used as it is; else one is started for a master:
`local[*]`, `spark://`, `yarn`, `k8s://`, or `sc://` for Spark Connect. Nothing here reads a store.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rmqtool.spark.available import check_spark, configured_master, is_connect, is_local
from rmqtool.spark.jobs import SparkFailed
from rmqtool.writing.temporary_copy import place_for, top
from rmqtool.writing.user_files import open_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

TRIES: Final = 4  # of a task, what Spark's own `spark.task.maxFailures` is on a cluster
_LOCAL: Final = re.compile(r"local(?:\[(\*|\d+)\])?")
_RAISED: Final = re.compile(r"^:? ?(?:[\w$]+\.)+\w*(?:Exception|Error): ")
CALLING: Final = "An error occurred while calling"
PANDAS_REMARK: Final = "PySpark does not yet fully support pandas"
PACKAGES: Final = str(Path(__file__).parents[2])  # what holds rmqtool
OPTIONS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.driver.maxResultSize": "0",  # results come in waves that are bounded by ourselves
    "spark.python.authenticate.socketTimeout": "120s",  # 15 s are few on a busy machine
    "spark.scheduler.mode": "FIFO",  # an earlier wave of parts is wanted before a later one
}
LOCAL_OPTIONS: Final = {
    # Other users of the machine reach loopback, too. Spark makes the secret itself, in its memory.
    "spark.authenticate": "true",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
}
SOCKET_DIRECTORY: Final = "spark.python.unix.domain.socket.dir"
LONGEST_SOCKET_DIRECTORY: Final = 57  # bytes; Spark refuses more: 104 with the name of a socket
# Where Java only hands on what Python does, its second compiler costs seconds and saves nothing:
# without it a start takes half the processor time. SQL needs it: joins take twice as long without.
FORWARDING: Final = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1"}
CONNECT_OPTIONS: Final = frozenset({"spark.sql.session.timeZone"})


def active_session() -> SparkSession | None:
    """Give the session that runs in this process already, if one does."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def session(
    master: str | None = None,
    *,
    log_file: str | None = None,
    options: Mapping[str, str] | None = None,
) -> SparkSession:
    """Get the session of this process, or start one.

    Args:
        master: where to run; None is `local[*]`, or what the environment configures.
        log_file: where to append what Java and Spark say; None drops it.
        options: further Spark configuration.

    Raises:
        EngineMissing: pyspark or Java is not there, or is too old.
        SparkFailed: Spark did not start.
    """
    configured = configured_master()
    where = master or (configured[0] if configured else "local[*]")
    check_spark(where)
    # We use none of pandas; Spark asks for it, and remarks on its release on our stderr.
    warnings.filterwarnings("ignore", PANDAS_REMARK, FutureWarning)
    running = active_session()
    if running is not None:
        return running
    if is_connect(where):
        return _connect(where, {**OPTIONS, **(options or {})})
    return _start(where, log_file, options or {})


def _start(master: str, log_file: str | None, options: Mapping[str, str]) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    # Spark makes it where the process stands; nothing of ours is ever put there.
    warehouse = {"spark.sql.warehouse.dir": place_for("warehouse")}
    local = {**LOCAL_OPTIONS, **_sockets()} if is_local(master) else {}
    settings = {**OPTIONS, **warehouse, **local, **options}
    builder = SparkSession.builder.master(_patient(master)).appName("rmqtool")
    for name, value in settings.items():
        builder = builder.config(name, value)
    if is_local(master):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        # The driver's own Python workers plan reads: they find this very package.
        with _python_path(), _quiet(log_file):
            spark = builder.getOrCreate()
    except (PySparkException, Py4JError, RuntimeError, OSError) as error:
        raise failure(error, master, log_file) from error
    if not log_file:
        spark.sparkContext.setLogLevel("OFF")
    return spark


def _sockets() -> dict[str, str]:
    """Let Java and Python workers talk through sockets in a directory of this user.

    Through TCP each task waits 40 ms: Java sends what it has to say in pieces, and holds the next
    one back until the system acknowledges the one before.
    """
    directory = top()
    if len(os.fsencode(directory)) > LONGEST_SOCKET_DIRECTORY:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", SOCKET_DIRECTORY: directory}


def _patient(master: str) -> str:
    """Let tasks on this machine be tried again, as on a cluster: a worker may be killed."""
    match = _LOCAL.fullmatch(master)
    return f"local[{match[1] or 1},{TRIES}]" if match else master


def _connect(url: str, options: Mapping[str, str]) -> SparkSession:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        spark = SparkSession.builder.remote(url).getOrCreate()
        for name in CONNECT_OPTIONS & options.keys():
            spark.conf.set(name, options[name])
    except (PySparkException, RuntimeError, OSError) as error:
        raise failure(error, url, None) from error
    return spark


def failure(error: Exception, master: str, log_file: str | None) -> SparkFailed:
    """Say why Spark did not start, in one line, and where more is said."""
    text = str(error)
    if "stopped SparkContext" in text:  # it gave up, and only its log knows why
        reason = f"no master answered at {master}, or it refused: is it one of this Spark's release"
    elif "JAVA_GATEWAY_EXITED" in text:
        reason = f"Java ended at once: is {master} a master's address"
    else:
        lines = [line.strip() for line in text.splitlines()]
        lines = [line for line in lines if line.strip(": ") and not line.endswith(":")]
        causes = (line for line in lines if not line.startswith(CALLING))
        reason = _RAISED.sub("", next(causes, type(error).__name__))
    if log_file:
        return SparkFailed(reason=reason, step=f"what {log_file} says")
    return SparkFailed(reason=reason, step="the same with --verbose, which keeps what Spark says")


@contextmanager
def _python_path() -> Iterator[None]:
    """Let Python workers that are started from here find rmqtool where this process does.

    They import nothing from the directory that they are started in, which may be that of a store.
    """
    paths = os.pathsep.join(filter(None, [PACKAGES, os.environ.get("PYTHONPATH")]))
    new = {"PYTHONPATH": paths, "PYTHONSAFEPATH": "1"}
    before = {name: os.environ.get(name) for name in new}
    os.environ.update(new)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _quiet(log_file: str | None) -> Iterator[None]:
    """Give the Java process another stdout and stderr than ours, for its whole life.

    It inherits both when it is started. What it says to them (log4j, warnings of the JVM, output
    of Python workers) would be mixed with rows and remarks.
    """
    target = open_log(log_file)  # for this user alone: logs hold names of topics and files
    saved: list[tuple[int, int]] = []
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    try:
        for descriptor in (1, 2):
            with suppress(OSError):  # one that is closed cannot be written to, either
                saved.append((descriptor, os.dup(descriptor)))
                os.dup2(target, descriptor)
        yield
    finally:
        for descriptor, copy in saved:
            os.dup2(copy, descriptor)
            os.close(copy)
        os.close(target)
