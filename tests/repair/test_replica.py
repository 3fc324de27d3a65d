"""`repair --from`: what a replica has, and a damaged store has not, comes from there."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from rmqtool import repair
from rmqtool.errors import PlanMismatch, UnsupportedStore, UsageError
from rmqtool.findings.registry_commitlog import CL_MAGIC
from rmqtool.repair.log.content import Content
from rmqtool.repair.plans import Action, Edit, Plan, read_plan
from rmqtool.repair.replica.merge_edits import folded
from rmqtool.store.address import place_of
from tests import plain_store
from tests.evidence import snapshot
from tests.inflict import flip_bits
from tests.repair.repaired import traces
from tests.stores import broker_conf, fixture_store

NAME: Final = "rocketmq-5.3.3-traffic"
OTHER: Final = "rocketmq-5.3.3-lmq"
Harm = Callable[[Path], None]


@pytest.fixture
def replica(tmp_path: Path) -> Path:
    """Give a sound store."""
    (tmp_path / "replica").mkdir()
    return fixture_store(NAME, tmp_path / "replica")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Give another copy of it, to be damaged."""
    return fixture_store(NAME, tmp_path)


def planned(store: Path, replica: Path) -> Plan:
    """Plan with a replica."""
    return repair.plan(store, replica=str(replica), broker_conf=str(broker_conf(NAME)))


def different(store: Path, replica: Path) -> list[str]:
    """Name the files of a replica that a store has not, or not in the same bytes."""
    paths = sorted(path for path in replica.rglob("*") if path.is_file())
    names = [path.relative_to(replica) for path in paths]
    return [
        str(name)
        for name in names
        if not (store / name).is_file()
        or (store / name).read_bytes() != (replica / name).read_bytes()
    ]


def zero_sector(store: Path) -> None:
    """Zero a sector in the middle of the log, and the record before with it."""
    with plain_store.segments(store)[1].open("r+b") as file:
        file.seek(4096)
        file.write(bytes(512))


def flip_body(store: Path) -> None:
    """Flip a bit of one body."""
    record = plain_store.nth(store, 0.3)
    flip_bits(record.path, record.position + record.places()["body"][0], 1)


def unlink(number: int) -> Harm:
    """Give what takes a file of the log away."""
    return lambda store: plain_store.segments(store)[number].unlink()


def cut(store: Path) -> None:
    """Cut the newest file short."""
    path = plain_store.tail(store)[0]
    path.write_bytes(path.read_bytes()[:5000])


def false_blank(store: Path) -> None:
    """End a file with a blank where records were."""
    record = plain_store.nth(store, 0.2)
    left = record.path.stat().st_size - record.position
    with record.path.open("r+b") as file:
        file.seek(record.position)
        file.write(left.to_bytes(4) + plain_store.BLANK_MAGIC.to_bytes(4, signed=True))


