"""Is there a Java that Spark can run on? Asked before Spark is, whose own answer is a traceback."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import Final

from rmqtool.errors import EngineMissing

OLDEST: Final = 17  # Spark 4 runs on no older one
INSTALL: Final = f"apt install openjdk-{OLDEST}-jre-headless (or set JAVA_HOME)"
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')


def check_java() -> None:
    """Find Java the way Spark does.

    Raises:
        EngineMissing: there is none, or it is too old.
    """
    program = _program()
    if program is None:
        raise EngineMissing(needs=f"Java {OLDEST} or newer", install=INSTALL)
    version = _version_of(program)
    if version is not None and version < OLDEST:
        needs = f"Spark needs Java {OLDEST} or newer, {program} is {version}: a newer one"
        raise EngineMissing(needs=needs, install=INSTALL)


def _program() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home:
        program = os.path.join(home, "bin", "java")  # noqa: PTH118 - Spark asks no other way
        return program if os.access(program, os.X_OK) else None
    return shutil.which("java")


def _version_of(program: str) -> int | None:
    """Give the feature release, such as 17; None when the program does not say one."""
    try:
        done = subprocess.run(  # noqa: S603 - the Java that Spark is going to start
            [program, "-version"], capture_output=True, text=True, errors="replace", check=False
        )
    except OSError:
        return None
    found = _VERSION.search(done.stderr) or _VERSION.search(done.stdout)
    return int(found[1]) if found else None
