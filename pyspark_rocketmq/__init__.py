"""The data source `rocketmq`, where Spark looks for such: it is known without being registered.

Source: pyspark.sql.worker.lookup_data_sources, Spark 4.0 to 4.3.
"""

from rmqtool.spark.source import RocketMQDataSource as DefaultSource

__all__ = ["DefaultSource"]
