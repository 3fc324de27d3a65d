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
from tests import rocksdb_process
from tests.evidence import Evidence
from tests.scopes import LongestFirst, workers

TESTS = Path(__file__).parent
pytest.register_assert_rewrite("tests.broker")  # what is not equal is shown
# `-m quick`: rooms whose tests need neither Java nor minutes, but for the files that do.
QUICK = {"findings", "formats", "store", "queues", "derive", "scan", "render", "machine", "broker"}
NOT_QUICK = {
    *("test_edit_faults", "test_dispatch", "test_fixtures", "test_cache", "test_positions"),
    *(
        "test_rocksdb_database",
        "test_confinement",
        "test_lint",
        "test_readme",
        "test_remote",
        "test_remote_output",
    ),
    *("test_release", "test_bench_store", "test_conf", "test_stamp", "test_dictionary"),
    *("test_codes", "test_sarif", "test_errors", "test_output", "test_warm_up", "test_hostile"),
    *("test_writers", "test_one_reader", "test_words", "test_overview", "test_dataset"),
    *("test_fleet", "test_annotate", "test_compression", "test_recognise"),
}
# Of the other rooms what notices most in few seconds: `tests.mutation` has counted.
ALSO_QUICK = {
    *("check/test_access", "check/test_broker_conf", "check/test_config", "cli/test_examples"),
    *("query/test_small", "rebuild/test_damage", "repair/test_fast_start"),
    *("repair/test_misplaced", "repair/test_unit_reasons"),
    *("startup/test_batch_holes", "startup/test_kernels_agree", "startup/test_losses"),
    *("startup/test_queues", "tables/test_broker_json"),
}
NEED_MORE = {"spark", "broker", "browser", "all_variants"}
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
    """Add the option that rewrites golden files."""
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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is only run when all is asked for; mark what the quick tier runs."""
    if not config.getoption("--all-variants"):
        left_out = [item for item in items if item.get_closest_marker("all_variants")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("all_variants")]
    for item in items:
        if _is_quick(item.path) and not NEED_MORE & {*item.keywords}:
            item.add_marker(pytest.mark.quick)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import what the quick tier leaves out: that takes longer than many a room."""
    is_test = collection_path.suffix == ".py" and collection_path.stem.startswith("test_")
    if is_test and config.getoption("markexpr") == "quick" and not _is_quick(collection_path):
        return True
    return None


def _is_quick(path: Path) -> bool:
    *rooms, file = path.relative_to(TESTS).with_suffix("").parts
    is_near = not rooms or rooms[0] in QUICK or "/".join([*rooms, file]) in ALSO_QUICK
    return is_near and file not in NOT_QUICK


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


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory, where fsync costs nothing; an ordinary one where there is none."""
    if not os.access(_MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=_MEMORY, prefix="rmqtool-test-") as path:
        yield Path(path)
