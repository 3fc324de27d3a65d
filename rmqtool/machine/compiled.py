"""Declare kernels, and keep what they are compiled to.

A kernel is compiled by numba to machine code, which is kept on disk: only the very first call on a
machine waits for the compiler. Later processes link the machine code (`machine_code`) and do not
load numba, which takes longer than a small store. A kernel drops the interpreter lock and has one
explicit signature.
Machine code of an older source would misread evidence in silence. So the directory in which it
lies is named after all that kernels are compiled from: the modules of `scan`, those beside the
kernel, the layouts, the compiler and the processor. Where no directory can be written, kernels
are compiled anew in each process.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import threading
import time
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.dledger import DLEDGER_ENTRY
from rmqtool.formats.index import INDEX_ENTRY, INDEX_HEADER
from rmqtool.formats.message import MESSAGE_MIDDLES, MESSAGE_PREFIX
from rmqtool.machine import announce

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.machine.machine_code import Routine

Function = TypeVar("Function", bound="Callable[..., object]")

LAYOUTS: Final = (
    MESSAGE_PREFIX,
    *MESSAGE_MIDDLES.values(),
    DLEDGER_ENTRY,
    CQ_UNIT,
    BATCH_CQ_UNIT,
    INDEX_HEADER,
    INDEX_ENTRY,
)
CHECKSUM_BYTES: Final = 4
UNUSED_SECONDS: Final = 30 * 24 * 3600
OURS: Final = re.compile(r"kernels-[0-9a-f]{16}")
_lock = threading.RLock()


@dataclass(frozen=True, slots=True)
class Instruction:
    """What kernels call and a generator of LLVM code makes.

    Attributes:
        module: where the generator is; loaded by the compiler only.
        name: of the generator.
    """

    module: str
    name: str


@dataclass(frozen=True, slots=True)
class Piece:
    """A function that is compiled into the kernels that call it.

    Attributes:
        function: its source.
        forceinline: into each place of a call.
    """

    function: Callable[..., object]
    forceinline: bool


class Kernel:
    """A function that runs as machine code; made by `kernel`, called like any function."""

    def __init__(self, function: Callable[..., object], signature: str) -> None:
        functools.update_wrapper(self, function)
        self.function, self.signature = function, signature
        self._routine: Routine | None = None

    def __call__(self, *arguments: Any) -> Any:  # noqa: ANN401 - what the signature says
        """Run the kernel, without the interpreter lock."""
        return (self._routine or self._load())(arguments)

    def _load(self) -> Routine:
        from rmqtool.machine.machine_code import Routine

        with _lock:  # other threads that want the same kernel wait for it
            if self._routine is None:
                name, code = self._machine_code()
                self._routine = Routine(self.signature, name, code)
            return self._routine

    def _machine_code(self) -> tuple[str, bytes]:
        """Give the symbol and the object code, kept or new."""
        source = Path(self.function.__code__.co_filename)
        wanted = os.environ.get("NUMBA_CACHE_DIR", "")
        for directory in _directories(source.parent, wanted):
            # Also where only another user may write: who installed, or built an image.
            if (found := _read(directory / self._file_name(source))) is not None:
                return found
        from rmqtool.machine.compiler import compile_kernel

        announce.compiling()
        made = compile_kernel(self)
        if (writable := cache_directory(source.parent, wanted)) is not None:
            _write(Path(writable) / self._file_name(source), *made)
            _forget_unused(Path(writable))
        return made

    def _file_name(self, source: Path) -> str:
        return f"{source.stem}.{self.function.__name__}.{self.function.__code__.co_firstlineno}.o"


def kernel(signature: str) -> Callable[[Function], Function]:
    """Declare a kernel: a function that runs as machine code, without the interpreter lock.

    Args:
        signature: numba's notation; arrays must be C-contiguous, native and writable.
    """

    def declared(function: Function) -> Function:
        return cast("Function", Kernel(function, signature))

    return declared


def inlined(function: Function) -> Function:
    """Compile a function into each place where a kernel calls it.

    A call hands over each array as seven values, which takes longer than most helpers run.
    """
    return cast("Function", Piece(function, forceinline=True))


def called(function: Function) -> Function:
    """Compile a function that kernels call: for what is long or seldom needed."""
    return cast("Function", Piece(function, forceinline=False))


def _read(path: Path) -> tuple[str, bytes] | None:
    """Read the symbol and the object code of a kernel; None when there is nothing whole."""
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    content = raw[CHECKSUM_BYTES:]
    if zlib.crc32(content).to_bytes(CHECKSUM_BYTES, "big") != raw[:CHECKSUM_BYTES]:
        return None
    name, _, code = content.partition(b"\0")
    return name.decode(), code


def _write(path: Path, name: str, code: bytes) -> None:
    """Keep the machine code of a kernel, if the disk lets us; others see all or nothing of it."""
    content = b"\0".join([name.encode(), code])
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(zlib.crc32(content).to_bytes(CHECKSUM_BYTES, "big") + content)
        os.replace(file.name, path)  # noqa: PTH105 - the name is text
    except OSError:
        return


@cache
def _forget_unused(directory: Path) -> None:
    """Remove what was compiled for other versions, beside a directory, and not used for a month.

    Who still needs it compiles it again; who is just reading it has it whole.
    """
    limit = time.time() - UNUSED_SECONDS
    for other in directory.parent.glob("kernels-*"):
        if OURS.fullmatch(other.name) and other != directory and _last_used(other) < limit:
            shutil.rmtree(other, ignore_errors=True)


def _last_used(directory: Path) -> float:
    """Say when a file in a directory was last read or written, s since 1970."""
    try:
        facts = [path.stat() for path in directory.rglob("*") if path.is_file()]
        facts = facts or [directory.stat()]
    except OSError:  # somebody else is removing it
        return time.time()
    return max(max(one.st_atime, one.st_mtime) for one in facts)


@cache
def cache_directory(sources: Path, wanted: str = "") -> str | None:
    """Give a writable directory for compiled kernels; None where there is none.

    Args:
        sources: directory with the modules of the kernel.
        wanted: what the user asked for in NUMBA_CACHE_DIR; else beside this module, else the
            user's cache directory.
    """
    for directory in _directories(sources, wanted):
        try:
            directory.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=directory).close()
        except OSError:
            continue
        return str(directory)
    return None


def _directories(sources: Path, wanted: str) -> list[Path]:
    """Give where compiled kernels may lie, the best place first."""
    places = [Path(wanted)] if wanted else [sources / "__pycache__", _user_cache()]
    return [place / f"kernels-{_stamp(sources)}" for place in places]


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
    """Give a short text that changes with whatever kernels are compiled from, and by what."""
    from rmqtool.machine.machine_code import host

    digest = hashlib.sha256(repr((host(), _compiler())).encode())
    here = Path(__file__).parent
    for directory in {here: None, here.parent / "scan": None, sources: None}:  # each once, in order
        for source in sorted(directory.glob("*.py")):
            digest.update(source.read_bytes())
    for layout in LAYOUTS:
        digest.update(repr((layout.name, layout.fields)).encode())
    return digest.hexdigest()[:16]


def _compiler() -> tuple[object, ...]:
    """Say which numba is installed, without loading it."""
    found = importlib.util.find_spec("numba")
    if found is None or found.origin is None:
        return ()
    facts = Path(found.origin).stat()
    return found.origin, facts.st_size, facts.st_mtime_ns
