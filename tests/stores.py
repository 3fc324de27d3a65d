"""The fixtures: stores that real brokers wrote, and what was sent to them.

`fixtures/README.md` says what is in them; `tests.broker.write_fixtures` writes them anew.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import tarfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Final
from unittest import mock

from rmqtool.store import tree as lock_state
from rmqtool.writing.lock import StoreLock
from tests.broker.jars import LATEST

FIXTURES: Final = Path(__file__).parents[1] / "fixtures"
OPENS: Final = ("open", "open_listed")  # the methods of `Place` that open a file
_OF_THEIR_OWN: Final = ("rocksdb-", "compaction", "redelivered")
_ONLY_WHEN_ASKED: Final = LATEST  # what it adds is tested where it is asked for
_PREFIX: Final = "rocketmq-"
_CHUNK: Final = 64 * 1024


def fixture_names(version: str | None = None, scenario: str | None = None) -> list[str]:
    """Return the names of all fixtures, or of those of one version or scenario, sorted.

    Scenarios of RocksDB, of the compaction store, and of delayed messages of two configurations
    have tests of their own: they are given when they are asked for by name. So are those of the
    newest release: by its name.
    """
    return [
        path.name
        for path in sorted(FIXTURES.glob(f"{_PREFIX}*"))
        if _matches(path.name, version, scenario)
    ]


def fixture_before(version: str, scenario: str) -> str:
    """Name the fixture of a scenario that a release wrote, or the newest one before it."""
    names = [*fixture_names(scenario=scenario), *fixture_names(version, scenario)]
    return max(name for name in names if name.split("-")[1] <= version)


def fixture_directory(name: str) -> Path:
    """Return where a fixture's own files are: `broker.conf`, `sent.jsonl`, `MANIFEST.toml`."""
    return FIXTURES / name


def broker_conf(name: str) -> Path:
    """Return a fixture's `broker.conf`."""
    return fixture_directory(name) / "broker.conf"


def fixture_store(name: str, into: Path) -> Path:
    """Copy or unpack a fixture's store; return the new store root, `into/store`.

    Holes stay holes, and each file gets the modification time that it had: git keeps none, and
    expiry and the time search of 4.9.x depend on it.

    Args:
        name: of the fixture.
        into: an existing directory without a `store` in it.
    """
    return unpacked(fixture_directory(name), into)


def unpacked(source: Path, into: Path) -> Path:
    """Do the same for the directory of a fixture, wherever it is."""
    root = into / "store"
    if (source / "store").is_dir():
        shutil.copytree(source / "store", root, copy_function=_copy_sparse)
    else:
        with tarfile.open(source / "store.tar.xz") as archive:
            if hasattr(tarfile, "data_filter"):  # from 3.11.4 on; Debian 12 has 3.11.2
                archive.extraction_filter = tarfile.data_filter
            archive.extractall(into)  # noqa: S202 - our own fixtures
    facts = tomllib.loads((source / "MANIFEST.toml").read_text(encoding="utf-8"))
    for directory in facts["empty_directories"]:
        (root / directory).mkdir(parents=True, exist_ok=True)
    for file in facts["files"]:
        instant = file["mtime_ms"] * 1_000_000
        os.utime(root / file["path"], ns=(instant, instant))
    return root


@contextmanager
def held_by_another(store: str | os.PathLike[str]) -> Iterator[None]:
    """Hold a store's lock as a broker does: this process is not told that it is its own."""
    with StoreLock(store), mock.patch.object(lock_state, "OWN_LOCKS", frozenset()):
        yield


def sent(name: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of `sent.jsonl`, in the order of sending; `body` has the bytes themselves."""
    with (fixture_directory(name) / "sent.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            row["body"] = base64.b64decode(row["body_b64"])
            yield row


@cache
def manifest(name: str) -> dict[str, Any]:
    """Return a fixture's manifest; do not change it, it is shared."""
    return tomllib.loads((fixture_directory(name) / "MANIFEST.toml").read_text(encoding="utf-8"))


def _matches(name: str, version: str | None, scenario: str | None) -> bool:
    found_version, _, found_scenario = name.removeprefix(_PREFIX).partition("-")
    if scenario is None and found_scenario.startswith(_OF_THEIR_OWN):
        return False
    if version is None and found_version == _ONLY_WHEN_ASKED:
        return False
    return version in {None, found_version} and scenario in {None, found_scenario}


def _copy_sparse(source: str, target: str) -> str:
    """Copy a file so that stretches of zeros take no space."""
    with Path(source).open("rb") as old, Path(target).open("wb") as new:
        _copy_chunks(old, new)
    return target


def _copy_chunks(old: BinaryIO, new: BinaryIO) -> None:
    while chunk := old.read(_CHUNK):
        if any(chunk):
            new.write(chunk)
        else:
            new.seek(len(chunk), os.SEEK_CUR)
    new.truncate(new.tell())
