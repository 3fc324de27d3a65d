"""SQL over a store: answers that are those of `dump`, and nothing that could change anything."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from rmqtool.errors import UsageError
from rmqtool.reads.options import SourceOptions, TableName
from rmqtool.reads.questions import mentioned
from rmqtool.reads.views import OPERATIONS, VIEWS
from rmqtool.rows import rows_of
from rmqtool.spark.jobs import Job, SparkFailed
from rmqtool.spark.source import BytesRead, RocketMQReader, counting
from rmqtool.spark.sql import SparkQuestions
from rmqtool.tables.dump import DumpOptions, DumpOutcome, dump
from tests.cli.run import PATIENCE
from tests.stores import fixture_store, held_by_another, sent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
TRAFFIC = "rocketmq-5.3.3-traffic"
ROWS = list[dict[str, Any]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with transactions, retries, batches, hostile text."""
    return fixture_store(TRAFFIC, tmp_path_factory.mktemp("sql"))


@pytest.fixture(scope="module")
def messages(store: Path) -> ROWS:
    """Its messages, as `dump` shows them."""
    (rows,) = dump(DumpOptions((str(store),), as_json=True), DumpOutcome())
    return [dict(row) for chunk in rows for row in rows_of(chunk)]


@pytest.fixture(scope="module")
def questions(spark: SparkSession, store: Path) -> SparkQuestions:
    """Who answers."""
    return SparkQuestions(spark, SourceOptions(str(store)))


def answer(questions: SparkQuestions, text: str) -> ROWS:
    """Give all rows."""
    return [row for chunk in questions.ask(text).chunks for row in chunk]


def test_all_columns(questions: SparkQuestions, messages: ROWS) -> None:
    """Every column of every message is what `dump` shows, times and mappings, too."""
    found = answer(questions, "SELECT * FROM messages ORDER BY physical_offset")
    assert [{name: row.get(name) for name in found[0]} for row in messages] == found


def test_aggregates(questions: SparkQuestions, messages: ROWS) -> None:
    """A question that needs few columns gives the same as counting by hand."""
    expected = Counter(row["topic"] for row in messages)
    found = answer(questions, "SELECT topic, count(*) AS n FROM messages GROUP BY topic;")
    assert expected == {row["topic"]: row["n"] for row in found}
    assert [{"n": len(messages)}] == answer(questions, "SELECT count(*) AS n FROM messages")


def test_filters_of_several_places(questions: SparkQuestions, messages: ROWS) -> None:
    """Filters of one place in which a table stands do not leak into another one."""
    expected = Counter(row["topic"] for row in messages)
    one, other = "traffic-orders", "T"
    count = "SELECT count(*) AS n FROM messages WHERE topic = "
    found = answer(questions, f"SELECT ({count} '{one}') AS a, ({count} '{other}') AS b")
    assert [{"a": expected[one], "b": expected[other]}] == found
    found = answer(questions, f"{count} '{other}' UNION ALL {count} '{one}'")
    assert sorted([expected[one], expected[other]]) == sorted(row["n"] for row in found)
    found = answer(
        questions,
        "WITH a AS (SELECT * FROM messages) SELECT * FROM (SELECT count(*) AS n FROM a WHERE topic "
        "= 'traffic-orders') WHERE n < (SELECT count(*) FROM a)",
    )
    assert [{"n": expected[one]}] == found


def test_reads_that_shrink(questions: SparkQuestions, messages: ROWS, store: Path) -> None:
    """Keys and a LIMIT give their rows, and say that less was read than all of the log."""
    key = next(row["keys"][0] for row in messages if row.get("keys"))
    of_key = [row["physical_offset"] for row in messages if key in (row.get("keys") or ())]
    first = [row["physical_offset"] for row in messages[:3]]
    wanted = "SELECT physical_offset AS at FROM messages "
    wanted += f"WHERE array_contains(keys, '{key}')"
    questions.read_so_far()
    for text, expected, is_less in (
        ("SELECT physical_offset AS at FROM messages LIMIT 3", first, True),
        (f"{wanted} AND size > 0", of_key, False),
        (f"{wanted} LIMIT 1", of_key[:1], False),
        (f"{wanted} LIMIT 0", [], False),
        ("SELECT count(*) AS at FROM (SELECT * FROM messages LIMIT 3)", [3], False),
        ("SELECT max(size) AS at FROM messages", [max(row["size"] for row in messages)], False),
    ):
        assert expected == [row["at"] for row in answer(questions, text)]
        read = questions.read_so_far()
        assert read is not None
        assert not is_less or 0 < read.bytes < sum(
            path.stat().st_size for path in store.glob("commitlog/*")
        )
    some = "SELECT (SELECT count(*) FROM messages) AS n FROM segments LIMIT 1"
    assert [{"n": len(messages)}] == answer(questions, some)


