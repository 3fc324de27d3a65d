"""Fixtures are what their manifests say, and stay small."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Final

import pytest

from tests.broker.fixture_files import file_digest
from tests.stores import (
    FIXTURES,
    fixture_directory,
    fixture_names,
    fixture_store,
    manifest,
    sent,
)

_ONE_BYTES: Final = 2 * 1024 * 1024
_ALL_BYTES: Final = 20 * 1024 * 1024
# A store names the neutral home of its broker at most; a user's or a build's place never.
_FOREIGN_PATH: Final = re.compile(rb"/(?:root|home|work|Users|tmp/(?!rmqtool-fixture\b))[\w./-]*")


@pytest.mark.parametrize("name", fixture_names())
def test_manifest(name: str, tmp_path: Path) -> None:
    """A fixture unpacks to exactly the files of its manifest, and holes take no space."""
    root = fixture_store(name, tmp_path)
    recorded = {file["path"]: file for file in manifest(name)["files"]}
    found = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert recorded.keys() == found
    for path, file in recorded.items():
        state = (root / path).stat()
        assert (file["length"], file["mtime_ms"]) == (state.st_size, state.st_mtime_ns // 1_000_000)
        assert file["sha256"] == file_digest(root / path), path
    allocated = sum((root / path).stat().st_blocks * 512 for path in recorded)
    assert allocated < 4 * _ONE_BYTES


def test_size_bounds() -> None:
    """One store stays below 2 MiB, all together below 20 MiB, compressed as git does it."""
    sizes = {name: _compressed_bytes(fixture_directory(name)) for name in fixture_names()}
    assert {} == {name: size for name, size in sizes.items() if size > _ONE_BYTES}
    assert sum(sizes.values()) < _ALL_BYTES


@pytest.mark.parametrize("name", fixture_names())
def test_sent(name: str) -> None:
    """What was sent was stored, and lies inside the log."""
    lines = list(sent(name))
    assert lines
    assert {"SEND_OK"} == {line["status"] for line in lines}
    assert all(line["physical_offset"] >= 0 for line in lines)
    assert all(line["body_b64"] or line["kind"] == "direct" for line in lines)


def test_no_machine_path() -> None:
    """No file of a fixture names a place of the machine that made it."""
    for path in sorted(FIXTURES.rglob("*")):
        if path.is_file():
            assert not _FOREIGN_PATH.findall(path.read_bytes()), path


def _compressed_bytes(directory: Path) -> int:
    files = (path for path in directory.rglob("*") if path.is_file())
    return sum(len(zlib.compress(path.read_bytes(), 6)) for path in files)
