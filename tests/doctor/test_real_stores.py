"""A real message store starts once the command of the doctor was followed."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from rmqtool.cli.main import main
from rmqtool.doctor.advice import steps_for
from rmqtool.doctor.examination import examine_store
from rmqtool.repair.options import RepairOptions
from tests.broker.jvm import Jvm
from tests.doctor.test_first_step import CASES, TRAFFIC, Case
from tests.repair.broker.survivors import settings_of
from tests.startup.oracle import Oracle
from tests.stores import fixture_store

pytestmark = pytest.mark.broker

FOLLOWED: Final = ("zeroed sector", "cut segment", "missing segment")


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """Give a Java process with the release that wrote the store."""
    with Jvm("5.3.3", tmp_path_factory.mktemp("jvm")) as jvm:
        yield Oracle(jvm)


@pytest.mark.parametrize("case", [one for one in CASES if one.name in FOLLOWED], ids=str)
def test_command_helps(case: Case, oracle: Oracle, tmp_path: Path) -> None:
    """The store starts, or refuses to, as told; afterwards it delivers every undamaged message."""
    store, before = fixture_store(TRAFFIC, tmp_path), tmp_path / "before"
    case.harm(store)
    shutil.copytree(store, before)
    seen = examine_store(RepairOptions(str(store)))
    settings = settings_of(TRAFFIC)
    assert case.starts == oracle.observe(before, settings, {}).loaded
    command = shlex.split(steps_for(seen)[0].command)
    main([*command[1:], "--yes", "--quiet"])
    after = oracle.observe(store, settings, {})
    assert after.loaded
    assert not after.hangs
    assert seen.summary.account.records <= sum(after.delivered.values())
    assert not steps_for(examine_store(RepairOptions(str(store))))[0].command
