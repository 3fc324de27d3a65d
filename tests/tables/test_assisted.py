"""A read of some topics, or of a key, leaves out what queues and index say is not asked for.

It gives the same rows as a read of all.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

import rmqtool
from rmqtool.cli.main import main
from rmqtool.engine import LocalEngine
from rmqtool.errors import UsageError
from rmqtool.messages.extract import ExtractRun
from rmqtool.messages.options import ExtractFormat, ExtractOptions
from rmqtool.reads.export import ExportRun
from rmqtool.reads.export_options import ExportOptions
from rmqtool.reads.options import SourceOptions
from rmqtool.sql.questions import LocalQuestions
from rmqtool.tables import assisted
from rmqtool.tables.bodies import BodyMode, BodyOptions
from rmqtool.tables.selection import Selection
from tests.bench.store_builder import Builder, Spec
from tests.damage import DAMAGES, NotApplicable
from tests.damage_commitlog import COMMITLOG
from tests.damage_index import INDEX
from tests.damage_queues import QUEUES
from tests.spark.test_bytes_read import counted
from tests.spark.test_readers import read
from tests.stores import fixture_names, fixture_store
from tests.tables.dumped import rows

SPEC: Final = Spec(total_bytes=32 << 20, topics=20, queues=2, segment_bytes=16 << 20, slots=5000,
                   entries=200_000)  # fmt: skip
TOPIC: Final = "BenchTopic07"  # one of twenty
TRAFFIC: Final = "rocketmq-5.3.3-traffic"
# Between them they have records of every kind, and take more or less of the log.
QUESTIONS: Final = ("traffic-batch", "T", "RMQ_SYS_TRANS_HALF_TOPIC", "traffic-orders")
SHARE: Final = 5  # of the keys, one in so many is asked for of each damaged store
COLUMNS: Final = "physical_offset,position,size,topic,queue_id,queue_offset,keys,unique_key,code"
DAMAGED: Final = [
    damage.name
    for damage in (*COMMITLOG, *QUEUES)
    if damage.fixture in {"", "traffic"} and not damage.name.endswith(("-early", "-late"))
]


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a store of 20 topics in turn."""
    root = tmp_path_factory.mktemp("day") / "store"
    Builder(root, SPEC).build()
    return root


@contextmanager
def reading_all() -> Iterator[None]:
    """Let every read be of the whole log."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assisted, "WORTH", -1.0)
        yield


def records(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out rows that are no records."""
    return [row for row in found if row.get("extent") is None]


def test_dump(day: Path) -> None:
    """`dump --topic` has the same rows, whatever it shows."""
    selection = Selection(topics=(TOPIC,))
    for options in ({}, {"body": BodyOptions(BodyMode.TEXT)}, {"limit": 7}, {"tail": 7}):
        found = rows(day, selection=selection, **options)
        with reading_all():
            assert rows(day, selection=selection, **options) == found
        assert {TOPIC} == {row["topic"] for row in found}


def test_export(day: Path, tmp_path: Path) -> None:
    """An export of one topic in twenty reads at most 15 % of the log, and writes the same rows.

    To find out what kind of index there is takes more of this store, and less of a large one.
    """
    source = SourceOptions.of({"path": str(day), "topic": TOPIC, "body": "text"})
    with counted() as taken:
        done = [ExportRun(ExportOptions(source, str(tmp_path / "some"))).run(LocalEngine(1))]
    with reading_all():
        done.append(ExportRun(ExportOptions(source, str(tmp_path / "all"))).run(LocalEngine(1)))
    log = sum(file.stat().st_size for file in (day / "commitlog").iterdir())
    assert done[0].rows == done[1].rows > 3000
    assert taken["commitlog"] + taken["consumequeue"] <= 0.15 * log < done[1].read
    names = sorted(file.name for file in (tmp_path / "some").glob("*.parquet"))
    assert names
    for name in names:
        assert (tmp_path / "some" / name).read_bytes() == (tmp_path / "all" / name).read_bytes()


