"""What Spark is configured for here, and whether all is here that it needs.

Asked by each command that could use Spark, before Spark is: whose own answer is a traceback. So
nothing is imported here that a command without Spark does not need.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Final

from rmqtool.errors import EngineMissing

INSTALL: Final = "pip install '.[spark]' in a clone of rmqtool"
INSTALL_CONNECT: Final = "pip install 'pyspark[connect]'"
CONNECT: Final = "sc://"
CONFIGURED: Final = ("SPARK_REMOTE", "SPARK_MASTER")
OLDEST_JAVA: Final = 17  # Spark 4 runs on no older one
INSTALL_JAVA: Final = f"apt install openjdk-{OLDEST_JAVA}-jre-headless (or set JAVA_HOME)"


def check_spark(master: str | None = None) -> None:
    """Say what is missing for Spark, before a second is spent on starting it.

    Args:
        master: where it shall run; Spark Connect needs other packages and no Java.

    Raises:
        EngineMissing: pyspark or Java is not there, or is too old.
    """
    sys.meta_path[:] = (finder for finder in sys.meta_path if not hasattr(finder, "hides_pandas"))
    for package in ("pyspark", "pandas"):
        if not _has(package):
            raise EngineMissing(needs=package, install=INSTALL)
    if not is_connect(master):
        check_java()
    elif not _has("grpc"):
        raise EngineMissing(needs="grpcio, which Spark Connect uses,", install=INSTALL_CONNECT)


def is_connect(master: str | None) -> bool:
    """Whether a master is a Spark Connect server."""
    return bool(master) and str(master).startswith(CONNECT)


def is_local(master: str | None) -> bool:
    """Whether a master is this machine alone."""
    return not master or master.split("[")[0] == "local"


def configured_master() -> tuple[str, str] | None:
    """Give the master that was configured for Spark, and where; None when none was."""
    for name in CONFIGURED:
        if master := os.environ.get(name):
            return master, name
    home = os.environ.get("SPARK_HOME")
    directory = os.environ.get("SPARK_CONF_DIR") or (home and f"{home}/conf")
    if not directory:
        return None
    path = Path(directory) / "spark-defaults.conf"
    try:
        text = path.read_text("utf-8", "replace")
    except OSError:
        return None
    match = re.search(r"^\s*spark\.master[\s=:]+(\S+)", text, re.MULTILINE)
    return (match[1], str(path)) if match else None


def check_java() -> None:
    """Find Java the way Spark does. Raises EngineMissing: there is not one, or it is too old."""
    program = _java()
    if program is None:
        raise EngineMissing(needs=f"Java {OLDEST_JAVA} or newer", install=INSTALL_JAVA)
    version = _java_version(program)
    if version is not None and version < OLDEST_JAVA:
        needs = f"Spark needs Java {OLDEST_JAVA} or newer, {program} is {version}: a newer one"
        raise EngineMissing(needs=needs, install=INSTALL_JAVA)


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home:
        program = os.path.join(home, "bin", "java")  # noqa: PTH118 - Spark asks no other way
        return program if os.access(program, os.X_OK) else None
    import shutil

    return shutil.which("java")


def _java_version(program: str) -> int | None:
    """Give the feature release, such as 17; None when the program does not say one."""
    import subprocess

    try:
        done = subprocess.run(  # noqa: S603 - the Java that Spark is going to start
            [program, "-version"], capture_output=True, text=True, errors="replace", check=False
        )
    except OSError:
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', f"{done.stderr}\n{done.stdout}")
    return int(match[1]) if match else None


def _has(package: str) -> bool:
    import importlib.util

    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False
