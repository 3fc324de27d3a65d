"""What can be seen of a walk from outside: each line is false before it and true after it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from tests import inflict
from tests.stores import fixture_store

TRAFFIC: Final = "rocketmq-5.3.3-traffic"
CHANGED: Final = "5.5.1"  # the release whose rule changes
UNCHANGED: Final = ("4.9.3", "5.1.4", "5.2.0", "5.3.3", "5.4.0", "5.5.0")
EPOCH_AT: Final = 48  # of the checkpoint: where its fields end today
EPOCH: Final = 7
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

    def store(self) -> Path:
        """Give a new copy of a store of a real broker."""
        shutil.rmtree(self.room, ignore_errors=True)
        self.room.mkdir()
        return fixture_store(TRAFFIC, self.room)


Shown: TypeAlias = dict[str, bool]
Look: TypeAlias = Callable[[Tool], Shown]


def field(tool: Tool) -> Shown:
    """A new field of the checkpoint, with a value that is in a file."""
    store = tool.store()
    file = store / "checkpoint"
    inflict.set_integer(file, EPOCH_AT, 8, lambda _: EPOCH)
    found = [one.get("broker_epoch") for one in tool.rows("dump", str(file))]
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
