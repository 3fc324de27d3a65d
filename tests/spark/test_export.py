"""Exports: what `dump` shows, complete or marked as incomplete, never two of them mixed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from rmqtool.cli.main import main
from rmqtool.errors import OutputExists, UsageError, WriteFailed
from rmqtool.reads import export_task, readers
from rmqtool.reads.export import DAMAGED, PLAN, SUCCESS, ExportResult, ExportRun
from rmqtool.reads.export_options import PARTITIONS, ExportFormat, ExportOptions
from rmqtool.reads.export_task import NO_VALUE, RECEIPTS, NumberedTask
from rmqtool.reads.options import SourceOptions, TableName
from rmqtool.reads.plan import tasks
from rmqtool.reads.readers import batches
from rmqtool.reads.tables import SCHEMAS
from rmqtool.rows import rows_of
from rmqtool.tables.bodies import BodyMode, BodyOptions
from rmqtool.tables.dump import DumpOptions, DumpOutcome, dump
from rmqtool.tables.selection import Selection
from rmqtool.writing.dataset import Dataset
from tests import inflict
from tests.evidence import Evidence
from tests.s3_server import ENVIRONMENT, in_bucket, s3_server
from tests.stores import fixture_store

TRAFFIC = "rocketmq-5.3.3-traffic"


class Here:
    """Runs tasks in this process, in the place of Spark: what is tested is the export."""

    results_travel = False

    def __init__(self, stop_after: int | None = None) -> None:
        self.stop_after = stop_after
        self.done: list[int] = []

    def run(self, function: Callable[[Any], Any], parts: Iterable[Any]) -> Iterator[Any]:
        """Yield results, or be killed in the middle."""
        for part in parts:
            if self.stop_after is not None and len(self.done) >= self.stop_after:
                raise KeyboardInterrupt
            self.done.append(part.number)
            yield function(part)


def exported(
    store: Path | str,
    output: Path | str,
    engine: Here | None = None,
    **given: Any,  # noqa: ANN401 - whatever the options take
) -> ExportResult:
    """Export a store in this process."""
    own = {"form", "by", "target_file_size"}
    source = {name: given.pop(name) for name in list(given) if name not in own}
    options = ExportOptions(SourceOptions(str(store), **source), str(output), **given)
    work = ExportRun(options)
    runner: Any = engine or Here()
    return work.finished() or work.run(runner)


def content(output: Path) -> dict[str, bytes]:
    """Give all files of an export."""
    return {
        str(path.relative_to(output)): path.read_bytes()
        for path in sorted(output.rglob("*"))
        if path.is_file()
    }


def dumped(
    store: Path,
    word: str | None = None,
    **given: Any,  # noqa: ANN401 - whatever the options take
) -> list[dict[str, Any]]:
    """Give the rows that `dump` shows."""
    (rows,) = dump(DumpOptions((str(store),), word, as_json=True, **given), DumpOutcome())
    return [dict(row) for chunk in rows for row in rows_of(chunk)]


@pytest.fixture
def unguarded(tmp_path: Path) -> Path:
    """A store of several segments, many topics, transactions, hostile text; to be damaged."""
    return fixture_store(TRAFFIC, tmp_path)


@pytest.fixture
def store(unguarded: Path, evidence: Evidence) -> Path:
    """The same, to be left as it is."""
    evidence.keep(unguarded)
    return unguarded


def test_parquet_is_plain(unguarded: Path, tmp_path: Path) -> None:
    """Columns of few texts are texts to readers, also where a segment cannot be read."""
    source = SourceOptions(str(unguarded), split=40_000)
    planned, export = tasks(source), ExportRun(ExportOptions(source, str(tmp_path / "o")))
    sorted((unguarded / "commitlog").iterdir())[1].unlink()
    names = SCHEMAS[TableName.MESSAGES].names
    expected = pa.Table.from_batches(
        [batch for task in planned for batch in batches(task, source, names)]
    )
    runner: Any = Here()
    export.run(runner)
    files = sorted((tmp_path / "o").glob("*.parquet"))
    found = pa.concat_tables(map(pq.read_table, files))
    assert [(one.name, str(one.type)) for one in expected.schema if not one.type.num_fields] == [
        (one.name, str(one.type)) for one in found.schema if not one.type.num_fields
    ]
    assert expected.to_pylist() == found.to_pylist()
    assert "FS-READ" in found["code"].to_pylist()


def test_a_text_once(store: Path) -> None:
    """No text is twice in a dictionary that goes to Parquet: its writer leaves room unfilled."""
    source = SourceOptions(str(store))
    names, seen = SCHEMAS[TableName.MESSAGES].names, set()
    for task in tasks(source):
        for batch in batches(task, source, names, export_task.FEW_TEXTS):
            for name in export_task.FEW_TEXTS:
                texts = batch[name].dictionary.to_pylist()
                assert len(set(texts)) == len(texts), name
                assert None not in texts
                seen.add((name, *texts))
    assert ("transaction", "none", "commit") in seen


def test_same_rows_as_dump(store: Path, tmp_path: Path) -> None:
    """JSON lines of an export are those of `dump`, in order, whatever the splits are."""
    selection = Selection(topics=("traffic-orders", "traffic-hostile"), queue_id=0)
    given: dict[str, Any] = {"selection": selection, "body": BodyOptions(BodyMode.TEXT)}
    result = exported(store, tmp_path / "o", form=ExportFormat.JSONL, split=40_000, **given)
    lines = [
        json.loads(line)
        for path in sorted((tmp_path / "o").glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    expected = dumped(store, **given)
    assert expected == lines
    assert (len(expected), 0, True) == (result.rows, result.damaged, result.is_complete)


@pytest.mark.parametrize(
    ("table", "word"),
    [
        (TableName.MESSAGES, None),
        (TableName.QUEUE_UNITS, "consume-queue"),
        (TableName.INDEX_ENTRIES, "index"),
    ],
)
def test_tables(store: Path, tmp_path: Path, table: TableName, word: str | None) -> None:
    """Each table, split by all it can be split by, has as many rows as `dump` shows."""
    by = PARTITIONS[table]
    exported(store, tmp_path / "o", table=table, by=by)
    found = ds.dataset(tmp_path / "o", partitioning="hive").to_table()
    expected = dumped(store, word)
    assert len(expected) == found.num_rows
    column = "physical_offset"
    assert sorted(row[column] for row in expected) == sorted(found[column].to_pylist())
    assert set(by) <= set(found.column_names)


@pytest.mark.parametrize("by", [(), ("topic", "date")])
def test_target_file_size(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: tuple[str, ...]
) -> None:
    """A file that has reached its length is closed, and another one begun: no row is lost."""
    monkeypatch.setattr(readers, "BATCH_ROWS", 50)
    monkeypatch.setattr(export_task, "ROWS_A_GROUP", 50)
    monkeypatch.setattr(export_task, "BUFFER_BYTES", 1)
    few = exported(store, tmp_path / "few", by=by)
    many = exported(store, tmp_path / "many", by=by, target_file_size=1)
    assert (few.rows, True) == (many.rows, many.is_complete)
    assert many.files > few.files
    tables = [
        ds.dataset(tmp_path / name, partitioning="hive").to_table().sort_by("physical_offset")
        for name in ("few", "many")
    ]
    assert tables[0].equals(tables[1])


def test_findings_and_segments(unguarded: Path, tmp_path: Path) -> None:
    """What `validate` finds, and a row a segment, can be exported, too."""
    inflict.flip_field("body")(unguarded)
    exported(unguarded, tmp_path / "f", table=TableName.FINDINGS, by=("code",))
    assert (tmp_path / "f" / "code=CL-CRC").is_dir()
    result = exported(unguarded, tmp_path / "s", table=TableName.SEGMENTS)
    assert len(list((unguarded / "commitlog").iterdir())) == result.rows


def test_hostile_topics(store: Path, tmp_path: Path) -> None:
    """Directories of topics are escaped, and what is read from them is the topic again."""
    exported(store, tmp_path / "o", by=("topic",))
    names = {path.name for path in (tmp_path / "o").iterdir() if not path.name.startswith("_")}
    assert "topic=%25DLQ%25traffic-failing" in names
    found = ds.dataset(tmp_path / "o", partitioning="hive").to_table(columns=["topic"])
    assert {row["topic"] for row in dumped(store)} == set(found["topic"].to_pylist())


def test_damage_is_rows(unguarded: Path, tmp_path: Path) -> None:
    """Damage is rows with a code, without a topic, and the mark of the export says so."""
    inflict.garbage()(unguarded)
    result = exported(unguarded, tmp_path / "o", by=("topic",))
    assert (True, True) == (result.is_complete, result.damaged > 0)
    assert (tmp_path / "o" / f"topic={NO_VALUE}").is_dir()
    marks = [name for name in (SUCCESS, DAMAGED) if (tmp_path / "o" / name).exists()]
    assert [DAMAGED] == marks
    again = exported(unguarded, tmp_path / "o", by=("topic",))
    assert (True, result.damaged) == (again.was_complete, again.damaged)


def test_second_run(unguarded: Path, tmp_path: Path) -> None:
    """A second run of the same changes nothing; any other one is refused, and changes nothing."""
    first = exported(unguarded, tmp_path / "o")
    before = content(tmp_path / "o")
    engine = Here()
    again = exported(unguarded, tmp_path / "o", engine)
    assert ([], True, first.rows) == (engine.done, again.was_complete, again.rows)
    for other in ({"by": ("topic",)}, {"columns": ("topic",)}, {"form": ExportFormat.CSV}):
        with pytest.raises(OutputExists, match="holds another export"):
            exported(unguarded, tmp_path / "o", **other)
    os.utime(next((unguarded / "commitlog").iterdir()), (1, 1))
    with pytest.raises(OutputExists, match="content differs"):
        exported(unguarded, tmp_path / "o")
    assert before == content(tmp_path / "o")


@pytest.mark.parametrize("stop_after", [0, 1, 3])
def test_stopped_run(store: Path, tmp_path: Path, stop_after: int) -> None:
    """A run that was stopped has no mark; the next one does the rest, and all is as at once."""
    by = ("topic", "date")
    exported(store, tmp_path / "whole", by=by)
    with pytest.raises(KeyboardInterrupt):
        exported(store, tmp_path / "o", Here(stop_after), by=by)
    assert not (tmp_path / "o" / SUCCESS).exists()
    engine = Here()
    result = exported(store, tmp_path / "o", engine, by=by)
    assert stop_after == result.resumed
    assert result.tasks == result.resumed + len(engine.done)
    whole, found = content(tmp_path / "whole"), content(tmp_path / "o")
    for name in (SUCCESS, PLAN):
        del whole[name], found[name]
    assert whole == found


def test_files_of_a_killed_task(store: Path, tmp_path: Path) -> None:
    """What a killed task left is removed, and so is what it was writing; nothing of others is."""
    with pytest.raises(KeyboardInterrupt):
        exported(store, tmp_path / "o", Here(1), by=("topic",))
    assert str(store) == json.loads((tmp_path / "o" / PLAN).read_bytes())["store"]
    stray = tmp_path / "o" / "topic=gone" / "part-000002-0007.parquet"
    stray.parent.mkdir()
    stray.write_bytes(b"")
    (tmp_path / "o" / "_staging").mkdir(exist_ok=True)
    (tmp_path / "o" / "_staging" / "rmqtool-0").write_bytes(b"half")
    (tmp_path / "o" / "notes.txt").write_bytes(b"mine")
    exported(store, tmp_path / "o", by=("topic",))
    assert not stray.exists()
    assert {PLAN, SUCCESS, "notes.txt"} == {
        path.name for path in (tmp_path / "o").iterdir() if path.is_file()
    }
    assert [] == [path.name for path in (tmp_path / "o").glob("_s*")]


def test_unread_segment(
    unguarded: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What cannot be read is exit 3 and no mark; when it can be read again, the rest is done."""
    segment = sorted((unguarded / "commitlog").iterdir())[1]
    away = tmp_path / "away"
    run = ExportRun.run
    monkeypatch.setattr(ExportRun, "run", lambda work, *_: run(work, Here()))
    monkeypatch.setattr("rmqtool.cli.engines.EngineChoice.spark", NoSpark)
    arguments = [
        "export",
        str(unguarded),
        "--output",
        str(tmp_path / "o"),
        "--partition-by",
        "topic",
    ]

    def then_lose(source: SourceOptions) -> list[Any]:
        found = tasks(source)
        if not away.exists():
            segment.rename(away)
        return found

    monkeypatch.setattr("rmqtool.reads.export.tasks", then_lose)
    assert 3 == main(arguments)
    assert f"commitlog/{segment.name}: could not be read" in capfd.readouterr().err
    assert not (tmp_path / "o" / SUCCESS).exists()
    away.rename(segment)
    away.mkdir()
    assert 0 == main(arguments)
    row = json.loads(capfd.readouterr().out)
    assert (len(dumped(unguarded)), row["tasks"] - 1) == (row["rows"], row["resumed"])
    found = ds.dataset(tmp_path / "o", partitioning="hive").to_table(columns=["physical_offset"])
    assert len(set(found["physical_offset"].to_pylist())) == found.num_rows == row["rows"]


