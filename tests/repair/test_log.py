"""Special places of the log: its ends, neighbours, whole queues, what a bridge cannot stand for."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from rmqtool import repair
from rmqtool.findings.registry_commitlog import CL_CRC
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.message import decode, encode, sealed
from rmqtool.repair.log.stretches import Damaged
from rmqtool.repair.plans import Action
from rmqtool.repair.queues.queue_place import alone
from tests import plain_store
from tests.inflict import flip_bits, resize, write_at
from tests.plain_store import Record
from tests.repair.repaired import Broken, broken

NAME = "rocketmq-5.3.3-traffic"
BRIDGE: Final = "rmqtool"


def whole(tmp_path: Path, name: str = NAME) -> Broken:
    """Give an undamaged store."""
    made = broken(name, None, tmp_path)
    assert made is not None
    return made


def flip(record: Record) -> None:
    """Flip a bit of the body."""
    position, _ = record.places()["body"]
    flip_bits(record.path, record.position + position, 1)


def repaired(store: Broken) -> list[Record]:
    """Repair, prove it, give the records that are there then."""
    repair.apply(store.plan(), in_place=True)
    assert [] == store.findings()
    assert [] == store.plan().edits
    return plain_store.records(store.root)


def names(records: list[Record]) -> Counter[bytes]:
    """Give what the records of messages are, bridges left out."""
    return Counter(record.raw for record in records if record.topic != BRIDGE)


@pytest.mark.parametrize("count", [2, 5, 40])
def test_neighbours(count: int, tmp_path: Path) -> None:
    """Damaged neighbours are bridged, and each other record is there to the byte."""
    store = whole(tmp_path)
    log = plain_store.records(store.root)
    middle = len(log) // 2
    for record in log[middle : middle + count]:
        flip(record)
    records = repaired(store)
    assert names(log[:middle] + log[middle + count :]) == names(records)
    assert sum(record.size for record in log) == sum(record.size for record in records)


@pytest.mark.parametrize("number", [0, 1, -1])
def test_ends(number: int, tmp_path: Path) -> None:
    """The first and the last record of the log can be bridged; so can a segment's first one."""
    store = whole(tmp_path)
    log = plain_store.records(store.root)
    chosen = next(record for record in log if record.position == 0 and record is not log[0])
    record = chosen if number == 1 else log[number]
    flip(record)
    before, after = names(log), names(repaired(store))
    assert [record.raw] == list((before - after).elements())


def test_times_of_a_bridge(tmp_path: Path) -> None:
    """A bridge has the store time of the record in front of it, and in front of all of the next."""
    store = whole(tmp_path)
    log = plain_store.records(store.root)
    flip(log[0])
    flip(log[100])
    found = {record.physical_offset: record for record in repaired(store)}
    times = [
        decode(found[record.physical_offset].raw).store_timestamp for record in (log[0], log[100])
    ]
    assert [log[1].integer("store_timestamp"), log[99].integer("store_timestamp")] == times


def test_tail_of_a_crash(tmp_path: Path) -> None:
    """After a crash a half-written record is zeroed; queues that knew it are cut."""
    store = whole(tmp_path, "rocketmq-5.3.3-crash")
    last = plain_store.records(store.root)[-1]
    half = last.size // 2
    write_at(last.path, last.position + half, bytes(last.size - half))
    codes = {edit.code for edit in store.plan().edits}
    assert "CL-TAIL" in codes
    repair.apply(store.plan(), in_place=True)
    with last.path.open("rb") as file:
        file.seek(last.position)
        assert not any(file.read(last.size))


def test_tail_that_begins_a_queue(tmp_path: Path) -> None:
    """Its queue goes at once, though all but the properties of its first record is there."""
    store = whole(tmp_path)
    log = {record.physical_offset: record for record in plain_store.records(store.root)}
    queues = {
        path: log[plain_store.units(path)[0].physical_offset]
        for path in plain_store.queue_directories(store.root)
    }
    queue = max(queues, key=lambda path: queues[path].physical_offset)
    first = queues[queue]
    position, size = first.places()["properties"]
    assert size
    for path in plain_store.segments(store.root):
        begin = first.position + position if path == first.path else 0
        if path >= first.path:
            write_at(path, begin, bytes(path.stat().st_size - begin))
    (store.root / "abort").touch()
    repair.apply(store.plan(), in_place=True)
    assert not queue.exists()
    assert [] == store.plan().edits


