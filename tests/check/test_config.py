"""Configuration that cannot be read, and topics that are gone from it: all commands agree."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from rmqtool import repair
from rmqtool.findings.catalogue import Severity
from rmqtool.formats.config import parse_object
from rmqtool.startup import predict
from rmqtool.store.place import Place
from rmqtool.store.tree import open_store
from tests.check.validation import run
from tests.stores import broker_conf, held_by_another

NAME = "rocketmq-5.3.3-traffic"
BROKEN = {"brace": b"{", "markup": b"<nil>", "zeros": bytes(64)}


def _refusals(store: Path) -> list[str]:
    """Give what keeps a broker from starting."""
    return [
        refusal.path for refusal in predict(open_store(store, broker_conf(NAME)), "5.3.3").refusals
    ]


def _repair(store: Path) -> list[str]:
    """Repair a store; give the paths of what stays."""
    plan = repair.plan(store, broker_conf=str(broker_conf(NAME)))
    repair.apply(plan, in_place=True)
    return [one.path for one in plan.left]


@pytest.mark.parametrize("is_live", [True, False])
@pytest.mark.parametrize("raw", [b"", b'{"offsetTable":{', None], ids=["empty", "part", "gone"])
def test_being_written(
    raw: bytes | None,
    copy_of: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_live: bool,
) -> None:
    """What a broker writes at this moment is read again; what nobody writes is as it is."""
    store = copy_of(NAME)
    path = store / "config" / "consumerOffset.json.bak"
    whole, read, looks = path.read_bytes(), Place.read_whole, 0

    def writing(place: Place, limit: int) -> bytes:
        nonlocal looks
        if str(place) == str(path):
            looks += 1
            path.unlink(missing_ok=True)
            stored = whole if looks > 2 else raw
            if stored is not None:
                path.write_bytes(stored)
        return read(place, limit)

    monkeypatch.setattr(Place, "read_whole", writing)
    with held_by_another(store) if is_live else nullcontext():
        codes = [
            finding.code
            for finding in run(store)[0]
            if finding.path == "config/consumerOffset.json.bak"
        ]
    assert ([] if is_live else ["FS-READ" if raw is None else "CF-JSON"]) == codes
    assert looks == (3 if is_live else 1)


@pytest.mark.parametrize("raw", BROKEN.values(), ids=BROKEN)
def test_both_broken(raw: bytes, copy_of: Callable[[str], Path]) -> None:
    """With a `.bak` that cannot be parsed either a broker refuses, which every command says."""
    store = copy_of(NAME)
    paths = [f"config/consumerOffset.json{suffix}" for suffix in ("", ".bak")]
    for path in paths:
        (store / path).write_bytes(raw)
    findings = [finding for finding in run(store)[0] if finding.code == "CF-JSON"]
    assert paths == [finding.path for finding in findings]
    assert all("a broker refuses to start" in finding.message for finding in findings)
    assert {Severity.DAMAGE} == {finding.severity for finding in findings}
    assert paths[1:] == _refusals(store)
    assert paths == _repair(store)
    assert paths[1:] == _refusals(store)


@pytest.mark.parametrize("raw", BROKEN.values(), ids=BROKEN)
def test_topics_are_made_anew(raw: bytes, copy_of: Callable[[str], Path]) -> None:
    """Topics follow from the queues: once repaired, a broker starts."""
    store = copy_of(NAME)
    for suffix in ("", ".bak"):
        (store / f"config/topics.json{suffix}").write_bytes(raw)
    assert ["config/topics.json.bak"] == _refusals(store)
    assert [] == _repair(store)
    assert [] == _refusals(store)


def test_zeros_past_the_end(copy_of: Callable[[str], Path]) -> None:
    """Brokers take JSON with zeros past its end, as a crash leaves it, and so does rmqtool."""
    store = copy_of(NAME)
    path = store / "config/topics.json"
    path.write_bytes(path.read_bytes() + bytes(100))
    assert [] == [finding for finding in run(store)[0] if finding.severity is not Severity.NOTE]
    assert [] == _refusals(store)


@pytest.mark.parametrize("level", ["quick", "full"])
def test_topic_is_gone(level: str, copy_of: Callable[[str], Path]) -> None:
    """Queues with messages of a topic that topics.json has lost are damage: nobody finds them."""
    store = copy_of(NAME)
    path = store / "config/topics.json"
    document = parse_object(path.read_bytes())
    del document["topicConfigTable"]["traffic-orders"]
    document["topicConfigTable"]["traffic-delay"]["readQueueNums"] = 1
    document["topicConfigTable"]["traffic-delay"]["writeQueueNums"] = 1
    path.write_text(json.dumps(document))
    findings = [finding for finding in run(store, level)[0] if finding.code == "FS-ORPHAN"]
    assert [("traffic-delay", Severity.WARNING), ("traffic-orders", Severity.DAMAGE)] == sorted(
        (finding.topic or "", finding.severity) for finding in findings
    )


def test_further_queue(pristine: Callable[[str], Path]) -> None:
    """A queue that only gets copies of another topic's messages is worth a note."""
    findings = run(pristine("rocketmq-4.9.3-lmq"), "quick")[0]
    orphans = [
        (finding.topic, finding.severity) for finding in findings if finding.code == "FS-ORPHAN"
    ]
    assert [("lmq-other", Severity.NOTE)] == orphans
