"""Each fixture, unpacked once for all tests of this folder; they only read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rmqtool.query import Lookup
from rmqtool.store.tree import open_store
from tests.evidence import snapshot
from tests.query.expected import Expected
from tests.stores import broker_conf, fixture_names, fixture_store
from tests.truth.fixture import Fixture


@pytest.fixture(scope="session", params=fixture_names())
def expected(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Expected]:
    """Unpack one fixture, read it with the plain reader, and prove that nobody changes it."""
    name = request.param
    fixture = Fixture(name, fixture_store(name, tmp_path_factory.mktemp("query")))
    is_small = "default-geometry" not in name  # sparse files of 1 GiB take seconds to hash
    before = snapshot(fixture.store) if is_small else {}
    yield Expected(fixture)
    assert before == (snapshot(fixture.store) if is_small else {})


@pytest.fixture(scope="session")
def lookup(expected: Expected) -> Iterator[Lookup]:
    """Open one fixture for lookups."""
    fixture = expected.fixture
    with Lookup(open_store(fixture.store, broker_conf(fixture.name))) as opened:
        yield opened
