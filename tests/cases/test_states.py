"""States that users were in: what each command must answer, and what no repair may do to them."""

from __future__ import annotations

import json
import os
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

from rmqtool import rebuild, repair
from rmqtool.check.index import index_set
from rmqtool.check.options import ValidateOptions
from rmqtool.check.validate import validate
from rmqtool.doctor.advice import steps_for
from rmqtool.doctor.examination import examine_store
from rmqtool.doctor.report import exit_code
from rmqtool.errors import NotSound
from rmqtool.findings.catalogue import Severity
from rmqtool.messages.extract import ExtractRun, sentences
from rmqtool.messages.options import ExtractOptions
from rmqtool.rebuild.options import RebuildOptions, Target
from rmqtool.rebuild.work import rebuild as rebuild_all
from rmqtool.relog.options import LogOptions, Positions, QueueOffsets
from rmqtool.relog.sources import source_of
from rmqtool.relog.work import LogRun
from rmqtool.repair.options import RepairOptions
from rmqtool.startup import predict
from rmqtool.store.tree import open_store
from tests import inflict, plain_store
from tests.repair.repaired import Broken, cost_of, lost_of, traces
from tests.stores import broker_conf, fixture_store

TRAFFIC = "rocketmq-4.9.3-traffic"
QUEUE = ("traffic-orders", 1)


@pytest.fixture
def store(tmp_path: Path) -> Broken:
    """Give a sound store of a 4.9.3 broker with its configuration."""
    conf = tmp_path / "broker.conf"
    shutil.copy(broker_conf(TRAFFIC), conf)
    return Broken(fixture_store(TRAFFIC, tmp_path), str(conf))


def set_conf(store: Broken, **keys: object) -> None:
    """Append keys to the configuration: the last line of a key counts."""
    with Path(store.conf).open("a", encoding="utf-8") as file:
        file.writelines(f"\n{key}={value}" for key, value in keys.items())


def test_queue_offsets_too_low(store: Broken) -> None:
    """Records carry a queue offset that is too low, their units do not: nothing is written over.

    By the numbers of the records nine messages would be out of reach.
    """
    first, *others = plain_store.segments(store.root)
    for record in plain_store.records(store.root):
        if (record.topic, record.integer("queue_id")) == QUEUE and record.path in others:
            position, _ = record.places()["queue_offset"]
            number = record.integer("queue_offset") - 9
            inflict.write_at(record.path, record.position + position, struct.pack(">q", number))
    assert first.is_file()
    before = cost_of(store.root, store.conf, store.version)
    assert (False, 0) == before
    plan = store.plan()
    assert [] == plan.edits
    (left,) = plan.left
    assert ("CQ-SHIFT", True) == (str(left.code), "do not rebuild it" in left.why)
    (finding,) = store.findings()
    assert "do not rebuild this queue, because 9 messages would be out of reach" in finding.repair
    files = traces(store.root)
    with pytest.raises(NotSound, match="9 messages of topic traffic-orders queue 1 would be out"):
        rebuild.consume_queues(store.root, in_place=True, broker_conf=store.conf)
    assert files == traces(store.root)


def test_length_of_segments_changed(store: Broken) -> None:
    """The configured length was doubled: the configuration is named, and no file leaves."""
    set_conf(store, mappedFileSizeCommitLog=262144)
    os.truncate(plain_store.segments(store.root)[-1], 262144)
    records = plain_store.records(store.root)
    seen = examine_store(RepairOptions(str(store.root), broker_conf=store.conf))
    (step, *_) = steps_for(seen)
    assert "mappedFileSizeCommitLog=262144" in step.cause
    assert "mappedFileSizeCommitLog=131072" in step.command
    assert not any("out of the store" in step.advice for step in steps_for(seen))
    set_conf(store, mappedFileSizeCommitLog=131072)
    repair.apply(store.plan(), in_place=True)
    assert ([], []) == (store.findings(), store.plan().edits)
    assert records == plain_store.records(store.root)


