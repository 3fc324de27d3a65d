"""System calls that Python has no name for; each with what is done where it does not exist.

They serve the modules of this package that write; nothing else may use them.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rmqtool.writing.directory import Spot

_RENAME_NOREPLACE: Final = 1
_RENAME_EXCHANGE: Final = 2
_FICLONE: Final = 0x40049409
_PATH_BYTES: Final = 1024  # PATH_MAX of macOS
_MISSING: Final = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)  # by kernel or file system


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def exchange(first: Spot, second: Spot) -> bool:
    """Let two names change places in one step; False, with nothing done, where that is unknown.

    Raises:
        OSError: it is known, but failed.
    """
    return _rename(first, second, _RENAME_EXCHANGE)


def rename_new(source: Spot, target: Spot) -> None:
    """Rename without ever replacing what is there.

    Raises:
        OSError: `FileExistsError` when the target is there; what the system said otherwise.
    """
    if _rename(source, target, _RENAME_NOREPLACE):
        return
    if target.facts() is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    rename_over(source, target)


def rename_over(source: Spot, target: Spot) -> None:
    """Rename, in place of a file that may be there. Raises OSError: what the system said."""
    os.rename(
        source.name,
        target.name,
        src_dir_fd=source.directory.handle,
        dst_dir_fd=target.directory.handle,
    )


def sync_file_system(handle: int) -> bool:
    """Bring everything of a file's file system to disk; False where that is unknown.

    One call costs less than many fsync, as the journal of the file system is written once.
    """
    function = getattr(_library(), "syncfs", None)
    if function is None:
        return False
    if function(handle):
        _raise()
    return True


def clone(source: int, target: int) -> bool:
    """Let a file share all blocks of another until one of them is written (reflink).

    False where the file system cannot.
    """
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:  # EOPNOTSUPP, EXDEV, ENOTTY …: whoever asks copies the bytes instead
        return False
    return True


def _rename(source: Spot, target: Spot, flags: int) -> bool:
    function = getattr(_library(), "renameat2", None)
    if function is None:
        return False
    arguments = [
        part
        for spot in (source, target)
        for part in (spot.directory.handle, os.fsencode(spot.name))
    ]
    if function(*arguments, ctypes.c_uint(flags)):
        if ctypes.get_errno() in _MISSING:
            return False
        _raise(source, target)
    return True


def _raise(source: Spot | None = None, target: Spot | None = None) -> None:
    code = ctypes.get_errno()
    raise OSError(code, os.strerror(code), source and str(source), None, target and str(target))


def open_path(handle: int) -> str:
    """Give a path of an open directory that leads there whatever it is called, in this process.

    Raises:
        OSError: the system does not tell.
    """
    if hasattr(fcntl, "F_GETPATH"):  # macOS, which has no such path: it is what it is called now
        raw = fcntl.fcntl(handle, fcntl.F_GETPATH, bytes(_PATH_BYTES))
        return os.fsdecode(raw.rstrip(b"\0"))
    return f"/proc/{os.getpid()}/fd/{handle}"
