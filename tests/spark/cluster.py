"""A standalone Spark cluster on loopback: a real master and workers, from pyspark's own files."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.spark.class_archive import java_options

DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
ADDRESS = re.compile(r"spark://127\.0\.0\.1:\d+")
REGISTERED = re.compile(r"Successfully registered with master")
MODEST = java_options()
QUICK = {"SPARK_DAEMON_JAVA_OPTS": MODEST, "SPARK_DAEMON_MEMORY": "256m"}
BROKEN = 'Exception in thread "main"'
STARTED_WITHIN = 600  # seconds, on a machine that is busy


def environment(temporary: Path | None = None) -> dict[str, str]:
    """Give the variables of a machine that has Python with the dependencies, and no rmqtool.

    Args:
        temporary: directory for temporary files; None is the usual one.
    """
    left_out = {"PYTHONPATH", "SPARK_HOME", "SPARK_CONF_DIR"}
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    if temporary is not None:
        kept["TMPDIR"] = str(temporary)
    found = {**kept, **QUICK, "SPARK_LOCAL_IP": "127.0.0.1"}
    return {**found, "PYSPARK_PYTHON": sys.executable}


@contextmanager
def cluster(directory: Path, workers: int = 2) -> Iterator[str]:
    """Start a master and workers of one core each; give the master's address.

    Each worker has an address of its own: Spark runs no task a second time on the same machine.
    """
    with ExitStack() as running:
        common = ("--webui-port", "0", "--host")
        place = directory / "master"
        log = running.enter_context(daemon(place, MASTER, *common, "127.0.0.1", "--port", "0"))
        address = wait_for(log, ADDRESS)
        logs = []
        for number in range(workers):
            place = directory / f"worker-{number}"
            host = f"127.0.0.{number + 1}"
            arguments = (
                *common,
                host,
                "--cores",
                "1",
                "--memory",
                "1g",
                "--work-dir",
                str(place),
                address,
            )
            worker = daemon(place, WORKER, *arguments, SPARK_LOCAL_IP=host)
            logs.append(running.enter_context(worker))
        for one in logs:
            wait_for(one, REGISTERED)
        yield address


def end_with_parent() -> None:
    """Let the system kill this process when the tests are killed: it ran on for hours."""
    ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)


@contextmanager
def daemon(directory: Path, *arguments: str, **variables: str) -> Iterator[Path]:
    """Run one of Spark's daemons; give its log. It is killed at the end, by its own number."""
    import pyspark

    directory.mkdir(parents=True)
    path = directory / "log"
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with path.open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - pyspark's own program
            [str(program), *arguments],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment(directory.parent) | {"SPARK_HOME": str(program.parents[1])} | variables,
            cwd=directory,
            preexec_fn=end_with_parent,  # noqa: PLW1509 - of one thread, and it calls one function
        )
    try:
        yield path
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(log: Path, pattern: re.Pattern[str]) -> str:
    """Wait until a log says something; give it."""
    end = time.monotonic() + STARTED_WITHIN
    while time.monotonic() < end:
        said = log.read_text(errors="replace")
        if found := pattern.search(said):
            return found[0]
        if BROKEN in said:
            break
        time.sleep(0.1)
    raise TimeoutError(log.read_text(errors="replace")[-2000:])


if __name__ == "__main__":
    with cluster(Path(sys.argv[1]), workers=1) as found:
        sys.stdout.write(f"{found}\n")
        sys.stdout.flush()
        signal.pause()
