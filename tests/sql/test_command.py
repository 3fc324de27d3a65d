"""`rmqtool sql` as it is typed: formats, files, pipes, a conversation, what cannot be read."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

import rmqtool
from rmqtool.cli.main import main
from rmqtool.reads.options import SourceOptions
from rmqtool.reads.plan import tasks
from rmqtool.reads.tasks import Task
from rmqtool.reads.views import VIEWS
from tests.s3_server import in_bucket, s3_server
from tests.stores import fixture_store

NAME = "rocketmq-5.3.3-lmq"
QUESTION = "SELECT queue_id, count(*) AS n, first('=1') AS f FROM messages GROUP BY queue_id"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small store."""
    return fixture_store(NAME, tmp_path_factory.mktemp("command"))


@pytest.fixture(autouse=True)
def typed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Standard input that is empty and no terminal; nobody has asked before."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))


def test_formats(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The same rows in every format, and no formula in CSV."""
    found: dict[str, str] = {}
    for form in ("jsonl", "json", "csv", "table"):
        assert 0 == main(["sql", str(store), f"{QUESTION} ORDER BY queue_id", "--format", form])
        found[form] = capfd.readouterr().out
    rows = [json.loads(line) for line in found["jsonl"].splitlines()]
    assert rows == json.loads(found["json"])
    assert {"queue_id", "n", "f"} == rows[0].keys()
    assert [
        ["queue_id", "n", "f"],
        *([str(row["queue_id"]), str(row["n"]), "'=1"] for row in rows),
    ] == [*csv.reader(io.StringIO(found["csv"]))]
    assert 1 + len(rows) == len(found["table"].splitlines())


def test_time_zone(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Times without an offset in a question are those of --time-zone; else they are UTC."""
    early = "SELECT count(*) AS n FROM messages WHERE store_time < TIMESTAMP '2026-11-21 11:14:19'"
    counts = []
    for words in ([], ["--time-zone", "Asia/Shanghai"], ["--time-zone", "UTC"]):
        assert 0 == main(["sql", str(store), early, *words, "--format", "jsonl"])
        counts.append(json.loads(capfd.readouterr().out)["n"])
    rows = rmqtool.open_store(str(store)).rows()
    before = sum(row["store_time"] < "2026-11-21T03:14:19" for row in rows)
    assert [240, before, 240] == counts
    assert 0 < before < 240
    assert 2 == main(["sql", str(store), early, "--time-zone", "Asia/Shangai"])
    assert "nearest: Asia/Shanghai" in capfd.readouterr().err


def test_show(capfd: pytest.CaptureFixture[str]) -> None:
    """The text of a view is shown without a store; a misspelt name is answered with the nearest."""
    assert 0 == main(["sql", "--show", "slowest_stores"])
    assert VIEWS["slowest_stores"].sql.split() == capfd.readouterr().out.split()
    assert 2 == main(["sql", "--show", "slowest_store"])
    assert "no view 'slowest_store'; nearest: slowest_stores" in capfd.readouterr().err
    assert 2 == main(["sql"])
    assert "STORE: is missing" in capfd.readouterr().err


def test_file_and_pipe(
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A question may come in a file or through a pipe; not in two ways, and not in none."""
    question = b"-- how many\nSELECT count(*) AS n\nFROM messages;\n"
    (tmp_path / "query.sql").write_bytes(question)
    assert 0 == main(["sql", str(store), "--file", str(tmp_path / "query.sql")])
    from_file = capfd.readouterr().out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(question)))
    assert 0 == main(["sql", str(store)])
    assert from_file == capfd.readouterr().out
    assert 2 == main(["sql", str(store)])
    assert "there is no question" in capfd.readouterr().err
    assert 2 == main(["sql", str(store), "SELECT 1", "--file", str(tmp_path / "query.sql")])
    assert 2 == main(["sql", str(store), "--file", str(tmp_path / "none.sql")])
    (tmp_path / "query.sql").write_bytes(b"\xff")
    assert 2 == main(["sql", str(store), "--file", str(tmp_path / "query.sql")])
    assert "is not UTF-8" in capfd.readouterr().err


def test_conversation(
    store: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """On a terminal questions follow each other, over several lines; a wrong one is not the end."""
    lines = ["SELECT 1 AS a;", "", "DROP VIEW messages;", "SELECT", " 2 AS a", ";", "exit"]
    asked: list[str] = []

    def typed(prompt: str) -> str:
        asked.append(prompt)
        return lines.pop(0)

    monkeypatch.setattr("builtins.input", typed)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert 0 == main(["sql", str(store), "--format", "jsonl"])
    out, err = capfd.readouterr()
    assert ['{"a":1}', '{"a":2}'] == out.splitlines()
    assert "only questions are answered" in err
    assert all(name in err for name in VIEWS)
    assert ["sql> ", "sql> ", "sql> ", "sql> ", "...> ", "...> ", "sql> "] == asked


def test_end_of_conversation(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-D ends a conversation well."""

    def end(_: str) -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", end)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert 0 == main(["sql", str(store), "--quiet"])


def test_nothing_found(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """No rows are exit 1, as everywhere."""
    assert 1 == main(["sql", str(store), "SELECT topic FROM messages WHERE topic = 'none'"])
    assert ("", True) == ((said := capfd.readouterr()).out, "nothing found" in said.err)


def test_unread(
    store: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A file that cannot be opened is exit 3, whatever the rows say."""
    (segment,) = (store / "commitlog").iterdir()
    away = store.parent / "away"

    def lose(source: SourceOptions) -> list[Task]:
        if away.exists():
            away.rename(segment)
        found = tasks(source)
        segment.rename(away)
        return found

    monkeypatch.setattr("rmqtool.reads.plan.tasks", lose)
    assert 3 == main(["sql", str(store), "SELECT count(*) AS n FROM messages"])
    away.rename(segment)
    assert segment.name in capfd.readouterr().err


def test_bodies(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Bodies are decoded on request only."""
    question = "SELECT body FROM messages ORDER BY physical_offset LIMIT 1"
    assert 0 == main(["sql", str(store), question])
    assert {"body": None} == json.loads(capfd.readouterr().out)
    assert 0 == main(["sql", str(store), question, "--body", "text"])
    assert json.loads(capfd.readouterr().out)["body"].startswith("lmq 0")


def test_missing_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A store that is not there is said before Spark is started."""
    monkeypatch.setattr("rmqtool.cli.engines.EngineChoice.spark", None)
    assert 2 == main(["sql", str(tmp_path / "none"), "SELECT 1", "--engine", "local"])
    assert "no such file" in capfd.readouterr().err


def test_bucket(store: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Questions are about stores in buckets, too."""
    s3_server().put(store, f"{tmp_path.name}/store")
    question = "SELECT topic, count(*) AS n FROM messages GROUP BY topic ORDER BY topic"
    found = []
    for place in (str(store), in_bucket(f"{tmp_path.name}/store")):
        assert 0 == main(["sql", place, question])
        found.append(capfd.readouterr().out)
    assert found[0] == found[1]
