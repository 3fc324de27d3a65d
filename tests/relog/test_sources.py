"""Several sources, files of records, numbers anew: against a reader of its own."""

from __future__ import annotations

import json
import shutil
import struct
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from rmqtool.cli.main import main
from rmqtool.errors import NotSound, UsageError
from rmqtool.formats import config
from rmqtool.messages.extract import ExtractRun
from rmqtool.messages.options import ExtractOptions
from rmqtool.relog.chunk import Reason
from rmqtool.relog.options import LogOptions, Positions, QueueOffsets
from rmqtool.relog.order import repeated
from rmqtool.relog.report import LogResult
from rmqtool.relog.work import LogRun
from rmqtool.store.tree import open_store
from rmqtool.tables.pending import undecided_transactions
from rmqtool.tables.selection import Selection
from tests.plain_store import Record, records, segments
from tests.relog.rebuilt import damages, rebuilt, unplaced
from tests.store.faults import bad_sector
from tests.stores import fixture_store

TRAFFIC: Final = "rocketmq-5.3.3-traffic"
HALF: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
HALF_OP: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
QUEUE_OFFSET: Final = struct.Struct(">q")


def unlinked(record: Record) -> bytes:
    """Give a record without its place and its queue offset."""
    raw = bytearray(unplaced(record))
    QUEUE_OFFSET.pack_into(raw, 20, 0)
    return bytes(raw)


def together(
    output: Path, *sources: Path, queue_offsets: QueueOffsets = QueueOffsets.KEEP
) -> LogResult:
    """Rebuild the log of several sources."""
    paths = tuple(map(str, sources))
    return LogRun(
        LogOptions(paths, str(output), segment_size=131072, queue_offsets=queue_offsets, jobs=1)
    ).run()


def extract(store: Path, output: Path, selection: Selection) -> Path:
    """Extract records."""
    ExtractRun(ExtractOptions((str(store),), str(output), selection=selection)).run()
    return output


def test_extract(tmp_path: Path) -> None:
    """What was extracted becomes a store; at their places, records are where they lay."""
    store = fixture_store(TRAFFIC, tmp_path)
    topic = "traffic-orders"
    file = extract(store, tmp_path / "orders.rmq", selection=Selection(topics=(topic,)))
    expected = [record for record in records(store) if record.topic == topic]
    _, packed = rebuilt(file, "packed", segment_size=131072)
    assert [*map(unplaced, expected)] == [*map(unplaced, records(packed))]
    _, kept = rebuilt(file, "kept", segment_size=131072, positions=Positions.KEEP)
    assert [record.raw for record in expected] == [
        record.raw for record in records(kept) if record.topic != "rmqtool"
    ]
    for output in (packed, kept):
        assert [] == damages(output)
        topics = config.parse_object((output / "config/topics.json").read_bytes())
        assert 4 == topics["topicConfigTable"][topic]["writeQueueNums"]


def test_bad_records(tmp_path: Path) -> None:
    """What is no record of a file is named by its number; all others are taken."""
    store = fixture_store(TRAFFIC, tmp_path)
    raws = [record.raw for record in records(store) if record.topic == "traffic-orders"][:40]
    cut, magic = bytearray(raws[5]), bytearray(raws[9])
    cut[87] ^= 0x40  # length of the body
    magic[4] ^= 1
    file = tmp_path / "some.rmq"
    file.write_bytes(b"".join([*raws[:5], cut, *raws[6:9], magic, *raws[10:], raws[0][:50]]))
    with pytest.raises(NotSound, match="messages again, 2 times") as refused:
        rebuilt(file, segment_size=131072)
    assert refused.value.next_step.startswith("--queue-offsets renumber")
    result, output = rebuilt(file, segment_size=131072, queue_offsets=QueueOffsets.RENUMBER)
    assert [] == damages(output)
    assert [6, 10, 41] == [gap.number for gap in result.gaps]
    assert [len(cut), len(magic), 50] == [gap.length for gap in result.gaps]
    assert (38, True) == (result.messages, result.is_damaged)
    assert [*map(len, [*raws[:5], *raws[6:9], *raws[10:]])] == [
        record.size for record in records(output)
    ]


def test_replicas(tmp_path: Path) -> None:
    """Of a store and its copy, and an extract of it, each message is written once."""
    store = fixture_store(TRAFFIC, tmp_path)
    shutil.copytree(store, tmp_path / "copy")
    topics = Selection(topics=("traffic-orders",))
    file = extract(store, tmp_path / "orders.rmq", selection=topics)
    result = together(tmp_path / "new", store, tmp_path / "copy", file)
    new = records(tmp_path / "new")
    old = records(store)
    orders = sum(record.topic == "traffic-orders" for record in old)
    assert len(old) + orders == result.left_out[Reason.DUPLICATE]
    assert sorted(map(unplaced, old)) == sorted(map(unplaced, new))
    assert [] == damages(tmp_path / "new")


