"""Give executors this package, so that a cluster needs only Python with its dependencies.

What is sent is a zip whose `rmqtool/__init__.py` is `writing/shim.py`: kernels are compiled and
kept per source file, so the package has to lie in files on each executor, not in a zip.
"""

from __future__ import annotations

import io
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rmqtool.spark.jobs import is_connect_session, is_on_this_machine
from rmqtool.writing.scratch import put

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGE: Final = Path(__file__).parents[1]
LEFT_OUT: Final = frozenset({"cli"})  # executors have nobody to talk to; `export` writes CSV
EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the same package gives the same bytes, so the same place
SHIM: Final = "writing/shim.py"
INNER: Final = "package.zip"  # as the shim calls it
_shipped: set[str] = set()


def ship(spark: SparkSession) -> None:
    """Send this package to the executors of a session, once."""
    if is_connect_session(spark):
        name = str(getattr(spark, "session_id", id(spark)))
    else:
        if is_on_this_machine(spark):
            return  # its Python workers find what this process finds
        name = str(spark.sparkContext.applicationId)
    if name not in _shipped:
        spark.addArtifacts(package_file(), pyfile=True)
        _shipped.add(name)


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
