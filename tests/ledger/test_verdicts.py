"""A read ends as a validation of the same store does: torn tails, files and logs that are gone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree

import pytest

from rmqtool.cli.main import main as rmqtool
from rmqtool.findings.in_rows import count_damage
from tests import inflict, plain_store
from tests.inflict import write_at
from tests.stores import fixture_store

TRAFFIC = "rocketmq-5.3.3-traffic"
UNIT = 20  # bytes
INNER_BATCH = 1 << 7  # in sysFlag
LONG, BODY_CRC = 1000, 8  # bytes; position in a record
SOUND, DAMAGED, _, IN_PART = range(4)


def torn(store: Path) -> None:
    """Tear the last record; the broker was stopped."""
    inflict.tear_tail(store)


def crashed(store: Path) -> None:
    """Tear the last record of a broker that crashed."""
    inflict.tear_tail(store)
    (store / "abort").touch()


def begun(store: Path) -> None:
    """Leave the first bytes of a record after the last one."""
    last = plain_store.records(store)[-1]
    head = last.path.read_bytes()[last.position : last.position + 40]
    write_at(last.path, last.position + last.size, head)


def stale(store: Path) -> None:
    """Leave an old record after the last one."""
    records = plain_store.records(store)
    old, last = records[100], records[-1]
    raw = old.path.read_bytes()[old.position : old.position + old.size]
    write_at(last.path, last.position + last.size, b"\1" * 33 + raw)


def random_bytes(store: Path) -> None:
    """Leave bytes that are no record's after the last one."""
    last = plain_store.records(store)[-1]
    write_at(last.path, last.position + last.size, b"\1" * 33)


def followed(store: Path) -> None:
    """Tear the last record of a file that others follow."""
    path = inflict.segment_at(store, 1)
    record = [record for record in plain_store.records(store) if record.path == path][-1]
    begin = record.position + record.size // 2
    write_at(record.path, begin, bytes(record.path.stat().st_size - begin))


def unmounted(store: Path) -> None:
    """Take the directory of the log away."""
    rmtree(store / "commitlog")


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("harm", "code"),
    [
        (torn, SOUND),
        (crashed, SOUND),
        (begun, SOUND),
        (stale, SOUND),
        (random_bytes, DAMAGED),
        (followed, DAMAGED),
    ],
)
def test_same_verdict(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], harm: Callable[[Path], None], code: int
) -> None:
    """A torn tail is no damage for any command; the same bytes elsewhere are damage for all."""
    store = fixture_store(TRAFFIC, tmp_path)
    harm(store)
    output = str(tmp_path / "table"), str(tmp_path / "segments"), str(tmp_path / "sent")
    ends = {
        "validate": rmqtool(["validate", str(store), "--only", "commitlog"]),
        "dump": rmqtool(["dump", str(store)]),
        "dump as text": rmqtool(["dump", str(store), "--format", "csv"]),
        "export": rmqtool(["export", str(store), "--table", "messages", "--output", output[0]]),
        "segments": rmqtool(["export", str(store), "--table", "segments", "--output", output[1]]),
        "sql": rmqtool(["sql", str(store), "select count(*) from messages where code is null"]),
        "hash": rmqtool(["hash", str(store)]),
        "extract": rmqtool(["extract", str(store), "--output", output[2]]),
    }
    assert {code} == set(ends.values()), ends
    is_left_out = "bytes at the end of the log, a record" in capfd.readouterr().err
    assert is_left_out == (harm in {begun, stale})


@pytest.mark.parametrize("form", ["jsonl", "parquet", "rmq"])
def test_batch_record(tmp_path: Path, capfd: pytest.CaptureFixture[str], form: str) -> None:
    """Messages of a batch record have no checksum but that of its body: all of them are damaged."""
    store = fixture_store("rocketmq-5.3.3-batch-queue", tmp_path)
    records = plain_store.records(store)
    record = next(it for it in records if it.integer("sys_flag") & INNER_BATCH and it.size > LONG)
    inflict.flip_bits(record.path, record.position + BODY_CRC, 1)
    assert DAMAGED == rmqtool(["validate", str(store), "--only", "commitlog"])
    capfd.readouterr()
    output = tmp_path / f"sent.{form}"
    assert DAMAGED == rmqtool(["extract", str(store), "--output", str(output)])
    (summary,) = map(json.loads, capfd.readouterr().out.splitlines())
    assert 1 < summary["damaged"] < summary["messages"]
    if form == "jsonl":
        lines = map(json.loads, output.read_text().splitlines())
        assert summary["damaged"] == sum(line["code"] == "CL-CRC" for line in lines)


