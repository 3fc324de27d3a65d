"""The commands of the campaign: each command of rmqtool but those of Spark, and its options."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from rmqtool.cli.main import main as rmqtool
from tests.hostile.damages import OF_EXTRACTS, one_of
from tests.stores import fixture_directory

ARCHIVE: Final = "{archive}"  # instead of the store
IMAGE: Final = "{image}"
SENT: Final = "{sent}"
INSTEAD: Final = frozenset({ARCHIVE, IMAGE, SENT})
IN_PLACE: Final = ("--in-place", "--yes", "--yes")
UNDO: Final = ("repair", "--undo")
NO_GROUP: Final = "TOOLS_CONSUMER"
COMMANDS: Final = (
    ("validate",), ("validate", "--level", "deep", "--format", "jsonl"),
    ("validate", "--level", "quick"),
    ("info",), ("info", "--format", "json"), ("doctor", "--format", "json"), ("doctor",),
    ("dump", "--body", "text", "--format", "jsonl"), ("dump", "--as", "all", "--format", "jsonl"),
    ("dump", "--hex", "--limit", "500"), ("dump", "--tail", "20", "--fillers"),
    ("query", "--key", "none"), ("query", "--at", "0"), ("query", "--group", "{group}"),
    ("query", "--at", "0", "--group", "{group}", "--explain"),
    ("query", "--time", "2026-11-21", "--boundary", "upper"),
    ("validate", "--recursive"),
    ("dump", "--as", "config", "--format", "broker-json", "--output", "{work}/config"),
    ("validate", ARCHIVE), ("doctor", ARCHIVE), ("extract", ARCHIVE, "--output", "{work}/of.rmq"),
    ("rebuild-log", ARCHIVE, "--output", "{work}/of"),
    ("diff", ARCHIVE, "{sound}"),
    ("startup", "--broker-version", "5.3.3"), ("startup", "--broker-version", "4.9.3"),
    ("startup", "--broker-version", "5.5.0", "--all-queues"),
    ("diff", "{sound}"), ("diff", "{same}", "--format", "jsonl"),
    ("diff", "{same}", "--merge-offsets", "--output", "{work}/consumerOffset.json"),
    ("extract", "--output", "{work}/all.jsonl", "--held"),
    ("extract", "--output", "{work}/all.rmq"),
    ("extract", "--output", "{work}/all.parquet", "--where", "TAGS IS NOT NULL OR a > 1"),
    ("extract", "--output", "{work}/lost.jsonl", "--lost-in", "{same}"),
    ("extract", "--output", "{work}/found.rmq", "--lost-in", SENT),
    ("extract", "--output", "{work}/undecided.jsonl", "--undecided"),
    ("extract", "--output", "{work}/waiting.parquet", "--unconsumed-by", "{group}"),
    ("extract", "--output", "{work}/dead.jsonl", "--dead-letters", "{group}"),
    ("send", "{work}/all.jsonl", "--dry-run"), ("send", "{work}/all.rmq", "--dry-run"),
    ("send", SENT, "--dry-run", "--skip-bad", "--held"),
    ("carve", IMAGE, "--output", "{work}/carved.rmq"),
    ("carve", IMAGE, ARCHIVE, "--output", "{work}/carved", "--by-store", "--lone"),
    ("rebuild-log", "--output", "{work}/log"),
    ("rebuild-log", "{same}", "--output", "{work}/two", "--queue-offsets", "renumber"),
    ("rebuild-log", "--output", "{work}/kept", "--positions", "keep"),
    ("rebuild-log", SENT, "--output", "{work}/sent"),
    ("report", "--output", "{work}/report.html"),
    ("rebuild", "--check"), ("rebuild", "--output", "{work}/rebuilt"),
    ("rebuild-cq", "--output", "{work}/queues"), ("rebuild-index", "--output", "{work}/index"),
    ("repair",), ("repair", "--bridge-missing", "--format", "jsonl"),
    ("repair", "--output", "{work}/copy", "--quarantine", "{work}/quarantine"),
    ("repair", *IN_PLACE), UNDO, ("rebuild", *IN_PLACE), UNDO,
    ("rebuild-cq", *IN_PLACE), UNDO, ("rebuild-index", *IN_PLACE), UNDO,
)  # fmt: skip
KEPT: Final = frozenset({"all.jsonl", "all.rmq"})  # of what commands write: another one reads it


class Given(NamedTuple):
    """What the words of a command stand for.

    Attributes:
        store: the damaged one.
        archive: of it.
        image: a file of it, to look for records in.
        sent: a damaged extract.
        work: where a command may write.
        sound: a store that nobody damaged.
        same: the one that was damaged, before it was.
        group: consumers, who have offsets in the store if anybody has.
    """

    store: Path
    archive: Path
    image: Path
    sent: Path
    work: Path
    sound: Path
    same: Path
    group: str

    def words_of(self, command: tuple[str, ...]) -> list[str]:
        """Give the words of a command for the store, or for what it names instead."""
        words = [one.format(**self._asdict()) for one in command]
        is_other = len(command) > 1 and (command[1] in INSTEAD or command[0] == "send")
        return [words[0], *(() if is_other else (str(self.store),)), *words[1:], "--quiet"]


@contextmanager
def silence() -> Iterator[None]:
    """Let what this process says go nowhere."""
    kept = os.dup(1), os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        for number, old in zip((1, 2), kept, strict=True):
            os.dup2(old, number)
        for handle in (*kept, nowhere):
            os.close(handle)


def image_of(store: Path, chance: np.random.Generator) -> Path:
    """Give a file of a log, or any other where there is none."""
    files = sorted(path for path in store.rglob("*") if path.is_file() and not path.is_symlink())
    logs = [path for path in files if path.parent.name == "commitlog"]
    return one_of(chance, logs or files or [store / "none"])


def extract_of(sound: Path, top: Path, chance: np.random.Generator) -> Path:
    """Write an extract of a store, or copy the one that is there, and damage it."""
    name = one_of(chance, ["all.jsonl", "all.rmq"])
    kept = sound.parent / name
    if not kept.exists():
        with silence():
            code = rmqtool(["extract", str(sound), "--output", str(kept), "--quiet"])
        assert code in {0, 1, 3}, code
    copy = top / f"sent{kept.suffix}"
    shutil.copy(kept, copy)
    one_of(chance, OF_EXTRACTS)(copy, chance)
    return copy


def group_of(fixture: str) -> str:
    """Give a group that has offsets in a fixture."""
    path = fixture_directory(fixture) / "store/config/consumerOffset.json"
    try:
        queues = json.loads(_quoted(path.read_text()))["offsetTable"]
    except (OSError, ValueError, KeyError):
        queues = {}
    groups = [name.partition("@")[2] for name in queues]
    return groups[0] if groups else NO_GROUP


def _quoted(text: str) -> str:
    """Put the numbers of queues into quotes, which brokers leave out."""
    return re.sub(r"([{,]\s*)(\d+)\s*:", r'\1"\2":', text)
