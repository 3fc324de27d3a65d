"""Spark jobs that can be cancelled, and whose failures are told apart.

On a cluster of one's own a job group holds what belongs together; through Spark Connect, a tag.
"""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, Final

from rmqtool.errors import EngineMissing, RmqtoolError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

INSTALL_THERE: Final = "pip install . in a clone of rmqtool, by that Python (see PYSPARK_PYTHON)"
LONGEST_DESCRIPTION: Final = 200  # characters
CONNECT_CORES: Final = 32  # a server does not say how many it has
_NO_MODULE: Final = re.compile(r"ModuleNotFoundError: No module named '([^'.]+)")
_ERROR_CLASS: Final = re.compile(r"\[[A-Z][A-Z_]+(\.[A-Z_]+)*\] .*")
_numbers = count(1)


class SparkFailed(RmqtoolError):
    """Spark was there, but did not start or did not finish.

    Attributes:
        reason: why.
        step: what to try.
    """

    def __init__(self, *, reason: str, step: str = "") -> None:
        super().__init__()
        self.reason, self.step = reason, step

    def __str__(self) -> str:
        return f"Spark failed: {self.reason}"

    @property
    def next_step(self) -> str:
        """What was named."""
        return self.step


def is_connect_session(spark: SparkSession) -> bool:
    """Whether a session talks to a Spark Connect server."""
    return ".connect." in type(spark).__module__


def is_on_this_machine(spark: SparkSession) -> bool:
    """Whether tasks run on the machine of the driver, as `local[*]` says."""
    if is_connect_session(spark):
        return False
    return str(spark.sparkContext.master).partition("[")[0] == "local"


def cores(spark: SparkSession) -> int:
    """Give the number of tasks that run at a time."""
    return CONNECT_CORES if is_connect_session(spark) else spark.sparkContext.defaultParallelism


class Job:
    """Jobs that are cancelled together.

    Args:
        spark: where they run.
        what: for people who look at Spark's own page: what the jobs do.

    Attributes:
        name: of their group, or their tag.
    """

    def __init__(self, spark: SparkSession, what: str) -> None:
        self._spark = spark
        self._what = f"rmqtool: {what}"[:LONGEST_DESCRIPTION]
        self.name = f"rmqtool-{next(_numbers)}"

    def collect(self, rows: DataFrame) -> pa.Table:
        """Run a job and give its rows.

        Raises:
            SparkFailed: it was given up, or cancelled.
            EngineMissing: executors lack a package.
        """
        with self.running():
            return rows.toArrow()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let the jobs of a block, in this thread, belong to this one; put its errors in words.

        Raises:
            SparkFailed: a job was given up, or cancelled.
            EngineMissing: executors lack a package.
        """
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        is_connect = is_connect_session(self._spark)
        if is_connect:
            self._spark.addTag(self.name)
        else:
            self._spark.sparkContext.setJobGroup(self.name, self._what, interruptOnCancel=True)
        try:
            with living_java():
                yield
        except (PySparkException, Py4JError) as error:
            raise _in_words(error) from error
        except BaseException:  # the block is left before its end, as by Ctrl-C
            self.cancel()
            raise
        finally:
            if is_connect:
                self._spark.removeTag(self.name)

    def cancel(self) -> None:
        """Stop what runs."""
        with suppress(ConnectionError):  # what is gone does not run
            if is_connect_session(self._spark):
                self._spark.interruptTag(self.name)
            else:
                self._spark.sparkContext.cancelJobGroup(self.name)

    def tasks_done(self) -> tuple[int, int]:
        """Give the tasks that are done, and all tasks, of the stages that run now."""
        done = total = 0
        if is_connect_session(self._spark):
            return done, total
        tracker = self._spark.sparkContext.statusTracker()
        for number in tracker.getJobIdsForGroup(self.name):
            job = tracker.getJobInfo(number)
            if job is None or job.status != "RUNNING":
                continue
            for stage in (tracker.getStageInfo(d) for d in job.stageIds):
                if stage is not None:
                    done, total = done + stage.numCompletedTasks, total + stage.numTasks
        return done, total


@contextmanager
def living_java() -> Iterator[None]:
    """Say that Java has ended, where a block loses it: the system kills what takes much memory.

    Raises:
        SparkFailed: it has.
    """
    try:
        yield
    except ConnectionError as error:
        step = "the same with --verbose, which keeps what Spark says"
        raise SparkFailed(reason="its Java process is gone", step=step) from error


def _in_words(error: Exception) -> Exception:
    """Give what a user can act upon; a bug in a task stays what it is."""
    text = str(error)
    if match := _NO_MODULE.search(text):
        package = "rmqtool" if match[1] == "rmqtool" else match[1]
        return EngineMissing(
            needs=f"{package} in the Python of the executors",
            install=INSTALL_THERE,
        )
    if "Traceback (most recent call last)" in text and "rmqtool" in text:
        return error
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reason = next((line for line in lines if not line.endswith(":")), type(error).__name__)
    if match := _ERROR_CLASS.search(text):  # what went wrong; before it stands who was calling
        reason = match[0]
    return SparkFailed(reason=reason[:500])
