"""Timers that wait are delivered though their wheel is zeroed, or gone with the timer log."""

from __future__ import annotations

import contextlib
import shutil
import struct
import time
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from rmqtool import repair
from rmqtool.formats.timer import TIMER_CHECK
from rmqtool.startup import predict
from rmqtool.store.tree import open_store
from tests.broker.broker import SMALL_GEOMETRY, running_broker
from tests.broker.client import wait_until
from tests.broker.consumer import PushConsumer
from tests.broker.message import Outgoing
from tests.broker.producer import Producer
from tests.check.validation import run
from tests.repair.broker.conftest import sampled

pytestmark = pytest.mark.broker

_TOPIC: Final = "timers"
_COUNT: Final = 70  # 19 to a file of the timer log
_DELAYS: Final = (18, 60, 200, 600)  # seconds; a longer one where the machine is too busy for it
_PATIENCE: Final = 600 + _DELAYS[-1]
_WHEEL_DAYS: Final = 7
_LOG_RECORD: Final = 52  # bytes
_LOG_FILE: Final = 20 * _LOG_RECORD  # the last one stays blank
_SLOT: Final = 32
_FIVE: Final = [one for one in sampled("5.3.3") if one.values[0] != "4.9.3"]  # it has no timers
_SETTINGS: Final = {
    **SMALL_GEOMETRY,
    "timerWheelEnable": True,
    "mappedFileSizeTimerLog": _LOG_FILE,
}


