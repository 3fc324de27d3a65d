"""SQL in this process: answers that are those of `dump`, and nothing that could change anything."""

from __future__ import annotations

import os
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeAlias

import pyarrow.compute as pc
import pytest

from rmqtool.doctor.examination import examine_store
from rmqtool.errors import UsageError
from rmqtool.info.overview import overview
from rmqtool.info.overview_rows import table as section_table
from rmqtool.query.groups import ConsumerGroup, known_groups
from rmqtool.query.sources import Sources
from rmqtool.reads.limits import Condition, columns_of, conditions
from rmqtool.reads.options import SourceOptions, TableName
from rmqtool.reads.views import VIEWS
from rmqtool.repair.options import RepairOptions
from rmqtool.rows import rows_of
from rmqtool.sql import questions as module
from rmqtool.sql.questions import LocalQuestions, SqlFailed
from rmqtool.store.tree import open_store
from rmqtool.tables.dump import DumpOptions, DumpOutcome, dump
from rmqtool.tables.lost_messages import LOST_MESSAGES
from tests.damage import DAMAGES
from tests.stores import fixture_store

TRAFFIC = "rocketmq-5.3.3-traffic"
FOREVER = "SELECT count(*) FROM range(100000000) a, range(100000) b WHERE a.range * b.range % 7 = 3"
Found: TypeAlias = list[dict[str, Any]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with transactions, retries, batches, hostile text."""
    return fixture_store(TRAFFIC, tmp_path_factory.mktemp("sql"))


@pytest.fixture(scope="module")
def questions(store: Path) -> Iterator[LocalQuestions]:
    """Who answers."""
    with LocalQuestions(SourceOptions(str(store))) as here:
        yield here


def answer(questions: LocalQuestions, text: str) -> Found:
    """Give all rows."""
    return [row for chunk in questions.ask(text).chunks for row in chunk]


def test_all_columns(questions: LocalQuestions, store: Path) -> None:
    """Every column of every message is what `dump` shows, in its order, times and mappings, too."""
    (rows,) = dump(DumpOptions((str(store),), as_json=True), DumpOutcome())
    expected = [row for chunk in rows for row in rows_of(chunk)]
    found = answer(questions, "SELECT * FROM messages")
    assert [{name: row.get(name) for name in found[0]} for row in expected] == found


def test_values(questions: LocalQuestions) -> None:
    """Values of any type become what JSON, CSV and tables can show; names differ."""
    (row,) = answer(
        questions,
        "SELECT 1 AS a, 2 AS a, TIMESTAMPTZ '2020-01-01 00:00:00.5+00' AS t, 1.50 AS d, "
        "'\\x00\\xff'::BLOB AS b, {'q': DATE '2020-02-03'} AS s, map {'k': [1]} AS m, "
        "sum(7) AS whole, "
        "[TIMESTAMPTZ '2020-01-01 00:00:00+00', NULL] AS x, NULL::INT[] AS nothing, "
        "map {1: TIMESTAMPTZ '1969-12-31 23:59:59.999+00'} AS deep, NULL AS n",
    )
    assert {
        "a": 1,
        "a_2": 2,
        "t": "2020-01-01T00:00:00.500Z",
        "b": b"\x00\xff",
        "d": "1.50",
        "s": {"q": "2020-02-03"},
        "m": {"k": [1]},
        "whole": 7,
        "x": ["2020-01-01T00:00:00.000Z", None],
        "nothing": None,
        "deep": {"1": "1969-12-31T23:59:59.999Z"},
        "n": None,
    } == row


@pytest.mark.parametrize(
    "text",
    [
        "COPY (SELECT 1) TO '{}'",
        "EXPORT DATABASE '{}'",
        "ATTACH '{}' AS written",
        "WITH a AS (SELECT 1) INSERT INTO b SELECT * FROM a",
        "EXPLAIN ANALYZE CREATE TABLE t AS SELECT 1",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{}'",
        "SELECT 1; SELECT 2",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT content FROM read_text('/etc/passwd')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM sqlite_scan('{}', 'a')",
        "SELECT * FROM store_path",
        "SET threads = 1",
        "INSTALL httpfs",
        "DROP VIEW messages",
        "",
    ],
)
def test_refused(store: Path, tmp_path: Path, text: str) -> None:
    """What writes, or reads anything but the tables, is refused in one line, and writes nothing."""
    store_path = store  # a name that DuckDB would find among the variables of a caller
    with LocalQuestions(SourceOptions(str(store_path))) as here:
        with pytest.raises(UsageError, match="SQL") as refused:
            answer(here, text.format(tmp_path / "written"))
        assert 1 == len(str(refused.value).splitlines())
    assert [] == list(tmp_path.iterdir())


def test_no_such_table(questions: LocalQuestions) -> None:
    """Who names a table that is not there is told which ones are."""
    with pytest.raises(UsageError, match="message") as refused:
        questions.ask("SELECT * FROM message")
    assert {"messages", "hot_keys"} <= set(refused.value.next_step.split())


def test_about_names(questions: LocalQuestions) -> None:
    """SHOW tells of all tables and views, DESCRIBE of their columns, EXPLAIN of what is read."""
    shown = {row["name"] for row in answer(questions, "SHOW TABLES")}
    assert {*TableName, *VIEWS} <= shown
    for name in (*TableName, *VIEWS):
        described = answer(questions, f"DESCRIBE {name}")
        assert described
        assert [] == [row["col_name"] for row in described if not row["comment"]]
    questions.read_so_far()
    (plan,) = answer(questions, "EXPLAIN SELECT size FROM messages WHERE queue_id = 1")
    assert {"Projections: size", 'Filters: "queue_id" = 1'} <= {
        line.strip("│ ") for line in plan["explain_value"].splitlines()
    }
    assert 0 == questions.read_so_far().bytes


def test_reads_less(questions: LocalQuestions, store: Path) -> None:
    """Offsets, times and LIMIT give their rows, and read less than all of the log."""
    log = sum(file.stat().st_size for file in store.glob("commitlog/*"))
    text = "SELECT physical_offset FROM messages"
    offsets = [row["physical_offset"] for row in answer(questions, text)]
    assert questions.read_so_far().bytes == log
    for where, expected in (
        ("physical_offset < 100000", [offset for offset in offsets if offset < 100_000]),
        ("physical_offset = 262144", [262_144]),
    ):
        found = answer(questions, f"{text} WHERE {where}")
        assert expected == [row["physical_offset"] for row in found]
        assert 0 < questions.read_so_far().bytes < log


def test_self_joins(questions: LocalQuestions) -> None:
    """A filter belongs to one place where a table stands: another one reads all its rows."""
    topics = Counter(row["topic"] for row in answer(questions, "SELECT topic FROM messages"))
    (row,) = answer(
        questions,
        "SELECT (SELECT count(*) FROM messages WHERE topic = 'T') AS a, "
        "(SELECT count(*) FROM messages WHERE topic = 'traffic-orders') AS b, "
        "(SELECT count(*) FROM messages) AS c",
    )
    assert {"a": topics["T"], "b": topics["traffic-orders"], "c": topics.total()} == row


def test_damage_is_counted(tmp_path: Path) -> None:
    """Rows of damage that a question reads are counted, though its filter drops them."""
    store = fixture_store(TRAFFIC, tmp_path)
    DAMAGES["zero-8-sectors-middle"].inflict(store)
    with LocalQuestions(SourceOptions(str(store))) as here:
        answer(here, "SELECT count(*) AS n FROM messages WHERE topic IS NOT NULL")
        assert 0 < here.read_so_far().damaged


def test_interrupted(questions: LocalQuestions) -> None:
    """Ctrl-C stops a question that would take for ever, and the next one is answered."""
    for seconds in (0.1, 1.0):
        with interrupted(seconds), pytest.raises(KeyboardInterrupt):
            answer(questions, FOREVER)
        assert [{"n": 1}] == answer(questions, "SELECT 1 AS n")


@contextmanager
def interrupted(seconds: float) -> Iterator[None]:
    """Press Ctrl-C after some seconds, and again while the block goes on.

    Whoever runs the tests in the background ignores it, and what Python cleans up may swallow one.
    """
    ended = Event()

    def press() -> None:
        while not ended.wait(seconds):
            os.kill(os.getpid(), signal.SIGINT)

    def handle(*_: object) -> None:
        if not ended.is_set():
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handle)
    pressing = Thread(target=press)
    pressing.start()
    try:
        yield
    finally:
        ended.set()
        pressing.join()
        signal.signal(signal.SIGINT, before)


def test_memory(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that memory does not hold go to the disk, into a directory that is gone at the end."""
    monkeypatch.setattr(module, "MEMORY", 64 << 20)
    many = "SELECT count(*) AS n FROM (SELECT range AS a, hash(range) AS b FROM range({}) "
    many += "ORDER BY b, a OFFSET 1)"
    with LocalQuestions(SourceOptions(str(store))) as here:
        assert [{"n": 7_999_999}] == answer(here, many.format(8_000_000))
        (setting,) = answer(here, "SELECT current_setting('temp_directory') AS place")
        assert Path(setting["place"]).is_relative_to(tempfile.gettempdir())
        assert Path(setting["place"]).is_dir()
    assert not Path(setting["place"]).exists()
    monkeypatch.setattr(module, "DISK", 1 << 20)
    with (
        LocalQuestions(SourceOptions(str(store))) as here,
        pytest.raises(SqlFailed, match="Out of Memory") as failed,
    ):
        answer(here, many.format(30_000_000))
    assert "fewer" in failed.value.next_step


def test_conditions() -> None:
    """What all rows have to be is read from a filter; what only some have to be is not."""
    topic, offset, queue = pc.field("topic"), pc.field("physical_offset"), pc.field("queue_id")
    both = (topic == "it's 'x'\nliteral: '9'") & ((offset >= 3) & (offset < 9))
    assert [
        Condition("topic", "equal", ("it's 'x'\nliteral: '9'",)),
        Condition("physical_offset", "greater_equal", (3,)),
        Condition("physical_offset", "less", (9,)),
    ] == conditions(both)
    among = pc.if_else(topic.is_valid(), topic.isin(["a", "b"]), pc.scalar(None))
    assert [Condition("topic", "is_in", ("a", "b"))] == conditions(among)
    assert [] == conditions((topic == "a") | (queue == 1))
    assert [] == conditions(~(queue == 1))
    assert [] == conditions(pc.if_else(topic.is_valid(), topic.isin(["a"]), pc.scalar(True)))
    assert [] == conditions(None)
    assert {"topic", "queue_id"} == columns_of((topic == "a") | (queue == 1))


def test_small_tables(questions: LocalQuestions, store: Path) -> None:
    """Tables of few rows have the rows of `info` and of `query --group`."""
    opened = open_store(str(store))
    for name in ("topics", "queues", "groups", "checkpoint"):
        ((_, found),) = overview(opened, [name])
        table = section_table(name)
        expected = [
            row for chunk in table.rows([list(map(table.row, found))]) for row in rows_of(chunk)
        ]
        assert expected
        got = answer(questions, f"TABLE {name}")
        assert [{column: row.get(column) for column in got[0]} for row in expected] == got
    with Sources(opened, scan=False) as sources:
        expected = [
            dict(row)
            for group in known_groups(opened)
            for row in ConsumerGroup(sources, group).rows()
        ]
    got = answer(questions, "TABLE consumer_offsets")
    assert [{column: row.get(column) for column in got[0]} for row in expected] == got
    assert any(row["lag"] for row in got)
    levels = {row["delay_level"]: row for row in answer(questions, "TABLE delay_offsets")}
    assert levels
    assert all(
        row["waiting"] == row["end_offset"] - row["delivered_offset"] for row in levels.values()
    )


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (TRAFFIC, ""),
        (TRAFFIC, "zero-8-sectors-middle"),
        (TRAFFIC, "flip-body-early"),
        ("rocketmq-5.3.3-expired", ""),
        ("rocketmq-5.5.1-rocksdb", "garbage-late"),
    ],
)
def test_account_of_loss(name: str, damage: str, tmp_path: Path) -> None:
    """The table of lost messages has what `doctor` lists, damage or none."""
    store = fixture_store(name, tmp_path)
    if damage:
        DAMAGES[damage].inflict(store)
    listed = examine_store(RepairOptions(str(store))).lost_messages
    assert bool(damage) == bool(listed)
    with LocalQuestions(SourceOptions(str(store))) as here:
        found = answer(here, "TABLE lost_messages")
    columns = set(LOST_MESSAGES.names)
    assert listed == [{one: row[one] for one in row if one in columns} for row in found]


def test_unread_of_small_tables(tmp_path: Path) -> None:
    """What cannot be read for a table of few rows is a row."""
    store = fixture_store(TRAFFIC, tmp_path)
    for file in (store / "config").glob("consumerOffset.json*"):
        file.write_text("{")
    with LocalQuestions(SourceOptions(str(store))) as here:
        found = answer(here, "SELECT code, reason FROM groups WHERE code IS NOT NULL")
        assert found
        assert all("consumerOffset.json" in row["reason"] for row in found)
        assert {"FS-READ"} == {row["code"] for row in found}
        assert len(found) == here.read_so_far().unread
