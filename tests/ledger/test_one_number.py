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