def test_tail_of_a_clean_stop(tmp_path: Path) -> None:
    """After a clean stop it is bridged: its queue offset must not be given to a new message."""
    store = whole(tmp_path)
    last = plain_store.records(store.root)[-1]
    units = plain_store.queue_directories(store.root)
    before = {path: len(plain_store.units(path)) for path in units}
    half = last.size // 2
    write_at(last.path, last.position + half, bytes(last.size - half))
    records = repaired(store)
    assert BRIDGE == records[-1].topic
    assert before == {path: len(plain_store.units(path)) for path in units}


def test_missing_segment(tmp_path: Path) -> None:
    """A missing segment stays missing, and is named, unless its bridge is asked for."""
    store = whole(tmp_path)
    gone = sorted((store.root / "commitlog").iterdir())[1]
    times = min(gone.parent.iterdir()).stat().st_mtime_ns
    gone.unlink()
    plan = repair.plan(store.root, broker_conf=store.conf)
    assert "FS-GAP" in {one.code for one in plan.left}
    assert not any(edit.action is Action.CREATE for edit in plan.edits)
    records = repaired(store)
    assert {BRIDGE} == {record.topic for record in records if record.path == gone}
    assert times // 1_000_000 == gone.stat().st_mtime_ns // 1_000_000


def test_small_bridges(tmp_path: Path) -> None:
    """Where a broker takes small messages only, several bridges stand in a row."""
    store = whole(tmp_path)
    Path(store.conf).write_text(
        Path(store.conf).read_text().replace("maxMessageSize=", "was=") + "\nmaxMessageSize=4096\n"
    )
    log = plain_store.records(store.root)
    start = log[200]
    write_at(start.path, start.position, b"\xaa" * 20_000)
    bridges = [record for record in repaired(store) if record.topic == BRIDGE]
    assert 20_000 <= sum(record.size for record in bridges)
    assert 4096 >= max(record.size for record in bridges)


