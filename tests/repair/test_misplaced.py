"""A flipped topic or queue id is put back as the message's unit tells it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rmqtool import repair
from rmqtool.broker.names import LMQ_PREFIX
from rmqtool.formats.properties import INNER_MULTI_DISPATCH
from tests import inflict, plain_store
from tests.damage import DAMAGES
from tests.plain_store import Record
from tests.repair.repaired import Broken, broken, traces
from tests.stores import broker_conf, fixture_store


@pytest.mark.parametrize("damage", ["flip-topic", "flip-queue-id"])
@pytest.mark.parametrize("version", ["4.9.3", "5.5.0"])
def test_put_back(damage: str, version: str, tmp_path: Path) -> None:
    """Afterwards all files are as they were: nothing of the message is lost, no queue is added."""
    fixture = f"rocketmq-{version}-traffic"
    store = broken(fixture, DAMAGES[damage], tmp_path)
    assert store is not None
    (tmp_path / "sound").mkdir()
    sound = fixture_store(fixture, tmp_path / "sound")
    plan = store.plan()
    assert (1, []) == (len(plan.edits), plan.left)
    repair.apply(plan, in_place=True)
    assert traces(sound) == traces(store.root)


def test_one_hides_another(tmp_path: Path) -> None:
    """Two flipped queue ids in one queue: with one in its own queue, the other one is seen."""
    name = "rocketmq-4.9.3-lmq"
    root = fixture_store(name, tmp_path)
    sound = traces(root)
    for place, byte, bit in ((16489, 3, 0), (59750, 1, 5)):
        position = place + plain_store.records(root)[0].places()["queue_id"][0]
        inflict.flip_bits(plain_store.segments(root)[0], position + byte, 1 << bit)
    store = Broken(root, str(broker_conf(name)))
    plan = store.plan()
    assert (2, []) == (len(plan.edits), plan.left)
    repair.apply(plan, in_place=True)
    assert sound == traces(root)


def test_two_claims(tmp_path: Path) -> None:
    """A unit that another record claims, too, tells nothing: both records stay as they are."""
    store = broken("rocketmq-5.3.3-traffic", DAMAGES["unit-too-many"], tmp_path)
    assert store is not None
    before = [path.read_bytes() for path in plain_store.segments(store.root)]
    repair.apply(store.plan(), in_place=True)
    assert before == [path.read_bytes() for path in plain_store.segments(store.root)]


def test_exchanged_queue_files(tmp_path: Path) -> None:
    """Where the units beside it are wrong, too, the file is wrong: no record is changed."""
    name = "rocketmq-4.9.3-ipv6"
    root = fixture_store(name, tmp_path)
    queues = [root / "consumequeue" / "ipv6-orders" / str(number) for number in (0, 1)]
    path, other = (plain_store.numbered(queue)[0] for queue in queues)
    aside = path.with_name("aside")
    path.rename(aside)
    other.rename(path)
    aside.rename(other)
    store = Broken(root, str(broker_conf(name)))
    plan = store.plan()
    assert plan.edits
    assert [] == [edit.path for edit in plan.edits if edit.path.startswith("commitlog")]
    repair.apply(plan, in_place=True)
    assert [] == store.findings()


def test_unknown_queue(tmp_path: Path) -> None:
    """Where nothing tells a flipped queue id, its queue is made, and the plan says what stays."""
    name = "rocketmq-5.3.3-ext"
    root = fixture_store(name, tmp_path)
    path, other = plain_store.numbered(root / "consumequeue" / "ext-orders" / "1")[:2]
    raw = path.read_bytes()
    path.write_bytes(other.read_bytes())
    other.write_bytes(raw)
    flip = inflict.flip_field(
        "queue_id", byte=0, bit=1, where=0, wanted=lambda record: record.physical_offset == 69276
    )
    flip(root)
    store = Broken(root, str(broker_conf(name)))
    plan = store.plan()
    repair.apply(plan, in_place=True)
    left = {(finding.code, finding.path) for finding in plan.left}
    assert left == {(finding.code, finding.path) for finding in store.findings()}
    assert ("FS-ORPHAN", "consumequeue/ext-orders") in left


@pytest.mark.parametrize("name", ["rocketmq-4.9.3-traffic", "rocketmq-5.3.3-expired"])
def test_lacking_beside(name: str, tmp_path: Path) -> None:
    """Without its unit, a record that one queue has too many is put where another lacks it."""
    root = fixture_store(name, tmp_path)
    sound = [path.read_bytes() for path in plain_store.segments(root)]
    offsets = {_place_of(record): record.physical_offset for record in plain_store.records(root)}
    at = next(
        at
        for (topic, queue_id, number), at in offsets.items()
        if offsets.get((topic, queue_id ^ 1, number), at) < at
        and {(topic, queue_id, number - 1), (topic, queue_id, number + 1)} <= {*offsets}
    )
    inflict.flip_field(
        "queue_id", byte=3, bit=0, where=0, wanted=lambda record: record.physical_offset == at
    )(root)
    shutil.rmtree(root / "consumequeue")
    (root / "abort").touch()
    store = Broken(root, str(broker_conf(name)))
    plan = store.plan()
    repair.apply(plan, in_place=True)
    assert sound == [path.read_bytes() for path in plain_store.segments(root)]
    assert [] == store.plan().edits
    assert not {"CL-QOFF-BACK", "CL-QOFF-GAP", "CQ-GAP"} & {one.code for one in store.findings()}


def _place_of(record: Record) -> tuple[str, int, int]:
    return record.topic, record.integer("queue_id"), record.integer("queue_offset")


def test_further_queues(tmp_path: Path) -> None:
    """A record's queue id is that of its further queues, too, but for light ones."""
    fixture = "rocketmq-4.9.3-lmq"
    (tmp_path / "sound").mkdir()
    sound = fixture_store(fixture, tmp_path / "sound")
    (tmp_path / "one").mkdir()
    root = fixture_store(fixture, tmp_path / "one")
    flip = inflict.flip_field("queue_id", byte=2, bit=0, where=0, wanted=_is_in_plain_queue)
    flip(root)
    store = Broken(root, str(broker_conf(fixture)))
    plan = store.plan()
    assert ["commitlog/00000000000000000000"] == [edit.path for edit in plan.edits]
    repair.apply(plan, in_place=True)
    assert traces(sound) == traces(root)


