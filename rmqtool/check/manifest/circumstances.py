"""Who looked at a store, where, when and with what: for a manifest and a report."""

from __future__ import annotations

import getpass
import os
import shlex
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Circumstances:
    """How a document came about."""

    command: str  # the command line
    version: str  # of rmqtool and of Python
    user: str  # who ran it
    host: str  # name of the machine
    clock_ms: int  # its clock, ms since 1970
    zone: str  # offset of its time zone from UTC, such as +0800


def circumstances(words: Sequence[str], version: str) -> Circumstances:
    """Take down the circumstances.

    Args:
        words: the command line, without the program's name.
        version: of rmqtool.
    """
    return Circumstances(
        command=shlex.join(["rmqtool", *words]),
        version=f"rmqtool {version}, Python {sys.version.split()[0]}",
        user=_user(),
        host=os.uname().nodename,
        clock_ms=round(time.time() * 1000),
        zone=time.strftime("%z"),
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        return "unknown"
