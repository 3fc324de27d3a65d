"""Each fixture, unpacked once for all tests of this folder; they only read."""

from __future__ import annotations

import pytest

from tests.broker.jars import LATEST
from tests.stores import fixture_names, fixture_store
from tests.truth.fixture import Fixture


@pytest.fixture(scope="session", params=[*fixture_names(), *fixture_names(LATEST)])
def fixture(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Fixture:
    """Unpack one fixture."""
    name = request.param
    return Fixture(name, fixture_store(name, tmp_path_factory.mktemp("truth")))