def test_log_rebuilt_after_a_loss(store: Broken, tmp_path: Path) -> None:
    """What a repair bridged stays lost in a new log, which is sound whatever is asked for."""
    log = plain_store.segments(store.root)
    inflict.write_at(log[2], 40960, log[0].read_bytes()[20480:36864])
    repair.apply(store.plan(), in_place=True)
    assert [] == store.findings()
    intact = {record.raw for record in plain_store.records(store.root) if record.topic != "rmqtool"}
    for positions in Positions:
        for numbering in QueueOffsets:
            target = tmp_path / f"{positions}-{numbering}"
            LogRun(
                LogOptions(
                    (str(store.root),),
                    str(target),
                    positions=positions,
                    queue_offsets=numbering,
                    broker_conf=store.conf,
                )
            ).run()
            new = Broken(target, store.conf)
            assert ([], []) == (new.findings(), new.plan().edits), (positions, numbering)
            if numbering is QueueOffsets.KEEP:
                count = sum(record.topic != "rmqtool" for record in plain_store.records(target))
                assert len(intact) == count


@pytest.mark.parametrize(
    ("names", "codes", "costs"),
    [
        ((), {"CF-GONE"}, (1250, 17, 2)),
        (("topics.json",), {"CF-TOPICS"}, (1250, 0, 0)),
        (("consumerOffset.json", "delayOffset.json"), {"CO-GONE", "DO-GONE"}, (0, 17, 4)),
    ],
    ids=["config-dir-missing", "topics-json-missing", "offsets-missing"],
)
def test_configuration_missing(
    store: Broken, names: tuple[str, ...], codes: set[str], costs: tuple[int, int, int]
) -> None:
    """What is missing is damage, has a price, and comes back as far as the log proves it."""
    records = plain_store.records(store.root)
    if not names:
        shutil.rmtree(store.root / "config")
    for path in [path for name in names for path in store.root.glob(f"config/{name}*")]:
        path.unlink()
    release = "4.9.3"  # of which nothing tells without the configuration
    assert codes == {str(finding.code) for finding in store.findings()}
    prediction = predict(open_store(store.root, store.conf), release)
    steps = {step.step: step.count for step in prediction.later_steps}
    counted = prediction.unrouted.messages, steps.get("repeat", 0), steps.get("start_over", 0)
    assert (costs, True, False) == (counted, prediction.starts, prediction.is_whole)
    seen = examine_store(RepairOptions(str(store.root), release, broker_conf=store.conf))
    (step, *_) = steps_for(seen)
    assert "--reset-config" in step.command
    assert step.consequence.startswith("starting it now costs: ")
    plan = repair.plan(store.root, broker_conf=store.conf, broker_version=release)
    assert ([], codes) == (plan.edits, {str(left.code) for left in plan.left})
    assert all("--reset-config" in left.why for left in plan.left)
    plan = repair.plan(
        store.root, broker_conf=store.conf, broker_version=release, reset_config=True
    )
    assert all(edit.lost for edit in plan.edits)
    repair.apply(plan, in_place=True)
    assert [] == store.findings()
    assert predict(open_store(store.root, store.conf), release).is_whole
    assert records == plain_store.records(store.root)


@pytest.mark.parametrize("part", ["commitlog", "consumequeue"])
def test_part_of_a_store(store: Broken, part: str) -> None:
    """A part of a store has no configuration, and lacks none."""
    shutil.rmtree(store.root / "config")
    options = ValidateOptions(store.root / part, broker_conf=store.conf)
    assert [] == [finding for finding in validate(options) if finding.severity is Severity.DAMAGE]


def test_loss_is_not_forgotten(store: Broken) -> None:
    """What was lost stays lost when it is bridged: 16 KiB of zeros in the log."""
    log, begin, end = plain_store.segments(store.root)[1], 40960, 57344
    gone = {
        (record.topic, record.integer("queue_id"), record.integer("queue_offset"))
        for record in plain_store.records(store.root)
        if record.path == log and record.position < end and begin < record.position + record.size
        if record.transaction in {0, 8}
    }
    assert 50 < len(gone)
    inflict.write_at(log, begin, bytes(end - begin))
    assert gone == lost_of(store.root, store.conf, store.version)
    assert f"{len(gone)} messages are already lost" in " ".join(said_by_extract(store))
    repair.apply(store.plan(), in_place=True)
    assert gone == lost_of(store.root, store.conf, store.version)
    assert f"{len(gone)} messages are already lost" in " ".join(said_by_extract(store))
    seen = examine_store(RepairOptions(str(store.root), broker_conf=store.conf))
    assert (len(gone), 0, []) == (seen.missing, exit_code(seen), store.findings())


def said_by_extract(store: Broken) -> list[str]:
    """Extract all of a store, and give what is said of it."""
    output = store.root.parent / "messages.jsonl"
    output.unlink(missing_ok=True)
    run = ExtractRun(ExtractOptions((str(store.root),), str(output), broker_conf=store.conf))
    return list(sentences(run.run(), None))