def test_late_timer_queue(tmp_path: Path) -> None:
    """Units that the next start writes count for timers, too, where nothing else was asked for."""
    store = fixture_store("rocketmq-5.3.3-timer", tmp_path)
    (path,) = (store / "consumequeue" / "rmq_sys_wheel_timer" / "0").iterdir()
    units = path.read_bytes()
    used = len(units.rstrip(b"\0")) // UNIT + 1
    write_at(path, (used - 4) * UNIT, bytes(4 * UNIT))
    (store / "abort").touch()
    for only in ((), ("--only", "timer")):
        assert SOUND == rmqtool(["validate", str(store), *only]), only


def test_past_the_entries(tmp_path: Path) -> None:
    """Bytes past the last entry of an index are rows with a code, and no damage."""
    store = fixture_store(TRAFFIC, tmp_path)
    path = max((store / "index").iterdir())
    write_at(path, path.stat().st_size - 20, b"\1" * 20)
    output = str(tmp_path / "table")
    assert SOUND == rmqtool(["validate", str(store), "--only", "index"])
    assert SOUND == rmqtool(["export", str(store), "--table", "index_entries", "--output", output])
    assert SOUND == rmqtool(["dump", str(store), "--as", "index"])


def test_count_damage() -> None:
    """A code that is never damage is none in a row; what could not be read counts."""
    assert 3 == count_damage(["CL-CRC", None, "CL-TAIL", "IX-STALE", "FS-READ", "CL-MAGIC"])


def test_no_log_and_no_database(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Where neither log nor queues can be read, a table of messages says so of both."""
    store = fixture_store("rocketmq-5.5.0-rocksdb", tmp_path)
    rmtree(store / "commitlog")
    with (store / "consumequeue" / "CURRENT").open("ab") as file:
        file.write(b"\1")
    words = ("--table", "messages", "--format", "jsonl", "--output", str(tmp_path / "table"))
    assert IN_PART == rmqtool(["export", str(store), *words])
    (path,) = (tmp_path / "table").glob("*.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert {"commitlog": "FS-NOLOG", "consumequeue": "FS-READ"} == {
        row["segment"]: row["code"] for row in rows
    }
    capfd.readouterr()
    assert IN_PART == rmqtool(["dump", str(store), "--as", "consume-queue"])
    assert "try: rmqtool validate STORE" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("harm", "code"),
    [
        (inflict.remove_log, "FS-NOLOG"),
        (unmounted, "FS-NOLOG"),
        (inflict.remove_segment(1), "FS-GAP"),
        (inflict.cut_segment(-1, lambda size: size // 2), "FS-LEN"),
    ],
    ids=["no files", "no log", "no file between", "last file cut"],
)
def test_absent(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], harm: Callable[[Path], None], code: str
) -> None:
    """What is missing of a log is damage for each command that reads it."""
    store = fixture_store(TRAFFIC, tmp_path)
    harm(store)
    for only in ((), ("--only", "commitlog"), ("--only", "commitlog", "--level", "quick")):
        assert DAMAGED == rmqtool(["validate", str(store), *only])
        rows = map(json.loads, capfd.readouterr().out.splitlines())
        assert code in {row["code"] for row in rows}, only
    assert SOUND == rmqtool(["validate", str(store), "--only", "CL-CRC"])
    output = str(tmp_path / "table")
    assert DAMAGED == rmqtool(["export", str(store), "--table", "messages", "--output", output])
    assert DAMAGED == rmqtool(["sql", str(store), "select count(*) from messages"])


@pytest.mark.parametrize(
    ("name", "files", "area"),
    [
        (TRAFFIC, "consumequeue/traffic-orders/0/*", "consumequeue"),
        ("rocketmq-5.3.3-batch-queue", "batchconsumequeue/batch-queue/0/*", "batchconsumequeue"),
        ("rocketmq-5.5.0-ext", "consumequeue_ext/*/*/*", "consumequeue_ext"),
        ("rocketmq-5.3.3-timer", "timerlog/*", "timer"),
        ("rocketmq-4.9.3-dledger", "dledger*/data/*", "dledger"),
    ],
)
def test_files_of_areas(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, files: str, area: str
) -> None:
    """A file that was cut is damage of the area that it belongs to, as it is of the whole."""
    store = fixture_store(name, tmp_path)
    (path, *_) = sorted(store.glob(files))
    inflict.resize(path, path.stat().st_size - 7)
    for only in ((), ("--only", area)):
        assert DAMAGED == rmqtool(["validate", str(store), *only])
        rows = map(json.loads, capfd.readouterr().out.splitlines())
        assert "FS-LEN" in {row["code"] for row in rows}, only
