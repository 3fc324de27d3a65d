"""What keeps reading beside a broker: `validate --every`, and `dump --follow`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.check.live_load import TOPIC, Load
from tests.cli.run import COMMAND

SECONDS: Final = 15.0
PATIENCE: Final = 600.0  # on a busy machine


def keep_watch(store: Path, conf: Path, load: Load, ended: threading.Event) -> Iterator[str]:  # noqa: ARG001 - as all watches
    """Validate every two seconds; yield what is wrong."""
    code, rows, said = _until(
        ["validate", str(store), "--every", "2s", "--format", "jsonl"], conf, ended
    )
    if not rows:
        return  # it was ended before it began
    above = [row for row in rows if row["severity"] != "note"]
    yield from (f"{row['code']} {row['path']}: {row['message']}" for row in above)
    if code and not above:
        yield f"exit {code}: {said[-300:]}"


def follow(store: Path, conf: Path, load: Load, ended: threading.Event) -> Iterator[str]:
    """Follow the log; yield what is wrong: a message is missing, shown twice, or out of order."""
    line = ["dump", str(store), "--follow", "--tail", "1", "--topic", TOPIC, "--format", "jsonl"]
    columns = ["--columns", "physical_offset,unique_key,segment,position,size,code"]
    code, rows, said = _until([*line, *columns], conf, ended)
    if not rows:
        return  # it was ended before it began
    odd = [row for row in rows if row["code"] is not None]
    if code or odd:
        yield f"exit {code}: {odd[:3]} {said[-300:]}"
    if code or "expired before it was shown" in said:
        return
    offsets = [row["physical_offset"] for row in rows]
    if offsets != sorted(set(offsets)):
        yield "not in order, each once"
    shown = {row["unique_key"] for row in rows}
    begin, end = offsets[0], offsets[-1]
    missing = [
        row.physical_offset
        for row in [*load.acknowledged]
        if begin <= row.physical_offset <= end and row.unique_key not in shown
    ]
    if missing:
        yield f"{len(missing)} messages are missing, the first at {missing[0]}"


def _until(
    line: list[str], conf: Path, ended: threading.Event
) -> tuple[int, list[dict[str, Any]], str]:
    """Run a command until it is ended by SIGTERM; give its exit code, rows, and what it said."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with subprocess.Popen(  # noqa: S603 - ourselves
            [*COMMAND, *line, "--broker-conf", str(conf)], stdout=out, stderr=err
        ) as process:
            begin = time.monotonic()
            while not os.fstat(out.fileno()).st_size and time.monotonic() < begin + PATIENCE:
                if process.poll() is not None or ended.wait(0.1):
                    break
            ended.wait(SECONDS)
            process.send_signal(signal.SIGTERM)
            code = process.wait(PATIENCE)
        out.seek(0)
        err.seek(0)
        return code, [json.loads(line) for line in out.read().splitlines()], err.read().decode()
