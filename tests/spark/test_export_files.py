"""The files of an export: directories that stay inside, values that stay what they are."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.reads.export_options import ExportFormat, ExportOptions
from rmqtool.reads.export_task import NO_VALUE, directory_name, open_writer, split
from rmqtool.reads.options import SourceOptions

TIME = pa.timestamp("us", "UTC")
HOSTILE = ["..", ".", "", "../../etc", "a/b", "a\\b", "a=b", "%41", "\0", "a\nb", "CON", "~", " "]


@given(st.text())
def test_names_stay_inside(value: str) -> None:
    """Whatever a value is, its directory is one name that file systems take."""
    name = f"topic={directory_name('topic', value)}"
    assert "/" not in name
    assert "\0" not in name
    assert "\\" not in name
    assert len(name.encode()) <= 255


@pytest.mark.parametrize("value", HOSTILE)
def test_names_are_made(tmp_path: Path, value: str) -> None:
    """A directory for a hostile value can be made, right where it belongs."""
    made = tmp_path / f"topic={directory_name('topic', value)}"
    made.mkdir()
    assert [made] == list(tmp_path.iterdir())


def test_names_differ() -> None:
    """Different values have different directories, however long; no value has its own name."""
    values = [*HOSTILE[3:], "x" * 300, "x" * 299 + "y", "é" * 200, "é" * 199 + "e"]
    assert len(values) == len({directory_name("topic", value) for value in values})
    assert NO_VALUE == directory_name("topic", None)
    assert "%25RETRY%25group" == directory_name("topic", "%RETRY%group")


def rows() -> pa.Table:
    """Rows of two topics and three days, and one of none."""
    day = 86_400_000_000
    return pa.table(
        {
            "n": pa.array(range(6)),
            "topic": pa.array(["a", "b", "a", None, "a", "b"]),
            "store_time": pa.array([0, 1, -1, None, day, 2**62], TIME),
        }
    )


def test_split() -> None:
    """Each row is in the directory of its values, in the order in which it came."""
    found = {path: some["n"].to_pylist() for path, some in split(rows(), ["topic", "date"])}
    assert {
        "topic=a/date=1970-01-01": [0],
        "topic=a/date=1969-12-31": [2],
        "topic=a/date=1970-01-02": [4],
        "topic=b/date=1970-01-01": [1],
        "topic=b/date=+148108-07-06": [5],
        f"topic={NO_VALUE}/date={NO_VALUE}": [3],
    } == found
    assert {"topic=a": [0, 2, 4], "topic=b": [1, 5], f"topic={NO_VALUE}": [3]} == {
        path: some["n"].to_pylist() for path, some in split(rows(), ["topic"])
    }
    ((path, some),) = split(rows(), [])
    assert ("", rows()) == (path, some)


def written(tmp_path: Path, form: ExportFormat, table: pa.Table) -> Path:
    """Write a table."""
    path = tmp_path / "file"
    options = ExportOptions(SourceOptions("store"), "out", form, cell=lambda one: f"<{one}>")
    with path.open("wb") as file:
        writer = open_writer(file, table.schema, options)
        writer.write(table)
        writer.close()
    return path


def test_parquet(tmp_path: Path) -> None:
    """Parquet has the same values and types, lists and maps, too."""
    table = pa.table(
        {
            "topic": ["a", None],
            "keys": pa.array([["k", "l"], []], pa.list_(pa.string())),
            "properties": pa.array([[("p", "q")], None], pa.map_(pa.string(), pa.string())),
            "store_time": pa.array([1, None], TIME),
            "code": pa.array([None, "CL-CRC"]),
        }
    )
    found = pq.read_table(written(tmp_path, ExportFormat.PARQUET, table))
    assert table.to_pylist() == found.to_pylist()
    assert table["store_time"].type == found["store_time"].type


def test_few_texts(tmp_path: Path) -> None:
    """A text of which a store has few is written once in a Parquet file, and any other as it is."""
    few = ["topic", "tags", "born_host", "store_host", "file"]
    table = pa.table({name: ["some text"] * 9 for name in [*few, "unique_key"]})
    path = written(tmp_path, ExportFormat.PARQUET, table)
    columns = pq.ParquetFile(path).metadata.row_group(0).to_dict()["columns"]
    is_once = {
        column["path_in_schema"]: "RLE_DICTIONARY" in column["encodings"] for column in columns
    }
    assert dict.fromkeys(few, True) | {"unique_key": False} == is_once


def test_texts(tmp_path: Path) -> None:
    """JSON has nulls, too; CSV has a head, and cells as they are told."""
    table = pa.table({"topic": ["a,b", 'q"'], "code": pa.array([None, "CL-CRC"])})
    lines = written(tmp_path, ExportFormat.JSONL, table).read_text().splitlines()
    assert table.to_pylist() == list(map(json.loads, lines))
    with written(tmp_path, ExportFormat.CSV, table).open(newline="") as file:
        assert [["topic", "code"], ["<a,b>", "<None>"], ['<q">', "<CL-CRC>"]] == list(
            csv.reader(file)
        )
