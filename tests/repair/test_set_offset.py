"""Committed offsets are set, cloned and removed as asked, planned and undone like a repair."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmqtool.cli.main import main
from rmqtool.errors import UsageError
from rmqtool.repair.state.set_offsets import OffsetChange
from rmqtool.store.tree import open_store
from tests.evidence import snapshot
from tests.stores import fixture_store

NAME = "rocketmq-5.3.3-traffic"
TOPIC = "traffic-orders"
GROUP = "traffic-slow"


def offsets(store: Path) -> dict[str, Any]:
    """Give the table of committed offsets."""
    table: dict[str, Any] = open_store(str(store)).config("consumerOffset.json").document
    found: dict[str, Any] = table["offsetTable"]
    return found


def repaired(store: Path, *changes: str) -> int:
    """Set offsets in place; give the exit code."""
    words = [word for change in changes for word in ("--set-offset", change)]
    return main(["repair", str(store), "--in-place", "--yes", "--quiet", *words])


def test_places(tmp_path: Path) -> None:
    """First, last, a number, a time, those of another group, none; undo brings all back."""
    store = fixture_store(NAME, tmp_path)
    before, whole = offsets(store), snapshot(store)
    assert 0 == repaired(store, f"{GROUP}=last")
    last = offsets(store)[f"{TOPIC}@{GROUP}"]
    assert all(last[queue] > offset for queue, offset in before[f"{TOPIC}@{GROUP}"].items())
    assert 0 == repaired(store, f"{GROUP}@{TOPIC}=first", f"{GROUP}@{TOPIC}:1=7")
    first = offsets(store)[f"{TOPIC}@{GROUP}"]
    assert 7 == first.pop("1")
    assert {0} == {*first.values()}
    assert 0 == repaired(store, f"{GROUP}@{TOPIC}=2026-11-21T03:00:00Z", f"fresh=like:{GROUP}")
    table = offsets(store)
    assert table[f"{TOPIC}@{GROUP}"] == table[f"{TOPIC}@fresh"]
    assert 0 == repaired(store, "fresh=none", f"new@{TOPIC}:0=last")
    table = offsets(store)
    assert f"{TOPIC}@fresh" not in table
    assert {"0": last["0"]} == table[f"{TOPIC}@new"]
    others = {key: value for key, value in before.items() if key != f"{TOPIC}@{GROUP}"}
    assert others == {key: value for key, value in table.items() if key in others}
    for _ in range(4):
        assert 0 == main(["repair", str(store), "--undo", "--quiet"])
    assert whole == snapshot(store)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("group", "is not GROUP"),
        ("group=soon", "is not a time"),
        ("group=5", "needs a topic"),
        ("no-such-group=last", "no queue of no-such-group is here"),
        (f"{GROUP}@no-such-topic=first", "no queue of no-such-topic is here"),
        (f"{GROUP}@{TOPIC}:0=1000000", "has 0 to"),
        (f"{GROUP}@{TOPIC}:99=first", f"no queue of {TOPIC} is here"),
    ],
)
def test_refused(
    change: str, reason: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What cannot be done is said, and nothing is written."""
    store = fixture_store(NAME, tmp_path)
    whole = snapshot(store)
    assert 2 == repaired(store, change)
    assert reason in capfd.readouterr().err
    assert whole == snapshot(store)


@pytest.mark.parametrize(
    ("text", "change", "code"),
    [
        ('{"offsetTable":[]}', f"new@{TOPIC}=first", 2),
        (f'{{"offsetTable":{{"{TOPIC}@g":{{"x":1,"0":"y"}}}}}}', f"g@{TOPIC}=first", 2),
        (f'{{"offsetTable":{{"{TOPIC}@g":{{"0":"y"}}}}}}', f"g@{TOPIC}=first", 0),
        (f'{{"offsetTable":{{"{TOPIC}@g":{{"0":"y"}}}}}}', "new=like:g", 2),
        (f'{{"offsetTable":{{"{TOPIC}@g":7}}}}', f"g@{TOPIC}=last", 2),
        (f'{{"offsetTable":{{"{TOPIC}@g":{{"0":1}}}}}}', f"g@{TOPIC}:2=first", 0),
    ],
)
def test_odd_table(text: str, change: str, code: int, tmp_path: Path) -> None:
    """A table that no broker wrote is refused, or set as far as it is one; never a bug."""
    store = fixture_store(NAME, tmp_path)
    for name in ("consumerOffset.json", "consumerOffset.json.bak"):
        (store / "config" / name).write_text(text)
    assert code == repaired(store, change)
    if code == 0:
        queues = offsets(store)[f"{TOPIC}@g"]
        asked = ["2"] if ":2=" in change else ["0", "1", "2", "3"]
        assert [0] * len(asked) == [queues[one] for one in asked]


def test_gone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Offsets that are not there are not set, and that is said."""
    store = fixture_store("rocketmq-5.5.0-rocksdb-store", tmp_path)
    (store / "config/consumerOffset.json").unlink(missing_ok=True)
    assert 2 == repaired(store, "group=last")
    assert "--set-offset:" in capfd.readouterr().err


def test_time() -> None:
    """A time is read as anywhere else."""
    change = OffsetChange.parse("g@t:3=2026-11-21T09:04:00+08:00")
    assert ("g", "t", 3, "@1795223040000") == (
        change.group, change.topic, change.queue_id, change.to
    )  # fmt: skip
    with pytest.raises(UsageError):
        OffsetChange.parse("g@t=")
