"""Records of another version, against the scalar encoder and a real message store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from rmqtool.errors import NotSound, UsageError
from rmqtool.formats.message import decode, encode, sealed
from rmqtool.relog.chunk import Reason
from rmqtool.relog.options import LogOptions, Positions, RecordVersion
from tests.broker.bare_store import YEARS_IN_HOURS, BareStore
from tests.broker.jars import missing_tools
from tests.broker.jvm import Jvm
from tests.plain_store import MAGICS, records
from tests.relog.rebuilt import damages, rebuilt, unplaced
from tests.relog.test_broker import assert_delivered, queues_of
from tests.stores import fixture_store, manifest

TRAFFIC: Final = "rocketmq-5.3.3-traffic"
LONG: Final = "%RETRY%" + "g" * 200


def test_there_and_back(tmp_path: Path) -> None:
    """Version 2 has two bytes for the length of the topic; back in version 1, all is as before."""
    store = fixture_store(TRAFFIC, tmp_path)
    old = [record for record in records(store) if len(record.topic.encode()) < 128]
    result, second = rebuilt(store, "second", record_version=RecordVersion.SECOND)
    assert len(records(store)) == result.messages
    assert {MAGICS[1]} == {decode(record.raw).magic_code for record in records(second)}
    assert [] == damages(second)
    result, first = rebuilt(second, "first", record_version=RecordVersion.FIRST)
    assert {MAGICS[0]} == {decode(record.raw).magic_code for record in records(first)}
    assert [*map(unplaced, old)] == [*map(unplaced, records(first))]
    assert [] == damages(first)


@pytest.mark.parametrize(("version", "is_read"), [("4.9.3", False), ("5.1.4", True)])
def test_old_release(version: str, *, is_read: bool, tmp_path: Path) -> None:
    """A log that a release cannot read is refused, with the option that writes a readable one."""
    store = fixture_store(TRAFFIC, tmp_path)
    seconds = sum(decode(record.raw).magic_code == MAGICS[1] for record in records(store))
    if not is_read:
        with pytest.raises(NotSound, match=f"{seconds} CL-VERSION") as refused:
            rebuilt(store, broker_version=version)
        assert "--record-version 1" in refused.value.next_step
        assert not (store.parent / "rebuilt").exists()
        return
    result, _ = rebuilt(store, broker_version=version)
    assert (seconds, 0, False) == (result.second_version, result.unreadable, result.is_damaged)


def test_long_topic(tmp_path: Path) -> None:
    """A topic too long for version 1 is left out and counted: that is damage."""
    store = fixture_store(TRAFFIC, tmp_path)
    whole = [decode(record.raw) for record in records(store) if record.topic == "traffic-orders"][
        :3
    ]
    long = sealed(whole[1]._replace(magic_code=MAGICS[1], topic_bytes=LONG.encode()))
    file = tmp_path / "some.rmq"
    file.write_bytes(b"".join(map(encode, [whole[0], long, whole[2]])))
    result, output = rebuilt(file, segment_size=131072, record_version=RecordVersion.FIRST)
    assert (1, 2, True) == (
        result.left_out[Reason.LONG_TOPIC], result.messages, result.is_damaged
    )  # fmt: skip
    assert {"traffic-orders"} == {record.topic for record in records(output)}


def test_keep() -> None:
    """At their places, records cannot get longer."""
    with pytest.raises(UsageError, match="take --positions pack"):
        LogOptions(("store",), "new", positions=Positions.KEEP, record_version=RecordVersion.SECOND)


@pytest.mark.broker
@pytest.mark.skipif(bool(missing_tools() and not os.environ.get("CI")), reason="needs Java")
def test_delivers(tmp_path: Path) -> None:
    """A message store delivers records of version 2, whatever the length of their topics."""
    store = fixture_store(TRAFFIC, tmp_path)
    _, output = rebuilt(store, record_version=RecordVersion.SECOND)
    settings = {**manifest(TRAFFIC)["settings"], "fileReservedTime": YEARS_IN_HOURS}
    queues, last = queues_of(output), records(output)[-1].physical_offset
    assert queues
    with Jvm("5.3.3", tmp_path) as jvm:
        bare = BareStore(jvm, output, settings)
        assert bare.load()
        bare.start()
        for (topic, queue_id), queue in queues.items():
            assert_delivered(queue, bare.messages(topic, queue_id), last)
        bare.stop()