def both(store: Path, **limit: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Give the rows of a read that leaves records out, and of one of the whole log."""
    columns = f"{COLUMNS},extent"
    found = read(store, columns=columns, **limit).to_pylist()
    with reading_all():
        return found, read(store, columns=columns, **limit).to_pylist()


@pytest.mark.parametrize("name", ["", *DAMAGED])
def test_damaged_store(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is damaged, the records of a topic are those that the log has.

    Damage in records of other topics, as queues name them, is not met.
    """
    store = fixture_store(TRAFFIC, tmp_path)
    try:
        if name:
            DAMAGES[name].inflict(store)
    except NotApplicable:
        pytest.skip("nothing to damage here")
    monkeypatch.setattr(assisted, "WORTH", 1.0)
    for topic in QUESTIONS:
        found, expected = both(store, topic=topic)
        assert records(expected) == records(found)
        assert [row for row in found if row["extent"]] == [
            row for row in expected if row["extent"] and row in found
        ]
        assert name or expected == found


def first_keys(store: Path) -> list[dict[str, str]]:
    """Give limits by key: of each topic a key and a unique key, with the topic and without."""
    limits: dict[str, list[dict[str, str]]] = {}
    for row in read(store, columns="topic,keys,unique_key").to_pylist():
        if row["topic"] and row["unique_key"] and row["topic"] not in limits:
            keys = [row["unique_key"], *(row["keys"] or ())[:1]]
            some = [{"key": key} for key in keys]
            limits[row["topic"]] = [*some, *({"topic": row["topic"], **one} for one in some)]
    missing = [{"key": "no such key"}, {"topic": "T", "key": "no such key"}]
    return [*(one for some in limits.values() for one in some), *missing]


@pytest.mark.parametrize("name", ["", *DAMAGED, *(damage.name for damage in INDEX)])
def test_keys(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is damaged, index files as well, the records with a key are those of the log."""
    store = fixture_store(TRAFFIC, tmp_path)
    share = zlib.crc32(name.encode()) % SHARE
    limits = first_keys(store)[share::SHARE]
    try:
        if name:
            DAMAGES[name].inflict(store)
    except NotApplicable:
        pytest.skip("nothing to damage here")
    monkeypatch.setattr(assisted, "WORTH", 1.0)
    for limit in limits:
        found, expected = both(store, **limit)
        assert records(expected) == records(found), limit
        assert name or expected == found


@pytest.mark.parametrize("fixture", fixture_names())
def test_keys_of_stores(fixture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is with the store of every release and kind of queue."""
    store = fixture_store(fixture, tmp_path)
    monkeypatch.setattr(assisted, "WORTH", 1.0)
    for limit in first_keys(store)[:12]:
        found = read(store, columns=f"{COLUMNS},extent", **limit).to_pylist()
        with reading_all():
            assert read(store, columns=f"{COLUMNS},extent", **limit).to_pylist() == found, limit


def with_key(store: Path, topic: str, key: str, into: Path) -> dict[str, Any]:
    """Give what each command and engine has of a key, with the topic and without where it may."""
    selection = Selection(topics=(topic,), key=key)
    opened = rmqtool.open_store(str(store))
    given: dict[str, Any] = {
        "dump": [rows(store, selection=selection), rows(store, selection=Selection(key=key))],
        "scanner": opened.scanner(selection=selection).read_all().to_pylist(),
    }
    source = SourceOptions.of({"path": str(store), "topic": topic, "key": key})
    ExportRun(ExportOptions(source, str(into / "export"))).run(LocalEngine(1))
    given["export"] = [file.read_bytes() for file in sorted((into / "export").glob("*.parquet"))]
    for form in ExtractFormat:
        name = into / f"extract.{form}"
        extract = ExtractOptions((str(store),), str(name), form, selection=selection)
        done = ExtractRun(extract).run()
        given[f"extract {form}"] = (done.messages, name.read_bytes())
    with LocalQuestions(SourceOptions(str(store))) as questions:
        where = f"unique_key = '{key}'"
        answer = questions.ask(f"SELECT * FROM messages WHERE topic = '{topic}' AND {where}")  # noqa: S608 - ours
        given["sql"] = [row for chunk in answer.chunks for row in chunk]
    return given


def test_everywhere(day: Path, tmp_path: Path) -> None:
    """Each command and engine has the same of a key with the index and without, and reads less."""
    (row, *_) = read(day, columns="topic,unique_key", topic=TOPIC, limit="1").to_pylist()
    some, whole = tmp_path / "some", tmp_path / "whole"
    some.mkdir()
    whole.mkdir()
    with counted() as taken:
        found = with_key(day, row["topic"], row["unique_key"], some)
    with reading_all(), counted() as all_taken:
        assert with_key(day, row["topic"], row["unique_key"], whole) == found
    assert len(found["dump"][0]) == len(found["sql"]) == len(found["scanner"]) == 1
    assert {1} == {found[f"extract {form}"][0] for form in ExtractFormat}
    assert taken["commitlog"] < 0.1 * all_taken["commitlog"]


@pytest.mark.parametrize("damage", ["", "zero-8-sectors-middle", "flip-body-early"])
def test_scanner(damage: str, tmp_path: Path) -> None:
    """Columns that were asked for are the same as those of a scan of all."""
    store = fixture_store(TRAFFIC, tmp_path)
    if damage:
        DAMAGES[damage].inflict(store)
    opened = rmqtool.open_store(str(store))
    whole = opened.scanner().read_all()
    for names in (["topic", "size"], ["keys"], ["code", "physical_offset"]):
        found = opened.scanner(columns=names).read_all()
        assert whole.select(names).to_pylist() == found.to_pylist()
    some, names = Selection(topics=("traffic-batch",)), ["topic", "queue_offset"]
    both = opened.scanner(selection=some), opened.scanner(selection=some, columns=names)
    expected, found = (
        [row for row in one.read_all().select(names).to_pylist() if row["topic"]] for one in both
    )
    assert expected == found != []


@pytest.mark.parametrize("command", ["dump", "export", "extract"])
def test_empty_key(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A key that is empty, as of a variable that is not set, selects nothing by accident."""
    store = str(fixture_store(TRAFFIC, tmp_path))
    output = () if command == "dump" else ("--output", str(tmp_path / "out"))
    assert 2 == main([command, store, "--key", "", *output])
    assert "is empty" in capsys.readouterr().err
    with pytest.raises(UsageError, match="is empty"):
        SourceOptions.of({"path": store, "key": ""})
