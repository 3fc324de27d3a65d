"""Beside a running broker, the newest file may be empty, and a JSON file half written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqtool.check.layout import IN_THE_MAKING
from rmqtool.cli.main import main
from rmqtool.store.tree import open_store
from rmqtool.writing.lock import StoreLock
from tests import plain_store
from tests.stores import fixture_store

NAME = "rocketmq-5.3.3-traffic"
SOME = 3
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
    with StoreLock(store):
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

    monkeypatch.setattr("rmqtool.store.config_files.time.sleep", sleep)
    with StoreLock(store):
        assert () == open_store(store).config("topics.json").problems
        topics.write_bytes(b"")
        opened = open_store(store)
        assert opened.config("topics.json").is_backup
        count = len(looks)
        assert opened.config("topics.json").is_backup
        assert count == len(looks), "time is up for all files of a store"
    assert open_store(store).config("topics.json").is_backup
    assert count == len(looks), "no broker runs"