def _is_in_plain_queue(record: Record) -> bool:
    names = record.properties.get(INNER_MULTI_DISPATCH, "").split(",")
    return any(name and not name.startswith(LMQ_PREFIX) for name in names)


def test_exchanged_queue_files_and_a_number(tmp_path: Path) -> None:
    """A record that goes back alone is put back, too, where its queue is wrong and made anew."""
    name = "rocketmq-4.9.3-ipv6"
    root = fixture_store(name, tmp_path)
    queues = [root / "consumequeue" / "ipv6-orders" / str(number) for number in (0, 1)]
    path, other = (plain_store.numbered(queue)[0] for queue in queues)
    number = len(plain_store.units(queues[0])) // 2
    flip = inflict.set_field(
        "queue_offset",
        lambda old: old - 3,
        where=0,
        wanted=lambda record: (
            (record.topic, record.integer("queue_id"), record.integer("queue_offset"))
            == ("ipv6-orders", 0, number)
        ),
    )
    before = [file.read_bytes() for file in plain_store.segments(root)]
    flip(root)
    raw = path.read_bytes()
    path.write_bytes(other.read_bytes())
    other.write_bytes(raw)
    store = Broken(root, str(broker_conf(name)))
    repair.apply(store.plan(), in_place=True)
    assert before == [file.read_bytes() for file in plain_store.segments(root)]
    assert [] == store.findings()


@pytest.mark.parametrize("has_crashed", [False, True])
def test_name_of_no_queue(tmp_path: Path, *, has_crashed: bool) -> None:
    """The queue that a damaged name makes is no reason to take the message out of its own."""
    name = "rocketmq-5.5.0-lmq"
    root = fixture_store(name, tmp_path)
    queue = root / "consumequeue" / "%LMQ%home-1" / "0"
    last = plain_store.units(queue)[-1]
    record = inflict.record_at(root, 0, lambda one: one.physical_offset == last.physical_offset)
    raw = record.path.read_bytes()
    inflict.flip_bits(record.path, raw.index(b"%LMQ%home-1", record.position) + 5, 1 << 6)
    if has_crashed:
        (root / "abort").touch()
    store = Broken(root, str(broker_conf(name)))
    repair.apply(store.plan(), in_place=True)
    assert last == plain_store.units(queue)[-1]
    assert [] == store.plan().edits
