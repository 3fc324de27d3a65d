"""`--engine` and `--master`: whether this process does the work, or Spark.

`auto` takes Spark when a master is named or configured, or the store lies on a remote file system.
Nothing of Spark is imported before it is chosen.
"""

from __future__ import annotations

import enum
import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from rmqtool.cli.declaration import Option
from rmqtool.errors import EngineMissing, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.cli.delivery import Delivery
    from rmqtool.spark.engine import SparkEngine

IN_ARCHIVE: Final = "an archive is read by this process only"
NOTHING: Final = "as no master is named and the store is on this machine"


class EngineName(enum.StrEnum):
    """Who does the work."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """What was said about the engine. Without `engine` it is `auto`, of which nothing is said."""

    engine: Annotated[
        EngineName | None,
        Option(
            "--engine",
            "Who does the work: this process, or Spark. auto, the default, takes Spark when a "
            "master is named or configured or the store is remote.",
        ),
    ] = None
    master: Annotated[
        str | None,
        Option(
            "--master",
            "Where Spark runs: local[*], spark://HOST:PORT, yarn, k8s://..., or sc://HOST for "
            "Spark Connect.",
            "URL",
        ),
    ] = None
    verbose: Annotated[
        bool, Option("--verbose", "Keep what Spark says in a log file, and name it.")
    ] = False

    @contextmanager
    def working(self, paths: Sequence[str], delivery: Delivery) -> Iterator[None]:
        """Let the chosen engine do the work of the block.

        Raises:
            UsageError: a master without Spark.
            EngineMissing: Spark was chosen, and something for it is not here.
            SparkFailed: Spark did not start.
        """
        is_spark, why = decide(self, paths)
        if self.engine is EngineName.AUTO or (is_spark and self.engine is None):
            delivery.note(f"engine: {'spark' if is_spark else 'local'}, {why}")
        if not is_spark:
            yield
            return
        from rmqtool import engine

        with self.spark(delivery, forwards=True) as spark, engine.using(spark):
            yield

    @contextmanager
    def spark(self, delivery: Delivery, *, forwards: bool = False) -> Iterator[SparkEngine]:
        """Use the Spark session of this process, or start one and stop it at the end of the block.

        Args:
            delivery: says where its log is.
            forwards: Java computes nothing, all is done in Python.

        Raises:
            EngineMissing: pyspark or Java is not here, or is too old.
            SparkFailed: Spark did not start, or its Java process ended in the block.
        """
        from rmqtool.spark.engine import SparkEngine
        from rmqtool.spark.jobs import living_java
        from rmqtool.spark.session import FORWARDING, active_session, session

        log_file = _log_file() if self.verbose else None
        if log_file:
            delivery.note(f"Spark's log is {log_file}")
        running = active_session()
        options = FORWARDING if forwards else {}
        spark = running or session(self.master, log_file=log_file, options=options)
        try:
            with living_java():
                yield SparkEngine.on(spark)
        finally:
            if running is None:
                with suppress(OSError):  # Java is gone: the block has failed, and says why
                    spark.stop()


def everywhere(path: str) -> str:
    """Give a path that other processes understand, too: their directory may be another one."""
    from rmqtool.store.address import place_of
    from rmqtool.store.place import is_remote

    return path if is_remote(path) else place_of(path).location


def stores_of(store: str, stores_file: str | None) -> dict[str, Any]:
    """Give what says of `SourceOptions` which stores are read: one, or several.

    Raises:
        UsageError: none is named, or one beside a file of stores.
    """
    from rmqtool.store.address import is_pattern
    from rmqtool.store.place import is_remote

    if not store and stores_file is None:
        raise UsageError(option="STORE", reason="is missing: which store?")
    if stores_file is not None:
        if store:
            raise UsageError(option="--stores-file", reason="cannot be combined with STORE")
        return {"path": "", "stores_file": everywhere(stores_file)}
    if is_pattern(store):
        absolute = store if is_remote(store) else os.path.abspath(store)  # noqa: PTH100
        return {"path": "", "paths": (absolute,)}
    return {"path": everywhere(store)}


def decide(choice: EngineChoice, paths: Sequence[str]) -> tuple[bool, str]:
    """Say whether Spark does the work, and why. Raises UsageError: a master without Spark."""
    from rmqtool.store.address import is_inside

    archive = next((path for path in paths if is_inside(path)), None)
    if archive is not None:
        if choice.engine is EngineName.SPARK or choice.master is not None:
            option = "--engine" if choice.engine is EngineName.SPARK else "--master"
            raise UsageError(option=option, reason=f"{archive}: unpack it first; {IN_ARCHIVE}")
        return False, IN_ARCHIVE
    if choice.engine is EngineName.LOCAL:
        if choice.master is not None:
            raise UsageError(option="--master", reason="cannot be combined with --engine local")
        return False, "as --engine says"
    if choice.engine is EngineName.SPARK:
        return True, "as --engine says"
    if choice.master is not None:
        return True, "as --master names one"
    from rmqtool.spark.available import configured_master

    if configured := configured_master():
        return True, f"as {configured[1]} names a master"
    from rmqtool.store.place import is_remote

    remote = next((path for path in paths if is_remote(path)), None)
    return _of_remote(remote) if remote else (False, NOTHING)


def _of_remote(path: str) -> tuple[bool, str]:
    from rmqtool.spark.available import check_spark
    from rmqtool.store.remote import without_secrets

    shown = without_secrets(path)
    try:
        check_spark()
    except EngineMissing as error:
        return False, f"though {shown} is remote: {error}"
    return True, f"as {shown} is remote"


def _log_file() -> str:
    from rmqtool.writing.user_files import keep

    return keep("spark")