def test_fewer_queues_to_read(store: Broken) -> None:
    """Producers write to queues 2 and 3, and consumers may read 0 and 1: a warning names them."""
    path = store.root / "config" / "topics.json"
    document = json.loads(path.read_text())
    document["topicConfigTable"][QUEUE[0]]["readQueueNums"] = 2
    path.write_text(json.dumps(document))
    (finding,) = store.findings()
    assert ("CF-QUEUES", "warning") == (str(finding.code), str(finding.severity))
    assert "queues 2 to 3 of topic" in finding.message


def put_from(other: Path, store: Broken, *paths: str) -> None:
    """Put files of another store into the place of those of one."""
    for path in paths:
        into = store.root / path
        if into.is_dir():
            shutil.rmtree(into)
            shutil.copytree(other / path, into)
        else:
            shutil.copy2(other / path, into)


def test_index_of_another_log(store: Broken, tmp_path: Path) -> None:
    """One finding a file says what it is, and one command ends it."""
    (tmp_path / "other").mkdir()
    put_from(fixture_store("rocketmq-5.5.0-traffic", tmp_path / "other"), store, "index")
    findings = [finding for finding in store.findings() if finding.severity is Severity.DAMAGE]
    files = sorted(path.name for path in (store.root / "index").iterdir())
    assert [("IX-KEY", f"index/{name}") for name in files] == [
        (finding.code, finding.path) for finding in findings
    ]
    *within, past = [finding.message for finding in findings]
    assert all("the index of another log" in message for message in within)
    assert "entries point past the end of the commitlog" in past
    repair.apply(store.plan(), in_place=True)
    assert [] == store.findings()


def test_large_index_of_another_log(
    store: Broken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits is bounded, and the first entries decide: the answers are the same."""
    (tmp_path / "other").mkdir()
    sound = fixture_store("rocketmq-5.5.0-traffic", tmp_path / "other")
    inflict.write_at(
        min((store.root / "index").iterdir()), 2100, np.random.default_rng(1).bytes(2000)
    )
    damaged = store.findings()
    monkeypatch.setattr(index_set, "MOST_HELD", 100)
    assert damaged == store.findings()
    put_from(sound, store, "index")
    findings = [finding for finding in store.findings() if finding.severity is Severity.DAMAGE]
    assert len(list((store.root / "index").iterdir())) == len(findings)
    assert "the index of another log" in findings[0].message


def test_file_of_another_broker(store: Broken, tmp_path: Path) -> None:
    """One finding says it, its messages are none of this broker's; what it displaced is lost."""
    second = plain_store.segments(store.root)[1]
    name = second.relative_to(store.root).as_posix()
    gone = {
        (record.topic, record.integer("queue_id"), record.integer("queue_offset"))
        for record in plain_store.records(store.root)
        if record.path == second and record.transaction in {0, 8}
    }
    (tmp_path / "other").mkdir()
    put_from(fixture_store("rocketmq-5.5.0-traffic", tmp_path / "other"), store, name)
    findings = [finding for finding in store.findings() if finding.severity is not Severity.NOTE]
    assert [("CL-FOREIGN", name)] == [(str(finding.code), finding.path) for finding in findings]
    assert gone == lost_of(store.root, store.conf, store.version)
    seen = examine_store(RepairOptions(str(store.root), broker_conf=store.conf))
    (step,) = steps_for(seen)
    assert (step.command, step.cause.partition(":")[0]) == ("", name)
    assert "put back the broker's own file" in step.advice
    assert [] == store.plan().edits
    new = str(tmp_path / "new")
    for target in Target:
        with pytest.raises(NotSound, match="another broker"):
            rebuild_all(RebuildOptions(str(store.root), target=target, in_place=True))
        with pytest.raises(NotSound, match="another broker"):
            rebuild_all(RebuildOptions(str(store.root), target=target, output=new))
    with pytest.raises(NotSound, match="another broker"):
        source_of(str(store.root), store.conf)
    assert not (tmp_path / "new").exists()
    second.rename(tmp_path / "aside")
    plan = repair.plan(store.root, broker_conf=store.conf, bridge_missing=True)
    repair.apply(plan, in_place=True)
    assert not [finding for finding in store.findings() if finding.severity is Severity.DAMAGE]
    assert gone == lost_of(store.root, store.conf, store.version)