def test_property_crc(tmp_path: Path) -> None:
    """With forceVerifyPropCRC a bridge has a property CRC, or recovery would end at it."""
    store = whole(tmp_path, "rocketmq-5.3.3-property-crc")
    conf = Path(store.conf)
    conf.write_text(conf.read_text() + "\nforceVerifyPropCRC=true\n")
    log = [r for r in plain_store.records(store.root) if b"__CRC32#" in r.bytes_of("properties")]
    flip(log[len(log) // 2])
    repair.apply(store.plan(), in_place=True)
    bridge = next(record for record in plain_store.records(store.root) if record.topic == BRIDGE)
    assert "__CRC32#" in decode(bridge.raw).properties


def queues_of(log: list[Record]) -> dict[tuple[str, int], list[Record]]:
    """Give the records of each queue."""
    queues: dict[tuple[str, int], list[Record]] = {}
    for record in log:
        queues.setdefault((record.topic, record.integer("queue_id")), []).append(record)
    return queues


def test_whole_queue(tmp_path: Path) -> None:
    """A queue that lost all its messages keeps its next queue offset, and delivers nothing."""
    store = whole(tmp_path)
    log = plain_store.records(store.root)
    last = log[-1].path
    (topic, queue_id), own = next(
        (name, records)
        for name, records in queues_of(log).items()
        if (store.root / "consumequeue" / name[0] / str(name[1])).is_dir()
        and all(record.path != last and record.bytes_of("body") for record in records)
        and len(records) < 20
    )
    directory = store.root / "consumequeue" / topic / str(queue_id)
    count = len(plain_store.units(directory))
    for record in own:
        flip(record)
    repaired(store)
    units = plain_store.units(directory)
    assert count == len(units)
    places = {record.physical_offset for record in log}
    assert [] == [unit for unit in units if unit.physical_offset in places]


def test_whole_queue_of_a_single_segment(tmp_path: Path) -> None:
    """In a log of one segment such a queue begins anew, and so do its consumers."""
    store = whole(tmp_path, "rocketmq-4.9.3-ipv6")
    own = queues_of(plain_store.records(store.root))["ipv6-orders", 0]
    for record in own:
        flip(record)
    repaired(store)
    assert [] == plain_store.units(store.root / "consumequeue/ipv6-orders/0")


def test_alone() -> None:
    """The unit for such a queue ends where dispatch may go on, or lies where nothing is read."""
    damaged = Damaged(2500, 2600, CL_CRC)
    assert CQ_UNIT.packer.pack(2999, 2, 0) == alone(damaged, 0, 1000, 3000)
    assert CQ_UNIT.packer.pack(1999, 601, 0) == alone(damaged, 0, 1000, 2000)
    assert CQ_UNIT.packer.pack(1999, 601, 0) == alone(damaged, 2000, 1000, 2000)
    assert alone(Damaged(500, 600, CL_CRC), 0, 1000, 0) is None


def test_bytes_too_few_for_a_bridge(tmp_path: Path) -> None:
    """Where damage is shorter than any bridge, the record behind it is given up, and named."""
    store = whole(tmp_path)
    log = plain_store.records(store.root)
    chosen = next(record for record in log[300:] if len(record.bytes_of("body")) > 100)
    # The record lies 40 bytes further on and says so: nothing is wrong but the bytes before it.
    message = decode(chosen.raw)
    place = chosen.physical_offset + 40
    moved = encode(sealed(message._replace(physical_offset=place, body=message.body[:-40])))
    assert chosen.size == len(moved) + 40
    write_at(chosen.path, chosen.position, b"\xaa" * 40 + moved)
    plan = store.plan()
    assert any("given up" in edit.lost for edit in plan.edits)
    repair.apply(plan, in_place=True)
    assert [] == store.findings()


def test_file_of_another_length(tmp_path: Path) -> None:
    """A log cut anywhere in its last file has whole files afterwards, and the records in front."""
    store = whole(tmp_path)
    log = plain_store.records(store.root)
    last = log[-1]
    cut = last.position - 3
    length = last.path.stat().st_size
    resize(last.path, cut)
    records = repaired(store)
    assert length == last.path.stat().st_size
    kept = [
        record for record in log if record.path != last.path or record.position + record.size <= cut
    ]
    assert names(kept) == names(records)


def test_units(tmp_path: Path) -> None:
    """The unit of a lost message is that of the next one; of the last one that before it."""
    store = whole(tmp_path)
    queue = plain_store.busiest_queue(store.root)
    units = plain_store.units(queue)
    log = {record.physical_offset: record for record in plain_store.records(store.root)}
    for number in (0, 10, 11, len(units) - 1):
        flip(log[units[number].physical_offset])
    repaired(store)
    found = [CQ_UNIT.build(_fields(unit)) for unit in plain_store.units(queue)]
    wanted = [CQ_UNIT.build(_fields(unit)) for unit in units]
    wanted[0], wanted[10], wanted[11], wanted[-1] = wanted[1], wanted[12], wanted[12], wanted[-2]
    assert wanted == found


def _fields(unit: plain_store.Unit) -> dict[str, int]:
    return {
        "physical_offset": unit.physical_offset,
        "size": unit.size,
        "tags_code": unit.tags_code,
    }


@pytest.mark.parametrize(
    "name", ["rocketmq-4.9.3-ext", "rocketmq-5.3.3-ipv6", "rocketmq-5.5.0-lmq"]
)
def test_file_cut_within_a_record(name: str, tmp_path: Path) -> None:
    """Where the rest of the log is gone, the record that is cut goes as those behind it do."""
    store = whole(tmp_path, name)
    for path in sorted((store.root / "commitlog").iterdir())[1:]:
        path.unlink()
    record = plain_store.records(store.root)[70]
    os.truncate(record.path, record.position + 20)
    conf = Path(store.conf)
    known = [line for line in conf.read_text().splitlines() if "CommitLog" not in line]
    conf.write_text("\n".join(known), encoding="utf-8")
    repair.apply(store.plan(), in_place=True)
    assert ([], []) == (store.findings(), store.plan().edits)


@pytest.mark.parametrize("name", ["rocketmq-4.9.3-traffic", "rocketmq-5.3.3-ext"])
def test_zeros_in_front_of_a_cut(name: str, tmp_path: Path) -> None:
    """No unit is left on a bridge, where a segment ends in zeros and then too early."""
    store = whole(tmp_path, name)
    first = min((store.root / "commitlog").iterdir())
    os.truncate(first, 898)
    os.truncate(first, 3000)
    repair.apply(store.plan(), in_place=True)
    assert ([], []) == (store.findings(), store.plan().edits)