HARMS: Final[dict[str, Harm]] = {
    "sector": zero_sector,
    "body": flip_body,
    "first": unlink(0),
    "middle": unlink(1),
    "last": unlink(-1),
    "cut": cut,
    "blank": false_blank,
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_log(store: Path, replica: Path, harm: Harm) -> None:
    """The log is the replica's, byte for byte; nothing is bridged, and undo brings all back."""
    harm(store)
    before, lender = traces(store), snapshot(replica)
    plan = planned(store, replica)
    assert [] == plan.lost
    assert any(str(replica) in edit.reason for edit in plan.edits)
    repair.apply(plan, in_place=True)
    assert [] == different(store, replica)
    assert [] == planned(store, replica).edits
    repair.undo(store)
    assert before == traces(store)
    assert lender == snapshot(replica)


def test_copy(store: Path, replica: Path, tmp_path: Path) -> None:
    """A repaired copy has what is lent, and a saved plan reads it when it is applied."""
    for harm in (unlink(1), cut, flip_body):
        harm(store)
    plan = planned(store, replica)
    saved = tmp_path / "plan.json"
    saved.write_text(plan.text())
    again = read_plan(str(saved), place_of(str(replica)))
    again.elsewhere = plan.elsewhere
    repair.apply(again, tmp_path / "copy")
    assert [] == different(tmp_path / "copy", replica)
    with pytest.raises(UsageError, match="is not a plan"):
        read_plan(str(saved))
    flip_body(replica)
    with pytest.raises(PlanMismatch, match="other store has changed"):
        repair.apply(again, in_place=True)


def test_both_damaged(store: Path, replica: Path) -> None:
    """Each record that either has is there; a bridge stands only where neither has one."""
    records = plain_store.records(store)
    harmed = {"store": records[100:110], "replica": records[105:115]}
    for root, name in ((store, "store"), (replica, "replica")):
        for record in harmed[name]:
            flip_bits(root / record.path.relative_to(store), record.position + 4, 1)
    plan = planned(store, replica)
    repair.apply(plan, in_place=True)
    lost = {record.physical_offset for record in records[105:110]}
    for record in records:
        with record.path.open("rb") as file:
            file.seek(record.position)
            assert (file.read(record.size) == record.raw) == (record.physical_offset not in lost)
    assert [] == planned(store, replica).edits


def test_folded(tmp_path: Path) -> None:
    """A later edit of lent bytes leaves those before and behind it, each against what is there."""
    raw = bytes(range(200))
    (tmp_path / "log").write_bytes(raw)
    place = place_of(str(tmp_path))

    def edit(action: Action, position: int, size: int, byte: bytes = b"") -> Edit:
        content = Content.of(byte * size) if byte else None
        new = content.sha256 if content else ""
        return Edit(action, "log", position, 0, size, "", new, CL_MAGIC, "why", content=content)

    lent = [edit(Action.WRITE, 100, 50, b"a")]
    edits = folded(lent, [edit(Action.WRITE, 120, 10, b"b")], place)
    assert [(100, 20, b"a"), (130, 20, b"a"), (120, 10, b"b")] == [
        (edit.position, edit.size, edit.content.raw()[:1]) for edit in edits if edit.content
    ]
    for one in edits:
        there = raw[one.position : one.position + one.length]
        assert (one.size, hashlib.sha256(there).hexdigest()) == (one.length, one.old)
    for size, length in ((300, 0), (200, 0), (150, 50)):
        _, last = folded(lent, [edit(Action.LENGTH, 0, size)], place)
        old = hashlib.sha256(raw[size:]).hexdigest() if length else ""
        assert (min(size, 200), length, old) == (last.position, last.length, last.old)


def test_other_content(store: Path, replica: Path) -> None:
    """Where the records beside the damage are other ones, nothing is taken; the plan says so."""
    records = plain_store.records(store)
    for record in records[150:]:  # another store time: written alone, after a split
        flip_bits(replica / record.path.relative_to(store), record.position + 63, 1)
    flip_bits(records[200].path, records[200].position + 4, 1)
    flip_bits(records[50].path, records[50].position + 4, 1)
    plan = planned(store, replica)
    assert 1 == sum(str(replica) in edit.reason for edit in plan.edits)
    assert 1 == sum("are other ones there" in note for note in plan.notes)
    assert [] != plan.lost


def test_refused(store: Path, replica: Path, tmp_path: Path) -> None:
    """What is no replica lends nothing: another log, the store itself, files of another length."""
    (tmp_path / "other").mkdir()
    other = fixture_store(OTHER, tmp_path / "other")
    with pytest.raises((UsageError, UnsupportedStore)):
        planned(store, other)
    with pytest.raises(UsageError, match="is the store that is repaired"):
        planned(store, store)
    for path in plain_store.segments(replica):
        shutil.copyfile(path, path.with_name("kept"))
        path.write_bytes(bytes(path.stat().st_size))
        path.with_name("kept").unlink()
    with pytest.raises(UsageError, match="their logs share no record"):
        planned(store, replica)
    shutil.rmtree(replica / "commitlog")
    with pytest.raises(UsageError, match="has no commitlog to lend") as refused:
        planned(store, replica)
    assert refused.value.step == f"rmqtool repair {store} --dry-run"


def spoil(*names: str) -> Harm:
    """Give what leaves no JSON in some files of the configuration."""

    def harm(store: Path) -> None:
        for name in names:
            (store / "config" / name).write_bytes(b"{")

    return harm


def test_configuration(store: Path, replica: Path) -> None:
    """A file that cannot be parsed, nor its backup, comes from the replica."""
    name, other = "subscriptionGroup.json", "topics.json"
    spoil(name, f"{name}.bak", other)(store)
    (store / "config/delayOffset.json").unlink()
    (store / "config/delayOffset.json.bak").unlink(missing_ok=True)
    plan = planned(store, replica)
    lent = {edit.path for edit in plan.edits if str(replica) in edit.reason}
    assert {f"config/{name}", "config/delayOffset.json"} == lent
    repair.apply(plan, in_place=True)
    for path in (name, "delayOffset.json"):
        assert (replica / "config" / path).read_bytes() == (store / "config" / path).read_bytes()
    backup = (replica / "config" / f"{other}.bak").read_bytes()
    assert backup == (store / "config" / other).read_bytes()
    assert [] == planned(store, replica).edits


def test_expired_queue_with_noise(tmp_path: Path) -> None:
    """The same where noise follows the units that are left of it: one repair is enough."""
    name, queue = "rocketmq-4.9.3-expired", "consumequeue/expired-idle/0/00000000000000000000"
    (tmp_path / "replica").mkdir()
    replica, store = fixture_store(name, tmp_path / "replica"), fixture_store(name, tmp_path)
    with (store / queue).open("r+b") as file:
        raw = file.read(488)
        file.seek(512)
        file.write(raw)
    repair.apply(repair.plan(store, replica=str(replica)), in_place=True)
    assert (replica / queue).read_bytes() == (store / queue).read_bytes()
    assert [] == repair.plan(store, replica=str(replica)).edits


def test_no_configuration(store: Path, replica: Path) -> None:
    """A store without a directory `config` gets the replica's files; undo takes it away again."""
    shutil.rmtree(store / "config")
    before = traces(store)
    repair.apply(planned(store, replica), in_place=True)
    assert (replica / "config/topics.json").read_bytes() == (
        store / "config/topics.json"
    ).read_bytes()
    assert [] == planned(store, replica).edits
    repair.undo(store)
    assert before == traces(store)


def test_disputed(store: Path, replica: Path) -> None:
    """A record that no checksum convicts is judged by its fields and queues; else it stays."""
    records = plain_store.records(store)
    for record, name in ((records[60], "store_host"), (records[90], "queue_offset")):
        flip_bits(record.path, record.position + record.places()[name][0] + 3, 1)
    doubtful = records[120]
    flip_bits(doubtful.path, doubtful.position + doubtful.places()["flag"][0], 1)
    plan = planned(store, replica)
    assert [record.position for record in (records[60], records[90])] == [
        edit.position for edit in plan.edits if edit.code == "CL-FIELD"
    ]
    (note,) = plan.notes
    assert note.endswith(f"kept as they are, at {doubtful.physical_offset}")


@pytest.mark.parametrize("name", [b"TAGS", b"KEYS", b"UNIQ_KEY"])
@pytest.mark.parametrize("part", ["name", "value"])
def test_disputed_property(name: bytes, part: str, store: Path, replica: Path) -> None:
    """Tags are judged by the unit's tags code, keys by the index: one flipped bit is convicted."""
    marked = name + b"\x01"
    record = next(record for record in plain_store.records(store)[60:] if marked in record.raw)
    position = record.position + record.raw.index(marked) + (len(marked) if part == "value" else 0)
    flip_bits(record.path, position, 1)
    plan = planned(store, replica)
    assert ([record.position], []) == ([edit.position for edit in plan.edits], plan.notes)
    repair.apply(plan, in_place=True)
    assert [] == different(store, replica)


@pytest.mark.parametrize("name", [b"TAGS", b"KEYS"])
def test_disputed_property_of_the_replica(name: bytes, store: Path, replica: Path) -> None:
    """Where the replica's record is the damaged one, the store keeps its own."""
    record = next(
        record for record in plain_store.records(replica)[60:] if name + b"\x01" in record.raw
    )
    flip_bits(record.path, record.position + record.raw.index(name) + len(name) + 1, 1)
    plan = planned(store, replica)
    assert ([], []) == (plan.edits, plan.notes)


def test_disputed_further_queue(tmp_path: Path) -> None:
    """A name of a further queue that no unit knows is the damaged one."""
    name = "rocketmq-5.5.0-lmq"
    (tmp_path / "replica").mkdir()
    replica, store = fixture_store(name, tmp_path / "replica"), fixture_store(name, tmp_path)
    record = plain_store.records(store)[40]
    flip_bits(record.path, record.position + record.raw.index(b"%LMQ%"), 1)
    plan = repair.plan(store, replica=str(replica), broker_conf=str(broker_conf(name)))
    assert [record.position] == [edit.position for edit in plan.edits]
    repair.apply(plan, in_place=True)
    assert [] == different(store, replica)


def test_no_log(store: Path, replica: Path) -> None:
    """Where no file of the log is left, the queues tell whose replica it is."""
    for path in plain_store.segments(store):
        path.unlink()
    repair.apply(planned(store, replica), in_place=True)
    assert [] == different(store, replica)
    shutil.rmtree(store / "commitlog")
    shutil.rmtree(store / "consumequeue")
    with pytest.raises(UsageError, match="their logs share no record"):
        planned(store, replica)


@pytest.mark.parametrize("is_light", [True, False])
def test_no_log_and_few_queues(is_light: bool, tmp_path: Path) -> None:
    """So do light queues alone, and a queue that ends in noise."""
    name, queue = "rocketmq-4.9.3-lmq", "consumequeue/lmq-parent/0"
    (tmp_path / "replica").mkdir()
    replica, store = fixture_store(name, tmp_path / "replica"), fixture_store(name, tmp_path)
    for path in plain_store.segments(store):
        path.unlink()
    for path in (store / "consumequeue").glob("*/*"):
        if path.parent.name.startswith("%LMQ%") is not is_light and path != store / queue:
            shutil.rmtree(path)
    if is_light:
        shutil.rmtree(store / queue)
    else:
        first = min((store / queue).iterdir())
        first.write_bytes(first.read_bytes()[:-200] + b"\x11" * 200)
    plan = repair.plan(store, replica=str(replica), broker_conf=str(broker_conf(name)))
    repair.apply(plan, in_place=True)
    assert [] == [path for path in different(store, replica) if path.startswith("commitlog/")]


def test_expired_queue(tmp_path: Path) -> None:
    """A queue of which no record is left comes from the replica: the next queue offset follows."""
    name = "rocketmq-5.3.3-expired"
    (tmp_path / "replica").mkdir()
    replica, store = fixture_store(name, tmp_path / "replica"), fixture_store(name, tmp_path)
    shutil.rmtree(store / "consumequeue/expired-idle")
    shutil.rmtree(store / "consumequeue/expired-orders/1")
    before = traces(store)
    plan = repair.plan(store, replica=str(replica), broker_conf=str(broker_conf(name)))
    lent = [edit.path for edit in plan.edits if str(replica) in edit.reason]
    assert ["consumequeue/expired-idle/0/00000000000000000000"] == lent
    repair.apply(plan, in_place=True)
    (path,) = lent
    assert (replica / path).read_bytes() == (store / path).read_bytes()
    assert [] == repair.plan(store, replica=str(replica)).edits
    repair.undo(store)
    assert before == traces(store)
