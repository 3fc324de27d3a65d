"""Time `rmqtool browse` on 2 GiB in 100,000 queues: first screen, jumps, memory.

python -m tests.bench.bench_browse [--gib 2]

The program runs on a terminal of its own, and each key is timed until what it asks for is drawn.
The exit code is 1 where the first screen takes over a second, a jump over 0.2 s, or the process
more than 300 MB; commands in the background are not part of it.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.bench.store_builder import GIB, Spec, bench_store

# ruff: noqa: T201 - a benchmark prints
FIRST_SECONDS: Final = 1.0
JUMP_SECONDS: Final = 0.2
MOST_MB: Final = 300
ROUNDS: Final = 5
LONGEST: Final = 8.0  # seconds that something may take to be drawn
ENTER: Final = b"\r"
# What is typed, from the overview, and what is drawn then; Esc goes back.
JUMPS: Final = {
    "physical offset": (b"/1500000000\r", b"1499999"),
    "time": (b"/2023-11-14T22:14:00Z\r", b"22:14:00.000Z"),
    "place in a queue": (b"/BenchTopic42 777 20\r", b"22:13:"),
    "key": (b"/order-000012345\r", b"body_crc"),
    "unique key": (b"/0A00000112345A6B4FE6C7F40044BDB9\r", b"body_crc"),
    "end of the log": (b"lG", b"22:14:51"),
}


class Terminal:
    """The program on a terminal of its own."""

    def __init__(self, store: str) -> None:
        self.began = time.perf_counter()
        self.pid, self._handle = pty.fork()
        if not self.pid:
            os.environ["TERM"] = "xterm-256color"
            os.execv(sys.executable, [sys.executable, "-m", "rmqtool", "browse", store])  # noqa: S606
        size = struct.pack("HHHH", 50, 200, 0, 0)
        fcntl.ioctl(self._handle, termios.TIOCSWINSZ, size)

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._handle, keys)

    def until(self, wanted: bytes) -> float | None:
        """Wait until something is drawn; give the seconds, None where it never was."""
        began, drawn = time.perf_counter(), b""
        while time.perf_counter() - began < LONGEST:
            if select.select([self._handle], [], [], 0.02)[0]:
                drawn += os.read(self._handle, 1 << 16)
                if wanted in drawn:
                    return time.perf_counter() - began
        return None

    def quiet(self, seconds: float = 0.3) -> None:
        """Wait until nothing is drawn any more."""
        with suppress(OSError):  # it has ended
            while select.select([self._handle], [], [], seconds)[0]:
                os.read(self._handle, 1 << 16)

    @property
    def peak_mb(self) -> float:
        """Most memory that the process had so far."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024

    def end(self) -> None:
        """Leave."""
        self.type(b"q")
        self.quiet(1.0)
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def main() -> int:
    """Time it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=2.0)
    parser.add_argument("--store", help="one that is there, made with the same spec")
    options = parser.parse_args()
    spec = Spec(total_bytes=round(options.gib * GIB), topics=100, queues=1000)
    store = options.store or str(bench_store(spec))
    firsts = []
    for _ in range(ROUNDS):
        terminal = Terminal(store)
        terminal.until(b"2023-11-14T")
        firsts.append(time.perf_counter() - terminal.began)
        terminal.quiet()
        terminal.end()
    terminal = Terminal(store)
    terminal.until(b"2023-11-14T")
    terminal.quiet()
    print(f"first screen: {min(firsts):.2f} s (of {ROUNDS}, worst {max(firsts):.2f} s)")
    is_good = min(firsts) <= FIRST_SECONDS
    for name, (keys, wanted) in JUMPS.items():
        seconds = []
        for _ in range(ROUNDS):
            terminal.type(keys[:-1])
            terminal.quiet(0.2)
            terminal.type(keys[-1:])
            seconds.append(terminal.until(wanted) or LONGEST)
            terminal.quiet(0.2)
            terminal.type(b"o")
            terminal.quiet(0.2)
        print(f"{name}: {min(seconds):.3f} s (worst {max(seconds):.3f} s)")
        is_good &= min(seconds) <= JUMP_SECONDS
    terminal.type(b"t")
    names = terminal.until(b"BenchTopic30") or LONGEST
    terminal.quiet(0.5)
    print(f"topics: names {names:.3f} s")
    peak = terminal.peak_mb
    print(f"peak memory: {peak:.0f} MB")
    terminal.end()
    return 0 if is_good and peak <= MOST_MB else 1


if __name__ == "__main__":
    sys.exit(main())
