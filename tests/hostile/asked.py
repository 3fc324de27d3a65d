"""See that the kernel is asked about a store by calls alone that `races` can swap something before.

    python -m tests.hostile.asked [--work repair undo]

A work runs under strace. Each name below the store that the kernel looks up, and each directory of
it that the kernel lists, has to be one that `Faults` has counted, as often. So nothing else in the
process, such as a library in C, asks about a component between two of those calls, and a swap of it
in between is the same as one before the next call that asks about it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from tests.hostile.races import ALL, races
from tests.store.faults import LISTING, Faults

# ruff: noqa: T201 - a program that prints
TRACED: Final = "trace=%file,getdents64"
BEGIN, END = "/the-work-begins", "/the-work-ends"  # asked for by the child, which marks the log
NAME: Final = re.compile(r'(?:<([^<>]*)>, )?"((?:[^"\\]|\\.)*)"')
# RocksDB's own directory, open and entered by nobody else: a name in it leads nowhere else.
ROOM: Final = re.compile(r"/rocksdb-\d+$")
LISTED: Final = re.compile(r"getdents64\(\d+<([^<>]*)>")


class Asked(NamedTuple):
    """What the kernel was asked about a store.

    Attributes:
        lookups: names that it looked up, and directories that it listed.
        unseen: those that `Faults` has not counted, or not so often.
    """

    lookups: int
    unseen: list[str]


def can_trace() -> bool:
    """Tell whether strace is there, and may trace: some containers forbid it."""
    if shutil.which("strace") is None:
        return False
    line = ("strace", "-f", "-qq", "-o", os.devnull, "true")
    return not subprocess.run(line, capture_output=True, check=False).returncode  # noqa: S603


def asked(work: str) -> Asked:
    """Do a work under strace."""
    with tempfile.TemporaryDirectory(prefix="rmqtool-asked-") as top:
        log, counted = Path(top) / "log", Path(top) / "counted"
        child = (sys.executable, "-m", "tests.hostile.asked", "--work", work, "--into", counted)
        # -s: a name is shown as a whole
        strace = ("strace", "-f", "-y", "-qq", "-s", "4096", "-e", TRACED, "-o", log, *child)
        subprocess.run(strace, check=True)  # noqa: S603 - our own program
        names = json.loads(counted.read_text())
        store = names["store"]
        kernel = Counter(_looked_up(log, store))
        lacking = kernel - Counter(map(os.path.normpath, names["all"]))
        unlisted = _listed(log, store) - set(map(os.path.normpath, names["listed"]))
    return Asked(kernel.total(), sorted({*lacking, *unlisted}))


def _looked_up(log: Path, store: str) -> Iterator[str]:
    """Give the names below a store that the kernel looked up during the work."""
    for line in _lines(log):
        names = NAME.findall(line)
        if "readlink" in line:
            names = names[:1]  # the second one is the answer
        for above, name in names:
            if ROOM.search(above) and "/" not in name.removeprefix("./"):
                continue
            # Without a name a call is about a file that is open.
            path = os.path.normpath(os.path.join(_plain(above), _plain(name)))  # noqa: PTH118 - of a str
            if name and f"{path}/".startswith(f"{store}/"):
                yield path


def _listed(log: Path, store: str) -> set[str]:
    """Give the directories of a store that the kernel listed during the work."""
    found = (LISTED.search(line) for line in _lines(log))
    paths = {_plain(match.group(1)) for match in found if match is not None}
    return {path for path in paths if f"{path}/".startswith(f"{store}/")}


def _lines(log: Path) -> Iterator[str]:
    """Give the calls between the two marks."""
    is_work = False
    with log.open(encoding="latin1") as lines:
        for line in lines:
            if BEGIN in line or END in line:
                is_work = BEGIN in line
            elif is_work:
                yield line


def _plain(shown: str) -> str:
    """Undo how strace shows bytes that are no ASCII: three octal digits each."""
    return os.fsdecode(shown.encode("latin1").decode("unicode_escape").encode("latin1"))


def _counted(work: str) -> dict[str, object]:
    """Do a work, as strace's child; give the store, and the paths that were counted."""
    with races(work) as race:
        race.prepare()
        faults = Faults(reads=True, entries=True)
        with suppress(FileNotFoundError):
            os.stat(BEGIN)  # noqa: PTH116 - a plain call
        with faults.injected():
            race.go()
        with suppress(FileNotFoundError):
            os.stat(END)  # noqa: PTH116 - a plain call
    calls = [*zip(faults.seen, faults.paths, strict=True)]
    return {
        "store": str(race.made.store),
        "all": [path for _, paths in calls for path in paths],
        "listed": [path for call, paths in calls for path in paths if call in LISTING],
    }


def main() -> int:
    """Print what was not counted, then a row for each work; 1 when there is any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", nargs="+", choices=ALL, default=[*ALL])
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.into is not None:
        given.into.write_text(json.dumps(_counted(*given.work)))
        return 0
    failed = 0
    for work in given.work:
        found = asked(work)
        for path in found.unseen:
            print(f"{work} | {path} | not counted")
        print(f"{work} | {found.lookups:,} lookups | {len(found.unseen):,} not counted", flush=True)
        failed += len(found.unseen)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
