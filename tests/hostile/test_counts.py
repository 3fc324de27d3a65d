"""What a store can count up costs in proportion: twice as many take twice as long, at most."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from time import process_time

import pytest

from rmqtool import rebuild
from rmqtool.cli.main import main
from rmqtool.formats.config import MOST_VALUES
from rmqtool.formats.index import INDEX_HEADER
from rmqtool.queues import lone_queues
from rmqtool.reads.export_options import ExportFormat
from rmqtool.rebuild import work
from rmqtool.rebuild.options import LostRange
from rmqtool.rebuild.work import refuse_unread
from rmqtool.repair import plan
from rmqtool.repair.writer import MOST_REPLACED
from rmqtool.store.config_files import LARGEST_CONFIG
from rmqtool.store.place import Place
from rmqtool.store.segment import LARGEST_LONG
from tests.carve.images import record
from tests.hostile.many import MANY
from tests.memory import peak
from tests.scan.segments import MESSAGE, extents, segment_bytes, whole, written
from tests.spark.test_export import exported
from tests.stores import fixture_store

FEW = 150
COMMANDS = (("validate", "--level", "quick"), ("repair",), ("startup", "--broker-version", "5.3.3"))

LINEAR = (
    *((kind, command) for kind in ("empty logs", "holes", "queues") for command in COMMANDS),
    *(("segments", ("rebuild", "--check")), ("keys", ("validate",))),
    *(("holes", ("rebuild", "--check")), ("hurt", ("repair",)), ("links", ("validate",))),
    *(("holes", ("report",)), ("queues", ("doctor",)), ("queues", ("diff", "{store}"))),
)


def calls(store: Path, command: Sequence[str]) -> int:
    """Count the calls of functions that a command makes: time, whatever else the machine does."""
    count = 0

    def take(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event.endswith("call")

    others = [word.format(store=store) for word in command[1:]]
    arguments = [command[0], str(store), *others, "--quiet"]
    sys.setprofile(take)
    try:
        code = main(arguments)
    finally:
        sys.setprofile(None)
    assert code in {0, 1, 3}
    return count


@pytest.mark.parametrize(
    ("kind", "command"), LINEAR, ids=[f"{command[0]}-{kind}" for kind, command in LINEAR]
)
def test_linear(tmp_path: Path, kind: str, command: Sequence[str]) -> None:
    """From n to 2n a command has no more to add than from 2n to 4n has half of."""
    counts = []
    for times in (0, 1, 2, 4):  # the first one loads what the command needs
        store = tmp_path / str(times)
        MANY[kind](store, max(times * FEW, 1))
        counts.append(calls(store, command))
    _, once, twice, fourfold = counts
    assert fourfold - twice <= 2.2 * (twice - once)


def test_rebuild_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a part was read is asked of what that part has lost, not of all that is lost."""
    looked_at = 0

    def refuse(lost: Iterable[LostRange]) -> None:
        nonlocal looked_at
        looked_at += len([*lost])
        refuse_unread(lost)

    MANY["hurt"](tmp_path, FEW)
    monkeypatch.setattr(work, "refuse_unread", refuse)
    result = rebuild.all(tmp_path, in_place=True, jobs=1)
    assert looked_at == len(result.lost) == FEW


