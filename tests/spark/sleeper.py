"""The command line, with tasks that never end: a process of its own.

python -m tests.spark.sleeper MARKER ARGUMENTS...
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from rmqtool.cli.main import main
from rmqtool.scan.join import Joinable, PerPart
from rmqtool.store.segment import SegmentPart
from tests.spark.test_engine import wrapping


@dataclass(frozen=True)
class Sleep:
    """A per-part function that says which process runs it, and sleeps."""

    function: PerPart[Joinable]
    marker: Path

    def __call__(self, part: SegmentPart, *, start: int | None = None) -> Joinable:
        """Sleep until somebody ends the process."""
        staged = self.marker.with_suffix(".staged")
        staged.write_text(str(os.getpid()))
        staged.rename(self.marker)
        while True:
            time.sleep(60)
        return self.function(part, start=start)


if __name__ == "__main__":
    import rmqtool.check.log.commitlog

    path = Path(sys.argv[1])
    setattr(rmqtool.check.log.commitlog, "run_joined", wrapping(lambda one: Sleep(one, path)))  # noqa: B010
    sys.exit(main(sys.argv[2:]))