def test_much_told(spark: SparkSession) -> None:
    """However much workers tell of their reads, Spark goes on to take it, and so do they."""
    BytesRead(spark)

    def telling(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in range(20_000):
            list(counting([], "messages"))
        yield from batches

    job = Job(spark, "tells much")
    too_long = Timer(PATIENCE, job.cancel)
    too_long.start()
    assert job.collect(spark.range(0, 2, 1, 2).mapInArrow(telling, "id bigint")).num_rows == 2
    too_long.cancel()


def test_expired(spark: SparkSession, tmp_path: Path) -> None:
    """Files that a running broker deletes have no row, and are told; else they are damage."""
    store = fixture_store(TRAFFIC, tmp_path)
    first, *_ = sorted((store / "commitlog").iterdir())
    source = SourceOptions(path=str(store))
    reader = RocketMQReader(replace(source, pack=0), ("code",))
    (part, *_) = reader.partitions()
    questions = SparkQuestions(spark, source)
    text = "SELECT count(*) AS n FROM messages"
    with held_by_another(store):
        questions.ask(text)
        assert [] == questions.files.expired()
        first.unlink()
        assert [f"commitlog/{first.name}"] == questions.files.expired()
        assert [] == [*reader.read(part)]
        assert [] == questions.files.unread(("messages",))
    (row,) = (one for some in reader.read(part) for one in some.to_pylist())
    assert row == {"code": "FS-READ"}
    questions.ask(text)
    assert [] == questions.files.expired()


def test_joins(questions: SparkQuestions, messages: ROWS) -> None:
    """Tables can be joined: every unit of a queue leads to a message."""
    found = answer(
        questions,
        "SELECT count(*) AS n FROM queue_units u JOIN messages m USING (physical_offset) "
        "WHERE u.extent IS NULL AND u.queue_offset = m.queue_offset",
    )
    assert 0 < found[0]["n"] <= len(messages)


@pytest.mark.parametrize("name", [*TableName])
def test_tables(questions: SparkQuestions, name: str) -> None:
    """Each table can be asked."""
    found = list(answer(questions, f"TABLE {name} LIMIT 1"))
    nothing = {TableName.FINDINGS, TableName.LOST_MESSAGES}  # of a sound store
    assert found or name in {*nothing, TableName.POP_IN_FLIGHT, TableName.TRACES}


def test_values(questions: SparkQuestions) -> None:
    """Values of any type become what JSON, CSV and tables can show; names differ."""
    (row,) = answer(
        questions,
        "SELECT 1 AS a, 2 AS a, TIMESTAMP '2020-01-01 00:00:00.5' AS t, X'00ff' AS b, 1.50 AS d, "
        "named_struct('q', DATE '2020-02-03') AS s, map('k', array(1)) AS m, "
        "array(TIMESTAMP '2020-01-01') AS x, CAST(NULL AS INT) AS n",
    )
    assert {
        "a": 1,
        "a_2": 2,
        "t": "2020-01-01T00:00:00.500Z",
        "b": b"\x00\xff",
        "d": "1.50",
        "s": {"q": "2020-02-03"},
        "m": {"k": [1]},
        "x": ["2020-01-01T00:00:00.000Z"],
        "n": None,
    } == row


@pytest.mark.parametrize(
    "text",
    [
        "INSERT OVERWRITE DIRECTORY '{}' USING csv SELECT 1",
        "WITH a AS (SELECT 1) INSERT OVERWRITE DIRECTORY '{}' USING csv SELECT * FROM a",
        "FROM messages INSERT OVERWRITE DIRECTORY '{}' USING csv SELECT topic",
        "/* SELECT */ CREATE TABLE t USING csv LOCATION '{}' AS SELECT 1",
        "(CREATE TABLE t USING csv LOCATION '{}' AS SELECT 1)",
        "DROP VIEW messages",
        "SET spark.sql.ansi.enabled = false",
        "",
    ],
)
def test_changes_are_refused(questions: SparkQuestions, tmp_path: Path, text: str) -> None:
    """A statement that writes, drops or sets is refused, and writes nothing."""
    with pytest.raises(UsageError, match="SQL"):
        questions.ask(text.format(tmp_path / "written"))
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT nothing FROM messages", "UNRESOLVED_COLUMN"),
        ("SELECT * FROM nowhere", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT (1 FROM messages", "PARSE_SYNTAX_ERROR"),
    ],
)
def test_wrong_questions(
    questions: SparkQuestions, capfd: pytest.CaptureFixture[str], text: str, reason: str
) -> None:
    """A wrong question is an error of one line; neither Spark nor Java says more."""
    with pytest.raises(UsageError, match=reason) as refused:
        questions.ask(text)
    assert 1 == len(str(refused.value).splitlines())
    assert ("", "") == capfd.readouterr()


def test_no_such_table(questions: SparkQuestions) -> None:
    """Who names a table that is not there is told which ones are."""
    with pytest.raises(UsageError, match="message") as refused:
        questions.ask("SELECT * FROM message")
    assert {"messages", "hot_keys"} <= set(refused.value.next_step.split())


def test_failing_question(questions: SparkQuestions) -> None:
    """What goes wrong while rows are read is an error, too."""
    with pytest.raises(SparkFailed, match="DIVIDE_BY_ZERO"):
        answer(questions, "SELECT 1 / (queue_id - queue_id) FROM messages")


def test_about_names(questions: SparkQuestions) -> None:
    """SHOW tells of all tables and views, DESCRIBE of their columns, EXPLAIN of the plan."""
    shown = {row["viewName"] for row in answer(questions, "SHOW VIEWS")}
    assert {*TableName, *VIEWS} <= shown
    described = [row["col_name"] for row in answer(questions, "DESCRIBE segments")]
    assert "segment" == described[0]
    assert "rocketmq" in answer(questions, "EXPLAIN SELECT topic FROM messages")[0]["plan"]


def test_mentioned() -> None:
    """Only what a question names is read, and what the views that it names read."""
    assert (("messages",), ("hot_keys",)) == mentioned("select * from HOT_KEYS")
    assert ((OPERATIONS,), ("undecided_transactions",)) == mentioned("table undecided_transactions")
    assert ((), ()) == mentioned("select 1")


@pytest.fixture(scope="module")
def views(questions: SparkQuestions) -> dict[str, ROWS]:
    """The rows of each ready-made view."""
    return {name: answer(questions, f"TABLE {name}") for name in VIEWS}


@pytest.mark.parametrize("name", sorted(VIEWS))
def test_view_reads_once(questions: SparkQuestions, name: str) -> None:
    """A view reads the log at most once, and `DESCRIBE` says what its columns mean."""
    described = answer(questions, f"DESCRIBE {name}")
    assert described
    assert [] == [row["col_name"] for row in described if not row["comment"]]
    (plan,) = (row["plan"] for row in answer(questions, f"EXPLAIN TABLE {name}"))
    scans = re.findall(r"BatchScan rocketmq.*?\[(.*?)\]", plan)
    # Of records alone; units of queues and lengths of segments are read without the log.
    assert 1 == sum("reconsume_times" in one or "properties" in one for one in scans)


def test_undecided_transactions(views: dict[str, ROWS]) -> None:
    """Exactly the transactions are undecided for which nobody has decided."""
    expected = {row["unique_key"] for row in sent(TRAFFIC) if row.get("outcome") == "undecided"}
    assert len(expected) > 0
    assert expected == {row["unique_key"] for row in views["undecided_transactions"]}


def test_traffic_and_disk_use(views: dict[str, ROWS], messages: ROWS) -> None:
    """Minutes and topics add up to all messages and all their bytes."""
    size = sum(row["size"] for row in messages)
    for name in ("traffic_per_minute", "disk_use_per_topic"):
        assert len(messages) == sum(row["messages"] for row in views[name])
        assert size == sum(row["bytes"] for row in views[name])
    assert {row["store_time"][:17] + "00.000Z" for row in messages} == {
        row["minute"] for row in views["traffic_per_minute"]
    }
    assert 99 < sum(float(row["percent"]) for row in views["disk_use_per_topic"]) < 101


def test_largest_and_slowest(views: dict[str, ROWS], messages: ROWS) -> None:
    """The first rows are the largest and the slowest ones."""
    largest = sorted((-row["size"], row["physical_offset"]) for row in messages)[:100]
    assert largest == [(-row["size"], row["physical_offset"]) for row in views["largest_messages"]]
    slow = [row["delay_ms"] for row in views["slowest_stores"]]
    assert sorted(slow, reverse=True) == slow
    assert 100 == len(slow)


def test_retries(views: dict[str, ROWS], messages: ROWS) -> None:
    """A group's retries and dead letters are the messages of its two topics."""
    expected = Counter(row["topic"] for row in messages if row["topic"].startswith("%"))
    found = Counter[str]()
    for row in views["retries_per_group"]:
        found[f"%RETRY%{row['consumer_group']}"] = row["retries"]
        found[f"%DLQ%{row['consumer_group']}"] = row["dead_letters"]
    assert expected == +found


def test_keys(views: dict[str, ROWS], messages: ROWS) -> None:
    """Hot keys and duplicate unique keys are counted as by hand."""
    keys = Counter((row["topic"], key) for row in messages for key in row["keys"] or ())
    found = {(row["topic"], row["key"]): row["messages"] for row in views["hot_keys"]}
    assert found == {name: keys[name] for name in found}
    assert max(keys.values()) == max(found.values())
    places: dict[tuple[str, str], list[int]] = {}
    for row in messages:
        places.setdefault((row["topic"], row["unique_key"]), []).append(row["physical_offset"])
    for row in views["duplicate_unique_keys"]:
        assert places[row["topic"], row["unique_key"]] == row["physical_offsets"]
        assert 1 < row["messages"]
    twice = {topic for (topic, _), offsets in places.items() if len(offsets) > 1}
    assert {row["topic"] for row in views["duplicate_unique_keys"]} <= twice
