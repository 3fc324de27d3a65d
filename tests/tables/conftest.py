"""Fixtures for the tests of tables: stores of real brokers, unpacked once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.evidence import Evidence
from tests.stores import fixture_names, fixture_store


@pytest.fixture(scope="session", params=fixture_names())
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Give each fixture's store in turn, under guard."""
    unpacked = fixture_store(request.param, tmp_path_factory.mktemp(request.param))
    guard = Evidence()
    if sum(path.stat().st_size for path in unpacked.rglob("*")) < 64 << 20:
        guard.keep(unpacked)  # a sparse one of gigabytes takes seconds to read
    yield unpacked
    assert [] == guard.changes()
