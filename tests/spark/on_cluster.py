"""Run all bulk commands on a cluster and write what they gave: a process of its own.

    python -m tests.spark.on_cluster MASTER STORE DIRECTORY

A Spark context of another master cannot be in the process of the other tests. What is defined here
travels to executors as it is, as they know nothing of the tests.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from rmqtool import engine
from rmqtool.scan.join import Joinable, PerPart
from rmqtool.spark.engine import SparkEngine
from rmqtool.spark.session import session
from rmqtool.store.segment import SegmentPart
from tests.spark import results
from tests.spark.test_engine import SMALL, everything, wrapping


@dataclass(frozen=True)
class KillExecutor:
    """A per-part function that kills the JVM of its executor, once."""

    function: PerPart[Joinable]
    marker: Path

    def __call__(self, part: SegmentPart, *, start: int | None = None) -> Joinable:
        """Kill, or work."""
        try:
            self.marker.touch(exist_ok=False)
        except FileExistsError:
            return self.function(part, start=start)
        daemon = os.getppid()  # pyspark's, which the executor has started
        status = Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()
        os.kill(int(status[1]), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def where(_: object) -> str:
    """Say where an executor has this package from."""
    import rmqtool as package

    return str(package.__file__)


def main(master: str, store: Path, directory: Path) -> None:
    """Run everything, and then a validation in which an executor dies."""
    found: dict[str, object] = {}
    spark = session(master, log_file=str(directory / "driver.log"))
    setattr(import_module("rmqtool.spark.waves"), "TASK_BYTES", SMALL)  # noqa: B010
    with engine.using(SparkEngine.on(spark)):
        found["where"] = next(iter(engine.run(where, [0])))
        for module in results.PER_PART:
            setattr(import_module(module), "PART_BYTES", SMALL)  # noqa: B010 - any module
        found["everything"] = everything(store, directory / "whole", SMALL)
        marker = directory / "killed"
        check_log = import_module("rmqtool.check.log")
        setattr(check_log, "run_joined", wrapping(lambda one: KillExecutor(one, marker)))  # noqa: B010
        found["killed"] = results.validated(store, SMALL)
        found["has killed"] = marker.exists()
    (directory / "found").write_bytes(pickle.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
