"""Write a fixture's directory from the home of a broker that has ended."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.broker.jvm import java_text
from tests.broker.message import Sent

PLAIN_BYTES: Final = 12 * 1024 * 1024
"""Longer stores (sparse ones, mostly) are packed."""
_CHUNK: Final = 1024 * 1024
# Their paths, host names and times say nothing about the store.
_LEFT_OUT: Final = (
    *("rocksdbstore/LOG*", "consumequeue/LOG*", "consumequeue_rocksdb/LOG*"),
    *("config/**/LOG*", "kvStore/LOG*"),
)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a fixture comes from: what the manifest says on top."""

    version: str
    scenario: str
    summary: str
    stopped: str
    settings: Mapping[str, object]


def write_fixture(directory: Path, home: Path, origin: Origin, sent: Iterable[Sent]) -> None:
    """Write store, `broker.conf`, `sent.jsonl` and `MANIFEST.toml` anew.

    Args:
        directory: of the fixture; what was there is replaced.
        home: of the broker, with `store` and `broker.conf`.
        origin: version, scenario and settings.
        sent: what was sent, in order.
    """
    if directory.exists():
        shutil.rmtree(directory)
    directory.mkdir(parents=True)
    store = home / "store"
    for pattern in _LEFT_OUT:
        for path in store.glob(pattern):
            path.unlink()
    (directory / "MANIFEST.toml").write_text(_manifest(origin, store), encoding="utf-8")
    shutil.copy(home / "broker.conf", directory / "broker.conf")
    with (directory / "sent.jsonl").open("w", encoding="utf-8") as lines:
        for message in sent:
            lines.write(json.dumps(message.row(), ensure_ascii=False, sort_keys=True) + "\n")
    if sum(path.stat().st_size for path in store.rglob("*") if path.is_file()) <= PLAIN_BYTES:
        shutil.copytree(store, directory / "store")
    else:
        _pack(home, directory / "store.tar.xz")


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _pack(home: Path, archive: Path) -> None:
    """Pack `store`, holes as holes and times in full: GNU tar can, Python's cannot."""
    options = ["--sparse", "--format=posix", "--sort=name", "--owner=0", "--group=0"]
    subprocess.run(  # noqa: S603 - fixed arguments, no shell
        ["tar", *options, "--numeric-owner", "-C", str(home), "-cJf", str(archive), "store"],  # noqa: S607
        check=True,
    )


def _manifest(origin: Origin, store: Path) -> str:
    entries = sorted(store.rglob("*"))
    files = [path for path in entries if path.is_file()]
    empty = [path for path in entries if path.is_dir() and not any(path.iterdir())]
    lines = [
        f"version = {_toml(origin.version)}",
        f"scenario = {_toml(origin.scenario)}",
        f"summary = {_toml(origin.summary)}",
        f"stopped = {_toml(origin.stopped)}",
        "# git keeps no empty directories",
        "empty_directories = [",
        *(f"    {_toml(path.relative_to(store).as_posix())}," for path in empty),
        "]",
        "",
        "[settings]",
        *(f"{_toml(name)} = {_toml(java_text(value))}" for name, value in origin.settings.items()),
    ]
    for path in files:
        state = path.stat()
        lines += [
            "",
            "[[files]]",
            f"path = {_toml(path.relative_to(store).as_posix())}",
            f"length = {state.st_size}",
            f"mtime_ms = {state.st_mtime_ns // 1_000_000}",
            f"sha256 = {_toml(file_digest(path))}",
        ]
    return "\n".join(lines) + "\n"


def _toml(value: str) -> str:
    return json.dumps(value)
