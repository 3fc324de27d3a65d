"""Each command gives one number for what a store has lost, before a repair and after it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rmqtool.cli.main import main as rmqtool
from rmqtool.repair.options import RepairOptions
from rmqtool.repair.planning import examine
from tests import inflict, plain_store
from tests.stores import broker_conf, fixture_store
from tests.tour import make as make_tour

BATCHES = "rocketmq-5.3.3-batch-queue"


def said(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[list[dict[str, object]], str]:
    """Run a command; give its rows and what it says on stderr."""
    rmqtool([*words])
    out, err = capfd.readouterr()
    return [json.loads(line) for line in out.splitlines()], err


def numbers(
    capfd: pytest.CaptureFixture[str], store: Path, conf: str | None = None
) -> dict[str, object]:
    """Ask each command that tells how many messages a store has lost."""
    more = () if conf is None else ("--broker-conf", conf)
    (verdict,), _ = said(capfd, "startup", str(store), "--section", "verdict", *more)
    rows, _ = said(capfd, "doctor", str(store), *more)
    diagnosis = next(row for row in rows if row["kind"] == "diagnosis")
    listed = [row for row in rows if row["kind"] == "lost_messages"]
    _, validated = said(capfd, "validate", str(store), *more)
    account = examine(RepairOptions(str(store), broker_conf=conf)).account
    (sentence,) = [line for line in validated.splitlines() if " lost: rmqtool doctor " in line]
    _, at_a_glance = said(capfd, "info", str(store), *more)
    counted = f"lost messages are not counted: rmqtool doctor {store} counts them"
    assert counted in at_a_glance, at_a_glance  # nothing is scanned, so it has no number to give
    return {
        "startup": verdict["messages_missing"],
        "doctor": diagnosis["messages_missing"],
        "doctor's list": sum(int(str(row["messages"] or 0)) for row in listed),
        "validate": int(sentence.split()[1].replace(",", "")),
        "plan": account and account.messages,
    }


def test_tour(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The store of the README's tour has lost four messages; a queue that led to one is gone."""
    store, repaired = make_tour(tmp_path), tmp_path / "repaired"
    before = numbers(capfd, store)
    assert {4} == set(before.values()), before
    assert 0 == rmqtool(["repair", str(store), "--output", str(repaired)])
    capfd.readouterr()
    after = numbers(capfd, repaired)
    assert {4} == set(after.values()), after


def test_batches(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A record of a batch queue counts for all of its messages."""
    store, repaired = fixture_store(BATCHES, tmp_path), tmp_path / "repaired"
    conf = str(broker_conf(BATCHES))
    batches = [
        record
        for record in plain_store.records(store)
        if record.topic == "batch-queue" and int(record.properties.get("INNER_NUM", "1")) > 1
    ]
    gone = batches[len(batches) // 2]
    inflict.write_at(gone.path, gone.position, bytes(gone.size))
    count = int(gone.properties["INNER_NUM"])
    before = numbers(capfd, store, conf)
    assert {count} == set(before.values()), before
    words = ["repair", str(store), "--output", str(repaired), "--broker-conf", conf]
    assert 0 == rmqtool(words)
    capfd.readouterr()
    after = numbers(capfd, repaired, conf)
    assert {count} == set(after.values()), after


def test_bridges_are_no_messages(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A repaired store has no message that the broken one lacks, and lends it none."""
    store, repaired = make_tour(tmp_path), tmp_path / "repaired"
    assert 0 == rmqtool(["repair", str(store), "--output", str(repaired)])
    capfd.readouterr()
    rows, words = said(capfd, "diff", str(store), str(repaired))
    verdict = next(row for row in rows if row["section"] == "verdict")
    assert (1, 0) == (verdict["messages_only_a"], verdict["messages_only_b"])
    assert "B has 1 bridge of a repair in place of lost messages" in words
    assert "repair" not in words.partition("next: ")[2]


def test_misdirected_write(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Bytes of units that a disk has put a few bytes beside their place tell of no lost message."""
    name = "rocketmq-5.3.3-expired"
    store, conf = fixture_store(name, tmp_path), str(broker_conf(name))
    path = store / "consumequeue/expired-idle/0/00000000000000000000"
    raw = bytearray(path.read_bytes())
    raw[512 : 512 + 488] = raw[:488]
    path.write_bytes(raw)
    more = ("--broker-conf", conf)
    (verdict,), _ = said(capfd, "startup", str(store), "--section", "verdict", *more)
    rows, _ = said(capfd, "doctor", str(store), *more)
    assert verdict["messages_missing"] == 0
    assert not [row for row in rows if row["kind"] == "lost_messages"]
    assert [row for row in rows if row["kind"] == "findings" and row["severity"] == "damage"]


def test_queue_file_that_stops_the_broker(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A file of units that stops the broker by its length tells of lost messages, too."""
    name = "rocketmq-4.9.3-ext"
    store, more = fixture_store(name, tmp_path), ("--broker-conf", str(broker_conf(name)))
    records = [
        record for record in plain_store.records(store) if record.position + record.size > 76288
    ]
    log = store / "commitlog/00000000000000000000"
    raw = log.read_bytes()
    log.write_bytes(raw[:76288] + bytes(len(raw) - 76288))
    (store / "abort").touch()
    with (store / "consumequeue/ext-orders/1/00000000000000002000").open("ab") as file:
        file.write(bytes(4096))
    (verdict,), _ = said(capfd, "startup", str(store), "--section", "verdict", *more)
    rows, _ = said(capfd, "doctor", str(store), *more)
    assert not verdict["starts"]
    assert len(records) == verdict["messages_missing"]
    assert len(records) == len([row for row in rows if row["kind"] == "lost_messages"])


def test_files_exchanged(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Messages in files that lie under each other's names are not lost, and not listed as such."""
    name = "rocketmq-5.5.0-crash"
    store, conf = fixture_store(name, tmp_path), str(broker_conf(name))
    one, two = inflict.segment_at(store, 0), inflict.segment_at(store, -1)
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    rows, _ = said(capfd, "doctor", str(store), "--broker-conf", conf)
    (diagnosis,) = [row for row in rows if row["kind"] == "diagnosis"]
    assert diagnosis["messages_missing"] == 0
    assert {"doubtful"} == {row["fate"] for row in rows if row["kind"] == "lost_messages"}


@pytest.mark.parametrize("bit", [0, 30])
def test_damaged_queue_id(tmp_path: Path, capfd: pytest.CaptureFixture[str], bit: int) -> None:
    """A record that names another queue is a lost message of neither."""
    name = "rocketmq-5.3.3-ipv6"
    store, more = fixture_store(name, tmp_path), ("--broker-conf", str(broker_conf(name)))
    inflict.flip_field("queue_id", byte=-1 - bit // 8, bit=bit % 8)(store)
    (verdict,), _ = said(capfd, "startup", str(store), "--section", "verdict", *more)
    assert verdict["messages_missing"] == 0
