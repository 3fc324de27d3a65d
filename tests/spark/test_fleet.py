"""Many stores at once: rows and findings are those of each store alone, wherever they lie."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from rmqtool.check.many import Stores, StoreVerdict
from rmqtool.check.options import ValidateOptions
from rmqtool.engine import LocalEngine
from rmqtool.errors import UsageError
from rmqtool.reads.export import PLAN, ExportRun
from rmqtool.reads.export_options import ExportOptions
from rmqtool.reads.fleet import batches, tasks
from rmqtool.reads.options import SourceOptions, TableName
from rmqtool.reads.plan import packs
from rmqtool.reads.tables import chosen, schema_of
from rmqtool.spark.sql import SparkQuestions
from rmqtool.tables.fleet import FLEET
from tests.damage import DAMAGES, NotApplicable
from tests.s3_server import in_bucket, s3_server
from tests.spark.test_readers import read
from tests.stores import fixture_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRAFFIC = "rocketmq-5.3.3-traffic"
KINDS = (TRAFFIC, "rocketmq-4.9.3-dledger", "rocketmq-5.3.3-rocksdb", "rocketmq-5.5.0-batch-queue")
HARMS = ("", "flip-body-middle", "zero-8-sectors-middle", "garbage-late", "negative-size")
NO_STORES = {"empty": "", "junk": "nothing of a store"}
PLACE = ["store", "broker"]
COLUMNS = ("store", "topic", "size", "code", "broker")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a directory of some twenty stores, sound and damaged, and two that are none."""
    top = tmp_path_factory.mktemp("fleet")
    whole = {name: fixture_store(name, tmp_path_factory.mktemp("whole")) for name in KINDS}
    for number, store in enumerate(whole.values()):
        for harm in HARMS:
            target = top / f"{number}-{harm or 'sound'}" / "store"
            shutil.copytree(store, target)
            try:
                if harm:
                    DAMAGES[harm].inflict(target)
            except NotApplicable:
                shutil.rmtree(target.parent)
    for name, text in NO_STORES.items():
        (top / name / "store").mkdir(parents=True)
        if text:
            (top / name / "store" / "file").write_text(text)
    (top / "1-sound" / "store" / "brokerIdentity").write_text("cluster#broker-b#0")
    return top


def stores(fleet: Path) -> list[Path]:
    """Give the stores of a fleet, with those that are none."""
    return sorted(fleet.glob("*/store"))


def of_fleet(given: dict[str, str]) -> pa.Table:
    """Read a table of a fleet as executors would, pack by pack."""
    options = SourceOptions.of(given)
    schema = schema_of(options)
    names = options.columns or tuple(schema.names)
    found = [
        batch
        for pack in packs(tasks(options), options)
        for task in pack
        for batch in batches(task, options, names)
    ]
    return pa.Table.from_batches(found, chosen(schema, names))


@pytest.mark.parametrize("name", list(TableName))
def test_same_rows(name: TableName, fleet: Path) -> None:
    """Each table has the rows of each store alone, in order; a store that is none is one row."""
    found = of_fleet({"path": f"{fleet}/*/store", "table": name})
    assert [*PLACE, *read(fleet / "0-sound/store", table=name).schema.names] == found.schema.names
    for store in stores(fleet):
        rows = [row for row in found.to_pylist() if row["store"] == str(store)]
        if store.parent.name in NO_STORES:
            (row,) = rows
            said = {row.get("code") for row in rows} | {row.get("unread") is not None}
            assert {"FS-READ", True} & said
            continue
        brokers = {row.pop("broker") for row in rows}
        assert brokers <= {"broker-b" if store.parent.name == "1-sound" else None}
        assert read(store, table=name).to_pylist() == [
            {key: value for key, value in row.items() if key != "store"} for row in rows
        ]


def test_columns(fleet: Path) -> None:
    """Columns of the store can be chosen alone, and rows are counted all the same."""
    whole = of_fleet({"path": f"{fleet}/0-*/store"})
    some = of_fleet({"path": f"{fleet}/0-*/store", "columns": "topic,store"})
    assert whole.select(["topic", "store"]).equals(some)
    alone = of_fleet({"path": f"{fleet}/0-*/store", "columns": "store"})
    assert whole.select(["store"]).equals(alone)


