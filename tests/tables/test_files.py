"""The tables of queues, index, timer and small files say what lies there, unit for unit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.checkpoint import CHECKPOINT
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.consume_queue_ext import real_offset
from rmqtool.formats.index import INDEX_ENTRY, INDEX_HEADER, entry_position, slot_position
from rmqtool.formats.layout import Layout
from rmqtool.formats.tiered_index import (
    BEGIN_MAGIC_CODE,
    END_MAGIC_CODE,
    TIERED_INDEX_COMPACTED_ITEM,
    TIERED_INDEX_HEADER,
    TIERED_INDEX_ITEM,
    TIERED_INDEX_SLOT,
)
from rmqtool.formats.timer import TIMER_CHECK, TIMER_LOG_RECORD, TIMER_SLOT
from rmqtool.queues.discovery import Queues
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.tree import open_store
from rmqtool.tables.selection import Selection
from rmqtool.tables.views import VIEWS
from rmqtool.times import iso_time
from tests.stores import fixture_store
from tests.tables.dumped import rows
from tests.truth.broker_files import ext_units

HASH_OF_TAG_A = 2_598_919  # "TagA".hashCode()
LONGEST = 8 << 20  # of a file that is read unit by unit with construct


def has(store: Path, kind: ArtefactKind) -> bool:
    """Say whether a store has files of a kind; one fixture at least has."""
    return bool(open_store(store).branches_of(kind))


def units(path: Path, layout: Layout) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield position and values of each unit that is not zero, by construct."""
    raw = path.read_bytes() if path.stat().st_size <= LONGEST else path.open("rb").read(LONGEST)
    for position in range(0, len(raw) - layout.size + 1, layout.size):
        unit = raw[position : position + layout.size]
        if any(unit):
            yield position, layout.parse(unit)


def test_consume_queues(store: Path) -> None:
    """Each unit of each queue, at its queue offset, with what its code means."""
    expected = []
    for queue in Queues(open_store(store)).files.queues():
        for segment in queue.files:
            for position, unit in units(store / segment.path, CQ_UNIT):
                offset = (segment.start + position) // CQ_UNIT.size
                expected.append((queue.topic, queue.queue_id, offset, *unit.values()))
    found = []
    for row in rows(store, "consume-queue"):
        if row.get("position") is None:
            continue  # of a queue in a database
        stored = row["physical_offset"], row["size"], row["tags_code"]
        assert row["meaning"] == meaning(row["topic"], *stored)
        found += [
            (row["topic"], row["queue_id"], row["queue_offset"] + number, *stored)
            for number in range(row.get("count", 1))
        ]
    assert expected == found


def meaning(topic: str, physical_offset: int, size: int, tags_code: int) -> str:
    """Say what a tags code means, from the rules."""
    if (physical_offset, size) == (0, 0x7FFFFFFF):
        return "filler"
    if tags_code <= -(2**31) - 1:
        return "ext address"
    if not tags_code:
        return "no tag"
    return "deliver time" if topic == "SCHEDULE_TOPIC_XXXX" else "tag hash"


def test_batch_queues(store: Path) -> None:
    """Each unit of each batch queue."""
    if not has(store, ArtefactKind.BATCH_QUEUE):
        return
    expected = [
        (queue.topic, queue.queue_id, unit["msg_base_offset"], unit["batch_size"],
         unit["physical_offset"], unit["size"], unit["tags_code"],
         iso_time(unit["store_timestamp"]))
        for queue in Queues(open_store(store)).batches.queues()
        for segment in queue.files
        for _, unit in units(store / segment.path, BATCH_CQ_UNIT)
    ]  # fmt: skip
    names = ("topic", "queue_id", "msg_base_offset", "batch_size", "physical_offset", "size",
             "tags_code", "store_time")  # fmt: skip
    assert expected == [tuple(row[name] for name in names) for row in rows(store, "batch-queue")]