def _written(version: str, home: Path) -> Path:
    """Let a broker take timers, and stop it before any is due."""
    for delay in _DELAYS:
        with running_broker(version, home, _SETTINGS) as broker:
            broker.create_topic(_TOPIC, 1)
            with Producer(broker, "timer-producer") as producer:
                began = time.monotonic()
                for number in range(_COUNT):
                    due = {"TIMER_DELAY_SEC": str(delay + 2 * (number // 20))}
                    producer.send(Outgoing(_TOPIC, b"%d" % number, reserved=due), 0)
            wait_until(partial(_has_flushed, home / "store"), "timers")
        if time.monotonic() - began < delay:
            return home / "store"
        shutil.rmtree(home)
    pytest.fail("timers are due before the broker has stopped")


def _has_flushed(root: Path) -> bool:
    """Tell whether timercheck is in the last file: a start does not read the first ones again."""
    with contextlib.suppress(FileNotFoundError):
        raw = (root / "config" / "timercheck").read_bytes()
        if len(raw) >= TIMER_CHECK.size:
            return TIMER_CHECK["last_timer_log_flush_pos"].of(raw) >= _COUNT // 19 * _LOG_FILE
    return False


@pytest.mark.parametrize("version", _FIVE)
@pytest.mark.parametrize(
    "is_repaired", [True, pytest.param(False, marks=pytest.mark.all_variants)], ids=str
)
def test_wheel(version: str, tmp_path: Path, *, is_repaired: bool) -> None:
    """What a broker loses with a wheel of zeros is foretold; after a repair it loses nothing."""
    root = _written(version, tmp_path)
    conf = tmp_path / "broker.conf"
    before = predict(open_store(root, conf), version)
    assert (_COUNT, 0) == (before.timers, before.timers_lost)
    wheel = root / "timerwheel"
    wheel.write_bytes(bytes(wheel.stat().st_size))
    findings, _, _ = run(root, "full", conf, version)
    assert {"TW-LOST"} == {finding.code for finding in findings if finding.severity != "note"}
    lost = predict(open_store(root, conf), version).timers_lost
    assert 0 < lost < _COUNT
    if is_repaired:
        repair.apply(
            repair.plan(root, broker_version=version, broker_conf=str(conf)), in_place=True
        )
        assert 0 == predict(open_store(root, conf), version).timers_lost
        lost = 0
    with (
        running_broker(version, tmp_path, _SETTINGS) as broker,
        PushConsumer(broker, "timer-consumer", _TOPIC) as consumer,
    ):
        wait_until(lambda: len(consumer.wait(0)) >= _COUNT - lost, "all that are left", _PATIENCE)
        time.sleep(3)
        assert _COUNT - lost == len({message.body for message in consumer.wait(0)})
        broker.crash()


@pytest.mark.parametrize("version", _FIVE)
@pytest.mark.parametrize("days", [14, pytest.param(5, marks=pytest.mark.all_variants)])
def test_down_for_days(version: str, days: int, tmp_path: Path) -> None:
    """What was due longer ago than the wheel holds is never delivered; less, and all are."""
    root = _written(version, tmp_path)
    conf = tmp_path / "broker.conf"
    _set_back(root, days)
    before = predict(open_store(root, conf), version, now_ms=time.time_ns() // 1_000_000)
    assert (_COUNT, _COUNT if days > _WHEEL_DAYS else 0) == (before.timers, before.timers_lost)
    due = _COUNT - before.timers_lost
    with (
        running_broker(version, tmp_path, _SETTINGS) as broker,
        PushConsumer(broker, "timer-consumer", _TOPIC) as consumer,
    ):
        with Producer(broker, "timer-producer") as producer:
            later = {"TIMER_DELAY_SEC": "5"}
            producer.send(Outgoing(_TOPIC, b"now", reserved=later), 0)
        wait_until(lambda: len(consumer.wait(0)) > due, "the timer of now", _PATIENCE)
        time.sleep(3)
        bodies = {message.body for message in consumer.wait(0)}
        assert (due + 1, True) == (len(bodies), b"now" in bodies)
        broker.crash()


def _set_back(root: Path, days: int) -> None:
    """Let all timers have been due some days earlier, and the broker have stopped then."""
    past = days * 86_400
    check = root / "config" / "timercheck"
    raw = check.read_bytes()
    (read,) = struct.unpack_from(">q", raw)
    check.write_bytes(struct.pack(">q", read - past * 1000) + raw[8:])
    for path in (root / "timerlog").iterdir():
        log = bytearray(path.read_bytes())
        for start in range(0, len(log) - _LOG_RECORD + 1, _LOG_RECORD):
            (written,) = struct.unpack_from(">q", log, start + 16)
            if written > 0:
                struct.pack_into(">q", log, start + 16, written - past * 1000)
        path.write_bytes(log)
    for wheel in root.glob("timerwheel*"):
        slots = wheel.read_bytes()
        moved = bytearray(len(slots))
        for start in range(0, len(slots), _SLOT):
            (due,) = struct.unpack_from(">q", slots, start)
            if due > 0:
                place = (due - past) % (len(slots) // _SLOT) * _SLOT
                moved[place : place + _SLOT] = slots[start : start + _SLOT]
                struct.pack_into(">q", moved, place, due - past)
        wheel.write_bytes(moved)


@pytest.mark.parametrize("version", _FIVE)
def test_wheel_and_log(version: str, tmp_path: Path) -> None:
    """With both gone, all that wait would be lost; after a repair none is, and none comes early."""
    root = _written(version, tmp_path)
    conf = tmp_path / "broker.conf"
    shutil.rmtree(root / "timerlog")
    for path in root.glob("timerwheel*"):
        path.unlink()
    findings, _, _ = run(root, "full", conf, version)
    assert {"TC-AHEAD"} == {finding.code for finding in findings if finding.severity != "note"}
    before = predict(open_store(root, conf), version)
    assert (_COUNT, _COUNT) == (before.timers, before.timers_lost)
    plan = repair.plan(root, broker_version=version, broker_conf=str(conf))
    repair.apply(plan, in_place=True)
    after = predict(open_store(root, conf), version)
    assert (_COUNT, 0) == (after.timers, after.timers_lost)
    assert [] == repair.plan(root, broker_version=version, broker_conf=str(conf)).edits
    with (
        running_broker(version, tmp_path, _SETTINGS) as broker,
        PushConsumer(broker, "timer-consumer", _TOPIC) as consumer,
    ):
        wait_until(lambda: len(consumer.wait(0)) >= _COUNT, "all of them", _PATIENCE)
        assert _COUNT == len({message.body for message in consumer.wait(0)})
        broker.crash()