def test_renumber(tmp_path: Path) -> None:
    """Messages of two stores in one order by store time, each queue numbered from 0 on.

    What brokers are done with is left out: nothing says any more how far they had come.
    """
    (tmp_path / "other").mkdir()
    stores = [
        fixture_store(TRAFFIC, tmp_path),
        fixture_store("rocketmq-5.5.0-traffic", tmp_path / "other"),
    ]
    with pytest.raises(UsageError, match="renumber gives them new ones"):
        together(tmp_path / "new", *stores)
    assert not (tmp_path / "new").exists()
    result = together(tmp_path / "new", *stores, queue_offsets=QueueOffsets.RENUMBER)
    new = records(tmp_path / "new")
    queues: Counter[tuple[str, int]] = Counter()
    for record in new:
        queue = record.topic, record.integer("queue_id")
        assert queues[queue] == record.integer("queue_offset")
        queues[queue] += 1
    old = [record for store in stores for record in records(store)]
    kept = [record for record in old if not record.topic.startswith(("RMQ_SYS_TRANS", "SCHEDULE"))]
    own = [record for record in new if not record.topic.startswith(("RMQ_SYS_TRANS", "SCHEDULE"))]
    assert sorted(map(unlinked, kept)) == sorted(map(unlinked, own))
    times = [record.integer("store_timestamp") for record in new]
    assert sorted(times) == times
    assert len(old) == len(new) + result.left_out[Reason.DONE]
    for store in stores:
        waits = [row["last_physical_offset"] for row in undecided_transactions(open_store(store))]
        halves = {
            unlinked(record)
            for record in records(store)
            if record.topic == HALF and record.physical_offset in waits
        }
        assert halves <= {unlinked(record) for record in new if record.topic == HALF}
    assert HALF_OP not in {record.topic for record in new}
    for name in ("consumerOffset.json", "delayOffset.json"):  # a store without them has lost them
        assert {} == open_store(tmp_path / "new").config(name).document["offsetTable"]
    assert [] == damages(tmp_path / "new")


@pytest.mark.parametrize("numbering", QueueOffsets)
def test_delay_offsets_missing(numbering: QueueOffsets, tmp_path: Path) -> None:
    """How far delayed messages were delivered the copies in the log tell, where no file does."""
    source = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    before = open_store(source).config("delayOffset.json").document["offsetTable"]
    for path in source.glob("config/delayOffset.json*"):
        path.unlink()
    together(tmp_path / "new", source, queue_offsets=numbering)
    after = open_store(tmp_path / "new").config("delayOffset.json").document["offsetTable"]
    waits = sum(record.topic == "SCHEDULE_TOPIC_XXXX" for record in records(tmp_path / "new"))
    if numbering is QueueOffsets.KEEP:
        assert before == after
        assert sum(before.values()) < waits
    else:
        assert {} == after
        assert waits == sum(
            record.topic == "SCHEDULE_TOPIC_XXXX" for record in records(source)
        ) - sum(before.values())
    assert [] == damages(tmp_path / "new")


def test_offsets_beside_light_queues(tmp_path: Path) -> None:
    """With enableLmq offsets of ordinary queues lie in the file of light ones: both go along."""
    source = fixture_store("rocketmq-5.3.3-lmq", tmp_path)
    path = source / "config" / "lmqConsumerOffset.json"
    document = json.loads(path.read_text())
    document["offsetTable"] = {"lmq-parent@home-app": {"0": 5}}
    path.write_text(json.dumps(document))
    LogRun(LogOptions((str(source),), str(tmp_path / "new"))).run()
    found = config.parse_object((tmp_path / "new/config/lmqConsumerOffset.json").read_bytes())
    assert {name: document[name] for name in ("offsetTable", "lmqOffsetTable")} == found


def test_unreadable(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What the disk refuses is named, and the rest is written: exit code 3; without a rest, 2."""
    store = fixture_store(TRAFFIC, tmp_path)
    paths = segments(store)
    words = ["rebuild-log", str(store), "--jobs", "1", "--output"]
    with ExitStack() as stack:
        stack.enter_context(bad_sector(paths[1]))
        assert 3 == main([*words, str(tmp_path / "new")])
        assert f"commitlog/{paths[1].name}" in capfd.readouterr().err
        for path in (paths[0], *paths[2:]):
            stack.enter_context(bad_sector(path))
        assert 2 == main([*words, str(tmp_path / "none")])
    kept = [record for record in records(store) if record.path != paths[1]]
    assert [*map(unplaced, kept)] == [*map(unplaced, records(tmp_path / "new"))]
    assert not (tmp_path / "none").exists()


def test_nothing_before_the_first_source() -> None:
    """Of the first source nothing is a repetition, whatever its keys are; of the next, each."""
    for key in range(-2, 3):
        np.array([key])  # memory that is used again holds the key
        keys = np.arange(-2, 3)
        assert [[False] * 5, [True] * 5] == [one.tolist() for one in repeated([keys, keys])]
