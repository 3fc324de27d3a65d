"""`rmqtool sql` again and again in one process: the start of Java takes longer than the question.

`Answering` is the side of whoever asks; as a program this module answers, a line of JSON each way.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from tests.cli.run import Run

ROOT: Final = Path(__file__).parents[2]


class Answering:
    """A process that has started Spark, and runs one command at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", __name__],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(self, line: Sequence[str]) -> Run:
        """Run a command; wait while another one runs."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with self._lock:
            stdin.write(json.dumps(line) + "\n")
            stdin.flush()
            code, out, err = json.loads(stdout.readline())
        return Run(code, out.encode(), err)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def _answered(line: Sequence[str]) -> tuple[int, str, str]:
    """Run a command with files for output."""
    from rmqtool.cli.main import main

    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        for stream, file in ((sys.stdout, out), (sys.stderr, err)):
            os.dup2(file.fileno(), stream.fileno())
        try:
            code = main([*line])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        sys.stdout.flush()
        sys.stderr.flush()
        return code, _text(out), _text(err)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _serve() -> None:
    from rmqtool.spark import register
    from rmqtool.spark.session import session
    from tests.spark.conftest import QUICK

    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    started = register(session("local[2]", options=QUICK))
    for line in sys.stdin:
        print(json.dumps(_answered(json.loads(line))), file=answers, flush=True)
    started.stop()


if __name__ == "__main__":
    _serve()