def test_lists_and_files(fleet: Path, tmp_path: Path) -> None:
    """A list of paths and a file of stores give the same; the file names brokers."""
    some = [str(fleet / f"0-{harm or 'sound'}" / "store") for harm in HARMS[:3]]
    listed = of_fleet({"paths": orjson.dumps(some).decode()})
    file = tmp_path / "stores"
    file.write_text("".join(f"{one}\tbroker-{n}\n" for n, one in enumerate(some)))
    filed = of_fleet({"stores_file": str(file)})
    assert listed.drop_columns("broker").equals(filed.drop_columns("broker"))
    assert {"broker-0", "broker-1", "broker-2"} == set(filed["broker"].to_pylist())


def test_pool(fleet: Path) -> None:
    """Small segments of all stores share tasks of Spark."""
    options = SourceOptions.of({"path": f"{fleet}/*/store"})
    found = tasks(options)
    assert len(found) > len(stores(fleet))
    assert 1 == len(list(packs(found, options)))


@pytest.mark.parametrize(
    "given",
    [
        {"path": "/nothing/*/store"},
        {"paths": "no list"},
        {"path": "FLEET/*/store", "columns": "colour"},
        {"path": "FLEET/*/store", "table": "segments", "topic": "T"},
    ],
    ids=str,
)
def test_wrong_options(given: dict[str, str], fleet: Path) -> None:
    """What cannot be meant of any store is refused."""
    wanted = {name: text.replace("FLEET", str(fleet)) for name, text in given.items()}
    with pytest.raises((UsageError, KeyError)):
        of_fleet(wanted)


def test_bucket(fleet: Path, tmp_path: Path) -> None:
    """A pattern in a bucket gives the rows of the files."""
    s3_server().put(fleet, tmp_path.name)
    for table in ("messages", "findings"):
        expected = of_fleet({"path": f"{fleet}/[01]-*/store", "table": table})
        found = of_fleet({"path": in_bucket(f"{tmp_path.name}/[01]-*/store"), "table": table})
        names = [name.replace(f"s3://evidence/{tmp_path.name}", str(fleet)) for name in
                 found["store"].to_pylist()]  # fmt: skip
        assert expected["store"].to_pylist() == names
        same = [name for name in expected.schema.names if name != "store"]
        if table == "messages":
            assert expected.select(same).equals(found.select(same))
            continue
        codes = {"CL-CRC", "CL-MAGIC", "CL-SIZE"}
        for one in (expected, found):
            assert codes & set(one["code"].to_pylist())


@pytest.mark.parametrize("by", [("broker",), ()])
def test_export(by: tuple[str, ...], fleet: Path, tmp_path: Path) -> None:
    """A fleet is exported as one table, and what is no store is named; the same again goes on."""
    options = ExportOptions(
        SourceOptions.of(
            {
                "path": f"{fleet}/*/store",
                "columns": ",".join(column for column in COLUMNS if column not in by),
            }
        ),
        str(tmp_path / "out"),
        by=by,
    )
    done = ExportRun(options).run(LocalEngine())
    assert len(NO_STORES) == len(done.unread)
    assert {f"{fleet}/{name}/store" for name in NO_STORES} == set(done.unread)
    assert 1 == done.tasks
    planned = orjson.loads((tmp_path / "out" / PLAN).read_bytes())
    assert [f"{fleet}/*/store"] == planned["store"]
    read = ds.dataset(tmp_path / "out", partitioning="hive", exclude_invalid_files=True)
    written = read.to_table(columns=list(COLUMNS)).to_pylist()
    expected = of_fleet({"path": f"{fleet}/*/store", "columns": ",".join(COLUMNS)})
    assert sorted(map(repr, expected.to_pylist())) == sorted(map(repr, written))


