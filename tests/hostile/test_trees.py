"""A directory of stores, and names in a store's configuration, that a stranger made."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rmqtool.cli.main import main
from rmqtool.store import root
from rmqtool.store.config_files import CONFIG_NAMES
from tests.hostile.stranger import NOBODY, SEGMENT, Scene, give

NAMES = (
    "../../../outside/evil", "..", "/etc/passwd", "a/b", "x\0y", "\x1b[31m", "new\nline",
    "topics.json", "n" * 300, "' OR 1=1", "$(touch done)", "",
)  # fmt: skip
DEEP = 40  # directories in each other; no store is looked for so far down


def make_store(root: Path) -> None:
    """Make a store of one blank file."""
    (root / "commitlog").mkdir(parents=True)
    (root / SEGMENT).write_bytes(bytes(4096))


def make_tree(top: Path) -> None:
    """Make stores, and beside them what leads out, leads round, waits, or has an odd name."""
    for name in ("plain", "\x1b[31m\nred", "closed/store"):
        make_store(top / name)
    (top / "link").symlink_to("../../outside")
    (top / "round").symlink_to(".")
    (top / "up").symlink_to("..")
    os.mkfifo(top / "fifo")
    (top / "piped").mkdir()
    for name in ("commitlog", "consumequeue", "config"):
        os.mkfifo(top / "piped" / name)
    (top / "linked").mkdir()
    for name in ("commitlog", "consumequeue", "index"):
        (top / "linked" / name).symlink_to(f"../../../outside/{name}")
    top.joinpath(*["deep"] * DEEP).mkdir(parents=True)
    (top / "closed").chmod(0)


def test_recursive(stage: Scene) -> None:
    """No link is followed on the way to a store, nothing waits, and what is closed is said."""
    brokers = stage.store / "brokers"
    brokers.mkdir()
    make_tree(brokers)
    stage.yield_to_stranger()
    if stage.user == NOBODY:  # the tree is somebody else's
        give(stage.store, 0)
    before = stage.seen()
    answer = stage.run("validate", brokers, "--recursive", "--format", "jsonl")
    assert before == stage.seen()
    rows = {row["store"]: row["verdict"] for row in map(json.loads, answer.out.splitlines())}
    found = [path.removeprefix(f"{brokers}/") for path in rows]
    closed = "closed/store" if stage.user == 0 else "closed"
    stores = ["\x1b[31m\nred", "linked", "plain"]
    assert sorted([*stores, closed]) == sorted({*found} - {"piped"})
    assert 3 == answer.code  # what the links of a store root lead to has no log
    assert ("not read" == rows[f"{brokers}/{closed}"]) == (stage.user != 0)


def test_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Where more directories lie than are looked at, that is a row, and not all was read."""
    for number in range(9):
        make_store(tmp_path / str(number))
    assert main(["validate", str(tmp_path), "--recursive", "--quiet"]) == 0
    monkeypatch.setattr(root, "MOST_LISTED", 5)
    capfd.readouterr()
    assert main(["validate", str(tmp_path), "--recursive", "--quiet"]) == 3
    *stores, last = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert ["sound"] * 4 == [row["verdict"] for row in stores]
    assert (f"{tmp_path}/4", "not read") == (last["store"], last["verdict"])


def test_broker_json(stage: Scene) -> None:
    """Names of topics, groups and files are text in the files of a broker, and nothing else."""
    config = stage.store / "config"
    offsets: dict[str, object] = {
        f"{topic}@{group}": {"0": 1} for topic in NAMES for group in NAMES[:3]
    }
    tables: dict[str, dict[str, dict[str, object]]] = {
        "topics.json": {"topicConfigTable": {name: {"topicName": name} for name in NAMES}},
        "subscriptionGroup.json": {
            "subscriptionGroupTable": {name: {"groupName": name} for name in NAMES}
        },
        "consumerOffset.json": {"offsetTable": offsets},
    }
    for name, table in tables.items():
        (config / name).write_text(json.dumps(table))
    (config / "delayOffset.json").unlink(missing_ok=True)
    (config / "delayOffset.json").symlink_to("../../outside/secret")
    (config / "..evil.json").write_text("{}")
    stage.yield_to_stranger()
    before = stage.seen()
    new = stage.work / "config"
    options = ("--as", "config", "--format", "broker-json", "--output", new)
    answer = stage.run("dump", stage.store, *options)
    assert answer.code in {0, 3}, answer
    assert before == stage.seen()
    assert {"config"} == {path.name for path in stage.work.iterdir()}
    written = {path.name: json.loads(path.read_text()) for path in new.iterdir()}
    assert written.keys() <= {*CONFIG_NAMES}
    for name, table in tables.items():
        for key, values in table.items():
            assert {*values} == {*written[name][key]}
