"""A real message store starts once the command of the doctor was followed."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from rmqtool.cli.main import main
from rmqtool.doctor.advice import steps_for
from rmqtool.doctor.examination import examine_store
from rmqtool.repair.options import RepairOptions
from rmqtool.startup import predict
from rmqtool.store.tree import open_store
from tests import inflict, plain_store
from tests.broker.jvm import Jvm
from tests.doctor.test_first_step import CASES, TRAFFIC, Case
from tests.repair.broker.survivors import settings_of
from tests.startup import rocks_oracle
from tests.startup.oracle import Oracle
from tests.startup.test_whole_broker import initialises
from tests.stores import FIXTURES, broker_conf, fixture_store

pytestmark = pytest.mark.broker

# Whose first step is a command that changes the store; the others want a person's hands.
FOLLOWED: Final = [case for case in CASES if case.command]
# What else a broker loads: a whole broker is asked, not its store.
WHOLE: Final = {"topics spoilt twice", "timers gone"}


@pytest.fixture(scope="module")
def oracle_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Oracle]]:
    """Give Java processes with the releases that wrote the stores."""
    with ExitStack() as stack:

        @cache
        def give(version: str) -> Oracle:
            return Oracle(stack.enter_context(Jvm(version, tmp_path_factory.mktemp("jvm"))))

        yield give


def follow(command: str, where: Path) -> None:
    """Do what the doctor says: a command of ours without its question, or one of the shell."""
    program, *words = shlex.split(command)
    if program == "rmqtool":
        main([*words, "--yes", "--quiet"])
    else:
        subprocess.run(["/bin/sh", "-c", command], check=True, cwd=where)  # noqa: S603 - our own


@pytest.mark.parametrize("case", FOLLOWED, ids=str)
def test_command_helps(case: Case, oracle_of: Callable[[str], Oracle], tmp_path: Path) -> None:
    """What refuses to start as told comes up afterwards, and delivers every undamaged message."""
    oracle = oracle_of(case.fixture.split("-")[1])
    store, copy = fixture_store(case.fixture, tmp_path), tmp_path / "copy"
    case.harm(store)
    settings = settings_of(case.fixture)
    here = {"storePathRootDir": copy, "storePathCommitLog": copy / "commitlog"}
    shutil.copytree(store, copy)
    if not case.starts:
        is_whole = case.name in WHOLE
        is_up = initialises if is_whole else lambda *_: oracle.observe(copy, settings, {}).loaded
        assert not is_up(oracle, {**settings, **here})
    conf = str(shutil.copy(broker_conf(case.fixture), tmp_path))  # which the command may change
    seen = examine_store(RepairOptions(str(store), broker_conf=conf))
    follow(steps_for(seen)[0].command, tmp_path)
    assert not steps_for(examine_store(RepairOptions(str(store), broker_conf=conf)))[0].command
    if case.name in WHOLE:
        shutil.rmtree(copy)
        shutil.copytree(store, copy)
        assert initialises(oracle, {**settings, **here})
        return
    records = seen.summary.account.records
    if case.name == "RocksDB broken":
        keys = {(record.topic, record.integer("queue_id")) for record in plain_store.records(store)}
        pulled = rocks_oracle.observe(oracle.jvm, store, settings, keys)
        assert pulled.loaded
        assert records <= sum(count for _, _, count in pulled.queues.values())
        return
    observation = oracle.observe(store, settings, {})
    assert observation.loaded
    assert not observation.hangs
    assert records <= sum(observation.delivered.values())


def test_configuration_helps(oracle_of: Callable[[str], Oracle], tmp_path: Path) -> None:
    """With lengths that are not those of the files a broker refuses; the command mends that."""
    oracle = oracle_of("5.3.3")
    store, conf = fixture_store(TRAFFIC, tmp_path), tmp_path / "broker.conf"
    conf.write_text("mappedFileSizeCommitLog=65536\nmappedFileSizeConsumeQueue=2000\n")

    def told() -> dict[str, object]:
        lines = (line.partition("=") for line in conf.read_text().splitlines())
        return settings_of(TRAFFIC) | {name: value for name, _, value in lines}

    copy = tmp_path / "copy"
    shutil.copytree(store, copy)
    assert not oracle.observe(copy, told(), {}).loaded
    seen = examine_store(RepairOptions(str(store), broker_conf=str(conf)))
    follow(steps_for(seen)[0].command, tmp_path)
    observation = oracle.observe(store, told(), {})
    assert observation.loaded
    assert seen.summary.account.records <= sum(observation.delivered.values())


@pytest.mark.parametrize("version", ["4.9.3", "5.3.3"])
def test_last_node(
    version: str,
    oracle_of: Callable[[str], Oracle],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the last node of a group a plain store is made: a broker delivers each whole message."""
    monkeypatch.chdir(tmp_path)
    name = f"rocketmq-{version}-dledger"
    store = fixture_store(name, tmp_path)
    (log, *_) = plain_store.numbered(store / "dledger-n0" / "data")
    sent = len((FIXTURES / name / "sent.jsonl").read_text().splitlines())
    inflict.write_at(log, 20_000, bytes(512))
    seen = examine_store(RepairOptions("store"))
    (step, *_) = steps_for(seen)
    assert "" == step.command
    assert step.advice.endswith("the group had committed entries up to 507 of 507")
    (command,) = re.findall("if no other node is left, (.+) makes a store", step.advice)
    assert main([*shlex.split(command)[1:], "--quiet"]) in {0, 1}
    new = tmp_path / "NEW"
    assert 0 == main(["validate", str(new), "--quiet"])
    settings = {**settings_of(name), "enableDLegerCommitLog": False}
    prediction = predict(open_store(new), version)
    expected = {(it.topic, it.queue_id): it.readable for it in prediction.queues}
    observed = oracle_of(version).observe(new, settings, expected)
    assert observed.loaded
    lost = len([row for row in seen.lost_messages if row["fate"] == "lost"])
    assert 0 < lost < 5
    assert sent - lost == sum(observed.delivered.values())
