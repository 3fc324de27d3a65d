"""One Spark session for all tests of this process: a start takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

from rmqtool.errors import EngineMissing
from rmqtool.spark.available import check_spark
from rmqtool.spark.session import session
from tests.spark.cluster import MODEST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Each question is asked once: what is compiled well, or in many parts, costs more than it saves.
QUICK: Final = {
    "spark.driver.defaultJavaOptions": MODEST,
    "spark.sql.shuffle.partitions": "2",
}


def skip_without_spark() -> None:
    """Skip where there is no Java, or no pyspark."""
    try:
        check_spark()
    except EngineMissing as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def has_spark() -> None:
    """Skip without Spark, but start none here."""
    skip_without_spark()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Give a session on two cores of this machine, which knows the format `rocketmq`."""
    skip_without_spark()
    from rmqtool.spark import register

    started = register(session("local[2]", options=QUICK))
    yield started
    started.stop()