@pytest.mark.spark
def test_validate_in_spark(fleet: Path, spark: SparkSession) -> None:
    """Verdicts and findings of a fleet are the same on Spark and here, in the same order."""
    from rmqtool import engine
    from rmqtool.spark.engine import SparkEngine

    def found() -> list[StoreVerdict]:
        stores = Stores(ValidateOptions(""), [f"{fleet}/*/store", f"{fleet}/x*"])
        return list(stores.verdicts(lambda *_: None, keeps_findings=True))

    expected = found()
    work = SparkEngine.on(spark)
    with engine.using(work):
        assert expected == found()
    assert 1 == work.traffic.waves


@pytest.mark.spark
def test_rebuild_in_spark(fleet: Path, spark: SparkSession, tmp_path: Path) -> None:
    """A fleet is rebuilt as one job, with the rows and the bytes of this process."""
    from rmqtool import engine
    from rmqtool.rebuild.many import Rebuilds
    from rmqtool.rebuild.options import RebuildOptions
    from rmqtool.spark.engine import SparkEngine

    def found(output: Path) -> list[dict[str, object]]:
        work = Rebuilds(RebuildOptions("", output=str(output)), [f"{fleet}/*/store"])
        rows = [result.row for result in work.results(lambda *_: None)]
        assert 3 == work.exit_code
        return [{name: result for name, result in row.items() if name != "output"} for row in rows]

    def written(output: Path) -> dict[str, bytes]:
        # Each database has an identity and times of its own.
        found = {
            str(path.relative_to(output)): path for path in output.rglob("*") if path.is_file()
        }
        return {name: path.read_bytes() for name, path in found.items() if "+2-" not in name}

    expected = found(tmp_path / "here")
    work = SparkEngine.on(spark)
    with engine.using(work):
        assert expected == found(tmp_path / "there")
    assert 1 == work.traffic.waves
    assert written(tmp_path / "here") == written(tmp_path / "there")
    assert {"complete", "in part", "not rebuilt"} == {row["verdict"] for row in expected}


@pytest.mark.spark
def test_in_spark(fleet: Path, spark: SparkSession) -> None:
    """Spark reads a pattern and a list, and tells the stores apart."""
    reader = spark.read.format("rocketmq").option("columns", "store,broker,topic,size,code")
    expected = of_fleet({"path": f"{fleet}/*/store", "columns": "store,broker,topic,size,code"})
    assert expected.to_pylist() == reader.load(f"{fleet}/*/store").toArrow().to_pylist()
    some = [str(store) for store in stores(fleet)[:4]]
    listed = reader.load(some).groupBy("store").count().toArrow().to_pylist()
    assert sorted(some) == sorted(row["store"] for row in listed)
    schema = reader.load(f"{fleet}/*/store").schema
    assert [field.metadata["comment"] for field in schema.fields[:2]] == [
        column.meaning for column in FLEET
    ]


@pytest.mark.spark
def test_sql(fleet: Path, spark: SparkSession, tmp_path: Path) -> None:
    """SQL tells stores apart, names what is none, and has no view over several stores."""
    file = tmp_path / "stores"
    file.write_text(f"{fleet}/0-*/store\tbroker-0\n{fleet}/junk/store\n")
    source = SourceOptions.of({"stores_file": str(file)})
    questions = SparkQuestions(spark, source)
    answer = questions.ask(
        "SELECT store, broker, count(*) AS n FROM messages WHERE extent IS NULL "
        "GROUP BY store, broker ORDER BY store"
    )
    found = [row for chunk in answer.chunks for row in chunk]
    rows = [row for row in of_fleet({"stores_file": str(file)}).to_pylist() if not row["extent"]]
    assert [(row["store"], row["broker"], row["n"]) for row in found] == [
        (name, broker, sum(row["store"] == name for row in rows))
        for name, broker in sorted({(row["store"], row["broker"]) for row in rows})
    ]
    (unread,) = questions.files.unread(answer.tables)
    assert str(fleet / "junk/store") in str(unread)
    one = SparkQuestions(spark, SourceOptions(str(next(fleet.glob("0-*/store")))))
    assert one.ask("SELECT * FROM hot_keys LIMIT 0").columns
    for view in ("hot_keys", "transaction_operations"):
        with pytest.raises(UsageError):
            questions.ask(f"SELECT * FROM {view}")  # noqa: S608
