"""The public schemas are Spark-shaped, and survive Spark's own converter."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

import rmqtool
from rmqtool.errors import UsageError
from rmqtool.tables.readers import READERS
from rmqtool.tables.record_columns import SCHEMA
from rmqtool.tables.selection import Selection
from rmqtool.tables.views import VIEWS
from tests.damage import DAMAGES
from tests.damaged import damaged_store
from tests.stores import fixture_names, fixture_store

SCHEMAS = {"messages": SCHEMA} | {word: VIEWS[word].table.arrow for word in READERS}


@pytest.mark.parametrize("word", SCHEMAS)
def test_spark(word: str) -> None:
    """Names, types and nullability are the same after a trip through Spark's types."""
    found = to_arrow_schema(from_arrow_schema(SCHEMAS[word]), timezone="UTC")
    assert [(field.name, field.type, True) for field in SCHEMAS[word]] == [
        (field.name, field.type, field.nullable) for field in found
    ]


@pytest.mark.parametrize("scenario", ["traffic", "timer", "batch-queue", "dledger"])
def test_batches(tmp_path: Path, scenario: str) -> None:
    """Every batch has exactly the public schema: no dictionaries, nothing unsigned."""
    opened = rmqtool.open_store(str(fixture_store(fixture_names(scenario=scenario)[-1], tmp_path)))
    there = {str(artefact.kind) for artefact in opened.artefacts()}
    rows = 0
    for word in ({"commitlog", "dledger"} | READERS.keys()) & there:
        for batch in opened.batches(word):
            expected = SCHEMAS.get(word, SCHEMA)
            assert expected == batch.schema
            assert batch.validate(full=True) is None
            rows += batch.num_rows
    assert rows > 0


@pytest.mark.parametrize(
    ("damage", "kind"),
    [("remove-middle-segment", None), ("foreign-name", None), ("flip-unit-offset", "consume-queue"),
     ("flip-entry-link", "index")],
)  # fmt: skip
def test_damage(tmp_path: Path, damage: str, kind: str | None) -> None:
    """What is damaged in the files is a row of the columns, and of the rows, too."""
    store, _ = damaged_store(damage, tmp_path)
    opened = rmqtool.open_store(str(store))
    codes = {row["code"] for row in opened.rows(kind) if row.get("code")}
    assert codes & {*DAMAGES[damage].codes}
    table = opened.scanner(kind or "messages").read_all()
    assert codes == {one for one in table["code"].to_pylist() if one}
    if kind is None:
        assert len(list(opened.records())) == table["extent"].null_count


def test_records(tmp_path: Path) -> None:
    """The records of the library are those of the rows, in the same order."""
    opened = rmqtool.open_store(str(fixture_store(fixture_names(scenario="traffic")[0], tmp_path)))
    table = pa.Table.from_batches(opened.batches())
    assert table["topic"].to_pylist() == [record.topic for record in opened.records()]
    assert [row["message_id"] for row in opened.rows()] == table["message_id"].to_pylist()


def test_scanner(tmp_path: Path) -> None:
    """A scanner gives the rows of the batches, with the columns that were asked for alone."""
    store = rmqtool.open_store(str(fixture_store("rocketmq-5.3.3-lmq", tmp_path)))
    every = pa.Table.from_batches(store.batches())
    names = ["queue_offset", "topic"]
    assert every.select(names) == store.scanner("messages", columns=names).read_all()
    assert every == store.scanner().read_all()
    units = store.scanner("consume-queue", Selection(topics=("lmq-parent",)))
    assert {"lmq-parent"} == set(units.read_all()["topic"].to_pylist())
    assert 0 == store.scanner(selection=Selection(topics=("none",))).read_all().num_rows
    with pytest.raises(UsageError, match="no column topics"):
        store.scanner(columns=["topics"])
