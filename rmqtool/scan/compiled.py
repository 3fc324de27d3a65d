"""Compile kernels with numba, and keep what was compiled.

A kernel drops the interpreter lock, has one explicit signature, and is kept on disk, so that only
the very first run on a machine waits for the compiler. numba's cache watches the file of the
kernel only, while field positions and helper functions come from other files; stale machine code
would misread evidence in silence. So the cache lies in a directory named after all of them: the
modules of `scan`, those beside the kernel, and the layouts.
Where no directory can be written, kernels are compiled anew in each process.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numba
import numba.core.config

from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.dledger import DLEDGER_ENTRY
from rmqtool.formats.index import INDEX_ENTRY, INDEX_HEADER
from rmqtool.formats.message import MESSAGE_MIDDLES, MESSAGE_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable

Function = TypeVar("Function", bound="Callable[..., object]")

# Some releases of numba have types and some have none: neither is to be relied on.
CONFIG: Any = numba.core.config
NJIT: Any = numba.njit

LAYOUTS: Final = (
    MESSAGE_PREFIX,
    *MESSAGE_MIDDLES.values(),
    DLEDGER_ENTRY,
    CQ_UNIT,
    BATCH_CQ_UNIT,
    INDEX_HEADER,
    INDEX_ENTRY,
)


def kernel(signature: str) -> Callable[[Function], Function]:
    """Compile a function for one signature, without the interpreter lock, from the cache if able.

    Args:
        signature: numba's notation; arrays must be C-contiguous, native and writable.
    """

    def compiled(function: Function) -> Function:
        with _CacheDirectory(Path(function.__code__.co_filename).parent) as cached:
            options = {"nogil": True, "cache": cached, "boundscheck": False, "error_model": "numpy"}
            return cast("Function", NJIT(signature, **options)(function))

    return compiled


def inlined(function: Function) -> Function:
    """Compile a function into each place where a kernel calls it.

    A call hands over each array as seven values, which takes longer than most helpers run.
    """
    options = {"error_model": "numpy", "boundscheck": False, "forceinline": True}
    return cast("Function", NJIT(**options)(function))


def called(function: Function) -> Function:
    """Compile a function that kernels call: for what is long or seldom needed."""
    return cast("Function", NJIT(error_model="numpy", boundscheck=False)(function))


class _CacheDirectory:
    """numba's cache directory, set to ours while a kernel is declared.

    numba reads the setting when a kernel is declared, so that other users of numba in the same
    process keep theirs.
    """

    def __init__(self, sources: Path) -> None:
        self._sources = sources
        self._before = ""

    def __enter__(self) -> bool:
        self._before = CONFIG.CACHE_DIR
        directory = cache_directory(self._sources, self._before)
        CONFIG.CACHE_DIR = directory or ""
        return directory is not None

    def __exit__(self, *exception: object) -> None:
        CONFIG.CACHE_DIR = self._before


@cache
def cache_directory(sources: Path, wanted: str = "") -> str | None:
    """Give a writable directory for compiled kernels; None where there is none.

    Args:
        sources: directory with the modules of the kernel.
        wanted: what the user asked for in NUMBA_CACHE_DIR; else beside this module, else the
            user's cache directory.
    """
    places = [Path(wanted)] if wanted else [sources / "__pycache__", _user_cache()]
    for place in places:
        directory = place / f"kernels-{_stamp(sources)}"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=directory).close()
        except OSError:
            continue
        return str(directory)
    return None


def _user_cache() -> Path:
    """Give the place where this system keeps what a user's programs can make again."""
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - Path.home() raises without a home
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / "rmqtool"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "rmqtool"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "rmqtool"


@cache
def _stamp(sources: Path) -> str:
    """Give a short text that changes with whatever kernels are compiled from."""
    digest = hashlib.sha256(numba.__version__.encode())
    for directory in {Path(__file__).parent: None, sources: None}:  # each once, in this order
        for source in sorted(directory.glob("*.py")):
            digest.update(source.read_bytes())
    for layout in LAYOUTS:
        digest.update(repr((layout.name, layout.fields)).encode())
    return digest.hexdigest()[:16]
