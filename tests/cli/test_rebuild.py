"""`rebuild`, `rebuild-cq`, `rebuild-index` as processes; what they say is in transcripts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.run import rmqtool
from tests.stores import broker_conf, fixture_store

NAME = "rocketmq-5.3.3-lmq"


def lose_queues(store: Path) -> None:
    """Do what is usually advised: delete the queues and the index."""
    shutil.rmtree(store / "consumequeue")
    shutil.rmtree(store / "index")


def test_in_place_then_check(tmp_path: Path) -> None:
    """Lost files come back in place; a comparison afterwards finds nothing."""
    store = fixture_store(NAME, tmp_path)
    lose_queues(store)
    conf = ("--broker-conf", broker_conf(NAME))
    assert 1 == rmqtool("rebuild", store, "--check", *conf).code
    run = rmqtool("rebuild", store, "--in-place", "--yes", "--format", "json", *conf)
    assert (0, 6) == (run.code, len(json.loads(run.out)))
    assert "takes it back" in run.err
    assert 0 == rmqtool("rebuild", store, "--check", *conf).code


@pytest.mark.parametrize("command", ["rebuild", "rebuild-cq", "rebuild-index"])
def test_no_log(tmp_path: Path, command: str) -> None:
    """Without a commitlog there is nothing to rebuild from: what, and what to try; exit 2."""
    (tmp_path / "consumequeue").mkdir()
    run = rmqtool(command, tmp_path, "--dry-run")
    assert (2, b"", 2) == (run.code, run.out, len(run.err.splitlines()))
