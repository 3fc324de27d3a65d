"""Numbers in further queues that are none: put back as they were, wherever anything tells them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import pytest

from rmqtool import repair
from rmqtool.broker.dispatch import DispatchRules
from rmqtool.broker.release import Version
from rmqtool.broker.rules import Rules
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.message import encode, sealed
from rmqtool.repair.queues import multi_dispatch
from rmqtool.startup import predict
from rmqtool.store.tree import open_store
from tests import inflict, plain_store
from tests.damage import DAMAGES
from tests.inflict import fields_of
from tests.repair.repaired import Broken, broken
from tests.scan.segments import MESSAGE
from tests.stores import broker_conf, fixture_store

if TYPE_CHECKING:
    from rmqtool.store.record_heads import LogReader

FIXTURES: Final = ("rocketmq-4.9.3-lmq", "rocketmq-5.3.3-lmq", "rocketmq-5.5.0-lmq")


def damaged(fixture: str, name: str, into: Path) -> Broken:
    """Damage a store that was killed: its broker reads all of the log again."""
    store = broken(fixture, DAMAGES[name], into)
    assert store is not None
    (store.root / "abort").touch()
    return store


def log_of(root: Path) -> list[bytes]:
    """Give the bytes of the log."""
    return [path.read_bytes() for path in plain_store.segments(root)]


@pytest.mark.parametrize("queues", ["kept", "deleted"])
@pytest.mark.parametrize("fixture", FIXTURES)
def test_put_back(fixture: str, queues: str, tmp_path: Path) -> None:
    """The log is as it was, whether queues tell the number or neighbours in the log do."""
    store = damaged(fixture, "further-queue-offset", tmp_path)
    (tmp_path / "sound").mkdir()
    sound = fixture_store(fixture, tmp_path / "sound")
    if queues == "deleted":
        for directory in store.root.glob("consumequeue/%LMQ%*"):
            shutil.rmtree(directory)
    repair.apply(store.plan(), in_place=True)
    assert log_of(sound) == log_of(store.root)
    assert {"FS-ORPHAN"} >= {finding.code for finding in store.findings()}
    for directory in plain_store.queue_directories(sound):
        other = store.root / directory.relative_to(sound)
        units = plain_store.units(directory)
        assert [*map(fields_of, units)] == [*map(fields_of, plain_store.units(other))]


def test_nothing_tells(tmp_path: Path) -> None:
    """A number that nothing tells is blanked, not made up: the message stays in its own queue."""
    version = "5.5.0"
    store = damaged(f"rocketmq-{version}-lmq", "further-queue-forgotten", tmp_path)
    assert not predict(open_store(store.root, store.conf), version).starts
    before = log_of(store.root)
    plan = store.plan()
    assert {b" "} == {edit.content.raw() for edit in plan.edits if edit.content}
    assert all(edit.lost for edit in plan.edits)
    repair.apply(plan, in_place=True)
    assert [raw.replace(b"OFFSET\x01x", b"OFFSET\x01 ") for raw in before] == log_of(store.root)
    prediction = predict(open_store(store.root, store.conf), version)
    assert (True, False) == (prediction.starts, prediction.loses)


@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize("fixture", FIXTURES[1:])  # the last property of 4.9.3 has no separator
def test_separator(fixture: str, bit: int, tmp_path: Path) -> None:
    """A flipped bit of the separator after the numbers is put back, and TAGS with it."""
    store = fixture_store(fixture, tmp_path)
    sound = log_of(store)
    conf = str(broker_conf(fixture))
    marker = b"INNER_MULTI_QUEUE_OFFSET\x01"
    number, at = next(
        (number, raw.index(b"\x02", raw.index(marker)))
        for number, raw in enumerate(sound)
        if marker in raw
    )
    inflict.flip_bits(plain_store.segments(store)[number], at, 1 << bit)
    repair.apply(repair.plan(store, broker_conf=conf), in_place=True)
    assert sound == log_of(store)
    assert [] == repair.plan(store, broker_conf=conf).edits


class OneRecord:
    """A log that holds one record."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    def read_at(self, physical_offset: int, length: int) -> bytes:
        """Give bytes of it."""
        return self.raw[physical_offset : physical_offset + length]


def test_delayed_message() -> None:
    """The units of a delayed message have its deliver time for a tags code, in light queues too."""
    properties = (
        b"INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02"
        b"INNER_MULTI_QUEUE_OFFSET\x019v,24\x02DELAY\x013\x02TAGS\x01TagA\x02"
    )
    message = sealed(
        MESSAGE._replace(topic_bytes=b"SCHEDULE_TOPIC_XXXX", properties_bytes=properties)
    )
    raw = encode(message)
    rules = DispatchRules(Rules(Version(4, 9, 3)), (1000, 5000, 10_000), multi_dispatch=True)
    found = multi_dispatch.read(cast("LogReader", OneRecord(raw)), (0, len(raw)), rules)
    assert found is not None
    assert message.store_timestamp + 10_000 == CQ_UNIT.parse(found.unit)["tags_code"]


def test_separator_after_no_number() -> None:
    """The separator comes back, too, where spaces go over a number that nothing tells."""
    number = b"9" * 30
    properties = (
        b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02"
        b"INNER_MULTI_QUEUE_OFFSET\x01" + number + b"\x03TAGS\x01TagA\x02"
    )
    raw = encode(sealed(MESSAGE._replace(properties_bytes=properties)))
    rules = DispatchRules(Rules(Version(5, 3, 3)), (), multi_dispatch=True)
    found = multi_dispatch.read(cast("LogReader", OneRecord(raw)), (0, len(raw)), rules)
    assert found is not None
    assert (b" " * 30 + b"\x02", False) == (found.raw, found.is_known)
