"""More queues than a process may have open files."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqtool import rebuild
from rmqtool.formats.consume_queue import CQ_UNIT
from tests.rebuild.built import build_log, message

OPEN_FILES = 256
QUEUES = int(os.environ.get("RMQTOOL_TEST_QUEUES", "3000"))  # 50,000 take a minute to write


@pytest.fixture
def few_open_files() -> Iterator[None]:
    """Allow as many further open files as a service often has; what ran before keeps its own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = 1 + max(int(entry.name) for entry in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + OPEN_FILES, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("few_open_files")
def test_many_queues(tmp_path: Path) -> None:
    """Each queue has its file with its unit, and `check` agrees."""
    store = build_log(
        tmp_path / "s", (message(b"T%d" % (at // 8), at % 8, 0) for at in range(QUEUES))
    )
    result = rebuild.consume_queues(store, in_place=True)
    assert (True, QUEUES, QUEUES) == (result.is_complete, len(result.queues), result.units)
    found = {}
    for path in (store / "consumequeue").glob("*/*/*"):
        with path.open("rb") as file:
            found[CQ_UNIT.parse(file.read(CQ_UNIT.size))["physical_offset"]] = path
    assert QUEUES == len(found)
    assert [] == rebuild.consume_queues(store, check=True).differences
