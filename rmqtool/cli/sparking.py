"""A Spark session for a command that needs one, and where Spark's own words go."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rmqtool.store.place import Place, is_remote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from rmqtool.cli.delivery import Delivery


def everywhere(path: str) -> str:
    """Give a path that other processes understand, too: their directory may be another one."""
    return path if is_remote(path) else Place.of(path).location


@contextmanager
def spark_session(
    master: str | None, delivery: Delivery, *, verbose: bool
) -> Iterator[SparkSession]:
    """Use the session of this process, or start one and stop it at the end of the block.

    Raises:
        EngineMissing: pyspark or Java is not here, or is too old.
        SparkFailed: Spark did not start.
    """
    from rmqtool.spark.session import active_session, session

    log_file = None
    if verbose:
        log_file = str(Path(tempfile.gettempdir()) / f"rmqtool-spark-{os.getpid()}.log")
        delivery.note(f"Spark's log is {log_file}")
    running = active_session()
    spark = running or session(master, log_file=log_file)
    try:
        yield spark
    finally:
        if running is None:
            spark.stop()
