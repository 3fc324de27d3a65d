"""Queues that end before the log does, in the store of a broker that was killed."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from rmqtool import repair
from rmqtool.check.inspection import Inspection
from rmqtool.check.log.facts import LogFacts
from rmqtool.check.options import CheckLevel, ValidateOptions
from rmqtool.check.queues import consume_queue
from rmqtool.check.queues.queue_units import UnitJudge
from rmqtool.check.validate import validate
from rmqtool.findings.catalogue import Severity
from rmqtool.startup import predict
from rmqtool.store.record_heads import LogReader
from rmqtool.store.tree import open_store
from tests import inflict, plain_store
from tests.check.validation import run
from tests.stores import broker_conf, fixture_names, fixture_store, held_by_another

UNIT = plain_store.UNIT.size
TRAFFIC: Final = "rocketmq-5.3.3-traffic"
NAMES: Final = [name for name in fixture_names() if name.endswith(("-traffic", "-batch-queue"))]


@pytest.mark.parametrize("version", ["4.9.3", "5.3.3", "5.5.0"])
@pytest.mark.parametrize(("kept", "is_lost"), [(2, True), (-2, False)])
def test_zeroed_from(version: str, kept: int, is_lost: bool, tmp_path: Path) -> None:
    """Units that no recovery writes again are damage: the next ones would take their places."""
    name = f"rocketmq-{version}-traffic"
    root = fixture_store(name, tmp_path)
    queue = root / "consumequeue" / "traffic-orders" / "1"
    count = len(plain_store.units(queue))
    for path in plain_store.numbered(queue):
        begin = max((kept % count) * UNIT - int(path.name), 0)
        inflict.write_at(path, begin, bytes(max(path.stat().st_size - begin, 0)))
    (root / "abort").touch()
    conf = str(broker_conf(name))
    findings = validate(ValidateOptions(root, broker_conf=conf, level=CheckLevel.FULL))
    said = {
        (finding.code, finding.severity) for finding in findings if finding.code.startswith("CQ")
    }
    fates = predict(open_store(root, conf), version).queues
    assert is_lost is any(finding.units_shifted for finding in fates)
    assert {("CQ-GAP", Severity.DAMAGE) if is_lost else ("CQ-LAG", Severity.NOTE)} == said


def test_cut_in_mid_log(tmp_path: Path) -> None:
    """A queue that ends before the file that recovery begins with is damage: 5.5.0 on 4.9.3's."""
    name = "rocketmq-4.9.3-expired"
    root = fixture_store(name, tmp_path)
    queue = root / "consumequeue" / "expired-orders" / "3"
    inflict.write_at(queue / f"{4000:020}", 960, bytes(40))
    inflict.write_at(queue / f"{5000:020}", 0, bytes(1000))
    (root / "abort").touch()
    said = _said(root, name, "5.5.0")
    prediction = predict(open_store(root, str(broker_conf(name))), "5.5.0")
    assert (prediction.unreachable, said) == (45, {("CQ-GAP", Severity.DAMAGE)})


@pytest.mark.parametrize("is_killed", [False, True])
def test_first_file_lost(is_killed: bool, tmp_path: Path) -> None:
    """Records before the first file of their queue, which no start dispatches again."""
    name = "rocketmq-5.5.0-crash"
    root = fixture_store(name, tmp_path)
    (root / "consumequeue" / "crash-orders" / "3" / f"{0:020}").unlink()
    if not is_killed:
        (root / "abort").unlink()
    assert predict(open_store(root, str(broker_conf(name))), "5.5.0").unreachable == 100
    assert _said(root, name) == {("CQ-GAP", Severity.DAMAGE)}


