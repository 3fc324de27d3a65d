"""Each table of a store has the same rows in each format that an export writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.csv as pc
import pyarrow.dataset as ds
import pytest

from rmqtool.cli.main import main as rmqtool
from rmqtool.reads.export_options import ExportFormat
from rmqtool.reads.options import TableName
from rmqtool.tables.arrow import plain_rows
from tests.stores import fixture_store
from tests.tour import make as make_tour

TIMERS = "rocketmq-5.5.0-timer"
POP = "rocketmq-5.5.0-rocksdb-pop"


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Give stores of which each table has rows in one at least."""
    made = [tmp_path_factory.mktemp(name) for name in ("tour", TIMERS, POP)]
    return [make_tour(made[0]), fixture_store(TIMERS, made[1]), fixture_store(POP, made[2])]


def exported(store: Path, table: TableName, form: ExportFormat, into: Path) -> Path:
    """Export a table; give the directory."""
    output = into / f"{table}-{form}-{store.parent.name}"
    given = ("--table", str(table), "--format", str(form), "--output", str(output))
    assert rmqtool(["export", str(store), *given, "--quiet"]) in {0, 1}  # damage is rows
    return output


@pytest.mark.parametrize("table", TableName)
def test_same_rows(stores: list[Path], table: TableName, tmp_path: Path) -> None:
    """JSON lines have the values of Parquet, and CSV has as many rows and the same names."""
    rows = 0
    for store in stores:
        parquet = ds.dataset(exported(store, table, ExportFormat.PARQUET, tmp_path)).to_table()
        wanted = [_as_json(row) for batch in parquet.to_batches() for row in plain_rows(batch)]
        lines = _lines(exported(store, table, ExportFormat.JSONL, tmp_path))
        assert sorted(map(str, wanted)) == sorted(map(str, lines)), (store, table)
        written = sorted(exported(store, table, ExportFormat.CSV, tmp_path).glob("*.csv"))
        names, count = parquet.schema.names, 0
        for path in written:
            part = pc.read_csv(path, parse_options=pc.ParseOptions(newlines_in_values=True))
            assert names == part.schema.names
            count += part.num_rows
        assert parquet.num_rows == count, (store, table)
        rows += parquet.num_rows
    assert rows or table is TableName.TRACES, f"no store has rows of {table}"


def _as_json(row: dict[str, Any]) -> dict[str, Any]:
    """Give the row as somebody reads it who knows JSON alone."""
    return dict(json.loads(json.dumps(row, default=str)))


def _lines(directory: Path) -> list[dict[str, Any]]:
    paths = sorted(directory.glob("*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_bytes().splitlines()]
