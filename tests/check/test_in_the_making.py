"""Beside a running broker, the newest file may be empty, and a JSON file half written."""

from __future__ import annotations

import json
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from rmqtool.check.state import checkpoint
from rmqtool.check.state.config import BEING_WRITTEN
from rmqtool.cli.main import main
from rmqtool.errors import StoreLocked, Trouble, UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.registry_index import IX_CRASH
from rmqtool.findings.registry_state import CF_JSON, CO_RANGE, CP_AHEAD
from rmqtool.formats.checkpoint import CHECKPOINT
from rmqtool.judge.files import IN_THE_MAKING
from rmqtool.store.config_files import LARGEST_CONFIG
from rmqtool.store.place import Place
from rmqtool.store.tree import open_store
from rmqtool.writing.lock import StoreLock
from tests import plain_store
from tests.check.validation import preceded, run
from tests.stores import fixture_store, held_by_another

if TYPE_CHECKING:
    pass

NAME = "rocketmq-5.3.3-traffic"
SOME = 3
OLD_SECONDS = 120
COMMANDS = (
    "dump STORE --as all --limit 5",
    "validate STORE --format jsonl",
    "validate STORE --level quick --format jsonl",
    "info STORE",
    "doctor STORE",
    "rebuild STORE --check",
    "startup STORE",
    "report STORE --output STORE.html",
)


def _next_file(directory: Path) -> str:
    """Make an empty file where a broker would make its next one."""
    last = plain_store.numbered(directory)[-1]
    path = directory / f"{int(last.name) + last.stat().st_size:020}"
    path.touch()
    return f"{directory.parent.name}/{path.name}"


def _next_index(directory: Path) -> None:
    (directory / f"{int(max(directory.iterdir()).name) + 1000000}").touch()


