"""Give executors this package, so that a cluster needs only Python with its dependencies.

What they lack of the dependencies is found out first, by a task of its own, and said in a line.

What is sent is a zip whose `rmqtool/__init__.py` is `writing/shim.py`: kernels are compiled and
kept per source file, so the package has to lie in files on each executor, not in a zip.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import zipfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rmqtool.errors import EngineMissing
from rmqtool.spark.jobs import INSTALL_THERE, Job, is_connect_session, is_on_this_machine
from rmqtool.writing.scratch import put

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGE: Final = Path(__file__).parents[1]
LEFT_OUT: Final = frozenset({"cli"})  # executors have nobody to talk to; `export` writes CSV
EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the same package gives the same bytes, so the same place
SHIM: Final = "writing/shim.py"
INNER: Final = "package.zip"  # as the shim calls it
# What executors import; pandas is for Spark's own half of `mapInArrow`.
NEEDED: Final = (
    *("construct", "isal", "llvmlite", "lz4", "mmh3", "numba"),
    *("numpy", "orjson", "pandas", "pyarrow", "zstandard"),
)
_shipped: set[str] = set()


def ship(spark: SparkSession) -> None:
    """Send this package to the executors of a session, once.

    Raises:
        EngineMissing: the Python of an executor lacks what it needs.
        SparkFailed: no executor ran a task.
    """
    if is_connect_session(spark):
        name = str(getattr(spark, "session_id", id(spark)))
    else:
        if is_on_this_machine(spark) and _is_this_python(spark):
            return  # its Python workers find what this process finds
        name = str(spark.sparkContext.applicationId)
    if name not in _shipped:
        spark.addArtifacts(package_file(), pyfile=True)
        _check(spark)
        _shipped.add(name)


def missing(_: int) -> str:
    """Say what the Python that runs this lacks of `NEEDED`; nothing when all is there."""
    return ", ".join(name for name in NEEDED if find_spec(name) is None)


def _is_this_python(spark: SparkSession) -> bool:
    """Whether workers run the Python of this process; a session of users takes `python3` else."""
    found = shutil.which(spark.sparkContext.pythonExec)
    return found is not None and os.path.abspath(found) == os.path.abspath(sys.executable)  # noqa: PTH100 - a link tells a venv


def _check(spark: SparkSession) -> None:
    """Ask an executor for what it lacks: the job that needs it would fail with a stack.

    Raises:
        EngineMissing: it lacks something.
        SparkFailed: no executor ran a task.
    """
    from pyspark.sql.functions import udf

    # Neither pandas nor pyarrow is needed for a plain function.
    ask = udf(missing, "string", useArrow=False)
    with Job(spark).running():
        (row,) = spark.range(0, 1, 1, 1).select(ask("id")).collect()
    if row[0]:
        needs = f"what the Python of the executors needs ({row[0]})"
        raise EngineMissing(needs=needs, install=INSTALL_THERE)


@cache
def package_file() -> str:
    """Write the zip for executors; give its path. Spark hands the file out while it runs."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as outer:
        shim = (PACKAGE / SHIM).read_bytes()
        outer.writestr(zipfile.ZipInfo("rmqtool/__init__.py", EPOCH), shim)
        outer.writestr(zipfile.ZipInfo(f"rmqtool/{INNER}", EPOCH), _package())
    return put("rmqtool-shipped.zip", packed.getvalue())


def _package() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(PACKAGE.rglob("*.py")):
            relative = path.relative_to(PACKAGE)
            if relative.parts[0] not in LEFT_OUT:
                entry = zipfile.ZipInfo(f"rmqtool/{relative.as_posix()}", EPOCH)
                archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return packed.getvalue()