class NoSpark:
    """Stands where a session would be."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def test_foreign_directory(store: Path, tmp_path: Path) -> None:
    """A directory with something else in it is refused, and stays as it is."""
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "precious").write_bytes(b"x")
    with pytest.raises(OutputExists, match="holds no export"):
        exported(store, tmp_path / "o")
    assert {"precious": b"x"} == content(tmp_path / "o")
    with pytest.raises(WriteFailed):
        exported(store, tmp_path / "none" / "o")


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"by": ("tags",)}, "--partition-by"),
        ({"by": ("topic", "topic")}, "--partition-by"),
        ({"columns": ("nothing",)}, "--columns"),
        ({"columns": ("topic",), "by": ("topic",)}, "--columns"),
        ({"table": TableName.SEGMENTS, "by": ("date",)}, "--partition-by"),
        ({"table": TableName.SEGMENTS, "selection": Selection(tag="x")}, "tag"),
    ],
)
def test_usage(store: Path, tmp_path: Path, given: dict[str, Any], option: str) -> None:
    """What cannot be meant is refused before anything is written."""
    with pytest.raises(UsageError, match=option):
        exported(store, tmp_path / "o", **given)
    assert not (tmp_path / "o").exists()


def test_write_fails(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be written ends the run without a mark and without a half file."""

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", refuse)
    with pytest.raises(WriteFailed, match=r"[Nn]o space left"):
        exported(store, tmp_path / "o")
    assert [PLAN] == list(content(tmp_path / "o"))


