"""Exports and questions in SQL about a stranger's store: nothing outside of it changes."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqtool.cli.main import main
from rmqtool.formats.message import Message, encode, sealed
from tests.cli.run import rmqtool
from tests.hostile.stranger import NOBODY, SEGMENT, Scene, look, scene
from tests.spark.test_export import exported

pytestmark = pytest.mark.spark
FILE = "00000000000000000000"
TABLES = ("messages", "queue_units", "index_entries", "findings", "segments")
TOPICS = (
    "../../../outside/evil", "..", ".", "/etc", "a/b", "_SUCCESS", "_staging", "x\0y", "\x1b[31m",
    "%2e%2e", "=", "' OR 1=1 --", "`; DROP TABLE messages", "n" * 120, "'; SELECT java_method(",
)  # fmt: skip


@pytest.fixture(autouse=True)
def typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard input that is empty and no terminal."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))


@pytest.fixture
def attacked(spark: object) -> Iterator[Scene]:
    """A damaged store of a stranger, with links out of it, a FIFO, and a queue in a loop."""
    assert spark is not None
    with scene(os.geteuid()) as made:
        attack(made.store)
        made.yield_to_stranger()
        yield made


def attack(store: Path) -> None:
    """Put what leads out, or waits, in the place of what a reader opens."""
    (store / "consumequeue/crash-orders/9").symlink_to("../../../outside")
    (store / "consumequeue/loop").symlink_to(".")
    (store / "index/20260101000000000").symlink_to("../../outside/secret")
    (store / "checkpoint").unlink()
    (store / "checkpoint").symlink_to("../outside/checkpoint")
    (store / "abort").unlink(missing_ok=True)
    (store / "lock").unlink(missing_ok=True)
    for name in ("abort", "lock", f"consumequeue/crash-orders/1/{FILE}", "config/delayOffset.json"):
        (store / name).unlink(missing_ok=True)
        os.mkfifo(store / name)


def test_reads_only(attacked: Scene) -> None:
    """Every table, exported and asked for: neither the store nor what is beside it changes."""
    before, store = attacked.seen(), look(attacked.store)
    for table in TABLES:
        target = attacked.work / table
        options = ("--table", table, "--format", "jsonl", "--output", str(target))
        assert main(["export", str(attacked.store), *options, "--quiet"]) in {0, 1, 3}, table
        assert before == attacked.seen(), table
        assert store == look(attacked.store), table
    question = " UNION ALL ".join(f"SELECT count(*) AS n FROM {table}" for table in TABLES)  # noqa: S608
    answer = attacked.work / "answer.jsonl"
    told = main(["sql", str(attacked.store), question, "--output", str(answer), "--quiet"])
    assert told in {0, 1, 3}
    assert len(TABLES) == len(answer.read_text().splitlines())
    assert before == attacked.seen()
    assert store == look(attacked.store)


def test_within(attacked: Scene) -> None:
    """Nothing is exported into the store, by whatever way it is named."""
    (attacked.work / "way").symlink_to(attacked.store)
    store = look(attacked.store)
    for target in (attacked.store / "new", attacked.work / "way/new", attacked.store / "index"):
        assert 2 == main(["export", str(attacked.store), "--output", str(target), "--quiet"])
        assert store == look(attacked.store)


def hostile_log(top: Path) -> Path:
    """Write a store whose topics are names that mean something to somebody."""
    log = bytearray()
    for number, topic in enumerate(TOPICS):
        message = Message(
            queue_offset=number,
            physical_offset=len(log),
            store_port=10911,
            body=b"body",
            topic_bytes=topic.encode(),
        )
        log += encode(sealed(message))
    (top / "store/commitlog").mkdir(parents=True)
    (top / "store" / SEGMENT).write_bytes(log.ljust(len(log) + 4096, b"\0"))
    return top / "store"


def test_names(spark: object, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Topics are one name each below the target, and one value each in SQL."""
    assert spark is not None
    store = hostile_log(tmp_path / "hostile")
    (tmp_path / "outside").mkdir()
    (tmp_path / "deep/er").mkdir(parents=True)
    before = look(tmp_path / "outside")
    target = tmp_path / "deep/er/target"
    exported(store, target, by=("topic",))
    assert before == look(tmp_path / "outside")
    assert {"target"} == {path.name for path in (tmp_path / "deep/er").iterdir()}
    names = [path.name for path in target.iterdir() if path.is_dir()]
    assert len(TOPICS) == len([name for name in names if name.startswith("topic=")])
    # Brokers refuse most of these topics, which is damage of the log.
    assert 1 == main(["sql", str(store), "SELECT topic FROM messages ORDER BY queue_offset"])
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [*TOPICS] == [row["topic"] for row in rows]
    quoted = ", ".join(map(literal, TOPICS))
    question = f"SELECT count(*) AS n FROM messages WHERE topic IN ({quoted})"  # noqa: S608 - ours
    assert 1 == main(["sql", str(store), question, "--engine", "spark"])
    assert {"n": len(TOPICS)} == json.loads(capfd.readouterr().out)


def literal(topic: str) -> str:
    """Write a text as SQL does."""
    return "'" + topic.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\0") + "'"


def test_ordinary(tmp_path: Path) -> None:
    """Without root's might the same holds, and nothing that it puts down is open to others."""
    with scene(NOBODY) as made:
        attack(made.store)
        made.yield_to_stranger()
        before, store = made.seen(), look(made.store)
        options = ("--output", made.work / "target", "--format", "jsonl")
        done = rmqtool(
            *("export", made.store, *options), env={"TMPDIR": str(tmp_path)}, is_mighty=False
        )
        assert done.code in {0, 1, 3}, done.err
        assert (made.work / "target/_export.json").exists()
        assert before == made.seen()
        assert store == look(made.store)
        assert [] == [path for path in tmp_path.iterdir() if path.stat().st_mode & 0o077]
