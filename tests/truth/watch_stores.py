"""Stores of a release that came out, written by its own broker, and what rmqtool says of them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rmqtool.broker.release import RELEASES, Version
from tests.broker.write_fixtures import all_scenarios, write
from tests.stores import unpacked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

COMMANDS: Final = ("validate", "startup", "repair")


def judged(version: str, names: Iterable[str] = ()) -> Iterator[tuple[str, bool]]:
    """Yield a line for each store, and whether all that is said of it is right.

    Args:
        version: of the broker that writes.
        names: of scenarios; empty for all that 5.x brokers are put through.
    """
    known = all_scenarios()
    newest = max(RELEASES)
    for name, scenario in known.items():
        if (names and name not in names) or str(newest) not in scenario.versions:
            continue
        with tempfile.TemporaryDirectory() as directory:
            written = write(version, scenario, Path(directory))
            (Path(directory) / "kept").mkdir()
            store = unpacked(written, Path(directory) / "kept")
            faults = [*_faults(store, written / "broker.conf", version)]
        yield f"{name}: {'; '.join(faults) or 'sound, starts, nothing to repair'}", not faults


def _faults(store: Path, conf: Path, version: str) -> Iterator[str]:
    """Yield what is wrong with what rmqtool says of a store that is sound."""
    asked = Version.known(version)
    rules = version if asked in RELEASES else str(max(RELEASES))
    for command in COMMANDS:
        done = subprocess.run(  # noqa: S603 - our own words
            [
                *(sys.executable, "-m", "rmqtool", command, str(store), "--format", "jsonl"),
                *("--broker-conf", str(conf), "--broker-version", rules),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        rows: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode not in {0, 1}:
            yield f"{command}: exit {done.returncode}: {done.stderr.strip()[-300:]}"
        elif command == "validate":
            yield from (f"{row['code']}: {row['message']}" for row in rows if _is_bad(row))
        elif command == "startup" and done.returncode:
            yield f"startup: {done.stderr.strip()[-300:]}"
        elif command == "repair":
            yield from (f"repair: {row}" for row in rows if row.get("kind") == "edits")


def _is_bad(row: dict[str, Any]) -> bool:
    return row.get("severity") in {"damage", "warning"}
