"""No command that reads changes a store with databases: no content, inode or time, no file."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from rmqtool.cli import commands
from tests.cli.run import rmqtool
from tests.rocksdb import NAMES, state_of
from tests.stores import broker_conf, fixture_store

# Queues that a crash has left, metadata in three databases with live logs; pop state and
# `rocksdbstore` of other stores beside them.
NAME: Final = "rocketmq-5.3.3-rocksdb-crash"
OTHERS: Final = {
    "kvStore": "rocketmq-5.3.3-rocksdb-pop",
    "rocksdbstore": "rocketmq-5.5.0-rocksdb-store",
    "config/rdb": "rocketmq-5.3.3-rocksdb-v2",
}
# Of those that read no store, and of two that tests/spark/test_rocksdb.py and tests/browse have.
NO_STORE: Final = {"completion", "help", "warm_up", "sql", "browse"}
LINES: Final = (
    "info STORE",
    "doctor STORE --broker-conf CONF",
    "dump STORE --as all --limit 2000 --format jsonl",
    "dump STORE --as rocksdb --hex --limit 200",
    "dump STORE --as config --format broker-json --output NEW-config",
    "dump STORE --as pending-timers",
    "dump STORE --as pop-in-flight",
    "query STORE --topic rocksdb-orders --queue 0 --queue-offset 1",
    "query STORE --key ORDER-1 --topic rocksdb-orders",
    "query STORE --group metadata-slow",
    "validate STORE --level deep --broker-conf CONF",
    "startup STORE --broker-conf CONF",
    "validate STORE --recursive",
    "rebuild STORE --check --broker-conf CONF",
    "rebuild-cq STORE --check --broker-conf CONF",
    "rebuild-index STORE --check --broker-conf CONF",
    "rebuild STORE --output NEW-both",
    "rebuild-cq STORE --as files --output NEW-files",
    "rebuild-index STORE --output NEW-index",
    "repair STORE --broker-conf CONF",
    "repair STORE --output NEW-repaired --broker-conf CONF",
    "report STORE --output NEW.html",
    "export STORE --engine local --table queue_units --output NEW-units",
    "extract STORE --output NEW.jsonl",
    "diff STORE STORE",
    "hash STORE",
    "carve SEGMENT --output NEW-carved",
    "send SEGMENT --dry-run",
    "rebuild-log STORE --output NEW-log",
)


MODULES: Final = {path.stem for path in Path(commands.__path__[0]).glob("*.py")} - {"__init__"}


def test_every_command(tmp_path: Path) -> None:
    """Each command that reads is run; the store, and the directory that it lies in, stay."""
    root = fixture_store(NAME, tmp_path)
    for number, (path, name) in enumerate(OTHERS.items()):
        (tmp_path / str(number)).mkdir()
        other = fixture_store(name, tmp_path / str(number))
        shutil.rmtree(root / path, ignore_errors=True)
        shutil.copytree(other / path, root / path)
    assert MODULES - NO_STORE <= {line.split()[0].replace("-", "_") for line in LINES}
    run_all(root, NAME, tmp_path)


@pytest.mark.all_variants
@pytest.mark.parametrize("name", [*NAMES, OTHERS["rocksdbstore"]])
def test_every_fixture(name: str, tmp_path: Path) -> None:
    """The same for all that brokers wrote."""
    run_all(fixture_store(name, tmp_path), name, tmp_path)


def run_all(root: Path, name: str, into: Path) -> None:
    """Run each command, and compare all files before it and after it."""
    before = state_of(root)
    segment = min((root / "commitlog").iterdir())
    names = {"STORE": str(root), "CONF": str(broker_conf(name)), "SEGMENT": str(segment)}
    for line in (line for line in LINES if line.split()[0].replace("-", "_") in MODULES):
        words = [names.get(word, word.replace("NEW", f"{into}/new")) for word in line.split()]
        done = rmqtool(*words, "--quiet")
        is_known = "--group" not in words or done.code != 2  # not each store has that group
        assert done.code in {0, 1, 3} or not is_known, (line, done.err)
        assert before == state_of(root), line