@pytest.mark.parametrize("is_gone", [True, False])
@pytest.mark.parametrize("has_crashed", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_next_start(name: str, tmp_path: Path, *, has_crashed: bool, is_gone: bool) -> None:
    """What the next start is said to write, it writes: no message is out of reach then."""
    version = name.split("-")[1]
    sound, store = fixture_store(name, tmp_path / "sound"), tmp_path / "store"
    conf = str(broker_conf(name))
    (sound / "abort").unlink(missing_ok=True)
    if has_crashed:
        (sound / "abort").touch()
    judged = 0
    for queue in sorted((sound / "consumequeue").glob("*/*")):
        shutil.copytree(sound, store)
        if is_gone:
            shutil.rmtree(store / queue.relative_to(sound))
        else:
            _zero_last(store / queue.relative_to(sound))
        options = ValidateOptions(store, broker_conf=conf, broker_version=version)
        codes = {str(finding.code) for finding in validate(options)}
        fate = predict(open_store(store, conf), version)
        is_lost = fate.unreachable > 0 or any(queue.units_shifted for queue in fate.queues)
        if {"CQ-LAG", "CQ-GAP"} & codes:
            judged += 1
            assert is_lost is ("CQ-GAP" in codes), queue
        shutil.rmtree(store)
    assert judged


def _zero_last(queue: Path) -> None:
    """Zero the last unit of a queue."""
    position = (len(plain_store.units(queue)) - 1) * UNIT
    for path in plain_store.numbered(queue):
        if int(path.name) <= position < int(path.name) + path.stat().st_size:
            inflict.write_at(path, position - int(path.name), bytes(UNIT))


def test_empty_checkpoint(tmp_path: Path) -> None:
    """A checkpoint without a byte is one of zeros, as brokers extend it; all is judged."""
    root = fixture_store(TRAFFIC, tmp_path)
    (root / "abort").touch()
    (root / "checkpoint").write_bytes(b"")
    queue = root / "consumequeue" / "traffic-orders" / "1"
    for path in plain_store.numbered(queue)[1:]:
        inflict.write_at(path, 0, bytes(path.stat().st_size))
    assert "CP-LEN" in {finding.code for finding in validate(ValidateOptions(root))}


def test_lost_queue(tmp_path: Path) -> None:
    """After a crash, a queue that is gone comes back from the last file only: that is damage."""
    name = "rocketmq-5.3.3-traffic"
    root = fixture_store(name, tmp_path)
    shutil.rmtree(root / "consumequeue" / "traffic-orders" / "0")
    (root / "abort").touch()
    assert _said(root, name) == {("CQ-GAP", Severity.DAMAGE)}


@pytest.mark.parametrize(
    ("attributes", "is_lost"),
    [
        ({}, True),
        ({"message.type": "LITE"}, True),
        ({"message.type": "LITE", "lite.topic.expiration": "-1"}, True),
        ({"message.type": "LITE", "lite.topic.expiration": "30"}, False),
        ({"message.type": "NORMAL", "lite.topic.expiration": "30"}, True),
    ],
)
def test_lite_queue(attributes: dict[str, str], is_lost: bool, tmp_path: Path) -> None:
    """Brokers delete the queue of a lite topic only where its parent topic has an expiration."""
    name = "rocketmq-5.5.0-lmq"
    root = fixture_store(name, tmp_path)
    shutil.rmtree(root / "consumequeue" / "%LMQ%$lmq-parent$room-1")
    path = root / "config" / "topics.json"
    document = json.loads(path.read_bytes())
    document["topicConfigTable"]["lmq-parent"]["attributes"] = attributes
    path.write_text(json.dumps(document))
    conf = str(broker_conf(name))
    lost = predict(open_store(root, conf), "5.5.0").light.messages
    code = ("CQ-LMQ", Severity.DAMAGE) if is_lost else ("CQ-GAP", Severity.NOTE)
    assert (lost, _said(root, name)) == (7 * is_lost, {code})


@pytest.mark.parametrize("is_named", [True, False])
def test_topic_never_configured(is_named: bool, tmp_path: Path) -> None:
    """A queue that records of another topic name is lost, and made again; not a deleted one."""
    name = "rocketmq-4.9.3-lmq"
    root = fixture_store(name, tmp_path)
    conf = str(broker_conf(name))
    lost = "lmq-other/0" if is_named else "lmq-parent/0"
    shutil.rmtree(root / "consumequeue" / Path(lost).parts[0])
    path = root / "config" / "topics.json"
    document = json.loads(path.read_bytes())
    document["topicConfigTable"].pop("lmq-parent")
    path.write_text(json.dumps(document))
    severity = Severity.DAMAGE if is_named else Severity.NOTE
    assert _said(root, name) == {("CQ-GAP", severity)}
    assert predict(open_store(root, conf), "4.9.3").light.messages == 24 * is_named
    repair.apply(repair.plan(root, broker_conf=conf, broker_version="4.9.3"), in_place=True)
    assert (root / "consumequeue" / lost).exists() is is_named


def _said(root: Path, name: str, release: str | None = None) -> set[tuple[str, Severity]]:
    """Give what is said of queues but for expired units."""
    options = ValidateOptions(
        root, broker_conf=str(broker_conf(name)), broker_version=release, level=CheckLevel.FULL
    )
    found = {(str(finding.code), finding.severity) for finding in validate(options)}
    return {
        finding for finding in found if finding[0].startswith("CQ") and finding[0] != "CQ-EXPIRED"
    }


def test_wanted_past_the_end(tmp_path: Path) -> None:
    """Noise in mid-queue is no queue that is ahead of the log: its records are there."""
    name = "rocketmq-5.3.3-ipv6"
    root = fixture_store(name, tmp_path)
    path = plain_store.numbered(root / "consumequeue" / "ipv6-orders" / "0")[0]
    inflict.write_at(path, 28 * UNIT, plain_store.UNIT.pack(1 << 46, 320, 7))
    (root / "abort").touch()
    options = ValidateOptions(root, broker_conf=str(broker_conf(name)), level=CheckLevel.FULL)
    said = {
        (finding.code, finding.severity)
        for finding in validate(options)
        if finding.code.startswith("CQ")
    }
    assert {("CQ-RANGE", Severity.DAMAGE)} == said


def test_past_the_end_in_mid_queue(tmp_path: Path) -> None:
    """Nobody wants the unit of a lost record; recovery cuts none before a sound one all the same.

    Who pulls it is led past all that the log has.
    """
    name = "rocketmq-4.9.3-ext"
    root = fixture_store(name, tmp_path)
    queue = root / "consumequeue" / "ext-orders" / "0"
    inflict.flip_bits(
        root / "commitlog" / f"{0:020}", plain_store.units(queue)[3].physical_offset + 4, 1
    )
    repair.apply(repair.plan(root, broker_conf=str(broker_conf(name))), in_place=True)
    whole = _readable(root, name)
    path = plain_store.numbered(queue)[0]
    inflict.write_at(path, 3 * UNIT, plain_store.UNIT.pack(1 << 41, 262, 7))
    (root / "abort").touch()
    assert _readable(root, name) < whole
    assert ("CQ-RANGE", Severity.DAMAGE) in _said(root, name)
    repair.apply(repair.plan(root, broker_conf=str(broker_conf(name))), in_place=True)
    assert not {severity for _, severity in _said(root, name)} - {Severity.NOTE}
    assert whole == _readable(root, name)


def _readable(root: Path, name: str) -> int:
    """Count what consumers get of a queue after the next start."""
    fates = predict(open_store(root, str(broker_conf(name))), "4.9.3").queues
    (count,) = [it.readable for it in fates if (it.topic, it.queue_id) == ("ext-orders", 0)]
    return count


@pytest.mark.parametrize("is_live", [True, False])
def test_made_meanwhile(
    quick_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_live: bool
) -> None:
    """Units that a running broker makes after they were compared are right; else they are odd."""
    store = fixture_store(TRAFFIC, quick_path)
    file = max((store / "consumequeue/traffic-orders/1").iterdir())
    content = file.read_bytes()
    used = len(content.rstrip(b"\0")) // 20 * 20
    file.write_bytes(content[: used - 60] + bytes(len(content) - used + 60))

    def make(inspection: Inspection, facts: LogFacts, log: LogReader) -> UnitJudge:
        file.write_bytes(content)
        return UnitJudge(inspection, facts, log)

    monkeypatch.setattr(consume_queue, "UnitJudge", make)
    with ExitStack() as stack:
        if is_live:
            stack.enter_context(held_by_another(str(store)))
        findings, code, _ = run(store, conf=broker_conf(TRAFFIC))
    odd = [finding for finding in findings if str(finding.code).startswith("CQ-")]
    assert (not odd, code) == (is_live, int(not is_live))