def test_batches_of_a_tag(tmp_path: Path) -> None:
    """Units of batches are chosen by the hash of a tag."""
    store = fixture_store("rocketmq-5.3.3-batch-queue", tmp_path)
    expected = [row for row in rows(store, "batch-queue") if row["tags_code"] == HASH_OF_TAG_A]
    assert expected
    assert expected == rows(store, "batch-queue", selection=Selection(tag="TagA"))


def test_extensions(store: Path) -> None:
    """Each unit of each consume queue extension, under the address that queue units give it."""
    if not has(store, ArtefactKind.CONSUME_QUEUE_EXT):
        return
    expected = [
        (*directory.relative_to(store).parts[1:], address, real_offset(address), unit.size,
         unit.tags_code, iso_time(unit.msg_store_time), unit.bit_map.hex())
        for directory in sorted((store / "consumequeue_ext").glob("*/*"))
        for address, unit in ext_units(directory).items()
    ]  # fmt: skip
    names = ("topic", "queue_id", "address", "ext_position", "size", "tags_code", "msg_store_time",
             "bit_map")  # fmt: skip
    found = [tuple(row[name] for name in names) for row in rows(store, "consume-queue-ext")]
    assert expected == [(topic, str(number), *more) for topic, number, *more in found]


def test_index(store: Path) -> None:
    """Each entry of each index file, with its slot and its time."""
    expected = []
    for file in open_store(store).index_files():
        with (store / file.path).open("rb") as stream:
            header = INDEX_HEADER.parse(stream.read(INDEX_HEADER.size))
            stream.seek(entry_position(file.slots, 1))
            for number in range(1, header["index_count"]):
                entry = INDEX_ENTRY.parse(stream.read(INDEX_ENTRY.size))
                time = header["begin_timestamp"] + 1000 * entry["time_difference"]
                expected.append(
                    (
                        file.path,
                        number,
                        *entry.values(),
                        entry["key_hash"] % file.slots,
                        iso_time(time),
                    )
                )
    names = ("file", "number", *INDEX_ENTRY.positions, "slot", "store_time")
    assert expected == [tuple(row[name] for name in names) for row in rows(store, "index")]


def test_index_slots(store: Path) -> None:
    """Each slot that is in use."""
    expected = []
    for file in open_store(store).index_files():
        with (store / file.path).open("rb") as stream:
            stream.seek(slot_position(0))
            raw = stream.read(4 * file.slots)
        for slot in range(file.slots):
            number = int.from_bytes(raw[4 * slot : 4 * slot + 4], "big", signed=True)
            if number:
                expected.append((file.path, slot, number))
    found = [(row["file"], row["slot"], row["number"]) for row in rows(store, "index-slot")]
    assert expected == found


def test_index_by_key(store: Path) -> None:
    """A key finds the entries of its hash, among them that of its record."""
    keyed = next((row for row in rows(store) if row["keys"]), None)
    if keyed is None or not open_store(store).index_files():
        return
    selection = Selection(topics=(keyed["topic"],), key=keyed["keys"][0])
    found = rows(store, "index", selection=selection)
    assert keyed["physical_offset"] in [row["physical_offset"] for row in found]
    assert 1 == len({row["key_hash"] for row in found})


@pytest.mark.parametrize(
    ("word", "layout"), [("timer-wheel", TIMER_SLOT), ("timer-log", TIMER_LOG_RECORD)]
)
def test_timer(store: Path, word: str, layout: Layout) -> None:
    """Each slot and each record of the timer."""
    kind = VIEWS[word].branch
    if not has(store, kind):
        return
    found = [row for row in rows(store, word) if row.get("extent") != "filler"]
    expected = [
        (branch.path, position, *unit.values())
        for branch in open_store(store).artefacts()
        if branch.kind is kind
        for position, unit in wheel_units(store / branch.path, layout)
    ]
    names = ("file", "position", *layout.positions)
    assert expected == [tuple(row[name] for name in names) for row in found]


