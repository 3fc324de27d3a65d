"""RocketMQ stores as Spark tables, and the bulk commands as Spark jobs.

1. `session` gets or starts a Spark session; `java` looks for a Java first.
2. `source` is the data source `rocketmq`, `stream` and `fleet_stream` follow logs.
3. `engine` runs the per-part functions of the other commands as Spark tasks.

    from rmqtool.spark import register
    from rmqtool.spark.session import session

    spark = register(session("local[*]"))
    messages = spark.read.format("rocketmq").option("path", "/data/store").load()
    messages.groupBy("topic").count().show()

This is the only package that imports pyspark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rmqtool.reads.questions import ReadSoFar
    from rmqtool.spark.source import Counters

_known: dict[str, Counters] = {}


def register(spark: SparkSession) -> SparkSession:
    """Make `spark.read.format("rocketmq")` known to a session; give the session back.

    What its queries read from now on is counted, see `read_by`.
    """
    from rmqtool.spark.engine import ship
    from rmqtool.spark.source import RocketMQDataSource

    ship(spark)
    counters = _counters(spark)
    # Spark's workers get this class as it is, with its counters, as it is of no module of theirs.
    members = {"counters": counters, "__module__": "__main__"}
    spark.dataSource.register(type(RocketMQDataSource.__name__, (RocketMQDataSource,), members))
    return spark


def read_by(spark: SparkSession) -> ReadSoFar | None:
    """Give what queries of a session have read since it was registered, of batches, not streams.

    A task that is run twice counts once, unless its result was lost. None through Spark Connect,
    which has no accumulators.
    """
    from rmqtool.reads.questions import ReadSoFar

    counters = _counters(spark)
    return None if counters is None else ReadSoFar(*(counter.value for counter in counters))


def _counters(spark: SparkSession) -> Counters | None:
    """Give the counters of a session, which are made when they are first asked for."""
    from rmqtool.spark.jobs import is_connect_session
    from rmqtool.spark.source import Counters

    if is_connect_session(spark):
        return None
    context = spark.sparkContext
    if context.applicationId not in _known:
        _known[context.applicationId] = Counters(*(context.accumulator(0) for _ in range(3)))
    return _known[context.applicationId]
