"""Random damages: no crash, never sound, never fewer rows without a finding."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rmqtool.store.place import Place
from rmqtool.store.rocksdb_manifest import read_log
from tests.check.rocksdb.damage_campaign import is_earlier, one, rows_at
from tests.damage_rocksdb import CRASH, manifest_of
from tests.rocksdb import databases
from tests.stores import fixture_store

if TYPE_CHECKING:
    from pathlib import Path

QUICK = 40


@pytest.mark.parametrize("seed", range(QUICK))
def test_random_damage(seed: int, tmp_path: Path) -> None:
    """Each damage of a fixed sequence has its finding; 1,000 are done by the module itself."""
    done = one(seed, tmp_path)
    assert done is None or "" == done.problem, done


def test_cut_manifest(tmp_path: Path) -> None:
    """A MANIFEST cut after any of its edits costs no row, is refused, or names other tables."""
    store = fixture_store(CRASH, tmp_path)
    told = untold = 0
    for path, directory in databases(store).items():
        file, before = manifest_of(directory), rows_at(path, directory)
        raw = file.read_bytes()
        for size in _edits(file)[1:]:
            os.truncate(file, size)
            after = rows_at(path, directory) if is_earlier(file) else None
            assert after in (None, before), (path, size)
            told, untold = told + (after is None), untold + (after is not None)
            file.write_bytes(raw)
    assert told > 0
    assert untold > 0


def _edits(manifest: Path) -> list[int]:
    """Give where each edit begins, which is where the one before ends."""
    found: list[int] = []
    read_log(Place.of(manifest), lambda position, _: found.append(position))
    return found
