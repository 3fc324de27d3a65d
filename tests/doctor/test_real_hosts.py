"""A real broker starts on its disk, as its user, once the command of the doctor was followed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from rmqtool.doctor.advice import steps_for
from rmqtool.doctor.examination import Examination, examine_store
from rmqtool.repair.options import RepairOptions
from tests.broker.jvm import Jvm
from tests.doctor.test_first_step import NOBODY, SECOND_FILE, TRAFFIC
from tests.doctor.test_real_stores import follow
from tests.repair.broker.survivors import settings_of
from tests.startup.oracle import Oracle
from tests.stores import broker_conf, fixture_store

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files and disks away"),
]


def give(store: Path, user: int) -> None:
    """Give all of a store to a user, and to nobody else."""
    for path in (store, *store.rglob("*")):
        os.chown(path, user, user)
        path.chmod(0o700 if path.is_dir() else 0o600)


def one_of_root(store: Path) -> None:
    """Leave a store in which root has put a file back."""
    give(store, NOBODY)
    os.chown(store / SECOND_FILE, 0, 0)


def all_of_root(store: Path) -> None:
    """Leave a store that root has put back."""
    give(store, 0)


def examined(store: Path, as_user: str | None = None) -> Examination:
    """Ask the doctor."""
    conf = str(broker_conf(TRAFFIC))
    return examine_store(RepairOptions(str(store), broker_conf=conf), as_user=as_user)


def loads(oracle: Oracle, store: Path) -> bool:
    """Let a real store load; it may throw while it is made."""
    try:
        return oracle.observe(store, settings_of(TRAFFIC), {}).loaded
    except Py4JJavaError:
        return False


@pytest.fixture
def nobody(quick_path: Path) -> Iterator[Oracle]:
    """Give a Java process of an ordinary user."""
    quick_path.chmod(0o755)
    with Jvm("5.3.3", quick_path / "jvm", user=NOBODY) as jvm:
        yield Oracle(jvm)


@pytest.mark.parametrize(
    ("harm", "as_user"), [(one_of_root, None), (all_of_root, "nobody")], ids=["one", "all"]
)
def test_wrong_owner(
    harm: Callable[[Path], None], as_user: str | None, nobody: Oracle, quick_path: Path
) -> None:
    """A broker that may not write a file starts when the files are given to its user."""
    store, copy = fixture_store(TRAFFIC, quick_path), quick_path / "copy"
    harm(store)
    shutil.copytree(store, copy)
    harm(copy)
    assert not loads(nobody, copy)
    seen = examined(store, as_user)
    assert seen.prediction is not None
    assert not seen.prediction.starts
    first = steps_for(seen)[0]
    assert "the broker runs as nobody" in first.cause
    follow(first.command, quick_path)
    assert not steps_for(examined(store, as_user))[0].command
    found = nobody.observe(store, settings_of(TRAFFIC), {})
    assert found.loaded
    assert seen.summary.account.records <= sum(found.delivered.values())
