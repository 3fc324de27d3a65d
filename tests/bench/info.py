"""Time `rmqtool info` on 1 GiB in 160 queues against `rmqtool --version`, in one run.

python -m tests.bench.info
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Final

from tests.bench.store_builder import GIB, Spec, bench_store

ROUNDS: Final = 9
LARGEST_RATIO: Final = 4.0


def seconds(*arguments: str) -> float:
    """Time one call, from the start of the process to its end."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "rmqtool", *arguments]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)  # noqa: S603 - ourselves
    return time.perf_counter() - began


def main() -> int:
    """Compare the best of some rounds, taken in turns, as other processes come and go."""
    store = str(bench_store(Spec(total_bytes=GIB)))
    rounds = [
        (seconds("--version"), seconds("info", store, "--format", "json")) for _ in range(ROUNDS)
    ]
    version, info = (min(times) for times in zip(*rounds, strict=True))
    ratio = info / version
    print(f"--version {version:.3f} s, info {info:.3f} s: {ratio:.2f} times")  # noqa: T201
    return 0 if ratio <= LARGEST_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
