"""How many bytes a query reads of files: told by executors as they read, added up by who asks.

Spark's Python data sources have no metrics of their own. What workers log, a session keeps where
`spark.sql.pyspark.worker.logging.enabled` is set (Spark 4.1 and later), on any cluster:

    SELECT sum(context['bytes_read']) FROM python_worker_logs() WHERE logger = 'rmqtool.bytes_read'
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from rmqtool.store.meter import metered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

LOGGER: Final = "rmqtool.bytes_read"
COUNT: Final = "bytes_read"
SETTING: Final = "spark.sql.pyspark.worker.logging.enabled"
TOTAL: Final = f"""
SELECT coalesce(sum(CAST(context['{COUNT}'] AS BIGINT)), 0)
FROM python_worker_logs() WHERE logger = '{LOGGER}'
"""  # noqa: S608 - words of ours
WORTH: Final = 1 << 20  # bytes: a line for each window, not for each batch


def told(batches: Iterable[pa.RecordBatch], table: str) -> Iterator[pa.RecordBatch]:
    """Pass batches on, and log what is read of files for them, before each.

    Args:
        batches: that read files as they are asked for.
        table: which they are of.
    """
    logger = logging.getLogger(LOGGER)
    logger.setLevel(logging.INFO)
    is_kept = logger.hasHandlers()  # where nobody keeps it, it is dropped
    with metered() as meter:
        done = 0
        for batch in batches:
            if is_kept and meter.bytes - done >= WORTH:
                _tell(logger, meter.bytes - done, table)
                done = meter.bytes
            yield batch
        if is_kept:
            _tell(logger, meter.bytes - done, table)


def _tell(logger: logging.Logger, count: int, table: str) -> None:
    logger.info(
        "read %d bytes of the store", count, extra={"context": {COUNT: str(count), "table": table}}
    )


class BytesRead:
    """Adds up what the workers of a session have read.

    Args:
        spark: whose workers are to tell it from now on.
    """

    def __init__(self, spark: SparkSession) -> None:
        from pyspark.errors import PySparkException

        self._spark: SparkSession | None = spark
        self._before = 0
        try:
            spark.conf.set(SETTING, "true")
        except PySparkException:
            self._spark = None
        self.more()  # a session that is shared has read before

    def more(self) -> int | None:
        """Give the bytes since the last call; None where this Spark does not tell."""
        from pyspark.errors import PySparkException

        if self._spark is None:
            return None
        try:
            ((total,),) = self._spark.sql(TOTAL).collect()
        except PySparkException:
            return None
        count, self._before = total - self._before, total
        return int(count)
