"""Every column of every public table has an entry, and is found by what others call it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import orjson
import pytest
from jsonschema import Draft202012Validator

from rmqtool.cli.main import main
from rmqtool.dictionary import entries, names, public_tables
from rmqtool.table import EXACT, Column, Table, Type
from tests import inflict
from tests.imports import modules
from tests.stores import broker_conf, fixture_names, fixture_store

TABLES: Final = dict(public_tables())
UNITS: Final = {
    "", "bytes", "ms", "seconds", "percent", "messages", "records", "units", "entries", "slots",
    "queues", "files", "rows", "tasks", "gaps",
}  # fmt: skip
NUMBERS: Final = {Type.INT32, Type.INT64, Type.DOUBLE}
# Names whose values are bytes of something, wherever they stand.
IN_BYTES: Final = re.compile(
    r"(?<!batch)(^|_)(position|length|size|allocated|bytes|physical_offset)$"
)
LONGEST: Final = 90  # characters of a meaning: one line beside a name
BANNED: Final = re.compile(r"\b(behind|foretold|foretell|whereof|in front of|at which|of which)\b")


def columns() -> Iterator[tuple[str, Column]]:
    """Yield each column of each table with a name for a failure."""
    for command, table in TABLES.items():
        for column in table.columns:
            yield f"{command}: {column.name}", column


def test_table() -> None:
    """A table says what its rows are, names each column once, and shows what it has."""
    assert [] == [command for command, table in TABLES.items() if not all(claims(table))]


def claims(table: Table) -> Iterator[bool]:
    """Yield what must be true of a table."""
    yield bool(table.meaning)
    yield bool(table.name)
    yield len(table.names) == len(set(table.names))
    shown = {*table.shown, *table.below, *table.whole} - {"sha256"}  # of edits: made for people
    yield shown <= set(table.names)


def test_entries() -> None:
    """Each column has a meaning in plain words, and a number has its unit where it has one."""
    wrong = []
    for name, column in columns():
        is_plain = 3 < len(column.meaning) <= LONGEST and not BANNED.search(column.meaning)
        is_phrase = not column.meaning.endswith(".")
        in_bytes = column.type in NUMBERS and IN_BYTES.search(column.name)
        has_unit = column.unit in UNITS and (column.unit == "bytes" or not in_bytes)
        if not (is_plain and is_phrase and has_unit):
            wrong.append((name, column.meaning, column.unit))
    assert [] == wrong


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("msgId", "unique_key"),
        ("UNIQ_KEY", "unique_key"),
        ("offsetMsgId", "message_id"),
        ("queueOffset", "queue_offset"),
        ("store_timestamp", "store_time"),
        ("storeTimestamp", "store_time"),
        ("maxOffset", "max_offset"),
        ("TAGS", "tags"),
    ],
)
def test_found(word: str, name: str) -> None:
    """What users call a column finds it."""
    assert name in {entry.column.name for entry in entries(word)}


def test_names_are_found() -> None:
    """Each name has an entry, and each entry a command that shows it."""
    assert all(entry.commands for name in names() for entry in entries(name))
    assert all(entries(name) for name in names())


def test_one_way() -> None:
    """Rows to be written come from a declared table, but for what SQL answers and rows turned."""
    made = {
        name
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Rows"
    }
    assert {"rmqtool.table", "rmqtool.rows", "rmqtool.cli.commands.sql"} == made


def test_columns_are_named_once() -> None:
    """Few rows are written as literals that name columns again: `Table.row` takes attributes.

    What is left are columns of Arrow batches, rows of a line or a unit each, of which there are
    millions, rows of damage, and values that are no attribute of anything.
    """
    tables = [frozenset(table.names) for table in TABLES.values()]
    named = [names for _, tree in modules() for names in literal_names(tree)]
    again = [names for names in named if any(names <= columns for columns in tables)]
    assert sum(map(len, again)) <= 418


def literal_names(tree: ast.Module) -> Iterator[set[str]]:
    """Yield the names in each dictionary literal, and in each call of `row`, with two or more."""
    for node in ast.walk(tree):
        names: set[object] = set()
        if isinstance(node, ast.Dict):
            names = {key.value for key in node.keys if isinstance(key, ast.Constant)}
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "row":
            names = {keyword.arg for keyword in node.keywords}
        texts = {name for name in names if isinstance(name, str)}
        if len(texts) > 1:
            yield texts


def test_row() -> None:
    """A row takes what its things have, first ones first, and what is given; it names all else."""
    table = Table(
        "things",
        "a thing",
        (
            Column("name", Type.TEXT, "its name"),
            Column("kind", Type.TEXT, "its kind"),
            Column("made_time", Type.TIME, "when it was made"),
            Column("note", Type.TEXT, "what is remarkable", is_optional=True),
        ),
    )
    thing = SimpleNamespace(name="a", kind=Type.TEXT, made_timestamp=1)
    made = "1970-01-01T00:00:00.001Z"
    row = {"name": "a", "kind": "text", "made_time": made, "note": None}
    assert row == table.row(thing, SimpleNamespace(name="b"))
    assert row | {"kind": None} == table.row(thing, kind=None)
    assert row | {"kind": None, "made_time": None} == table.row(SimpleNamespace(name="a"), None)
    with pytest.raises(AttributeError, match="nothing has kind"):
        table.row(SimpleNamespace(name="a"))
    with pytest.raises(TypeError, match="no column size"):
        table.row(thing, size=1)


def test_arrow() -> None:
    """A schema carries the meaning and the unit of each column."""
    field = TABLES["dump --as commitlog"].arrow.field("physical_offset")
    assert {b"comment": b"place of the record in the commitlog, bytes"} == field.metadata


def test_schemas() -> None:
    """Each table has a JSON schema that is one, with each of its columns."""
    for command, table in TABLES.items():
        schema = table.json_schema()
        Draft202012Validator.check_schema(schema)
        assert set(table.names) == set(schema["required"]) <= set(schema["properties"]), command


TOPIC: Final = "traffic-orders"
PLACE: Final = ("--topic", TOPIC, "--queue", "1", "--queue-offset", "3")
COMMANDS: Final = {
    "dump --as commitlog": ["dump", "STORE", "--as", "commitlog", "--body", "text", "--fillers"],
    "dump --as consume-queue": ["dump", "STORE", "--as", "consume-queue", "--fillers"],
    "dump --as index": ["dump", "STORE", "--as", "index"],
    "dump --as checkpoint": ["dump", "STORE", "--as", "checkpoint"],
    "dump --as config": ["dump", "STORE", "--as", "config"],
    "dump --as timer-log": ["dump", "STORE", "--as", "timer-log"],
    "dump --hex": ["dump", "STORE", "--hex", "--limit", "200"],
    "validate": ["validate", "STORE"],
    "query": ["query", "STORE", *PLACE],
    "query --group": ["query", "STORE", "--group", "traffic-slow"],
    "query --id ID --group": ["query", "STORE", *PLACE, "--group", "traffic-slow"],
    "query --time": ["query", "STORE", "--time", "2026-11-21T03:00:00Z", "--topic", TOPIC],
    "repair (edits)": ["repair", "STORE"],
    "rebuild-cq": ["rebuild-cq", "STORE", "--dry-run"],
    "rebuild --check": ["rebuild", "STORE", "--check"],
    **{
        f"info --section {name}": ["info", "STORE", "--section", name]
        for name in ("store", "segments", "topics", "queues", "index", "checkpoint", "groups")
    },
    **{
        f"startup --section {name}": ["startup", "STORE", "--section", name]
        for name in ("verdict", "steps")
    },
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("scenario", ["traffic", "timer"])
def test_json_schema(
    command: str, scenario: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Lines that commands write are what the JSON schema of their table says, field for field."""
    fixture = fixture_names(scenario=scenario)[-1]
    store = str(fixture_store(fixture, tmp_path))
    words = [store if word == "STORE" else word for word in COMMANDS[command]]
    if command.startswith("startup"):
        words += ["--broker-version", "5.5.0"]
    if broker_conf(fixture).is_file() and words[0] != "validate":
        words += ["--broker-conf", str(broker_conf(fixture))]
    main([*words, "--format", "jsonl", "--quiet"])
    schema = TABLES[command].json_schema()
    Draft202012Validator.check_schema(schema)
    judge = Draft202012Validator({**schema, "additionalProperties": False})
    lines = islice(capfd.readouterr().out.splitlines(), 500)
    for line in lines:
        row: dict[str, Any] = orjson.loads(line)
        if "kind" not in TABLES[command].names:
            row.pop("kind", None)  # which of several kinds of rows it is
        assert [] == [error.message for error in judge.iter_errors(row)], line
        present = [name for name in row if not name.endswith(EXACT)]
        assert present == [name for name in TABLES[command].names if name in present]


