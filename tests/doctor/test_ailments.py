"""Each ailment is found, its consequence is right, and the command that is named ends it.

The table (`ailments.py`) has the states of `tests/cases` and those of operators who wrote no
thread. In the end nothing is left but to start the broker.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from rmqtool import clock
from rmqtool.archives.opening import opening
from rmqtool.cli.main import main
from rmqtool.doctor.advice import AdviceStep, steps_for
from rmqtool.doctor.examination import examine_store
from rmqtool.doctor.report import exit_code
from rmqtool.repair.options import RepairOptions
from rmqtool.repair.state import index
from tests import plain_store
from tests.doctor.ailments import (
    ALL,
    CONF,
    START,
    TRAFFIC,
    Ailment,
    of_another,
    set_clock_back,
)
from tests.stores import broker_conf, fixture_store

MOST_STEPS: Final = 5
ENDS: Final = ("nothing is lost by starting", "starting the broker loses nothing")


@pytest.fixture(autouse=True)
def half_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put stores on a disk that is half full, whatever the machine's is."""
    stated = os.statvfs

    def half(path: str) -> os.statvfs_result:
        fields = list(stated(path))
        fields[1:5] = 4096, 1_000_000, 500_000, 500_000
        return os.statvfs_result(fields)

    monkeypatch.setattr("rmqtool.doctor.examination.os.statvfs", half)


def of_today(store: Path) -> Path:
    """Let files have been written on the day that these tests are of: fixtures grow old."""
    today = clock.start_ms() / 1000
    for path in store.rglob("*"):
        os.utime(path, (today, today))
    return store


def first_of(options: RepairOptions) -> AdviceStep:
    """Give what doctor says first of what is asked about, an archive or a store."""
    with opening() as opened:
        if options.store.endswith(".tar"):
            opened.add(options.store, lambda _: None)
            options = replace(options, store=f"{options.store}!store")
        return steps_for(examine_store(options))[0]


def plain(command: str) -> str:
    """Give a command without what it was told of release and configuration."""
    words = f" --broker-version [0-9.]+| --broker-conf {CONF}"
    return re.sub(words, "", command)


def run(command: str) -> None:
    """Run a command as it is printed; one that changes a store asks nothing."""
    if not command.startswith("rmqtool"):
        subprocess.run(command, shell=True, check=True)  # noqa: S602 - it is to be pasted
        return
    words = [*shlex.split(command)[1:], *(("--yes",) if "--in-place" in command else ())]
    assert main([*words, "--quiet"]) in {0, 1}, command


@pytest.mark.parametrize("ailment", ALL, ids=str)
def test_ailment(ailment: Ailment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found, its consequence is right, and it is gone once it was done what is said."""
    monkeypatch.chdir(tmp_path)
    store = of_today(fixture_store(ailment.fixture, tmp_path))
    options = RepairOptions(ailment.asked, ailment.release)
    if ailment.conf is not None:
        lines = f"{broker_conf(ailment.fixture).read_text()}\n{ailment.conf}\n"
        Path(CONF).write_text(lines.replace("STORE", str(store)))
        options = replace(options, broker_conf=CONF)
    ailment.inflict(store)
    step = first_of(options)
    assert ailment.cause in step.cause
    assert ailment.consequence in step.consequence
    assert ailment.advice in step.advice
    ran: list[str] = []
    by_hand = ailment.by_hand
    for _ in range(MOST_STEPS):
        if by_hand is not None and not step.command:
            by_hand(store)
            by_hand = None
        elif not step.command or step.command in ran:
            break
        else:
            run(step.command)
            ran.append(step.command)
            if ran[-1].endswith("--output DIR"):
                options = RepairOptions("DIR")
        step = first_of(options)
    assert ailment.commands == tuple(map(plain, ran))
    assert ailment.end in step.advice
    assert step.consequence in ENDS or ailment.end != START


def test_many() -> None:
    """There are forty that harm; some of the states of threads do not."""
    assert len([row for row in ALL if row.cause != "nothing is damaged" or row.commands]) >= 40
    assert len({row.name for row in ALL}) == len(ALL)


def test_remarks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stays for good is named after the start: nothing has to be done about it."""
    monkeypatch.chdir(tmp_path)
    store = of_today(fixture_store(TRAFFIC, tmp_path))
    set_clock_back(store)
    seen = examine_store(RepairOptions("store"))
    first, *others = steps_for(seen)
    assert (START, 0) == (first.advice, exit_code(seen))
    assert others
    assert all(step.is_remark and not step.command for step in others)
    assert any("storeTimestamp is 86400000 ms before" in step.cause for step in others)


def test_index_too_large_for_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a plan does not hold has a command of its own."""
    monkeypatch.chdir(tmp_path)
    store = of_today(fixture_store(TRAFFIC, tmp_path))
    of_another("rocketmq-5.5.0-traffic", "index")(store)
    monkeypatch.setattr(index, "MOST_BYTES", 1000)
    step = first_of(RepairOptions("store"))
    assert "rmqtool rebuild-index store --in-place" == step.command
    run(step.command)
    assert START == first_of(RepairOptions("store")).advice


def test_disk_image(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What is no store is not called damaged: the command that finds messages in it is named."""
    store = fixture_store(TRAFFIC, tmp_path)
    image = tmp_path / "disk.img"
    image.write_bytes(bytes(512) + plain_store.segments(store)[0].read_bytes())
    assert 2 == main(["doctor", str(image)])
    command = capfd.readouterr().err.splitlines()[-1].removeprefix("rmqtool: try: ")
    assert f"rmqtool carve {image} --output SAVED.rmq" == command
    saved = tmp_path / "SAVED.rmq"
    assert 0 == main([*command.replace("SAVED.rmq", str(saved)).split()[1:], "--quiet"])
    assert saved.stat().st_size
