"""Try what a hostile database would do if it had taken over the process that reads it.

    python -m tests.store.probes OWN OTHER

The process is confined as that of RocksDB is: it may read OWN and no other file. Each line names
what was tried, and what the system said.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rmqtool.store.confinement import Limits, Room, confine, spare_user

LIMITS: Final = Limits(1 << 30, 60, 64, 0)
X86: Final = os.uname().machine == "x86_64"
PTRACE, MOUNT, UNSHARE = (101, 165, 272) if X86 else (117, 40, 97)
PRLIMIT, KEYCTL, SECCOMP = (302, 250, 317) if X86 else (261, 219, 277)
IO_URING: Final = 425
LIBRARY: Final = ctypes.CDLL(None, use_errno=True)


def fork() -> None:
    """Start a process."""
    child = os.fork()
    if not child:
        os._exit(0)


def call(*arguments: object) -> None:
    """Call the system by number."""
    if LIBRARY.syscall(*arguments) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def probes(own: int, other: Path, here: int) -> dict[str, Callable[[], object]]:
    """Give what is tried, by name."""
    parent = os.getppid()
    return {
        "own": lambda: os.close(os.open(f"/proc/self/fd/{own}", os.O_RDONLY)),
        "own_written": lambda: os.open(f"/proc/self/fd/{own}", os.O_RDWR),
        "file": lambda: os.open(other, os.O_RDONLY),
        "link": lambda: os.open("link", os.O_RDONLY, dir_fd=here),
        "directory": lambda: os.open("/", os.O_RDONLY | os.O_DIRECTORY),
        "made": lambda: os.open("made", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=here),
        "made_elsewhere": lambda: os.open("/tmp/rmqtool-made", os.O_WRONLY | os.O_CREAT, 0o600),  # noqa: S108
        "removed": lambda: os.unlink("link", dir_fd=here),
        "renamed": lambda: os.rename("link", "other", src_dir_fd=here, dst_dir_fd=here),
        "hard_link": lambda: os.link("link", "other", src_dir_fd=here, dst_dir_fd=here),
        "mode": lambda: os.fchmod(own, 0o777),
        "owner": lambda: os.fchown(own, 0, 0),
        "socket": lambda: socket.socket(socket.AF_INET),
        "unix_socket": lambda: socket.socket(socket.AF_UNIX),
        "netlink": lambda: socket.socket(socket.AF_NETLINK),
        "pair": socket.socketpair,
        "fork": fork,
        "program": lambda: os.execv("/bin/true", ["/bin/true"]),  # noqa: S606
        "program_started": lambda: subprocess.run(["/bin/true"], check=True),
        "signal": lambda: os.kill(parent, 0),
        "signal_to_all": lambda: os.kill(-1, signal.SIGTERM),
        "debugging": lambda: call(PTRACE, 16, parent, 0, 0),
        "mount": lambda: call(MOUNT, None, b"/", None, 0, None),
        "user": lambda: os.setuid(0),
        "limits": lambda: call(PRLIMIT, 0, 7, (ctypes.c_uint64 * 2)(4096, 4096), None),
        "namespaces": lambda: call(UNSHARE, 0x10000000),
        "keys": lambda: call(KEYCTL, 0, -1, 0, 0, 0),
        "new_filter": lambda: call(SECCOMP, 1, 0, None),
        "io_uring": lambda: call(IO_URING, 8, (ctypes.c_char * 120)()),
    }


def main(own: Path, other: Path) -> None:
    """Go into the cell, try, and say what happened."""
    (own.parent / "room").mkdir()
    (own.parent / "room" / "link").symlink_to(other)
    here = os.open(own.parent / "room", os.O_RDONLY | os.O_DIRECTORY)
    handle = os.open(own, os.O_RDONLY)
    user = spare_user(os.getpid()) if os.geteuid() == 0 else None
    if user is not None:
        os.fchmod(here, 0o755)
    tried = probes(handle, other, here)
    lacking = confine(Room(here, (handle,), False, user, LIMITS))
    said = {"lacking": ", ".join(lacking)}
    for name, probe in tried.items():
        try:
            probe()
        except OSError as error:
            said[name] = error.strerror or str(error)
        else:
            said[name] = ""
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
