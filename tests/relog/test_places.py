"""Where records go, against a reader that shares no code with the writer."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pytest

from rmqtool.errors import OutputExists, UsageError
from rmqtool.formats.java import crc31
from rmqtool.relog import fields
from rmqtool.relog.chunk import Reason
from rmqtool.relog.encoder import host_of
from rmqtool.relog.options import Positions
from rmqtool.relog.segments import PackedPlaces
from rmqtool.tables.selection import Selection
from tests import inflict
from tests.evidence import Evidence
from tests.plain_store import blanks, records, segments
from tests.relog.rebuilt import damages, rebuilt, unplaced
from tests.stores import broker_conf, fixture_store

TRAFFIC: Final = "rocketmq-5.3.3-traffic"
KEPT: Final = (
    "rocketmq-4.9.3-expired", "rocketmq-5.3.3-property-crc", "rocketmq-5.3.3-traffic",
    "rocketmq-4.9.3-ipv6", "rocketmq-5.5.0-batch-queue", "rocketmq-5.5.0-lmq",
    "rocketmq-5.5.0-timer",
)  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_keep(name: str, tmp_path: Path, evidence: Evidence) -> None:
    """Of a sound store, records at their places are its log, byte for byte; so are its queues."""
    store = fixture_store(name, tmp_path)
    evidence.keep(store)
    conf = str(broker_conf(name))
    result, output = rebuilt(store, positions=Positions.KEEP, broker_conf=conf)
    used = [path for path in segments(store) if any(path.read_bytes())]
    assert [path.name for path in used] == [path.name for path in segments(output)]
    for path in used:
        assert path.read_bytes() == (output / "commitlog" / path.name).read_bytes()
    assert (len(records(store)), 0) == (result.messages, result.log.bridges)
    for path in (*store.glob("timer*"), *store.glob("timerlog/*"), store / "config/timercheck"):
        own = output / path.relative_to(store)
        assert path.exists() == own.exists()
        assert not path.is_file() or path.read_bytes() == own.read_bytes()
    for path in () if "expired" in name else sorted((store / "consumequeue").glob("*/*/*")):
        own = output / path.relative_to(store)
        assert own.exists() == any(path.read_bytes()), path
        assert not own.exists() or own.read_bytes() == path.read_bytes(), path


@pytest.mark.parametrize(
    "name", ["rocketmq-5.3.3-expired", "rocketmq-5.5.0-property-crc", "rocketmq-5.3.3-dledger"]
)
def test_pack(name: str, tmp_path: Path) -> None:
    """Every record is there, equal but for its place, and the new store is sound."""
    store = fixture_store(name, tmp_path)
    directory = next(iter(sorted(store.glob("dledger-*/data"))), None)
    result, output = rebuilt(store, broker_conf=str(broker_conf(name)))
    if directory is None:
        assert [*map(unplaced, records(store))] == [*map(unplaced, records(output))]
    place = records(output)[0].physical_offset  # old IDs name nothing there
    assert place >= max(
        (record.physical_offset + record.size for record in records(store)), default=0
    )
    for record in records(output):
        assert record.physical_offset == int(record.path.name) + record.position
        assert record.physical_offset - place in {0, *(size for *_, size in blanks(output))}
        place = record.physical_offset + record.size
        if stored := record.properties.get("__CRC32#"):
            assert crc31(record.raw[:-20]) == int(stored[::-1])
    assert result.messages == len(records(output)) > 100
    assert [] == damages(output, broker_conf(name))


def test_other_segments(tmp_path: Path) -> None:
    """Files of another size, each closed by a blank when the next record does not fit."""
    store = fixture_store(TRAFFIC, tmp_path)
    _, output = rebuilt(store, segment_size=50_000, store_host=host_of("[::1]:10911"))
    assert {50_000} == {path.stat().st_size for path in segments(output)}
    found = records(output)
    first = {record.path: record for record in reversed(found)}
    files = segments(output)
    for path, position, size in blanks(output):
        following = first[files[files.index(path) + 1]]
        assert (50_000 - position, True) == (size, following.size + 8 > size)
    for old, new in zip(records(store), found, strict=True):
        assert bytes(15) + b"\1" + (10911).to_bytes(4, "big") == new.bytes_of("store_host")
        for name in ("body", "topic", "properties", "queue_offset", "body_crc", "born_host"):
            assert old.bytes_of(name) == new.bytes_of(name)
    assert [] == damages(output)


def test_bridges(tmp_path: Path) -> None:
    """Kept at their places, records of one topic are led to by bridges; brokers skip those."""
    store = fixture_store(TRAFFIC, tmp_path)
    topic = "traffic-retry"
    result, output = rebuilt(store, positions=Positions.KEEP, selection=Selection(topics=(topic,)))
    wanted = [record.raw for record in records(store) if record.topic == topic]
    assert wanted == [record.raw for record in records(output) if record.topic != "rmqtool"]
    bridges = [record for record in records(output) if record.topic == "rmqtool"]
    assert {0xC} == {bridge.transaction for bridge in bridges}
    assert len(records(store)) == result.messages + result.left_out[Reason.FILTERED]
    assert result.log.bridge_bytes >= sum(bridge.size for bridge in bridges) > 0
    assert [] == damages(output)


def test_damage(tmp_path: Path) -> None:
    """What is damaged is left out and counted; all else is there, in either way."""
    store = fixture_store(TRAFFIC, tmp_path)
    inflict.flip_field("body", where=0.3)(store)
    inflict.zero_sector(where=0.6)(store)
    for positions in Positions:
        result, output = rebuilt(store, name=positions, positions=positions)
        assert (1, 1) == (result.left_out[Reason.DAMAGED], len(result.gaps))
        assert result.is_damaged
        assert result.messages == sum(record.topic != "rmqtool" for record in records(output))
        assert {"CQ-GAP", "CL-QOFF-GAP"} >= {code for code, _ in damages(output)}


def test_refused(tmp_path: Path) -> None:
    """What cannot be done is refused, and nothing is left of it."""
    store = fixture_store(TRAFFIC, tmp_path)
    with pytest.raises(UsageError, match="too many for files of 150"):
        PackedPlaces(150, 0).place(np.full((fields.ROWS, 3), 143, np.int64))
    with pytest.raises(UsageError, match="give the size that the files had"):
        rebuilt(store, segment_size=50_000, positions=Positions.KEEP)
    with pytest.raises(UsageError, match="not an address"):
        host_of("broker-a")
    assert {"store"} == {path.name for path in tmp_path.iterdir()}
    rebuilt(store)
    with pytest.raises(OutputExists):
        rebuilt(store)


def test_nothing(tmp_path: Path) -> None:
    """Where no record is wanted, no store is written."""
    store = fixture_store(TRAFFIC, tmp_path)
    result, output = rebuilt(store, selection=Selection(topics=("nobody",)))
    assert (0, False) == (result.messages, output.exists())
