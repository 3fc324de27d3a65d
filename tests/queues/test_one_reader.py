"""What a unit is, and what the files of queues hold, is asked of `queues` and of nobody else."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from rmqtool.cli.main import main
from rmqtool.queues import short
from rmqtool.queues.lone_queues import LoneQueues, lone_queues
from rmqtool.store.place import OpenFile, Place
from tests.imports import modules
from tests.stores import fixture_store

FILES = ("consumequeue", "batchconsumequeue")
# Others that open such a file, and why they may.
OTHERS = {
    "rmqtool.startup.files": "the broker's mapped files, which change while it starts",
    "rmqtool.tables.inputs": "dump shows a file of units as it lies on the disk",
}
PLACES = ("rmqtool.store.", "rmqtool.repair.edited_place")  # the latter: files as edits leave them
COMPARING = {
    "rmqtool.formats.consume_queue": "where the value is declared",
    "rmqtool.queues.kinds": "the classifier",
    "rmqtool.store.content": "recognises a file without its place by its first units",
}
BLANK = {"PRE_BLANK_SIZE", "is_pre_blank"}
COMMANDS = [
    ["validate"],
    ["validate", "--level", "quick"],
    ["info"],
    ["startup", "--broker-version", "5.3.3"],
    ["repair"],
    ["rebuild", "--check"],
    ["query", "--topic", "TOPIC", "--queue", "0", "--queue-offset", "3"],
    ["query", "--topic", "TOPIC", "--time", "2026-11-21T03:00:00Z", "--like-broker", "4.9.3"],
    ["dump", "--as", "consume-queue"],
    ["dump", "--as", "batch-queue"],
]
STORES = {
    "rocketmq-5.3.3-traffic": "traffic-orders",
    "rocketmq-5.3.3-lmq": "%LMQ%home-1",
    "rocketmq-5.3.3-batch-queue": "batch-queue",
}


def test_one_classifier() -> None:
    """Only the classifier compares with the values of a pre-blank."""
    assert COMPARING.keys() >= {
        name
        for name, tree in modules()
        for node in ast.walk(tree)
        if getattr(node, "attr", getattr(node, "id", "")) in BLANK
    }


@pytest.mark.parametrize("name", STORES)
def test_one_reader(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whatever a command opens of a queue is opened by `queues`, and each reads some."""
    root = fixture_store(name, tmp_path)
    prefixes = tuple(f"{root}/{directory}/" for directory in FILES)
    openers: list[str] = []
    plain, lone = Place.open, lone_queues

    def note(location: str) -> None:
        if location.startswith(prefixes):
            openers.append(next(who for who in callers() if not who.startswith(PLACES)))

    def noting(place: Place) -> OpenFile:
        note(place.location)
        return plain(place)

    def noting_lone(places: Sequence[Place], length: int, jobs: int | None) -> Iterator[LoneQueues]:
        for place in places:
            note(f"{place.location}/")
        return lone(places, length, jobs)

    monkeypatch.setattr(Place, "open", noting)
    monkeypatch.setattr(Place, "open_listed", noting)
    monkeypatch.setattr(short, "lone_queues", noting_lone)
    silent = []
    for command, *options in COMMANDS:
        before = len(openers)
        words = [STORES[name] if word == "TOPIC" else word for word in options]
        assert main([command, str(root), *words, "--format", "jsonl"]) in {0, 1}
        if len(openers) == before:
            silent.append(" ".join([command, *options]))
    capfd.readouterr()
    assert set() == {one for one in openers if not one.startswith("rmqtool.queues.")} - set(OTHERS)
    assert set(OTHERS) <= set(openers)
    assert 2 >= len(silent), silent


def callers() -> Iterator[str]:
    """Give the modules of the package that led here, the nearest first."""
    frame = inspect.currentframe()
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("rmqtool."):
            yield module
        frame = frame.f_back
