"""Fixture stores unpacked once, copied for each damage; what is only run when all is asked for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rmqtool.check import findings_list
from tests.evidence import Evidence
from tests.stores import fixture_store


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    """Give a fixture's store, unpacked once, under guard: nobody may change it."""
    unpacked: dict[str, Path] = {}
    guard = Evidence()

    def give(name: str) -> Path:
        if name not in unpacked:
            unpacked[name] = fixture_store(name, tmp_path_factory.mktemp(name))
            if "default-geometry" not in name:  # 1.4 GB of holes take seconds to hash
                guard.keep(unpacked[name])
        return unpacked[name]

    yield give
    assert [] == guard.changes()


@pytest.fixture
def copy_of(pristine: Callable[[str], Path], tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Give a copy of a fixture's store that may be damaged."""

    def give(name: str) -> Path:
        return Path(shutil.copytree(pristine(name), tmp_path / "store", copy_function=copy_sparse))

    yield give
    shutil.rmtree(tmp_path / "store", ignore_errors=True)


def copy_sparse(source: str, target: str) -> str:
    """Copy a file with its times; holes are neither read nor written."""
    with Path(source).open("rb") as old, Path(target).open("wb") as new:
        size, position = os.fstat(old.fileno()).st_size, 0
        with suppress(OSError):  # ENXIO: no data behind the position
            while position < size:
                position = os.lseek(old.fileno(), position, os.SEEK_DATA)
                end = os.lseek(old.fileno(), position, os.SEEK_HOLE)
                os.pwrite(new.fileno(), os.pread(old.fileno(), end - position, position), position)
                position = end
        new.truncate(size)
    shutil.copystat(source, target)
    return target


@pytest.fixture
def every_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """List every finding, however many there are of one code."""
    monkeypatch.setattr(findings_list, "WHOLE", 1 << 30)
    monkeypatch.setattr(findings_list, "NOTES", 1 << 30)
