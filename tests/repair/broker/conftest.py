"""One Java process a version; without Java and Maven these tests skip, but never in CI."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import pytest
from _pytest.mark import ParameterSet

from tests.broker.jars import VERSIONS, missing_tools
from tests.broker.jvm import Jvm

_HEAP: Final = ("-Xmx1g",)  # what Python has seen of Java stays there
_TESTS_OF_A_PROCESS: Final = 20  # of two or three stores each


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not in the sample; skip what needs Java where there is none."""
    reason = "" if os.environ.get("CI") else missing_tools()
    everything = config.getoption("--all-variants")
    left_out = [item for item in items if not everything and _is_further(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        if reason and item.get_closest_marker("broker"):
            item.add_marker(pytest.mark.skip(reason=reason))


def _is_further(item: pytest.Item) -> bool:
    """Say whether a test of this directory is run only when all are asked for."""
    return item.get_closest_marker("all_variants") is not None


def sampled(*versions: str) -> list[ParameterSet]:
    """Give all versions as parameters, of which these are in the sample."""
    return [
        pytest.param(version, marks=() if version in versions else pytest.mark.all_variants)
        for version in VERSIONS
    ]


class Processes:
    """Java processes of a version, one after the other: a store that is stopped leaves memory.

    Args:
        version: of the message store.
        homes: makes a directory for each.
    """

    def __init__(self, version: str, homes: pytest.TempPathFactory) -> None:
        self._version, self._homes = version, homes
        self._asked = 0
        self._process: Jvm | None = None

    def current(self) -> Jvm:
        """Give one that has memory left."""
        if self._process is None or not self._asked % _TESTS_OF_A_PROCESS:
            self.halt()
            self._process = Jvm(self._version, self._homes.mktemp("jvm"), options=_HEAP)
        self._asked += 1
        return self._process

    def halt(self) -> None:
        """End the one that runs."""
        if self._process is not None:
            self._process.halt()


@pytest.fixture(scope="module", params=sampled("4.9.3", "5.3.3"))
def processes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Processes]:
    """Give the processes of each version in turn."""
    made = Processes(request.param, tmp_path_factory)
    yield made
    made.halt()


@pytest.fixture
def jvm(processes: Processes) -> Jvm:
    """Give a Java process of the version."""
    return processes.current()
