"""See that no path below a store or an output is ever looked up from the root of the system.

    python -m tests.hostile.paths [--store files rocksdb] [--command validate dump]

Whoever owns a directory on the way to a file may put a link in its place between two looks. So a
store and an output are opened once, by the path that the user gave, and all else is looked up from
there, by a descriptor. A library that takes a path instead would do it otherwise: each command runs
under strace, and each absolute path below a store or an output, but for these two themselves, is
printed. What starts from the working directory counts as well, which is `/`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.hostile.asked import NAME, ROOM, _plain
from tests.hostile.stranger import FIXTURE, IN_ROCKSDB, damage, damage_rocksdb
from tests.stores import fixture_store

# ruff: noqa: T201 - a program that prints
STORES: Final = {"files": FIXTURE, "rocksdb": IN_ROCKSDB}
# A command changes or reads `{store}`, and writes `{out}`; `{other}` is like the store.
COMMANDS: Final = {
    "info": "info {store}",
    "validate": "validate {store} --level full",
    "manifest": "validate {store} --manifest {out}",
    "findings": "validate {store} {other} --findings {out}",
    "sarif": "validate {store} --sarif {out} --junit {out}.xml",
    "dump": "dump {store}",
    "dump-all": "dump {store} --as all",
    "dump-config": "dump {store} --as config",
    "query": "query {store} --topic {topic} --queue 0 --queue-offset 1",
    "doctor": "doctor {store}",
    "startup": "startup {store} --broker-version 5.3.3",
    "diff": "diff {store} {other}",
    "merge-offsets": "diff {store} {other} --merge-offsets --output {out}",
    "report": "report {store} --output {out}",
    "extract": "extract {store} --output {out}.rmq",
    "extract-parquet": "extract {store} --output {out}.parquet",
    "export": "export {store} --output {out} --partition-by topic",
    "export-json": "export {store} --output {out} --format jsonl",
    "carve": "carve {store}/commitlog/00000000000000000000 --output {out}.rmq",
    "rebuild-check": "rebuild {store} --check",
    "rebuild-output": "rebuild {store} --output {out}",
    "rebuild-cq-rocksdb": "rebuild-cq {store} --as rocksdb --output {out}",
    "rebuild-log": "rebuild-log {store} --output {out}",
    "repair-plan": "repair {store} --plan {out}",
    "repair-output": "repair {store} --output {out}",
    "repair-in-place": "repair {store} --in-place --yes",
    "rebuild-in-place": "rebuild {store} --in-place --yes",
}
TOPICS: Final = {"files": "crash-orders", "rocksdb": "rocksdb-orders"}
BUG: Final = 70
CALL: Final = re.compile(r"\d+ +(\w+)\(")
ANSWERS: Final = ("readlink", "readlinkat")  # the second text is what the link says
TEXT_FIRST: Final = ("symlink", "symlinkat")  # the first text is what the link will say
NO_LOOKUP: Final = ("getcwd", "execve")
WHERE: Final = "/"


def by_path(log: Path, tops: list[str], named: set[str]) -> Iterator[str]:
    """Give the calls that look up a name below a directory by its path.

    Args:
        log: of strace.
        tops: directories below which none may be.
        named: paths that the user has given, and those above: each may be looked up.
    """
    with log.open(encoding="latin1") as lines:
        for line in lines:
            call = CALL.match(line)
            if call is None or call[1] in NO_LOOKUP:
                continue
            names = NAME.findall(line)
            names = names[:1] if call[1] in ANSWERS else names[call[1] in TEXT_FIRST :]
            for above, name in names:
                start = _plain(above) if "AT_FDCWD<" in line else WHERE
                if not name or (above and "AT_FDCWD<" not in line) or ROOM.search(above):
                    continue  # looked up from a directory that is open
                path = os.path.normpath(os.path.join(start, _plain(name)))  # noqa: PTH118 - of a str
                if path not in named and any(path.startswith(f"{top}/") for top in tops):
                    yield f"{call[1]} {path}"


def wrong_in(store: str, command: str) -> list[str]:
    """Run a command under strace; give the calls that look up a name by its path."""
    with tempfile.TemporaryDirectory(prefix="rmqtool-paths-") as top:
        made = Path(top).resolve()
        for name in ("store", "other"):
            (made / "in" / name).mkdir(parents=True)
            fixture_store(STORES[store], made / "in" / name).rename(made / name)
        if command.startswith("repair"):
            (damage if store == "files" else damage_rocksdb)(made / "store")
        (made / "outputs").mkdir()
        places = {name: str(made / name) for name in ("store", "other")}
        words = (
            COMMANDS[command]
            .format(**places, out=made / "outputs/out", topic=TOPICS[store])
            .split()
        )
        program = [sys.executable, "-m", "rmqtool", *words]
        log = made / "log"
        line = ["strace", "-f", "-y", "-qq", "-s", "4096", "-e", "trace=%file", "-o", str(log)]
        done = subprocess.run(  # noqa: S603 - our own program
            [*line, *program], cwd=WHERE, capture_output=True, text=True, check=False
        )
        assert done.returncode not in {2, BUG}, done.stderr
        tops = [*places.values(), str(made / "outputs")]
        given = [Path(word) for word in words if word.startswith("/")]
        named = {str(path) for one in given for path in (one, *one.parents)}
        return sorted({*by_path(log, tops, named)})


def main() -> int:
    """Print each such call, then a row for each command; 1 when there is any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", nargs="+", choices=STORES, default=[*STORES])
    parser.add_argument("--command", nargs="+", choices=COMMANDS, default=[*COMMANDS])
    asked = parser.parse_args()
    failed = 0
    for store in asked.store:
        for command in asked.command:
            wrong = wrong_in(store, command)
            for call in wrong:
                print(f"{store} | {command} | {call}")
            print(f"{store} | {command} | {len(wrong)} looked up by path", flush=True)
            failed += len(wrong)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
