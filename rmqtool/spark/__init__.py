"""RocketMQ stores as Spark tables, and the bulk commands as Spark jobs.

1. `session` gets or starts a Spark session; `java` looks for a Java first.
2. `source` is the data source `rocketmq`; `plan` cuts a store into partitions, `readers` read one,
   `borders` finds where the records of a split begin.
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


def register(spark: SparkSession) -> SparkSession:
    """Make `spark.read.format("rocketmq")` known to a session; give the session back."""
    from rmqtool.spark.engine import ship
    from rmqtool.spark.source import RocketMQDataSource

    ship(spark)
    spark.dataSource.register(RocketMQDataSource)
    return spark
