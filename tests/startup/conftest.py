"""One Java process for each version, which opens many stores one after the other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.broker.jars import VERSIONS, missing_tools, mixtures
from tests.broker.jvm import Jvm
from tests.startup.oracle import Oracle
from tests.startup.small_store import write_small_store

# Opened with --all-variants only.
FURTHER_VERSIONS: Final = ("5.1.4", "5.2.0", "5.3.4", "5.4.0", "5.5.1")
SAMPLED_SCENARIOS: Final = ("crash", "batch-queue", "lmq")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not in the sample; without Java skip what needs it, but not in CI."""
    reason = "" if os.environ.get("CI") else missing_tools()
    everything = config.getoption("--all-variants")
    chosen: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        if reason and item.get_closest_marker("broker"):
            item.add_marker(pytest.mark.skip(reason=reason))
        is_here = item.path.is_relative_to(Path(__file__).parent)
        parameters = getattr(item, "callspec", None) if is_here else None
        keeps = everything or parameters is None or _in_sample(**parameters.params)
        (chosen if keeps else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = chosen


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which releases run with modules of another one: the registry lacks their own."""
    terminalreporter.write_line(f"mixed: {mixtures()}")


def _in_sample(variant: object = None, name: str = "", oracle: str = "", **_: object) -> bool:
    """Say whether a test is run each time: some variants, of fixtures those that differ."""
    is_sampled = not name or name.endswith(SAMPLED_SCENARIOS)
    is_sampled = is_sampled and oracle not in FURTHER_VERSIONS
    return is_sampled and bool(getattr(variant, "in_sample", True))


@pytest.fixture(scope="session", params=(*VERSIONS, *FURTHER_VERSIONS))
def oracle(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Oracle]:
    """Give a Java process of each version in turn."""
    heap = ("-Xmx1g",)  # stores that hang stay there
    with Jvm(request.param, tmp_path_factory.mktemp("jvm"), options=heap) as jvm:
        yield Oracle(jvm)


@pytest.fixture(scope="session")
def small_stores(oracle: Oracle, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Give the stores that variants are made of, written by the version at hand."""
    return write_small_store(oracle.jvm, tmp_path_factory.mktemp("small"))
