"""Offsets, epochs, queues and configuration side by side."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from rmqtool.diff.report import verdict
from rmqtool.errors import UnsupportedStore
from rmqtool.formats.epoch import EpochEntry, encode
from tests.diff.conftest import Pair

TRAFFIC: Final = "rocketmq-5.3.3-traffic"
Pairs = Callable[[str], Pair]


def read(path: Path) -> dict[str, Any]:
    """Read a document of fastjson, which writes numbers as names without quotes."""
    found: dict[str, Any] = json.loads(re.sub(r"([{,]\s*)(\d+):", r'\1"\2":', path.read_text()))
    return found


def edit(store: Path, name: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a file of the configuration, and take its backup away."""
    path = store / "config" / name
    document = read(path)
    change(document)
    path.write_text(json.dumps(document))
    (store / "config" / f"{name}.bak").unlink(missing_ok=True)


def first_offset(store: Path) -> tuple[str, str, int]:
    """Give the first key of the offset table that has an offset, its queue and the offset."""
    table = read(store / "config/consumerOffset.json")["offsetTable"]
    return next(
        (key, queue, int(offset))
        for key, queues in table.items()
        for queue, offset in queues.items()
        if int(offset) > 0
    )


@pytest.mark.parametrize(("step", "newer"), [(1, "B"), (-1, "A")])
def test_offset(step: int, newer: str, pair: Pairs) -> None:
    """An offset that differs is listed, and the verdict says where it is newer."""
    stores = pair(TRAFFIC)
    key, queue, offset = first_offset(stores.a)
    topic, group = key.split("@")

    def change(document: dict[str, Any]) -> None:
        document["offsetTable"][key][queue] = offset + step

    edit(stores.b, "consumerOffset.json", change)
    compared = stores.compare()
    assert compared.is_same is False
    assert compared.log.is_same
    assert compared.state.offsets == {(group, topic, int(queue)): (offset, offset + step)}
    said = f"their logs are the same; the offsets of 1 group are newer in {newer}"
    assert verdict(compared) == said


def test_offset_of_one_side(pair: Pairs) -> None:
    """A group that only one store knows is newer there."""
    stores = pair(TRAFFIC)
    edit(stores.a, "consumerOffset.json", lambda one: one["offsetTable"].update({"T@g": {"3": 7}}))
    compared = stores.compare()
    assert compared.state.offsets == {("g", "T", 3): (7, None)}
    assert (compared.state.newer(0), compared.state.newer(1)) == ({"g"}, set())


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("topics.json", "topicConfigTable"),
        ("subscriptionGroup.json", "subscriptionGroupTable"),
    ],
)
def test_setting(name: str, table: str, pair: Pairs) -> None:
    """A field of a topic or a group that differs is listed; `dataVersion` alone is not."""
    stores = pair(TRAFFIC)

    def touch(document: dict[str, Any]) -> None:
        document["dataVersion"]["timestamp"] += 5

    edit(stores.b, name, touch)
    assert stores.compare().is_same
    entry = next(iter(read(stores.a / "config" / name)[table]))
    edit(stores.b, name, lambda one: one[table][entry].update({"perhaps": [1]}))
    compared = stores.compare()
    assert compared.state.settings == {(name, entry, "perhaps"): (None, "[1]")}
    assert verdict(compared) == "their logs are the same; 1 setting differs"


def test_epochs(pair: Pairs) -> None:
    """Epochs side by side; one whose checksum is wrong is said."""
    stores = pair(TRAFFIC)
    for store, last in ((stores.a, 200), (stores.b, 300)):
        entries = (EpochEntry(1, 0), EpochEntry(2, last))
        (store / "epochFileCheckpoint").write_bytes(encode(entries))
    compared = stores.compare()
    assert compared.state.epochs == {2: (200, 300)}
    assert "1 epoch differs" in verdict(compared)
    assert not compared.troubles[1]
    (stores.b / "epochFileCheckpoint").write_bytes(b"2\n77\n1-0\n2-200\n")
    compared = stores.compare()
    assert (compared.state.epochs, [one.code for one in compared.troubles[1]]) == ({}, ["EP-CRC"])


def test_queues(pair: Pairs) -> None:
    """A queue that is gone differs, although the log is the same."""
    stores = pair(TRAFFIC)
    shutil.rmtree(stores.b / "consumequeue/traffic-orders/1")
    compared = stores.compare()
    ((key, (a, b)),) = compared.state.queues.items()
    assert (key, b) == (("traffic-orders", 1, "consume-queue"), None)
    assert a is not None
    assert a.next > a.first == 0
    assert verdict(compared) == "their logs are the same; 1 queue differs"


@pytest.mark.parametrize("text", ["{", "[]", '{"offsetTable": '])
def test_broken(text: str, pair: Pairs) -> None:
    """What cannot be parsed is said, and is never the same."""
    stores = pair(TRAFFIC)
    for store in (stores.a, stores.b):
        (store / "config/consumerOffset.json").write_text(text)
        (store / "config/consumerOffset.json.bak").unlink(missing_ok=True)
    compared = stores.compare()
    assert (compared.is_same, compared.is_complete) == (None, False)
    assert [[problem.path for problem in some] for some in compared.troubles] == [
        ["config/consumerOffset.json"]
    ] * 2
    assert verdict(compared) == "no difference was seen; some input could not be read"


def test_backup(pair: Pairs) -> None:
    """The backup is compared where a broker would take it, and that is said."""
    stores = pair(TRAFFIC)
    path = stores.b / "config/consumerOffset.json"
    shutil.copy(path, f"{path}.bak")
    path.write_text("{")
    compared = stores.compare()
    assert compared.is_same
    (trouble,) = compared.troubles[1]
    assert trouble.problem.endswith("config/consumerOffset.json.bak was compared instead")


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("", "commitlog", "the logs are the same"),
        ("config", "", "the configurations are the same"),
        ("consumequeue", "consumequeue", "the queues are the same"),
    ],
)
def test_part(a: str, b: str, same: str, pair: Pairs) -> None:
    """If one side is partial, only the common part is compared."""
    stores = pair(TRAFFIC)
    compared = Pair(stores.a / a, stores.b / b).compare()
    assert (compared.is_same, verdict(compared)) == (True, same)
    (stores.b / "commitlog/00000000000000393216").unlink()
    edit(stores.b, "topics.json", lambda one: one["topicConfigTable"].clear())
    shutil.rmtree(stores.b / "consumequeue/traffic-orders")
    assert Pair(stores.a / a, stores.b / b).compare().is_same is False


@pytest.mark.parametrize(("a", "b"), [("index", ""), ("config/topics.json", "config/topics.json")])
def test_nothing_to_compare(a: str, b: str, pair: Pairs) -> None:
    """What is not compared is refused, and never the same."""
    stores = pair(TRAFFIC)
    with pytest.raises(UnsupportedStore):
        Pair(stores.a / a, stores.b / b).compare()