def wheel_units(path: Path, layout: Layout) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the units that are in use, quickly for a wheel of 38 MB."""
    raw = path.read_bytes()
    for position in range(0, len(raw) - layout.size + 1, layout.size):
        unit = raw[position : position + layout.size]
        if unit.count(0) != layout.size and unit[12:16] != b"\xcb\xd4\x31\x94":
            yield position, layout.parse(unit)


@pytest.mark.parametrize(
    ("word", "layout"), [("checkpoint", CHECKPOINT), ("timer-check", TIMER_CHECK)]
)
def test_heads(store: Path, word: str, layout: Layout) -> None:
    """The fields of the small files, times as text beside the numbers."""
    path = store / ("checkpoint" if word == "checkpoint" else "config/timercheck")
    if not path.exists():
        return
    (row,) = rows(store, word)
    values = layout.parse(path.read_bytes())
    assert values == {name: row[name] for name in layout.positions}
    for name, value in values.items():
        if name.endswith("timestamp") and value:
            assert iso_time(value) == row[name.replace("timestamp", "time")]


def test_lone_files(store: Path) -> None:
    """A file out of a store gives the rows that the whole store gives for it."""
    everything = {word: rows(store, word) for word in ("consume-queue", "index", "checkpoint")}
    for branch in open_store(store).artefacts():
        if (word := str(branch.kind)) in everything:
            expected = [row for row in everything[word] if row["file"] == branch.path]
            assert expected == rows(store / branch.path, word)


def test_segment_out_of_place(store: Path, tmp_path: Path) -> None:
    """A segment in a directory of its own, under a name of its own, still gives its messages."""
    segment = next(iter(open_store(store).commitlog))
    if segment.size > LONGEST or open_store(store).is_dledger or segment.start:
        return
    copy = tmp_path / "evidence-17.bin"
    copy.write_bytes((store / segment.path).read_bytes())
    expected = [
        row | {"segment": copy.name} for row in rows(store) if row["segment"] == segment.path
    ]
    assert expected == rows(copy)
    assert expected == rows(copy, "commitlog")


def test_config(store: Path) -> None:
    """The configuration's values, each with the names that lead to it."""
    found = rows(store, "config")
    assert found
    assert all("code" not in row for row in found)


@pytest.mark.parametrize(
    ("magic", "layout"),
    [(BEGIN_MAGIC_CODE, TIERED_INDEX_ITEM), (END_MAGIC_CODE, TIERED_INDEX_COMPACTED_ITEM)],
    ids=["open", "compacted"],
)
def test_tiered_index(tmp_path: Path, magic: int, layout: Layout) -> None:
    """Slots and items of a tiered index, whose times are whole seconds after the file began."""
    began, slots = 1_700_000_000_000, 8
    header = {"magic_code": magic, "begin_timestamp": began, "end_timestamp": began + 5000}
    item = {"key_hash": 17, "topic_id": 3, "queue_id": 1, "physical_offset": 4711, "size": 200}
    items = [
        layout.build({**item, "time_difference": seconds, "previous": 0}) for seconds in (0, 5)
    ]
    path = tmp_path / "index-1"
    whole = TIERED_INDEX_HEADER.size + slots * (TIERED_INDEX_SLOT.size + 4 * TIERED_INDEX_ITEM.size)
    parts = [
        TIERED_INDEX_HEADER.build({**header, "hash_slot_count": 1, "index_item_count": 2}),
        bytes(2 * TIERED_INDEX_SLOT.size),
        TIERED_INDEX_SLOT.build({"number": 2, "length": 0}),
        bytes((slots - 3) * TIERED_INDEX_SLOT.size),
        *items,
    ]
    path.write_bytes(b"".join(parts).ljust(whole, b"\0"))
    found = rows(path, "tiered-index")
    assert [iso_time(began), iso_time(began + 5000)] == [row["store_time"] for row in found]
    assert [item, item] == [{name: row[name] for name in item} for row in found]
    (slot,) = rows(path, "tiered-index-slot")
    assert (2, 2) == (slot["slot"], slot["number"])