def test_memory_of_a_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repair keeps little of each queue: 200,000 of them need less than 1 GiB."""
    few, many = 2 * FEW, 32 * FEW  # more than are read without kernels

    def on_one(
        work: Callable[[Sequence[Place]], object], parts: Sequence[Sequence[Place]], _: int | None
    ) -> Iterator[object]:  # a thread works with 2.5 MB, and how many do at a time is chance
        return map(work, parts)

    monkeypatch.setattr(lone_queues, "on_threads", on_one)

    def plan_of(count: int) -> None:
        assert len(plan(str(tmp_path / str(count))).edits) >= count

    for count in (few, many):
        MANY["queues"](tmp_path / str(count), count)
        plan_of(count)  # loads what a repair needs: kernels are compiled where they are used first
    more = peak(lambda: plan_of(many)) - peak(lambda: plan_of(few))
    assert more / (many - few) < 4600  # bytes; 4,300: names and units of short queues are held


def test_memory_of_a_file(tmp_path: Path) -> None:
    """A scan takes no more than its file needs: of megabytes, each file has a huge page cleared."""
    part = whole(written(tmp_path, segment_bytes([MESSAGE] * 3, size=4096)))
    assert extents(part)  # loads what a scan needs
    assert peak(lambda: extents(part)) < 256 << 10  # bytes; it was 8.0 MiB


def test_bridges_without_times(tmp_path: Path) -> None:
    """Where no record has a store time, none is looked for again for each bridge."""
    MANY["damages"](tmp_path, 2 * FEW)
    before = process_time()
    assert main(["repair", str(tmp_path), "--quiet"]) in {1, 3}
    assert process_time() - before < 8  # it was 18 and more


def test_name_far_away(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A file whose name says that 10^15 segments are missing before it is one row of a plan."""
    log = tmp_path / "commitlog"
    log.mkdir()
    for start in (0, 1 << 62):
        (log / f"{start:020}").write_bytes(record(start, b"body").ljust(4096, b"\0"))
    assert main(["repair", str(tmp_path), "--bridge-missing"]) in {0, 1, 3}
    assert "segments are missing before this file" in capfd.readouterr().out


@pytest.mark.parametrize(
    "command", ["dump --fillers", "validate", "repair", "export", "startup", "doctor", "info"]
)
def test_last_name(tmp_path: Path, command: str) -> None:
    """Bytes of a file with the largest name lie past the last offset: rows leave it out."""
    store, log = tmp_path / "store", tmp_path / "store/commitlog"
    log.mkdir(parents=True)
    (log / f"{LARGEST_LONG:020}").write_bytes(bytes(4096) + b"damage" + bytes(4096))
    if command == "export":
        exported(store, tmp_path / "exported", form=ExportFormat.JSONL, fillers=True)
        return
    name, *options = command.split()
    options += ["--broker-version", "5.3.3"] if name == "startup" else []
    assert main([name, str(store), *options]) in {0, 1, 3}


@pytest.mark.parametrize("command", ["validate", "dump --as config", "repair"])
def test_large_configuration(
    tmp_path: Path, command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of a configuration file of many gigabytes nothing is read, and its size is said."""
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020}").write_bytes(bytes(4096))
    (tmp_path / "config").mkdir()
    with (tmp_path / "config/topics.json").open("wb") as file:
        file.truncate(1 << 40)
    name, *options = command.split()
    assert main([name, str(tmp_path), *options, "--format", "jsonl"]) in {1, 2, 3}
    assert f"{LARGEST_CONFIG:,} are read" in "".join(capfd.readouterr())


@pytest.mark.parametrize("name", ["checkpoint", "commitlog/00000000000000004096", "abort"])
def test_hole_of_terabytes(tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A hole of a terabyte is neither read to its end nor kept; that is said."""
    (tmp_path / "commitlog").mkdir()
    for number in range(3):
        (tmp_path / "commitlog" / f"{number * 4096:020}").write_bytes(bytes(4096))
    with (tmp_path / name).open("wb") as file:
        file.truncate(1 << 40)
    before = process_time()
    assert main(["repair", str(tmp_path), "--in-place", "--yes", "--yes"]) in {0, 1, 3}
    assert process_time() - before < 10
    assert (tmp_path / name).stat().st_size in {0, 1 << 40}
    if name != "abort":
        assert f"at most {MOST_REPLACED:,}" in "".join(capfd.readouterr())


READ_WHOLE = (
    "validate --level deep",
    "dump",
    "rebuild --check",
    "report --output NEW",
    "diff OTHER",
    "extract --output NEW.rmq",
    "rebuild-log --output NEW",
    "rebuild-log --dry-run --since 9999d",
    "query --key none",
    "export --table messages --output NEW",
)


@pytest.mark.parametrize("command", READ_WHOLE)
def test_hole_of_a_terabyte_is_read(tmp_path: Path, command: str) -> None:
    """What reads all of a log takes no memory and no time for a hole of a terabyte in it."""
    store = fixture_store("rocketmq-5.3.3-crash", tmp_path)
    other = fixture_store("rocketmq-5.3.3-crash", tmp_path / "other")
    os.truncate(max((store / "commitlog").iterdir()), 1 << 40)
    words = command.replace("NEW", str(tmp_path / "new")).replace("OTHER", str(other))
    name, *options = words.split()

    def read() -> None:
        before = process_time()
        assert main([name, str(store), *options, "--quiet"]) in {0, 1, 3}
        assert process_time() - before < 20

    assert peak(read) < 300 << 20


def test_index_of_zeros(tmp_path: Path) -> None:
    """In an index file of zeros the first entry may be anywhere, if its offset is 0."""
    (tmp_path / "index").mkdir()
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020}").write_bytes(bytes(4096))
    facts = {"index_count": 9, "end_physical_offset": 4000}
    header = INDEX_HEADER.build({field.name: 0 for field in INDEX_HEADER.fields} | facts)
    with (tmp_path / "index/20260101000000000").open("wb") as file:
        file.write(header)
        file.truncate(len(header) + (1 << 30))
    before = process_time()
    assert main(["info", str(tmp_path), "--quiet"]) in {0, 1, 3}
    assert process_time() - before < 10


