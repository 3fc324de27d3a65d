"""What rmqtool keeps for its user outside of any store: reports of bugs, logs of Spark.

They lie in the user's own state directory, `$XDG_STATE_HOME/rmqtool` or `~/.local/state/rmqtool`,
which nobody else can enter. Without one, as in a container without a home, a new
directory for temporary files serves.
"""

from __future__ import annotations

import os
import pwd
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from rmqtool.errors import RepairError
from rmqtool.writing.directory import Directory
from rmqtool.writing.private_place import Untrusted, opened
from rmqtool.writing.staging import write_all

if TYPE_CHECKING:
    from collections.abc import Iterator

OWN: Final = "rmqtool"
LARGEST_TEXT: Final = 1 << 20  # bytes of a text that is kept
_APPEND: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


def keep(kind: str, text: str = "") -> str:
    """Write a new file, for this user alone; give its path.

    Args:
        kind: what the name begins with.
        text: what it holds.

    Raises:
        OSError: no directory can be written.
    """
    name = f"{kind}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}.txt"
    for place in _places():
        with suppress(OSError, Untrusted), opened(place, makes=True) as handle:
            _create(Directory(handle, place), name, text)
            return f"{place}/{name}"
    place = tempfile.mkdtemp(prefix="rmqtool-")
    with Directory.at(place) as directory:
        _create(directory, name, text)
    return f"{place}/{name}"


def kept_text(name: str) -> str:
    """Give what `keep_text` has kept under a name; nothing where there is none."""
    for place in _places():
        with suppress(OSError, Untrusted), opened(place) as handle:
            with suppress(OSError, RepairError):
                file = Directory(handle, place).open_file(name)
                try:
                    return os.pread(file, LARGEST_TEXT, 0).decode("utf-8", "replace")
                finally:
                    os.close(file)
            return ""
    return ""


def keep_text(name: str, text: str) -> None:
    """Keep a text for this user alone, in place of what was kept under the name.

    Raises:
        OSError: it cannot be written.
    """
    for place in _places():
        with suppress(Untrusted, FileNotFoundError, PermissionError):
            with opened(place, makes=True) as handle:
                directory, new = Directory(handle, place), f"{name}.{os.getpid()}"
                _create(directory, new, text)
                os.replace(new, name, src_dir_fd=handle, dst_dir_fd=handle)
            return


def open_log(path: str | None) -> int:
    """Give a descriptor to append to: of a file, made for this user alone, or of one for nothing.

    Args:
        path: None drops what is written.

    Raises:
        OSError: it cannot be opened, or is a link.
    """
    return nowhere() if path is None else os.open(path, _APPEND, 0o600)


def nowhere() -> int:
    """Give a descriptor that swallows whatever is written."""
    return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)


def _places() -> Iterator[str]:
    """Yield the directories of the user's own that may be had, the one to take first first.

    A home that belongs to somebody else is not the user's: `sudo` may keep that of who called it.
    """
    bases = [os.environ.get("XDG_STATE_HOME", "")]
    homes = [os.environ.get("HOME", "")]
    with suppress(KeyError):  # a container may run as a user whom nobody knows
        homes.append(pwd.getpwuid(os.geteuid()).pw_dir)
    bases += [f"{home}/.local/state" for home in homes if home]
    for base in bases:
        if base.startswith("/"):
            yield f"{base}/{OWN}"


def _create(directory: Directory, name: str, text: str) -> None:
    handle = directory.create(name, 0o600)
    try:
        write_all(handle, text.encode("utf-8", "backslashreplace"), 0)
    finally:
        os.close(handle)
