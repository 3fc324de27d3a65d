"""Bugs of a release are said where the store shows them, and real brokers have them."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Final

import pytest

from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.startup import predict
from rmqtool.startup.report import steps
from rmqtool.store.tree import open_store
from tests import rocksdb
from tests.broker.bare_store import BareStore
from tests.broker.broker import SMALL_GEOMETRY, conf_text, running_broker
from tests.broker.direct import put_direct
from tests.broker.jvm import Jvm
from tests.broker.message import UNIQUE_KEY, Outgoing
from tests.broker.producer import Producer
from tests.broker.stopping import stop
from tests.startup.test_against_stores import ALWAYS
from tests.stores import broker_conf, fixture_store, manifest

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.startup.prediction import Prediction

TOPIC: Final = "bugs"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
LONG: Final = {**SMALL_GEOMETRY, "timerWheelEnable": True, "maxMessageSize": 100}
IN_ROCKSDB: Final = {**SMALL_GEOMETRY, "timerWheelEnable": True, "timerRocksDBEnable": True}
COUNT: Final = 3
DUE_SECONDS: Final = 40


def predicted(root: Path, settings: dict[str, object], version: str) -> Prediction:
    """Predict a start with settings."""
    conf = root.with_name("asked.conf")
    conf.write_text(conf_text({**settings, **ALWAYS}))
    return predict(open_store(root, conf), version)


@pytest.mark.parametrize(
    ("version", "size", "count"),
    [("5.5.0", 65536, 0), ("5.5.0", 10, 2), ("5.3.3", 10, 2), ("5.5.1", 10, 0), ("4.9.3", 10, 0)],
)
def test_long_timers(version: str, size: int, count: int, tmp_path: Path) -> None:
    """Up to 5.5.0 a timer longer than maxMessageSize and 100 bytes is never delivered."""
    name = "rocketmq-5.5.0-timer"
    root = fixture_store(name, tmp_path)
    settings = {**manifest(name)["settings"], "maxMessageSize": size}
    unread = {one.part: one for one in predicted(root, settings, version).unread}
    assert bool(count) == ("long timers" in unread)
    if count:
        one = unread["long timers"]
        assert one.count == count
        assert f"more than {size + 100} bytes" in one.message
        assert "never delivered" in one.message


@pytest.mark.parametrize(("size", "count"), [(65536, 0), (100, 4)])
def test_long_timers_in_rocksdb(size: int, count: int, tmp_path: Path) -> None:
    """Timers in RocksDB may not be longer than maxMessageSize, in any release."""
    name = "rocketmq-5.5.0-rocksdb-store"
    root = fixture_store(name, tmp_path)
    settings = {**manifest(name)["settings"], "maxMessageSize": size}
    for version in ("5.5.0", "5.5.1"):
        found = [one.count for one in predicted(root, settings, version).unread]
        assert ([count] if count else []) == found


@pytest.mark.parametrize(
    ("version", "is_reported"), [("5.3.3", True), ("5.5.0", True), ("5.5.1", False)]
)
def test_popped(version: str, is_reported: bool, tmp_path: Path) -> None:
    """Where messages are in flight, a release that may lose their records says so; no more."""
    name = "rocketmq-5.3.3-rocksdb-pop"
    prediction = predict(open_store(fixture_store(name, tmp_path), broker_conf(name)), version)
    said = [step["message"] for step in steps(prediction) if step["step"] == "caution"]
    assert is_reported == bool(said)
    assert not is_reported or "16 popped messages in flight" in str(said[0])
    assert prediction.is_whole


@pytest.mark.parametrize("version", ["5.5.0", "5.5.1"])
def test_expired_units(version: str, tmp_path: Path) -> None:
    """5.5.1 keeps expired units where its native filter is not loaded, and the note says so."""
    name = "rocketmq-5.5.0-rocksdb-crash"
    root = fixture_store(name, tmp_path)
    min((root / "commitlog").iterdir()).unlink()
    options = ValidateOptions(
        root, broker_conf=str(broker_conf(name)), broker_version=version, jobs=1
    )
    said = {finding.message for finding in validate(options) if finding.code.name == "RQ-EXPIRED"}
    assert said
    assert {"CqCompactionFilterJni" in finding for finding in said} == {version == "5.5.1"}


def _delivered(home: Path, version: str, settings: dict[str, object], until: float) -> int:
    """Start a broker, wait, and count what the topic has then."""
    with running_broker(version, home, settings) as broker:
        time.sleep(max(until - time.time(), 0) + 6)
        broker.wait_dispatched()
        return int(broker.store.getMaxOffsetInQueue(TOPIC, 0))


@pytest.mark.broker
@pytest.mark.all_variants
def test_real_brokers_and_long_timers(tmp_path: Path) -> None:
    """Of timers that 5.5.1 wrote, a real 5.5.0 delivers none, and a real 5.5.1 all."""
    homes = {"5.5.1": tmp_path / "own", "5.5.0": tmp_path / "other"}
    own = homes["5.5.1"]
    with running_broker("5.5.1", own, LONG) as broker:
        broker.create_topic(TOPIC, 1)
        with Producer(broker, "long") as producer:
            for _ in range(COUNT):
                when = {"TIMER_DELAY_SEC": str(DUE_SECONDS)}
                producer.send(Outgoing(TOPIC, bytes(90), "long", reserved=when), 0, "timer")
        due = time.time() + DUE_SECONDS
        time.sleep(4)
    shutil.copytree(own, homes["5.5.0"])
    for version, delivered in (("5.5.1", COUNT), ("5.5.0", 0)):
        unread = [one.count for one in predicted(own / "store", dict(LONG), version).unread]
        assert unread == ([] if delivered else [COUNT])
    assert [COUNT, 0] == [
        _delivered(homes[version], version, dict(LONG), due) for version in ("5.5.1", "5.5.0")
    ]


@pytest.mark.broker
@pytest.mark.all_variants
@pytest.mark.parametrize("version", ["5.5.0", "5.5.1"])
def test_real_brokers_and_recalled_timers(version: str, tmp_path: Path) -> None:
    """A recalled timer whose rolled copy comes later is delivered by 5.5.0, not by 5.5.1."""
    home = tmp_path / "home"
    due = (int(time.time()) + DUE_SECONDS) * 1000
    with running_broker(version, home, IN_ROCKSDB) as broker:
        broker.create_topic(TOPIC, 1)
        where = {"TIMER_OUT_MS": str(due), "REAL_TOPIC": TOPIC, "REAL_QID": "0"}
        sent = put_direct(broker, Outgoing(TIMER_TOPIC, b"timer", reserved=where))
        key = {UNIQUE_KEY: sent.properties[UNIQUE_KEY]}
        time.sleep(2)
        put_direct(
            broker,
            Outgoing(TIMER_TOPIC, b"x", reserved={**where, "TIMER_DEL_UNIQKEY": key[UNIQUE_KEY]}),
        )
        time.sleep(2)
        rolled = {**where, **key, "TIMER_ROLL_LABEL": "R"}
        put_direct(broker, Outgoing(TIMER_TOPIC, b"timer", reserved=rolled))
        time.sleep(2)
    unread = [
        (one.part, one.count) for one in predicted(home / "store", dict(IN_ROCKSDB), version).unread
    ]
    is_back = version == "5.5.0"
    assert unread == ([("recalled timers", 1)] if is_back else [])
    assert int(is_back) == _delivered(home, version, dict(IN_ROCKSDB), due / 1000)


@pytest.mark.broker
@pytest.mark.all_variants
@pytest.mark.parametrize(
    ("version", "is_native", "is_kept"),
    [("5.5.0", False, False), ("5.5.1", True, False), ("5.5.1", False, True)],
)
def test_real_stores_and_expired_units(
    version: str, is_native: bool, is_kept: bool, tmp_path: Path
) -> None:
    """A compaction drops units of expired messages, but in 5.5.1 without its native filter."""
    name = "rocketmq-5.5.0-rocksdb-crash"
    root = fixture_store(name, tmp_path)
    min((root / "commitlog").iterdir()).unlink()
    start = int(min((root / "commitlog").iterdir()).name)
    assert _expired(root, start)
    (tmp_path / "jvm").mkdir()
    with Jvm(version, tmp_path / "jvm") as jvm:
        if version == "5.5.1":
            native = jvm.rocketmq("store.rocksdb.CqCompactionFilterJni")
            assert native.isLoaded()
            if not is_native:  # as on a machine that cannot load it
                field = jvm.gateway.jvm.java.lang.Class.forName(
                    "org.apache.rocketmq.store.rocksdb.CqCompactionFilterJni"
                ).getDeclaredField("loaded")
                field.setAccessible(True)
                field.setBoolean(None, False)
        opened = BareStore(jvm, root, {**manifest(name)["settings"], **ALWAYS})
        assert opened.load()
        opened.store.start()
        opened.store.getQueueStore().cleanExpired(start)
        stop(jvm, opened.store)
    assert is_kept == bool(_expired(root, start))


def _expired(root: Path, start: int) -> list[bytes]:
    """Give the keys of units of messages before a physical offset."""
    rows = rocksdb.rows_of(root / "consumequeue", "consumequeue")["default"]
    return [key for key, value in rows if int.from_bytes(value[:8], "big") < start]


@pytest.mark.broker
@pytest.mark.all_variants
@pytest.mark.parametrize(("version", "count"), [("5.3.3", 0), ("5.5.0", 0), ("5.5.1", 1)])
def test_real_brokers_and_changed_pops(version: str, count: int, tmp_path: Path) -> None:
    """A changed invisible time with the same end deletes the record of a popped message."""
    settings = {**SMALL_GEOMETRY, "popConsumerKVServiceInit": True}
    end = (int(time.time()) + 3600) * 1000
    with running_broker(version, tmp_path, settings) as broker:
        broker.create_topic(TOPIC, 1)
        broker.controller.getSubscriptionGroupManager().findSubscriptionGroupConfig("bugs")
        service = broker.controller.getPopConsumerService()
        more = (False,) if version != "5.3.3" else ()
        seen = []
        for before, after in ((1, 2), (2, 2), (2, 2)):
            times = (end - 60_000, 60_000 + before, end - 30_000, 30_000 + after)
            service.changeInvisibilityDuration(*times, "bugs", TOPIC, 0, 7, *more)
            records = service.getPopConsumerStore().scanExpiredRecords(0, end + 1000, 9)
            seen.append(records.size())
    assert seen == [1, count, count]