def test_buckets(store: Path, tmp_path: Path) -> None:
    """From a bucket into a bucket: the same files as on the disk, and no secret in them."""
    s3_server().put(store, f"{tmp_path.name}/store")
    exported(store, tmp_path / "o", by=("topic",), split=1 << 20)
    exported(
        in_bucket(f"{tmp_path.name}/store"),
        in_bucket(f"{tmp_path.name}/o"),
        by=("topic",),
        split=1 << 20,
    )
    expected = content(tmp_path / "o")
    remote = Dataset.of(in_bucket(f"{tmp_path.name}/o"))
    assert {name for name in expected if not name.startswith("_")} == set(remote.files())
    for name, raw in expected.items():
        if not name.startswith("_"):
            assert raw == remote.read(name, 1 << 30)
    plan = remote.read(PLAN, 1 << 20)
    assert plan is not None
    assert ENVIRONMENT["AWS_SECRET_ACCESS_KEY"].encode() not in plan
    assert remote.read(SUCCESS, 1 << 20) is not None
    assert RECEIPTS not in remote.names()


def test_without_java(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export of a store of this machine starts no Java: several threads, and the same files."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    arguments = ["export", str(store), "--output", str(tmp_path / "l"), "--split", "64KiB"]
    assert 0 == main([*arguments, "--partition-by", "topic", "--quiet", "--jobs", "3"])
    exported(store, tmp_path / "o", by=("topic",), split=1 << 16)
    found, expected = content(tmp_path / "l"), content(tmp_path / "o")
    assert expected == found
    assert SUCCESS in found


@pytest.mark.spark
def test_spark(spark: object, store: Path, tmp_path: Path) -> None:
    """Spark writes the very files that `--engine local` writes, byte for byte."""
    assert spark is not None
    arguments = ["export", str(store), "--output", str(tmp_path / "s"), "--split", "64KiB"]
    arguments += ["--engine", "spark"]
    assert 0 == main([*arguments, "--partition-by", "topic,date", "--quiet"])
    local = ["export", str(store), "--output", str(tmp_path / "o"), "--split", "64KiB"]
    assert 0 == main([*local, "--partition-by", "topic,date", "--quiet", "--engine", "local"])
    found, expected = content(tmp_path / "s"), content(tmp_path / "o")
    assert SUCCESS in found
    for name in (SUCCESS, PLAN):
        del found[name], expected[name]
    assert expected == found


@pytest.mark.spark
def test_spark_and_buckets(spark: object, tmp_path: Path) -> None:
    """Executors read from a bucket and write CSV into one."""
    assert spark is not None
    store = fixture_store("rocketmq-5.3.3-lmq", tmp_path)
    s3_server().put(store, f"{tmp_path.name}/store")
    arguments = [
        "export",
        in_bucket(f"{tmp_path.name}/store"),
        "--output",
        in_bucket(f"{tmp_path.name}/o"),
        "--format",
        "csv",
        "--quiet",
        "--engine",
        "spark",
    ]
    assert 0 == main(arguments)
    remote = Dataset.of(in_bucket(f"{tmp_path.name}/o"))
    (name,) = remote.files()
    raw = remote.read(name, 1 << 30)
    assert raw is not None
    assert len(dumped(store)) + 1 == len(raw.decode().splitlines())


def test_length_of_tasks(store: Path) -> None:
    """A task says how much it reads: progress and the size of Spark's tasks follow it."""
    work = ExportRun(ExportOptions(SourceOptions(str(store)), str(store.parent / "o")))
    size = sum(path.stat().st_size for path in (store / "commitlog").iterdir())
    assert size == work.total_bytes
    whole = tasks(SourceOptions(str(store), TableName.FINDINGS))
    assert size < NumberedTask(0, tuple(whole)).length  # the queues and the index are read, too
