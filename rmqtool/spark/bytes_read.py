"""What a query reads: bytes of files, and rows that tell of damage; executors tell, a session adds.

Spark's Python data sources have no metrics of their own. What workers log, a session keeps where
`spark.sql.pyspark.worker.logging.enabled` is set (Spark 4.1 and later), on any cluster:

    SELECT sum(context['bytes_read']) FROM python_worker_logs() WHERE logger = 'rmqtool.bytes_read'
"""

from __future__ import annotations

import logging
import sys
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.spark.tables import damaged_rows, unread_rows
from rmqtool.store.meter import metered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

LOGGER: Final = "rmqtool.bytes_read"
COUNT: Final = "bytes_read"
DAMAGED: Final = "damaged"
UNREAD: Final = "unread"
SETTING: Final = "spark.sql.pyspark.worker.logging.enabled"
TOTAL: Final = f"""
SELECT coalesce(sum(CAST(context['{COUNT}'] AS BIGINT)), 0),
  coalesce(sum(CAST(context['{DAMAGED}'] AS BIGINT)), 0),
  coalesce(sum(CAST(context['{UNREAD}'] AS BIGINT)), 0)
FROM python_worker_logs() WHERE logger = '{LOGGER}'
"""  # noqa: S608 - words of ours
WORTH: Final = 1 << 20  # bytes: a line for each window, not for each batch
SHARE: Final = 8  # of what a task has read before; the rest is told at its end, if it gets there
# Java reads lines that it keeps in a method that calls itself for each, until something else comes
# (PythonWorkerLogCapture#read, Spark 4.1 to 4.3). After some 13,000 its thread was gone, and
# workers waited for it without end. So a space comes now and then; executors have it on stderr.
LINES_BEFORE_SPACE: Final = 50
_lines = count()


def counting(batches: Iterable[pa.RecordBatch], table: str) -> Iterator[pa.RecordBatch]:
    """Pass batches on, and log what is read of files for them, and what is damage, before each.

    Args:
        batches: that read files as they are asked for.
        table: which they are of.
    """
    logger = logging.getLogger(LOGGER)
    logger.setLevel(logging.INFO)
    is_kept = logger.hasHandlers()  # where nobody keeps it, it is dropped
    with metered() as meter:
        done, more = 0, ReadSoFar(0)
        for batch in batches:
            if is_kept:
                bad, unread = damaged_rows(batch), unread_rows(batch)
                more = ReadSoFar(meter.bytes - done, more.damaged + bad, more.unread + unread)
                if more.bytes >= max(WORTH, done // SHARE):
                    _tell(logger, more, table)
                    done, more = meter.bytes, ReadSoFar(0)
            yield batch
        if is_kept:
            _tell(logger, more._replace(bytes=meter.bytes - done), table)


def _tell(logger: logging.Logger, read: ReadSoFar, table: str) -> None:
    context = {COUNT: str(read.bytes), DAMAGED: str(read.damaged), UNREAD: str(read.unread)}
    context["table"] = table
    logger.info("read %d bytes of the store", read.bytes, extra={"context": context})
    if next(_lines) % LINES_BEFORE_SPACE == 0 and sys.__stdout__ is not None:
        sys.__stdout__.write(" ")  # what Java reads; sys.stdout is another one in a worker
        sys.__stdout__.flush()


class ReadSoFar(NamedTuple):
    """What was read."""

    bytes: int  # of files
    damaged: int = 0  # rows that tell of damage
    unread: int = 0  # of these, rows that tell of what could not be read


class BytesRead:
    """Adds up what the workers of a session have read.

    Args:
        spark: whose workers are to tell it from now on.
    """

    def __init__(self, spark: SparkSession) -> None:
        from pyspark.errors import PySparkException

        self._spark: SparkSession | None = spark
        self._before = ReadSoFar(0)
        try:
            spark.conf.set(SETTING, "true")
        except PySparkException:
            self._spark = None
        self.more()  # a session that is shared has read before

    def more(self) -> ReadSoFar | None:
        """Give what was read since the last call; None where this Spark does not tell."""
        from pyspark.errors import PySparkException

        if self._spark is None:
            return None
        try:
            (total,) = (ReadSoFar(*row) for row in self._spark.sql(TOTAL).collect())
        except PySparkException:
            return None
        before, self._before = self._before, total
        return ReadSoFar(*(now - then for now, then in zip(total, before, strict=True)))
