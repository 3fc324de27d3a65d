"""A Spark driver that streams a log into Parquet files, to be killed at any moment.

    python -m tests.spark.stream_sink STORE DIRECTORY MAX_BYTES FAIL_ON_DATA_LOSS

It ends by itself only when its query does; what it says then is in `DIRECTORY/driver.log`.
`Follower` starts it from the tests.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from rmqtool.spark.session import session
from tests.processes import of_session
from tests.spark.conftest import QUICK
from tests.spark.stream_judge import COLUMNS

ROWS, CHECKPOINT, LOG = "rows", "checkpoint", "driver.log"
SETTINGS: Final = {
    **QUICK,
    # A driver lives for seconds: what is compiled for a query costs more than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.fileSink.log.deletion": "false",  # each batch's own list is read
}
TRIGGER: Final = "300 milliseconds"


def main(store: str, directory: Path, max_bytes: str, fail: str) -> None:
    """Stream until killed, or until the query ends."""
    from pyspark.errors import StreamingQueryException
    from pyspark.sql import functions as sql

    from rmqtool.spark import register

    spark = register(session("local[2]", options=SETTINGS))
    source = spark.readStream.format("rocketmq").option("failOnDataLoss", fail)
    rows = source.options(path=store, columns=",".join(COLUMNS), max_bytes=max_bytes).load()
    query = (
        rows.withColumn("store_time", sql.unix_millis("store_time"))
        .writeStream.format("parquet")
        .option("path", str(directory / ROWS))
        .option("checkpointLocation", str(directory / CHECKPOINT))
        .trigger(processingTime=TRIGGER)
        .start()
    )
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        print(error, file=sys.stderr, flush=True)  # noqa: T201 - for the log
        os._exit(1)  # nothing of Spark's end is of use


class Follower:
    """A driver in a process of its own.

    Args:
        store: whose log it follows.
        directory: for its sink, its checkpoint and its log.
        module: which driver: this one, or `tests.spark.stream_plain`.
    """

    def __init__(self, store: Path, directory: Path, module: str) -> None:
        self.directory = directory
        self._module = module
        self._store = store
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir()

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self, *, max_bytes: int, fail_on_data_loss: bool) -> None:
        """Start it from its checkpoint."""
        words = [str(self._store), str(self.directory), str(max_bytes)]
        words.append(str(fail_on_data_loss).lower())
        with (self.directory / LOG).open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, "-m", self._module, *words],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        """Kill it, its Java process and its Python workers: all of its session, at once."""
        if self._process is None:
            return
        for process in of_session(self._process.pid):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._process.wait()

    def said(self) -> str:
        """Give what it has said."""
        return (self.directory / LOG).read_text(encoding="utf-8", errors="replace")

    def committed(self) -> tuple[int, int]:
        """Give the last batch that was committed, and the place at its end; -1 and 0 without."""
        directory = self.directory / CHECKPOINT
        for _ in range(50):  # old ones are deleted meanwhile
            numbers = [int(path.name) for path in (directory / "commits").glob("[0-9]*")]
            if not numbers:
                return -1, 0
            try:
                lines = (directory / "offsets" / str(max(numbers))).read_text().splitlines()
                return max(numbers), int(json.loads(lines[2])["physical_offset"])
            except FileNotFoundError:
                time.sleep(0.1)
        raise FileNotFoundError(directory)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4])
