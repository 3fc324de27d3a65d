"""Consumer offsets of two stores in one file: the larger one, as far as both stores bear it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from rmqtool.cli.main import main
from tests import inflict
from tests.diff.conftest import Pair
from tests.diff.test_state import TRAFFIC, edit, read
from tests.plain_store import UNIT

Pairs = Callable[[str], Pair]
OFFSETS: Final = "consumerOffset.json"
GROUP: Final = "merged-group"


@pytest.fixture
def stores(pair: Pairs) -> Pair:
    """Give two copies of a store."""
    return pair(TRAFFIC)


def queue_of(store: Path) -> tuple[str, Path, int]:
    """Give a topic, the first file of its queue 0, and the maximum offset of that."""
    topic = "traffic-orders"
    files = sorted((store / "consumequeue" / topic / "0").iterdir())
    raw = b"".join(file.read_bytes() for file in files)
    return topic, files[0], sum(1 for unit in UNIT.iter_unpack(raw) if unit[1])


def commit(store: Path, topic: str, offset: int | None) -> None:
    """Let a group of our own have committed an offset, or none."""
    table: dict[str, Any] = {} if offset is None else {f"{topic}@{GROUP}": {"0": offset}}
    edit(store, OFFSETS, lambda document: document["offsetTable"].update(table))


def merge(stores: Pair, target: Path) -> tuple[int, dict[str, Any]]:
    """Merge; give the exit code, and the table of the file."""
    code = main(["diff", str(stores.a), str(stores.b), "--merge-offsets", "--output", str(target)])
    table: dict[str, Any] = json.loads(target.read_text())["offsetTable"]
    return code, table


def ours(out: str) -> dict[str, Any]:
    """Give the row of our group."""
    rows: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    return next(row for row in rows if row["group"] == GROUP)


@pytest.mark.parametrize(
    ("sides", "merged", "source"),
    [((3, 5), 5, "B"), ((7, 5), 7, "A"), ((4, 4), 4, "A and B"), ((None, 6), 6, "B")],
)
def test_larger(
    sides: tuple[int | None, int | None],
    merged: int,
    source: str,
    stores: Pair,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Of two copies of one store the larger offset is taken; all others stay."""
    topic, _, _ = queue_of(stores.a)
    before = read(stores.a / "config" / OFFSETS)["offsetTable"]
    for store, offset in zip((stores.a, stores.b), sides, strict=True):
        commit(store, topic, offset)
    code, table = merge(stores, tmp_path / "merged.json")
    row = ours(capfd.readouterr().out)
    assert (0, merged, source) == (code, row["queue_offset"], row["taken_from"])
    assert (*sides, None) == (row["queue_offset_a"], row["queue_offset_b"], row["reason"])
    assert {"0": merged} == table.pop(f"{topic}@{GROUP}")
    assert {name: queues for name, queues in before.items() if queues} == table


def test_past_the_end(stores: Pair, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """An offset past the end of a queue of one store is not taken, the smaller one is."""
    topic, _, end = queue_of(stores.a)
    commit(stores.a, topic, 2)
    commit(stores.b, topic, end + 5)
    code, table = merge(stores, tmp_path / "merged.json")
    row = ours(capfd.readouterr().out)
    assert (0, {"0": 2}) == (code, table[f"{topic}@{GROUP}"])
    assert f"the queue of A ends at {end}, before {end + 5}" == row["reason"]
    (tmp_path / "merged.json").unlink()
    commit(stores.a, topic, end + 9)
    code, table = merge(stores, tmp_path / "merged.json")
    assert (1, False) == (code, f"{topic}@{GROUP}" in table)
    assert ours(capfd.readouterr().out)["queue_offset"] is None


def test_logs_part(stores: Pair, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """No offset behind the point where the logs part is taken, nor one of other messages."""
    topic, file, _ = queue_of(stores.b)
    inflict.flip_field("body", where=0.0)(stores.b)  # the topic's first message
    commit(stores.a, topic, 3)
    commit(stores.b, topic, 5)
    code, table = merge(stores, tmp_path / "merged.json")
    reason = ours(capfd.readouterr().out)["reason"]
    assert (1, False) == (code, f"{topic}@{GROUP}" in table)
    assert "the message before 5 lies where the logs differ" in reason
    (tmp_path / "merged.json").unlink()
    raw = bytearray(file.read_bytes())
    raw[2 * UNIT.size : 5 * UNIT.size] = raw[5 * UNIT.size : 8 * UNIT.size]
    file.write_bytes(raw)
    merge(stores, tmp_path / "merged.json")
    assert "another one in A and in B" in ours(capfd.readouterr().out)["reason"]


@pytest.mark.parametrize(
    "more",
    [
        ("--merge-offsets",),
        ("--merge-offsets", "--output", "NEW", "--section", "offsets"),
        ("--merge-offsets", "--output", "INSIDE"),
    ],
)
def test_refused(
    more: tuple[str, ...], stores: Pair, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Where the file would go is said, and it is not in a store."""
    paths = {"NEW": str(tmp_path / "new"), "INSIDE": str(stores.a / "config" / "new.json")}
    words = [paths.get(word, word) for word in more]
    assert 2 == main(["diff", str(stores.a), str(stores.b), *words])
    assert capfd.readouterr().err
    assert not any(Path(path).exists() for path in paths.values())
