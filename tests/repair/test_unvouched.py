"""Fields that changed and that nothing brings back: a plan names them, and believes none."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from rmqtool import repair
from rmqtool.check.options import CheckLevel
from rmqtool.formats.properties import are_torn
from rmqtool.repair.queues import queues as torn
from tests import plain_store
from tests.inflict import flip_bits, write_at
from tests.plain_store import Record
from tests.repair.repaired import Broken, broken
from tests.stores import fixture_names

QUEUE: Final = ("traffic-orders", 0)
NAMES: Final = fixture_names(scenario="traffic")
# Which byte and bit of which field, and what names it: a note that stays, or a record given up.
CHANGED: Final = {
    ("prepared_transaction_offset", 4, 3): "CL-TRANREF",
    ("sys_flag", 2, 0): "CL-SYSFLAG",
    ("sys_flag", 3, 2): "CQ-EXTRA",
    ("body_length", 3, 0): "CL-SIZE",
    ("topic_length", 0, 0): "CL-SIZE",
    ("properties_length", 1, 0): "CL-SIZE",
}
COMPRESSED: Final = ("sys_flag", 3, 0)


def _records(store: Broken) -> list[Record]:
    return [
        record
        for record in plain_store.records(store.root)
        if (record.topic, record.integer("queue_id")) == QUEUE and b"TAGS" in record.raw
    ]


def _flip(record: Record, field: str, byte: int, bit: int) -> None:
    flip_bits(record.path, record.position + record.places()[field][0] + byte, 1 << bit)


def _unit(store: Broken, record: Record) -> plain_store.Unit:
    directory = store.root / "consumequeue" / QUEUE[0] / str(QUEUE[1])
    return next(
        unit
        for unit in plain_store.units(directory)
        if unit.physical_offset == record.physical_offset
    )


@pytest.mark.parametrize(("how", "name"), [*zip(["zeros", "noise", "end"], NAMES, strict=True)])
def test_torn_properties(how: str, name: str, tmp_path: Path) -> None:
    """The unit keeps the tags code that it got from the whole record, and the plan says so."""
    store = broken(name, None, tmp_path)
    assert store is not None
    record = _records(store)[20]
    before = _unit(store, record)
    position, size = record.places()["properties"]
    raw = {
        "zeros": bytes(size),
        "noise": bytes((37 * place + 11) % 251 + 3 for place in range(size)),
        "end": bytes(size // 2),
    }[how]
    write_at(record.path, record.position + position + size - len(raw), raw)
    plan = store.plan()
    assert [f"the record at {record.physical_offset} has torn properties"] == [
        left.message.partition(": ")[2] for left in plan.left if left.code == "CQ-TAG"
    ]
    repair.apply(plan, in_place=True)
    assert before == _unit(store, record)
    left = {(finding.code, finding.path) for finding in plan.left}
    assert {(finding.code, finding.path) for finding in store.findings()} <= left
    assert [] == store.plan().edits


def test_wrong_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit whose record is sound is put right; a queue of such units is not looked at whole."""
    store = broken(NAMES[0], None, tmp_path)
    assert store is not None
    units = [_unit(store, record) for record in _records(store)]
    for unit in units:
        flip_bits(unit.path, unit.position + 19, 1)
    monkeypatch.setattr(torn, "MOST_SOUND_RECORDS", 5)
    looked: list[int] = []

    def look(raw: bytes) -> bool:
        looked.append(len(raw))
        return are_torn(raw)

    monkeypatch.setattr(torn, "are_torn", look)
    plan = store.plan()
    assert len(looked) == 5
    repair.apply(plan, in_place=True)
    assert units == [_unit(store, record) for record in _records(store)]
    assert [] == plan.left


def test_changed_fields(tmp_path: Path) -> None:
    """What is delivered as it is now stays in the plan; one that no broker reads is given up."""
    store = broken(NAMES[0], None, tmp_path)
    assert store is not None
    records = _records(store)[20::8][: len(CHANGED)]
    for record, place in zip(records, CHANGED, strict=True):
        _flip(record, *place)
    plan = store.plan()
    queue = plain_store.units(store.root / "consumequeue" / QUEUE[0] / str(QUEUE[1]))
    for record, ((field, _, _), code) in zip(records, CHANGED.items(), strict=True):
        name = "/".join(record.path.parts[-2:])
        if field.endswith("_length"):
            lost = (code, name, record.position)
            assert [True] == [
                bool(edit.lost)
                for edit in plan.edits
                if (str(edit.code), edit.path, edit.position) == lost
            ]
        elif code.startswith("CL"):
            assert (code, name) in {(left.code, left.path) for left in plan.left}
        else:
            unit = next(unit for unit in queue if unit.physical_offset == record.physical_offset)
            path = str(unit.path.relative_to(store.root))
            assert (code, path) in {(left.code, left.path) for left in plan.left}


def test_compressed(tmp_path: Path) -> None:
    """A body that is not compressed, though the record says so, is found by level deep alone."""
    store = broken(NAMES[0], None, tmp_path)
    assert store is not None
    record = _records(store)[20]
    _flip(record, *COMPRESSED)
    assert [] == store.findings()
    assert [record.physical_offset] == [
        finding.physical_offset for finding in store.findings(CheckLevel.DEEP)
    ]