MAKING: dict[str, Callable[[Path], object]] = {
    "segment": lambda store: _next_file(store / "commitlog"),
    "queue": lambda store: _next_file(store / "consumequeue" / "traffic-orders" / "0"),
    "index": lambda store: _next_index(store / "index"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("making", MAKING)
def test_empty_file(
    making: str, command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is a note, and nothing is damaged, or left out, for it; without a broker it is damage."""
    store = fixture_store(NAME, tmp_path)
    MAKING[making](store)
    words = command.replace("STORE", str(store)).split()
    with held_by_another(store):
        assert 0 == main(words)
    out, said = capfd.readouterr()
    assert "newest records are lost" not in said
    if words[0] == "validate":
        rows = [json.loads(line) for line in out.splitlines()]
        assert {"note"} == {row["severity"] for row in rows}
        told = [row["message"] for row in rows if row["code"] in {"FS-LEN", "IX-LEN"}]
        assert told == [] if making == "index" else told == [IN_THE_MAKING]
        assert 1 == main(words)


def test_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that a broker has emptied to write it is read again; one that stays so is named."""
    store = fixture_store(NAME, tmp_path)
    topics = store / "config" / "topics.json"
    whole = topics.read_bytes()
    looks: list[float] = []
    topics.write_bytes(b"")

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == SOME:
            topics.write_bytes(whole)

    monkeypatch.setattr("rmqtool.store.config_files.time", SimpleNamespace(sleep=sleep))
    with held_by_another(store):
        assert () == open_store(store).config("topics.json").problems
        topics.write_bytes(b"")
        opened = open_store(store)
        assert opened.config("topics.json").is_backup
        count = len(looks)
        assert opened.config("topics.json").is_backup
        assert count == len(looks), "time is up for all files of a store"
    assert open_store(store).config("topics.json").is_backup
    assert count == len(looks), "no broker runs"


@pytest.mark.parametrize("age", [0, OLD_SECONDS])
def test_being_written_for_long(age: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that stays empty, and has a copy, is not checked while it is new; later it is damage."""
    clock = SimpleNamespace(sleep=lambda _: None, time=time.time)
    monkeypatch.setattr("rmqtool.check.state.config.time", clock)
    store = fixture_store(NAME, tmp_path)
    topics = store / "config" / "topics.json"
    topics.with_name("topics.json.bak").write_bytes(topics.read_bytes())
    topics.write_bytes(b"")
    then = time.time() - age
    os.utime(topics, (then, then))
    with held_by_another(store):
        rows, _, summary = run(store)
    (finding,) = [row for row in rows if row.code == CF_JSON]
    assert finding.severity is (Severity.DAMAGE if age else Severity.NOTE)
    assert bool(age) != (("config/topics.json", BEING_WRITTEN) in summary.account.left_out)


def test_consumed_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a consumer commits while the log is read is no offset ahead of its queue."""
    store = fixture_store(NAME, tmp_path)
    offsets = store / "config" / "consumerOffset.json"
    said = open_store(store).config("consumerOffset.json").document
    (queues, *_) = (row for row in said["offsetTable"].values() if row)
    queues[min(queues)] += 10**6

    def commit() -> None:
        offsets.write_text(json.dumps(said), encoding="utf-8")

    monkeypatch.setattr(checkpoint, "check", preceded(commit, checkpoint.check))
    for expected in (0, 1):
        with held_by_another(store):
            rows, _, _ = run(store)
        assert [expected] == [sum(CO_RANGE == row.code for row in rows)]


def test_gone_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that a broker has removed, to put another in its place, is named as not checked."""
    store = fixture_store(NAME, tmp_path)

    def vanishes(place: Place, *_: object) -> bytes:
        if place.name == "topics.json":
            raise UnreadablePath(path=place.name, reason="no such file", trouble=Trouble.MISSING)
        return place.read_whole(LARGEST_CONFIG)

    monkeypatch.setattr("rmqtool.check.state.config._whole", vanishes)
    with held_by_another(store):
        rows, code, summary = run(store)
    assert not code
    assert not [row for row in rows if row.path == "config/topics.json"]
    assert ("config/topics.json", BEING_WRITTEN) in summary.account.left_out


def test_own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under its own lock a repair in place waits for nobody, and takes nothing for half written."""
    store = fixture_store(NAME, tmp_path)
    topics = store / "config" / "topics.json"
    whole = topics.read_bytes()
    topics.with_name("topics.json.bak").write_bytes(whole)
    topics.write_bytes(b"{")
    monkeypatch.setattr("rmqtool.store.config_files.time", SimpleNamespace(sleep=pytest.fail))
    with StoreLock(store):
        assert not open_store(store).lock_held()
        with pytest.raises(StoreLocked), StoreLock(store):
            pass
        assert not open_store(store).lock_held(), "who is refused takes nothing away"
    assert not main(["repair", str(store), "--in-place", "--yes", "--quiet"])
    assert whole == topics.read_bytes()


def test_waits_for_its_file(tmp_path: Path) -> None:
    """The checkpoint may have the time of a message whose file a running broker is making."""
    store = fixture_store(NAME, tmp_path)
    log = plain_store.numbered(store / "commitlog")
    log[-1].unlink()
    newest = max(
        record.integer("store_timestamp")
        for record in plain_store.records(store)
        if record.path in log
    )
    with (store / "checkpoint").open("r+b") as file:
        file.write(struct.pack(">qq", newest + 10_000, newest + 10_000))
    with held_by_another(store):
        assert {Severity.NOTE} == _ahead(store, "physic")
        assert {Severity.DAMAGE} == _ahead(store, "logics"), "queues know no message before the log"
    assert {Severity.DAMAGE} == _ahead(store, "physic")


def test_flushed_after_its_next(tmp_path: Path) -> None:
    """The index file before the newest one is about to be flushed: it is a note beside a broker."""
    store = fixture_store(NAME, tmp_path)
    assert 1 < len(open_store(store).index_files())
    (store / "abort").touch()
    position = CHECKPOINT.positions["index_msg_timestamp"]
    with (store / "checkpoint").open("r+b") as file:
        file.seek(position)
        file.write(struct.pack(">q", 1))

    def severities() -> set[Severity]:
        findings, *_ = run(store)
        return {finding.severity for finding in findings if finding.code == IX_CRASH}

    with held_by_another(store):
        assert {Severity.NOTE} == severities()
    assert Severity.WARNING in severities()


def _ahead(store: Path, time: str) -> set[Severity]:
    findings, *_ = run(store)
    return {
        finding.severity
        for finding in findings
        if finding.code == CP_AHEAD and time in finding.message
    }
