"""Fixtures for the tests of tables: stores of real brokers, unpacked once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evidence import Evidence
from tests.stores import fixture_names, fixture_store


@pytest.fixture(scope="session", params=fixture_names())
def unpacked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give each fixture's store in turn; nobody may change it."""
    return fixture_store(request.param, tmp_path_factory.mktemp("tables"))


@pytest.fixture
def store(unpacked: Path, evidence: Evidence) -> Path:
    """Give each fixture's store in turn, under guard."""
    if sum(path.stat().st_size for path in unpacked.rglob("*")) < 64 << 20:
        evidence.keep(unpacked)  # a sparse one of gigabytes is not read twice for each test
    return unpacked
