"""What can be seen of a walk from outside: each line is false before it and true after it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from tests import inflict
from tests.damage_rocksdb import CLEAN, POP, change_unit
from tests.rocksdb import add_family, edit
from tests.stores import fixture_store

TRAFFIC: Final = "rocketmq-5.3.3-traffic"
BATCHES: Final = "rocketmq-5.3.3-batch-queue"
CHANGED: Final = "5.5.1"  # the release whose rule changes
UNCHANGED: Final = ("4.9.3", "5.1.4", "5.2.0", "5.3.3", "5.4.0", "5.5.0")
EPOCH_AT: Final = 48  # of the checkpoint: where its fields end today
EPOCH: Final = 7
LOCKED: Final = b"pop_group@pop-orders@0"
SPARK_SCHEMA: Final = """
from rmqtool.spark.source import RocketMQDataSource
print(RocketMQDataSource({"path": ".", "table": "messages"}).schema().simpleString())
"""
ARROW_SCHEMA: Final = """
import sys
from rmqtool import open_store
print(open_store(sys.argv[1]).scanner("messages").schema.names)
"""


@dataclass(frozen=True, slots=True)
class Tool:
    """The rmqtool of a tree.

    Attributes:
        tree: of the sources.
        room: a directory for stores, outside of the tree.
    """

    tree: Path
    room: Path

    def python(self, *words: str, env: dict[str, str] | None = None) -> str:
        """Run Python in the tree; give standard output, whatever the exit code is."""
        done = subprocess.run(  # noqa: S603 - ourselves
            [sys.executable, *words],
            cwd=self.tree,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout

    def __call__(self, *words: str, env: dict[str, str] | None = None) -> str:
        """Run a command."""
        return self.python("-m", "rmqtool", *words, env=env)

    def rows(self, *words: str) -> list[dict[str, Any]]:
        """Run a command for its rows; none where it fails."""
        lines = self(*words, "--format", "jsonl", "--quiet").splitlines()
        return [json.loads(line) for line in lines]

    def help(self, topic: str) -> str:
        """Give the page of a topic, each run of white space one space."""
        return " ".join(self("help", topic).split())

    def store(self, name: str = TRAFFIC) -> Path:
        """Give a new copy of a store of a real broker."""
        shutil.rmtree(self.room, ignore_errors=True)
        self.room.mkdir()
        return fixture_store(name, self.room)


Shown: TypeAlias = dict[str, bool]
Look: TypeAlias = Callable[[Tool], Shown]


def field(tool: Tool) -> Shown:
    """A new field of the checkpoint, with a value that is in a file."""
    store = tool.store()
    file = store / "checkpoint"
    inflict.set_integer(file, EPOCH_AT, 8, lambda _: EPOCH)
    found = [row.get("broker_epoch") for row in tool.rows("dump", str(file))]
    return {
        "dump has its value": [EPOCH] == found,
        "dump --hex names its bytes": "broker_epoch" in tool("dump", str(file), "--hex"),
        "the JSON schema has it": "broker_epoch" in tool("dump", str(file), *_SCHEMA),
        "help finds it": "broker_epoch" in tool.help("checkpoint"),
        "the manual has it": "broker_epoch" in _page(tool, "man5/rmqtool-formats.5"),
    }


def finding(tool: Tool) -> Shown:
    """A topic that nobody may use."""
    store = tool.store()
    file = store / "config" / "topics.json"
    table = json.loads(file.read_text(encoding="utf-8"))
    table["topicConfigTable"]["traffic-orders"]["perm"] = 0
    file.write_text(json.dumps(table), encoding="utf-8")
    only = ("validate", str(store), "--only", "config")
    sarif = tool.room / "findings.sarif"
    tool(*only, "--quiet", "--sarif", str(sarif))
    (one, *_) = [row for row in tool.rows(*only) if row["code"] == "CF-PERM"] or [{}]
    seen = tool(*only, "--format", "table", env={"COLUMNS": "200"})
    return {
        "validate has it": "CF-PERM" in seen,
        "it has its place": "config/topics.json" == one.get("path"),
        "it names the topic": "traffic-orders" == one.get("topic"),
        "it has its remedy": "updateTopicPerm" in str(one.get("repair")),
        "SARIF has it": "CF-PERM" in sarif.read_text(encoding="utf-8"),
        "help explains it": "refuses every producer" in tool.help("CF-PERM"),
        "the manual has it": "CF\\-PERM" in _page(tool, "man7/rmqtool-findings.7"),
    }


def queues(tool: Tool) -> Shown:
    """In each kind of queue a unit that gives its record another size."""
    kinds = {
        "files": (TRAFFIC, inflict.edit_unit(8, 4, lambda size: size ^ 4)),
        "batch queues": (BATCHES, _batch_size),
        "RocksDB": (CLEAN, change_unit("size", 4)),
    }
    shown: Shown = {}
    for kind, (name, damage) in kinds.items():
        store, repaired = tool.store(name), tool.room / "repaired"
        damage(store)
        is_there = _has(tool, store, "CQ-SIZE")
        shown[f"validate has it of {kind}"] = is_there
        tool("repair", str(store), "--output", str(repaired), "--quiet")
        is_left = not (repaired / "commitlog").is_dir() or _has(tool, repaired, "CQ-SIZE")
        shown[f"repair ends it in {kind}"] = is_there and not is_left
    return shown


def _batch_size(store: Path) -> None:
    """Give a unit of the fullest batch queue another size."""
    files = [path for path in (store / "batchconsumequeue").rglob("*") if path.is_file()]
    file = max(files, key=lambda path: len(path.read_bytes().rstrip(b"\0")))
    inflict.set_integer(file, 3 * BATCH_CQ_UNIT.size + 8, 4, lambda size: size ^ 4)


def _has(tool: Tool, store: Path, code: str, *words: str) -> bool:
    return any(code == row["code"] for row in tool.rows("validate", str(store), *words))


def record_property(tool: Tool) -> Shown:
    """A column of a property, with the value that records have."""
    store = str(tool.store())
    name = "transaction_checks"
    values = {row.get(name) for row in tool.rows("dump", store, "--columns", f"{name},extent")}
    return {
        "dump has its values": bool(values - {None}),
        "a table shows it": name in tool("dump", store, "--columns", name, "--format", "table"),
        "the JSON schema has it": name in tool("dump", store, *_SCHEMA),
        "the Arrow schema has it": name in tool.python("-c", ARROW_SCHEMA, store),
        "the Spark schema has it": f"{name}:string" in tool.python("-c", SPARK_SCHEMA),
        "the dictionary has it": f"{name} text" in tool.help(name),
        "its name in Java finds it": f"{name} text" in tool.help("TRANSACTION_CHECK_TIMES"),
        "the manual has it": name in _page(tool, "man5/rmqtool-tables.5"),
    }


def rule(tool: Tool) -> Shown:
    """One release begins recovery elsewhere."""
    return {f"startup of {CHANGED} says so": "00131072 and on" in _recovery(tool, CHANGED)}


def tags(tool: Tool) -> Shown:
    """One release gives messages that wait another tags code."""
    store, only = tool.store(), ("--only", "consumequeue", "--broker-version")
    before, since = (_has(tool, store, "CQ-TAG", *only, one) for one in (UNCHANGED[-1], CHANGED))
    return {f"validate by the rules of {CHANGED} says so, and of no release before": since > before}


def container(tool: Tool) -> Shown:
    """Archives of another kind."""
    store, packed = tool.store(), tool.room / "store.tar.bz2"
    with tarfile.open(packed, "w:bz2") as archive:
        archive.add(store, "store")
    columns = ("--columns", "physical_offset,topic,queue_offset")
    expected, rows = (tool.rows("dump", str(path), *columns) for path in (store, packed))
    return {
        "its records are read": bool(rows) and expected == rows,
        "--help names it": ".tar.bz2" in tool("info", "--help"),
        "the manual has it": "tar.bz2" in _page(tool, "man1/rmqtool-info.1"),
    }


def family(tool: Tool) -> Shown:
    """Rows of another family, with a value that is in the database."""
    store = tool.store(POP)
    add_family(store / "kvStore", "popLock")
    edit(store / "kvStore", "popLock", put={LOCKED: EPOCH.to_bytes(8, "big")})
    rows = [row for row in tool.rows("dump", str(store / "kvStore")) if row["row"] == "pop_lock"]
    return {
        "dump has its value": [(LOCKED.decode(), EPOCH)] == [(r["name"], r["value"]) for r in rows],
        "dump --hex names its bytes": "popLock" in tool("dump", str(store / "kvStore"), "--hex")
        and bool(rows),
        "validate knows it": not _has(tool, store, "RD-KEY", "--only", "rocksdb"),
    }


def other_releases(tool: Tool) -> dict[str, str]:
    """Say what the releases do whose rules stay."""
    return {one: _recovery(tool, one) for one in UNCHANGED}


def command(tool: Tool) -> Shown:
    """A command like all others."""
    store = str(tool.store())
    asked = {"_RMQTOOL_COMPLETE": "fish"}
    rows = tool.rows("topic", store, "traffic-orders")
    return {
        "it answers": ["traffic-orders"] == [row["topic"] for row in rows],
        "--help lists it": bool(re.search(r"^\W*topic ", tool("--help"), re.MULTILINE)),
        "its help has its argument": "TOPIC" in tool("topic", "--help"),
        "its page has its examples": "EXAMPLES" in tool.help("topic"),
        "the shell completes its name": "topic\t" in tool("top", env=asked),
        "the shell completes its argument": "traffic-orders" in tool("topic", store, "", env=asked),
        "the manual has it": bool(_page(tool, "man1/rmqtool-topic.1")),
    }


_SCHEMA: Final[Sequence[str]] = ("--format", "json-schema")


def _page(tool: Tool, name: str) -> str:
    path = tool.tree / "man" / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _recovery(tool: Tool, version: str) -> str:
    words = ("--broker-version", version, "--section", "steps", "--columns", "step,message")
    return tool("startup", str(tool.store()), *words, "--format", "csv", "--quiet")
