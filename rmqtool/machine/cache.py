"""Machine code of kernels on the disk: found, verified, kept, and forgotten when unused.

A file holds what it is, a SHA-256 over all that follows, the stamp of what the code was made from,
the symbol, and the code. Nothing of it is used before the digest and the stamp are right, and its
directory and the file itself are those of root or of the user alone (`cache_place`).
"""

from __future__ import annotations

import errno
import hashlib
import os
import pwd
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.writing import private_place
from rmqtool.writing.private_place import Untrusted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager


MAGIC: Final = b"rmqtool kernel 1\n"
DIGEST: Final = 32  # bytes of a SHA-256
UNUSED_SECONDS: Final = 30 * 24 * 3600
OURS: Final = re.compile(r"[\w.]+-[0-9a-f]{32}\.kernel(\.[0-9a-f]{16})?")


class KernelCode(NamedTuple):
    """Object code, and the symbol by which it is called."""

    symbol: str
    code: bytes


class KernelKey(NamedTuple):
    """What the machine code of a kernel is found by."""

    name: str  # of the kernel, with that of its module
    stamp: bytes  # what it is made from (`stamp.stamp`)

    @property
    def file(self) -> str:
        """Name of its file; half of the stamp, as the file holds the whole."""
        return f"{self.name}-{self.stamp[: DIGEST // 2].hex()}.kernel"


class NotKept(Exception):
    """Code could be put into none of the places; its text says why."""


def places() -> list[CacheDirectory]:
    """Give where code may lie, the place to look at first first."""
    return [installed(), *own()]


def find(key: KernelKey, among: Sequence[CacheDirectory]) -> KernelCode | None:
    """Give what is kept of a kernel; None when nothing is, or nothing that can be trusted.

    Args:
        key: which kernel, and what it is made from.
        among: the places to look at.
    """
    for place in among:
        with suppress(OSError, Untrusted), opened(place) as directory:
            if (code := _decode(private_place.read(directory, key.file), key.stamp)) is not None:
                return code
    return None


def keep(key: KernelKey, made: KernelCode, among: Sequence[CacheDirectory]) -> CacheDirectory:
    """Keep the machine code of a kernel for later runs, in the first place that can be had.

    Args:
        key: which kernel, and what it is made from.
        made: its code.
        among: the places to try.

    Raises:
        NotKept: there is not one.
    """

    def write(directory: int, place: CacheDirectory) -> None:
        private_place.put(directory, key.file, _encode(key.stamp, made), place.file_mode)
        # That of other versions; whoever still needs it compiles it again.
        private_place.forget(directory, OURS, time.time() - UNUSED_SECONDS)

    return _first(among, write)


def writable(among: Sequence[CacheDirectory]) -> CacheDirectory:
    """Give the first place in which code can be kept; make it if it is not there.

    Raises:
        NotKept: there is not one.
    """

    def try_it(directory: int, _: CacheDirectory) -> None:
        if not os.access(".", os.W_OK, dir_fd=directory):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    return _first(among, try_it)


def _first(
    among: Sequence[CacheDirectory], use: Callable[[int, CacheDirectory], None]
) -> CacheDirectory:
    """Give the first place that serves for something. Raises NotKept: there is not one."""
    reasons = []
    for place in among:
        try:
            with opened(place, makes=True) as directory:
                use(directory, place)
        except Untrusted as error:
            reasons.append(str(error))
        except OSError as error:
            reasons.append(f"{place.path}: {error.strerror}")
        else:
            return place
    raise NotKept("; ".join(reasons) or "there is no home directory")


def _encode(stamp: bytes, made: KernelCode) -> bytes:
    content = b"\0".join([stamp + made.symbol.encode(), made.code])
    return MAGIC + hashlib.sha256(content).digest() + content


def _decode(raw: bytes, stamp: bytes) -> KernelCode | None:
    """Give what a file holds; None when it is torn, or made from something else."""
    begin = len(MAGIC) + DIGEST
    content = raw[begin:]
    is_right = (
        raw[: len(MAGIC)] == MAGIC
        and raw[len(MAGIC) : begin] == hashlib.sha256(content).digest()
        and content[:DIGEST] == stamp
    )
    if not is_right:
        return None
    symbol, _, code = content[DIGEST:].partition(b"\0")
    return KernelCode(symbol.decode(), code)


# Where machine code may be kept: beside the modules, or in directories of the user's own.
#
# What lies there is run, so a directory counts only if nobody else can have put anything into it:
# `writing.private_place` says which.


OWN: Final = "rmqtool"  # the directory in the user's cache


class CacheDirectory(NamedTuple):
    """A directory for machine code, and who may read what is put there."""

    path: str  # absolute
    directory_mode: int = 0o700  # of directories that are made
    file_mode: int = 0o600  # of files


def installed() -> CacheDirectory:
    """Give the directory beside the modules, where `rmqtool warm-up` puts code for all users."""
    beside = Path(__file__).resolve().parent / "__pycache__" / "kernels"
    return CacheDirectory(str(beside), 0o755, 0o644)


def own() -> list[CacheDirectory]:
    """Give the directories of the user's own, the one to take first first.

    A home that belongs to another user is not one: `sudo` may keep that of who called it.
    """
    places = [os.environ.get("NUMBA_CACHE_DIR", ""), _below(os.environ.get("XDG_CACHE_HOME", ""))]
    places.append(_below(os.environ.get("HOME", ""), ".cache"))
    with suppress(KeyError):  # a container may run as a user whom nobody knows
        places.append(_below(pwd.getpwuid(os.geteuid()).pw_dir, ".cache"))
    return [CacheDirectory(path) for path in dict.fromkeys(places) if path.startswith("/")]


def _below(place: str, *names: str) -> str:
    return "/".join([place, *names, OWN]) if place else ""


def opened(place: CacheDirectory, *, makes: bool = False) -> AbstractContextManager[int]:
    """Open a directory in which machine code may lie; give its descriptor.

    Args:
        place: which.
        makes: make it, and what is missing above it.

    Raises:
        Untrusted: another user may write there.
        OSError: it is not there, or cannot be made.
    """
    return private_place.opened(place.path, makes=makes, mode=place.directory_mode)