NOWHERE: Final = "/nowhere/store"  # nothing is read for a schema


def schema_of(capfd: pytest.CaptureFixture[str], *words: str) -> Any:  # noqa: ANN401 - a document
    """Give what a command says of its rows."""
    assert 0 == main([*words, "--format", "json-schema"])
    told = capfd.readouterr()
    assert not told.err
    schema = orjson.loads(told.out)
    Draft202012Validator.check_schema(schema)
    return schema


@pytest.mark.parametrize(
    "command", [command for command in COMMANDS if command != "repair (edits)"]
)
def test_described(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    """`--format json-schema` gives the schema of the rows, though there is no store."""
    words = [NOWHERE if word == "STORE" else word for word in COMMANDS[command]]
    assert TABLES[command].json_schema() == schema_of(capfd, *words)


@pytest.mark.parametrize("command", ["doctor", "info", "startup", "repair", "diff"])
def test_described_kinds(command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Where rows of several kinds come, each line is of one of them."""
    places = [NOWHERE, NOWHERE] if command == "diff" else [NOWHERE]
    judge = Draft202012Validator(schema_of(capfd, command, *places))
    kinds = {
        str(label["const"]): name
        for one in judge.schema["anyOf"]
        for name, label in one["properties"].items()
        if "const" in label
    }
    store = fixture_store(fixture_names(scenario="traffic")[-1], tmp_path)
    inflict.zero_sector()(store)
    stores = [str(store), str(broker_conf(fixture_names(scenario="traffic")[-1]).parent / "store")]
    main([command, *stores[: len(places)], "--format", "jsonl", "--quiet"])
    lines = [orjson.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert lines
    for row in lines:
        (label,) = {kinds[name] for name in kinds if name in row.values()} & {"kind", "section"}
        assert row[label] in kinds
        assert [] == [error.message for error in judge.iter_errors(row)], row
    assert {name for name in kinds if not judge.is_valid({kinds[name]: name})} == {*kinds}


def test_described_columns(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Columns that were asked for are described alone; a path tells what it is."""
    schema = schema_of(capfd, "dump", NOWHERE, "--columns", "topic,size")
    assert ["topic", "size"] == schema["required"]
    assert {"topic", "size"} == set(schema["properties"])
    store = fixture_store(fixture_names(scenario="traffic")[-1], tmp_path)
    queues = schema_of(capfd, "dump", str(store / "consumequeue"))
    assert TABLES["dump --as consume-queue"].json_schema() == queues
    path = tmp_path / "sent.json"
    words = ["extract", NOWHERE, "--output", str(path), "--format", "json-schema"]
    assert 0 == main(words)
    assert TABLES["extract (the file)"].json_schema() == orjson.loads(path.read_bytes())
    assert 2 == main(["dump", NOWHERE, "--columns", "tpoic", "--format", "json-schema"])
    assert "no column tpoic; nearest: topic" in capfd.readouterr().err
    assert 2 == main(["sql", NOWHERE, "SELECT 1", "--format", "json-schema"])
    assert "DESCRIBE SELECT" in capfd.readouterr().err