@pytest.mark.parametrize("text", ["[" * 50 + "{}," * MOST_VALUES, '{"x":[' + "0," * MOST_VALUES])
def test_dense_configuration(tmp_path: Path, text: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A configuration file of more values than are read is not parsed, and that is said."""
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020}").write_bytes(bytes(4096))
    (tmp_path / "config").mkdir()
    (tmp_path / "config/topics.json").write_text(text)
    before = process_time()
    assert main(["validate", str(tmp_path), "--format", "jsonl"]) in {1, 3}
    assert process_time() - before < 5
    assert f"at most {MOST_VALUES:,} are read" in capfd.readouterr().out


@pytest.mark.parametrize("length", [1, 14, 19, 21])
@pytest.mark.parametrize("name", ["consumequeue/crash-orders/0", "commitlog"])
def test_cut_to_nothing(tmp_path: Path, name: str, length: int) -> None:
    """What is left of a file may be less than its first unit or record: brokers map zeros there."""
    store = fixture_store("rocketmq-5.3.3-crash", tmp_path)
    for path in (store / name).iterdir():
        os.truncate(path, length)
    for version in ("4.9.3", "5.3.3"):
        assert main(["startup", str(store), "--broker-version", version]) in {0, 1, 2, 3}


def test_compaction_of_terabytes(tmp_path: Path) -> None:
    """The hole in a queue of the compaction store is not read into memory."""
    store = fixture_store("rocketmq-5.3.3-compaction", tmp_path)
    path = next(path for path in (store / "compaction").glob("compactionCq/*/*/*"))
    os.truncate(path, path.stat().st_size + (1 << 40))
    assert main(["validate", str(store)]) in {0, 1, 3}


@pytest.mark.parametrize("start", [LARGEST_LONG, 1 << 50])
def test_queue_far_away(tmp_path: Path, start: int) -> None:
    """Between two queue files lie more file names than anybody can count: a pull skips them."""
    store = fixture_store("rocketmq-5.3.3-crash", tmp_path)
    directory = store / "consumequeue/crash-orders/1"
    last = max(directory.iterdir())
    last.rename(last.with_name(f"{start:020}"))
    before = process_time()
    assert main(["startup", str(store), "--broker-version", "5.3.3", "--quiet"]) in {0, 1}
    assert process_time() - before < 10
