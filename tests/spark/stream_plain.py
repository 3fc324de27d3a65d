"""The reader of a stream without Spark, in a process to be killed at any moment.

    python -m tests.spark.stream_plain STORE DIRECTORY MAX_BYTES FAIL_ON_DATA_LOSS

It does what Spark does, with the same files: the end of a batch is written down before the batch
runs, a batch that was not committed runs again, and a sink takes each batch once. It starts in a
tenth of the time.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from rmqtool.errors import RmqtoolError
from rmqtool.reads.options import SourceOptions
from rmqtool.spark.stream import RocketMQStreamReader
from tests.spark.stream_judge import COLUMNS, LIST

ROWS, CHECKPOINT = "rows", "checkpoint"
OFFSETS, COMMITS = f"{CHECKPOINT}/offsets", f"{CHECKPOINT}/commits"
PAUSE: Final = 0.3  # seconds between batches
VERSION: Final = "v1\n"


class PlainQuery:
    """A stream of one log into Parquet files.

    Args:
        options: of the read.
        directory: for rows and checkpoint, laid out as Spark does.
    """

    def __init__(self, options: SourceOptions, directory: Path) -> None:
        self._options, self._directory = options, directory
        for name in (OFFSETS, COMMITS, f"{ROWS}/{LIST}"):
            (directory / name).mkdir(parents=True, exist_ok=True)

    def run(self) -> None:
        """Run batches until killed.

        Raises:
            RmqtoolError: what a query of Spark ends with.
        """
        planned = [int(path.name) for path in (self._directory / OFFSETS).glob("[0-9]*")]
        number = max(planned, default=-1)
        if planned and not (self._directory / COMMITS / str(number)).exists():
            self._run(number, self._start(number), self._place(number))
        while True:
            start = self._start(number + 1)
            reader = RocketMQStreamReader(self._options, COLUMNS)
            end = reader.latestOffset(start, reader.getDefaultReadLimit())
            if end != start:
                number += 1
                self._write(f"{OFFSETS}/{number}", f"{VERSION}{{}}\n{json.dumps(end)}")
                self._run(number, start, self._place(number))
            time.sleep(PAUSE)

    def _run(self, number: int, start: dict[str, Any], end: dict[str, Any]) -> None:
        listed = f"{ROWS}/{LIST}/{number}"
        if not (self._directory / listed).exists():
            reader = RocketMQStreamReader(self._options, COLUMNS)
            parts = reader.partitions(start, end)
            batches = [rows for part in parts for rows in reader.read(part)]
            self._write(listed, VERSION + "".join(self._stored(number, batches)))
        self._write(f"{COMMITS}/{number}", VERSION)

    def _stored(self, number: int, batches: list[pa.RecordBatch]) -> Iterator[str]:
        """Write the rows of a batch, and give the line of its list for their file.

        Where no record begins between two places, only the blank end of a file, there are
        no rows and no file.
        """
        if not batches:
            return
        rows = pa.Table.from_batches(batches)
        times = rows["store_time"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
        at = rows.schema.get_field_index("store_time")
        path = self._directory / ROWS / f"{number}-{os.getpid()}.parquet"
        pq.write_table(rows.set_column(at, "store_time", times), path)
        yield f"{json.dumps({'path': path.as_uri()})}\n"

    def _start(self, number: int) -> dict[str, Any]:
        if number:
            return self._place(number - 1)
        return RocketMQStreamReader(self._options, COLUMNS).initialOffset()

    def _place(self, number: int) -> dict[str, Any]:
        lines = (self._directory / OFFSETS / str(number)).read_text().splitlines()
        found: dict[str, Any] = json.loads(lines[2])
        return found

    def _write(self, name: str, text: str) -> None:
        """Write a file as a whole, or not at all."""
        path = self._directory / name
        staged = path.with_name(f".{path.name}.staged")
        staged.write_text(text, encoding="utf-8")
        staged.replace(path)


def main(store: str, directory: Path, max_bytes: str, fail: str) -> None:
    """Stream until killed, or until the log has lost something."""
    given = {"path": store, "max_bytes": max_bytes, "failOnDataLoss": fail}
    try:
        PlainQuery(SourceOptions.of(given), directory).run()
    except RmqtoolError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4])
