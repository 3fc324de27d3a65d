"""What every test stands on: evidence stays untouched, hypothesis is repeatable in CI."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from py4j import java_gateway, protocol
from xdist.remote import Producer

from rmqtool.machine import announce
from rmqtool.store import rocksdb_cell
from rmqtool.writing import staging
from tests import rocksdb_process, tiers
from tests.evidence import Evidence
from tests.scopes import LongestFirst, workers
from tests.spark.class_archive import java_options

pytest.register_assert_rewrite("tests.broker")  # what is not equal is shown
_MEMORY = Path("/dev/shm")  # noqa: S108 - a directory of its own is made in it
_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile(
    "quick", max_examples=30, deadline=None, suppress_health_check=_SLOW_IS_FINE
)
settings.register_profile(
    "ci", parent=settings.get_profile("quick"), max_examples=50, derandomize=True
)
settings.register_profile("thorough", parent=settings.get_profile("quick"), max_examples=2000)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "quick")
)


# An installation holds compiled modules. Where the environment forbids to keep them, each of the
# many processes that tests start would compile its modules again: half of its CPU.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Fixtures are of this day: their files and timers grow old. Who asks for today says so.
os.environ["RMQTOOL_AT"] = "2026-11-21T12:00:00Z"
os.environ["SPARK_SUBMIT_OPTS"] = java_options()  # of commands that start Spark
announce.say(announce.COMPILING)  # nobody is to hear it: which test compiles depends on the order


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Say how many workers `-n auto` is."""
    return workers()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LongestFirst | None:
    """Hand out tests to the workers; with `--dist loadscope` only."""
    is_ours = config.getoption("dist") == "loadscope"
    return LongestFirst(config, log) if is_ours else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the suite."""
    tiers.add_options(parser)
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite transcripts and other golden files; their diff is the review",
    )
    parser.addoption(
        "--all-variants",
        action="store_true",
        help="run all cases, where there is a sample otherwise: each damaged store with each "
        "broker, each operation killed in each way (takes long)",
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let what is collected never be looked through for garbage: it stays, and it is a lot.

    Children that tests fork share it so, too, and copy nothing of it.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the tier does not run; mark what the quick tier runs."""
    kept = items
    if not config.getoption("--all-variants"):
        kept = [item for item in items if not item.get_closest_marker("all_variants")]
    if config.option.tier == tiers.SAMPLE:
        kept = [*tiers.sample(kept)]
    if config.option.tier == tiers.CI:
        kept = [*tiers.ci(kept)]
    chosen = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = kept
    for item in items:
        if tiers.is_quick(item):
            item.add_marker(pytest.mark.quick)


def pytest_configure(config: pytest.Config) -> None:
    """Settle which tier runs."""
    tiers.settle(config)


def pytest_report_header(config: pytest.Config) -> str:
    """Say which tests run."""
    return tiers.header(config)


@pytest.fixture(scope="session")
def is_whole(request: pytest.FixtureRequest) -> bool:
    """Say whether all cases of a test are asked for, and not only a sample."""
    return bool(request.config.getoption("--all-variants"))


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Say whether golden files are to be rewritten."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(autouse=True)
def evidence() -> Iterator[Evidence]:
    """Fail a test that changes a store under guard: `evidence.keep(path)`."""
    guard = Evidence()
    yield guard
    assert guard.changes() == []


@pytest.fixture(autouse=True)
def _plain_java_errors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let brokers' exceptions be py4j's own: a Spark session of the same process words all anew."""
    if request.node.get_closest_marker("broker"):
        monkeypatch.setattr(java_gateway, "get_return_value", protocol.get_return_value)


@pytest.fixture(autouse=True)
def _quick_rocksdb(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the processes that read databases; where they are what is tested, start them."""
    if request.path.stem not in {"test_rocksdb_database", "test_confinement", "test_budget"}:
        monkeypatch.setattr(rocksdb_cell, "_start", rocksdb_process.start)


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for no disk: what a test writes need not outlive the machine.

    Who tests the order of writes, or faults of them, puts something else in place of these.
    """
    monkeypatch.setattr(os, "fsync", _need_open)
    monkeypatch.setattr(staging, "sync_file_system", _need_open)


def _need_open(handle: int) -> bool:
    """Fail as they do for what is not open."""
    os.fstat(handle)
    return True


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory, where fsync costs nothing; an ordinary one where there is none."""
    if not os.access(_MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=_MEMORY, prefix="rmqtool-test-") as path:
        yield Path(path)
