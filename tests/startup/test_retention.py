"""What a broker deletes of an old log in its first day is what real message stores then delete."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

import pytest

from rmqtool.errors import UnreadablePath
from rmqtool.startup import predict
from rmqtool.startup.report import steps, verdict
from rmqtool.store.tree import open_store
from tests import plain_store
from tests.broker.bare_store import BareStore
from tests.broker.jars import VERSIONS
from tests.startup.oracle import Oracle
from tests.stores import broker_conf, fixture_store, manifest

if TYPE_CHECKING:
    from rmqtool.startup import Prediction

DAY: Final = 86_400
DAYS: Final = 3  # fileReservedTime, by default
SCENARIO: Final = "traffic"
DELIVERED: Final = (0, 8)  # of the sys flag: no transaction, or committed
SYSTEM: Final = ("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_", "rmq_sys_", "TRANS_CHECK", "TBW102")


@dataclass(frozen=True, slots=True)
class Ages:
    """How many days ago the files of a log were last changed, the oldest file first."""

    name: str
    days: tuple[float, ...]  # the last stands for all that follow
    gone: int | None  # how many files go; None for all but the newest

    def __str__(self) -> str:
        return self.name


CASES: Final = (
    Ages("a restored backup", (6,), None),
    Ages("one day left", (6, 2), 1),
    Ages("dated in the future", (-400, 6), 0),
    Ages("one in the middle is new", (6, 6, 0.1, 6), 2),
    Ages("all new", (0.1,), 0),
)


def aged(ages: Ages, version: str, into: Path) -> tuple[Path, Path]:
    """Give a store whose files are so old, and its configuration, which deletes all day long."""
    name = f"rocketmq-{version}-{SCENARIO}"
    root, conf = fixture_store(name, into), into / "broker.conf"
    now = time.time()
    for number, path in enumerate(plain_store.segments(root)):
        then = now - DAY * ages.days[min(number, len(ages.days) - 1)]
        os.utime(path, (then, then))
    text = broker_conf(name).read_text()
    conf.write_text(f"{text}\nfileReservedTime={DAYS * 24}\ndeleteWhen={hours()}\n")
    return root, conf


def hours() -> str:
    """Give this hour and the next, as the clock of this machine has them."""
    hour = datetime.now().astimezone().hour
    return f"{hour:02};{(hour + 1) % 24:02}"


def now() -> int:
    """Give the time at which brokers of these tests run, ms."""
    return time.time_ns() // 1_000_000


def files_of(prediction: Prediction) -> int:
    """Give how many files go."""
    return len(prediction.retention.paths) if prediction.retention else 0


@pytest.mark.broker
@pytest.mark.parametrize("ages", CASES, ids=str)
def test_deleted(oracle: Oracle, ages: Ages, tmp_path: Path) -> None:
    """A real message store deletes the files that are named, and none beside them."""
    version = oracle.jvm.version
    if version not in (*VERSIONS, "5.5.1"):
        pytest.skip("no such store of this release")
    root, conf = aged(ages, version, tmp_path)
    prediction = predict(open_store(root, conf), version, now_ms=now())
    before = plain_store.segments(root)
    expected = len(before) - 1 if ages.gone is None else ages.gone
    assert expected == files_of(prediction)
    settings = {
        **manifest(f"rocketmq-{version}-{SCENARIO}")["settings"],
        "fileReservedTime": DAYS * 24,
        "deleteWhen": hours(),
        "cleanFileForciblyEnable": False,
        "deleteCommitLogFilesInterval": 0,
    }
    bare = BareStore(oracle.jvm, root, settings)
    assert bare.load()
    bare.store.start()
    clean(bare)
    left = plain_store.segments(root)
    named = prediction.retention.paths if prediction.retention else ()
    gone = [path.relative_to(root).as_posix() for path in before if path not in left]
    assert list(named) == gone
    oracle.stop(bare.store)


def clean(bare: BareStore) -> None:
    """Let a store delete, as it does every ten seconds, until there is nothing more to do."""
    owner = bare.store.getClass()
    while "cleanCommitLogService" not in {one.getName() for one in owner.getDeclaredFields()}:
        owner = owner.getSuperclass()
    field = owner.getDeclaredField("cleanCommitLogService")
    field.setAccessible(True)
    service = field.get(bare.store)
    run = next(one for one in service.getClass().getDeclaredMethods() if one.getName() == "run")
    run.setAccessible(True)
    nothing = bare.jvm.gateway.new_array(bare.jvm.gateway.jvm.java.lang.Object, 0)
    for _ in range(len(plain_store.segments(bare.root)) // 10 + 2):  # ten files at a time
        run.invoke(service, nothing)


@pytest.mark.parametrize("version", VERSIONS)
def test_messages(version: str, tmp_path: Path) -> None:
    """The messages that go are those whose records lie in the files, consumed or not."""
    root, conf = aged(CASES[0], version, tmp_path)
    prediction = predict(open_store(root, conf), version, now_ms=now())
    assert prediction.retention is not None
    gone = {root / path for path in prediction.retention.paths}
    records = [
        record
        for record in plain_store.records(root)
        if record.path in gone
        and record.transaction in DELIVERED
        and not record.topic.startswith(SYSTEM)
    ]
    assert len(records) == prediction.retention.messages_deleted_soon
    (step,) = (step for step in steps(prediction) if step["step"] == "expire")
    assert step["count"] == len(records)
    assert prediction.retention.what in verdict(prediction)
    assert 0 == prediction.lost.messages


def test_unconsumed(tmp_path: Path) -> None:
    """What a group has consumed is not counted with what nobody has."""
    root, conf = aged(CASES[0], "4.9.3", tmp_path)
    retention = predict(open_store(root, conf), now_ms=now()).retention
    assert retention is not None
    (root / "config" / "consumerOffset.json").write_text('{"offsetTable":{}}')
    (root / "config" / "consumerOffset.json.bak").unlink(missing_ok=True)
    nobody = predict(open_store(root, conf), now_ms=now()).retention
    assert nobody is not None
    assert 0 < (retention.messages_unconsumed or 0) < (nobody.messages_unconsumed or 0)
    assert {nobody.messages_unconsumed} == {
        retention.messages_deleted_soon for retention in (retention, nobody)
    }


def test_unreadable_queue(tmp_path: Path) -> None:
    """Where a queue cannot be read the files are named all the same, and no number is given."""
    root, conf = aged(CASES[0], "4.9.3", tmp_path)
    (root / "config" / "consumerOffset.json").unlink()
    (root / "config" / "consumerOffset.json.bak").unlink(missing_ok=True)
    refused = UnreadablePath(path="consumequeue", reason="it cannot be read")
    with patch("rmqtool.startup.retention.Queues", side_effect=refused):
        retention = predict(open_store(root, conf), now_ms=now()).retention
    assert retention is not None
    assert (retention.messages_deleted_soon, retention.messages_unconsumed) == (None, None)
    assert retention.what.endswith("of 3 commitlog files, whose messages cannot be counted")


@pytest.mark.parametrize(
    ("when", "hours"), [("04", (4,)), ("23;4;4", (4, 23)), ("2;x;3", (2,)), ("no", ()), ("99", ())]
)
def test_hours(when: str, hours: tuple[int, ...], tmp_path: Path) -> None:
    """The hours are read as Java reads them: up to the first that is no number."""
    root, conf = aged(CASES[0], "4.9.3", tmp_path)
    with conf.open("a") as file:
        file.write(f"deleteWhen={when}\n")
    retention = predict(open_store(root, conf), now_ms=now()).retention
    assert retention is not None
    assert hours == retention.hours


def test_time_of_the_start(tmp_path: Path) -> None:
    """It goes by the time of the start: what is too new today is old in a week."""
    root, conf = aged(CASES[-1], "4.9.3", tmp_path)
    store = open_store(root, conf)
    assert predict(store, now_ms=now()).retention is None
    later = predict(store, now_ms=now() + 7 * DAY * 1000).retention
    assert later is not None
    assert len(plain_store.segments(root)) - 1 == len(later.paths)
