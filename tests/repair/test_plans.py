"""A plan can be saved and applied later, to the very store that it was made for."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool import repair
from rmqtool.errors import PlanMismatch, UsageError
from rmqtool.findings.finding import At, finding
from rmqtool.findings.registry_consume_queue import CQ_RANGE
from rmqtool.formats import config
from rmqtool.repair.log.content import Content
from rmqtool.repair.plans import read_plan
from rmqtool.repair.remedies import is_repaired
from rmqtool.repair.writer import EditWriter
from rmqtool.store.place import Place
from tests import inflict
from tests.damage import DAMAGES
from tests.repair.repaired import Broken, broken, traces
from tests.stores import broker_conf, fixture_store

NAME = "rocketmq-5.3.3-traffic"


@pytest.fixture
def store(tmp_path: Path) -> Broken:
    """Give a store with a damaged record."""
    made = broken(NAME, DAMAGES["flip-body-middle"], tmp_path)
    assert made is not None
    return made


def saved(store: Broken) -> Path:
    """Save the plan for a store beside it."""
    path = store.root.parent / "plan.json"
    path.write_text(store.plan().text(), encoding="utf-8")
    return path


@given(st.lists(st.one_of(st.binary(max_size=200), st.integers(1, 5000).map(bytes)), max_size=6))
def test_content(parts: list[bytes]) -> None:
    """Content is the bytes it was made of, also when it comes back from a file."""
    raw = b"".join(parts)
    content = Content.of(raw)
    assert raw == content.raw()
    assert content == Content.from_json(json.loads(json.dumps(content.as_json())))
    assert raw == Content.joined([Content.of(part) for part in parts]).raw()


def test_new_index_beside_what_is_left(tmp_path: Path) -> None:
    """An index file is made anew, and only what stays wrong is left: an offset ahead of its end."""
    root = fixture_store(NAME, tmp_path)
    min((root / "index").iterdir()).unlink()
    offsets = root / "config/consumerOffset.json"
    document = config.parse_object(offsets.read_bytes())
    document["offsetTable"]["traffic-orders@traffic-group"] = {"0": 1_000_000}
    offsets.write_text(json.dumps(document))
    plan = repair.plan(root, broker_conf=str(broker_conf(NAME)))
    assert ["IX-MISSING"] == [edit.code for edit in plan.edits]
    assert [("CO-RANGE", "config/consumerOffset.json")] == [
        (one.code, one.path) for one in plan.left
    ]


def test_round_trip(store: Broken) -> None:
    """A plan that was saved and read makes the same edits."""
    plan = store.plan()
    read = read_plan(str(saved(store)))
    assert (plan.edits, plan.left, plan.fingerprint) == (read.edits, read.left, read.fingerprint)
    assert repair.apply(read, in_place=True)
    assert [] == store.findings()


def test_changed_since(store: Broken) -> None:
    """A plan is refused, and nothing is written, when a file of the store is another one."""
    plan = read_plan(str(saved(store)))
    (store.root / "config" / "new.json").write_text("{}")
    before = traces(store.root)
    with pytest.raises(PlanMismatch, match="has changed"):
        repair.apply(plan, in_place=True)
    assert before == traces(store.root)


def test_changed_bytes(store: Broken) -> None:
    """Bytes that are to be replaced are compared, too: a clock can be set back."""
    plan = read_plan(str(saved(store)))
    edit = plan.edits[0]
    path = store.root / edit.path
    facts = path.stat()
    inflict.flip_bits(path, edit.position + edit.length - 1, 1)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    with pytest.raises(PlanMismatch, match="have changed since"):
        repair.apply(plan, in_place=True)


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.pop("edits"),
        lambda document: document.update(plan=2),
        lambda document: document["edits"][0].update(action="run"),
        lambda document: document["edits"][0].update(position="1"),
        lambda document: document["edits"][0]["content"].update(size=1),
        lambda document: document["edits"][0]["content"]["pieces"][0].update(b64="AAAA"),
    ],
    ids=["no edits", "other format", "no action", "no number", "other size", "other bytes"],
)
def test_no_plan(change: object, store: Broken) -> None:
    """A file that is no plan, or one that was changed by hand, is refused."""
    assert callable(change)
    path = saved(store)
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(UsageError, match="not a plan"):
        read_plan(str(path))


def test_leads_out_of_the_store(store: Broken) -> None:
    """A plan that names a file outside of the store by dots is refused."""
    path = saved(store)
    document = json.loads(path.read_text(encoding="utf-8"))
    document["edits"][0].update(path="../broker.conf", old="")
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(Exception, match=r"\.\."):
        repair.apply(read_plan(str(path)), in_place=True)


def test_no_edit_no_answer(tmp_path: Path) -> None:
    """What no edit touches is said to be left, whatever its code promises."""
    one = finding(CQ_RANGE, At("consumequeue/T/0/00000000000000000000", 0, 20))
    assert not is_repaired(one, EditWriter(Place.of(tmp_path)), "")
