"""Batches of an export: each record that a growing log gets is in exactly one of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from rmqtool.errors import NotAStore, OutputExists, RepairError, UsageError
from rmqtool.reads.export import DAMAGED, PLAN, SUCCESS, ExportRun
from rmqtool.reads.export_batches import PLACES, ExportLoss, next_batch
from rmqtool.reads.export_options import ExportOptions
from rmqtool.reads.options import SourceOptions, TableName
from rmqtool.store.tree import open_store
from rmqtool.tables.selection import Selection
from tests import inflict
from tests.cli.run import rmqtool
from tests.evidence import Evidence
from tests.spark.test_export import Here
from tests.spark.test_stream import cut_and_write_on, first_segments, offsets, records
from tests.stores import fixture_store, held_by_another

TRAFFIC = "rocketmq-5.3.3-traffic"


class Growing:
    """A copy of a store whose log grows, byte by byte, as a broker writes it."""

    def __init__(self, whole: Path, into: Path) -> None:
        log = open_store(str(whole)).commitlog
        self.whole = {
            path: (whole / path).read_bytes() for path in (segment.path for segment in log)
        }
        self.store = into
        shutil.copytree(whole, into)
        for path in self.whole:
            (into / path).unlink()

    def grow(self, end: int) -> None:
        """Let the log reach to a physical offset; what lies behind is zero."""
        for path, raw in self.whole.items():
            start = int(path.rpartition("/")[2])
            if start < end:
                (self.store / path).write_bytes(raw[: end - start].ljust(len(raw), b"\0"))


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """Give a log of three segments."""
    return first_segments(fixture_store(TRAFFIC, tmp_path), tmp_path / "whole", 3)


def batch(
    store: Path,
    output: Path,
    engine: Here | None = None,
    **given: Any,  # noqa: ANN401 - whatever the options take
) -> int | None:
    """Export a batch in this process; give its number, None when there is nothing new."""
    found = next_batch(ExportOptions(SourceOptions(str(store), **given), str(output)))
    if found is None:
        return None
    own = found.options(ExportOptions(SourceOptions(str(store), **given), str(output)))
    runner: Any = engine or Here()
    work = ExportRun(own)
    done = work.finished() or work.run(runner)
    assert done.is_complete
    return found.number


def exported(output: Path) -> list[int]:
    """Give the physical offsets of all batches, as readers of data find them."""
    table = ds.dataset(output, partitioning="hive").to_table(["physical_offset", "batch"])
    assert {"batch"} < set(table.column_names)
    return sorted(table["physical_offset"].to_pylist())


@pytest.mark.parametrize("name", [TRAFFIC, "rocketmq-4.9.3-dledger"])
def test_each_once(name: str, tmp_path: Path) -> None:
    """However the log grows, each record is exported once, in the middle of segments, too."""
    whole = fixture_store(name, tmp_path)
    ends = [row["physical_offset"] + row["size"] for row in records(whole)]
    growing = Growing(whole, tmp_path / "growing")
    output, numbers = tmp_path / "out", []
    for end in (*ends[10 : -1 : len(ends) // 5], ends[-1]):
        growing.grow(end)
        numbers.append(batch(growing.store, output))
        assert offsets(records(growing.store)) == exported(output)
    assert {PLACES, *(f"batch={number:06}" for number in numbers)} == {
        path.name for path in output.iterdir()
    }
    assert [*range(1, len(numbers) + 1)] == numbers
    assert batch(growing.store, output) is None


def test_a_record_in_the_making(whole: Path, tmp_path: Path) -> None:
    """What is not written to its end is left for the next batch."""
    found = records(whole)
    growing, output = Growing(whole, tmp_path / "growing"), tmp_path / "out"
    middle = found[50]["physical_offset"] + found[50]["size"] // 2
    growing.grow(middle)
    batch(growing.store, output)
    assert offsets(found[:50]) == exported(output)
    growing.grow(found[60]["physical_offset"])
    batch(growing.store, output)
    assert offsets(found[:60]) == exported(output)


def test_damage(whole: Path, tmp_path: Path) -> None:
    """A batch with damage is marked so, and the next one goes on after it."""
    inflict.flip_field("body", where=0.2)(whole)
    found = records(whole)
    growing, output = Growing(whole, tmp_path / "growing"), tmp_path / "out"
    growing.grow(found[-20]["physical_offset"])
    command = ("export", str(growing.store), "--output", str(output), "--since-last")
    assert 1 == rmqtool(*command).code
    growing.grow(found[-1]["physical_offset"] + found[-1]["size"])
    assert 0 == rmqtool(*command).code
    marks = [
        [name for name in (SUCCESS, DAMAGED) if (output / f"batch={n:06}" / name).exists()]
        for n in (1, 2)
    ]
    assert [[DAMAGED], [SUCCESS]] == marks
    assert offsets(found) == exported(output)


@pytest.mark.parametrize("stop_after", [0, 1, 2])
def test_killed(stop_after: int, whole: Path, tmp_path: Path) -> None:
    """A batch that was killed is completed, whatever the log got since; then the next one comes."""
    found = records(whole)
    growing, output = Growing(whole, tmp_path / "growing"), tmp_path / "out"
    growing.grow(found[-20]["physical_offset"])
    with pytest.raises(KeyboardInterrupt):
        batch(growing.store, output, Here(stop_after))
    growing.grow(found[-5]["physical_offset"])
    assert batch(growing.store, output) == 1
    assert offsets(found[:-20]) == exported(output)
    assert batch(growing.store, output) == 2
    assert offsets(found[:-5]) == exported(output)


def test_killed_before_its_plan(whole: Path, tmp_path: Path) -> None:
    """The place of a batch is there before anything else, and tells what is to be exported."""
    output = tmp_path / "out"
    options = ExportOptions(SourceOptions(str(whole)), str(output))
    first = next_batch(options)
    assert first == next_batch(options)
    assert first is not None
    assert not (output / first.directory).exists()
    first_file = min((whole / "commitlog").iterdir())
    kept = first_file.read_bytes()
    first_file.unlink()
    with pytest.raises(ExportLoss, match="deleted before they were exported: 131,072 bytes"):
        next_batch(options)
    first_file.write_bytes(kept)
    assert batch(whole, output) == 1
    assert offsets(records(whole)) == exported(output)


def test_cut(whole: Path, tmp_path: Path) -> None:
    """Where a broker has cut the log and written on, nothing is exported, and why is said."""
    found = records(whole)
    output = tmp_path / "out"
    batch(whole, output)
    cut_and_write_on(whole, found[-9]["physical_offset"], dropped=2)
    with pytest.raises(ExportLoss, match="the commitlog was cut after it was exported"):
        batch(whole, output)
    shutil.rmtree(whole / "commitlog")
    (whole / "commitlog").mkdir()
    with pytest.raises(NotAStore, match="has no commitlog"):
        batch(whole, tmp_path / "other")
    assert not (tmp_path / "other").exists()
    with pytest.raises(ExportLoss, match="has no commitlog"):
        batch(whole, output)


def test_expired(whole: Path, tmp_path: Path) -> None:
    """Files that expire after they were exported are no loss; before, they are."""
    found = records(whole)
    files = sorted((whole / "commitlog").iterdir())
    growing, output = Growing(whole, tmp_path / "growing"), tmp_path / "out"
    growing.grow(int(files[1].name) + 5000)
    batch(growing.store, output)
    growing.grow(found[-1]["physical_offset"])
    (growing.store / "commitlog" / files[0].name).unlink()
    assert batch(growing.store, output) == 2
    assert offsets(found[:-1]) == exported(output)
    late, other = Growing(whole, tmp_path / "late"), tmp_path / "other"
    late.grow(int(files[1].name) + 5000)
    batch(late.store, other)
    late.grow(found[-1]["physical_offset"])
    for path in files[:2]:
        (late.store / "commitlog" / path.name).unlink()
    with pytest.raises(ExportLoss, match="deleted before they were exported"):
        batch(late.store, other)


def test_other_directories(whole: Path, tmp_path: Path) -> None:
    """What holds something else, or batches of another kind, is refused and left as it is."""
    output = tmp_path / "out"
    output.mkdir()
    (output / "notes.txt").write_text("mine")
    with pytest.raises(OutputExists, match="holds no batches of an export"):
        batch(whole, output)
    (output / "notes.txt").unlink()
    batch(whole, output)
    with pytest.raises(OutputExists, match=r"another export \(columns differs\)"):
        batch(whole, output, columns=("topic",))
    with pytest.raises(OutputExists, match=r"another export \(limits differs\)"):
        batch(whole, output, selection=Selection(topics=("T",)))
    plan = output / "batch=000001" / PLAN
    said = json.loads(plan.read_bytes())
    plan.write_text(json.dumps({**said, "limits": "Selection()"}))
    with pytest.raises(OutputExists, match="two runs began it at once"):
        batch(whole, output)
    for text in ("", "[]", "{"):
        plan.write_text(text)
        with pytest.raises(RepairError, match=f"{PLAN}: is not what an export has written"):
            batch(whole, output)
    place = output / PLACES / "000001.json"
    known = json.loads(place.read_bytes())
    for text in (
        *("", "[]", "{", '{"begin": {}}', '{"begin": 1, "end": 2, "asked": {}}'),
        json.dumps({**known, "end": {**known["end"], "physical_offset": "1"}}),
        json.dumps({**known, "end": {**known["end"], "physical_offset": -1}}),
        json.dumps({**known, "end": {**known["end"], "records": []}}),
    ):
        place.write_text(text)
        with pytest.raises(RepairError, match="is not what an export has written"):
            batch(whole, output)


def test_within_the_store(whole: Path, evidence: Evidence) -> None:
    """Nothing is written into the store, not even where a batch begins."""
    evidence.keep(whole)
    with pytest.raises(RepairError, match="lies in the store, where nothing is written"):
        batch(whole, whole / "nightly")
    assert not (whole / "nightly").exists()


def test_usage(whole: Path, tmp_path: Path) -> None:
    """It is for messages, from one place to another."""
    for given in (
        {"table": TableName.SEGMENTS},
        {"selection": Selection(offsets=(0, 100))},
    ):
        options = ExportOptions(SourceOptions(str(whole), **given), str(tmp_path / "out"))
        with pytest.raises(UsageError, match="--since-last"):
            next_batch(options)
    assert not (tmp_path / "out").exists()


def test_fleet(whole: Path, tmp_path: Path) -> None:
    """Each store has batches of its own; one that comes later, too, and a loss stops no other."""
    found, fleet, output = records(whole), tmp_path / "fleet", tmp_path / "out"
    growing = [Growing(whole, fleet / name / "store") for name in ("a", "b")]
    command = ("export", f"{fleet}/*/store", "--output", str(output), "--since-last")
    growing[0].grow(found[40]["physical_offset"])
    growing[1].grow(found[30]["physical_offset"])
    assert 0 == rmqtool(*command).code
    growing.append(Growing(whole, fleet / "c" / "store"))
    stores = [one.store for one in growing]
    for one, count in zip(growing, (50, 60, 70), strict=True):
        one.grow(found[count]["physical_offset"])
    assert 0 == rmqtool(*command).code
    by_store: dict[str, list[int]] = {}
    for row in pq.read_table(output, partitioning="hive").to_pylist():
        by_store.setdefault(str(row["store"]), []).append(row["physical_offset"])
    assert by_store.keys() == {str(store) for store in stores}
    for store, count in zip(stores, (50, 60, 70), strict=True):
        assert sorted(by_store[str(store)]) == offsets(found[:count])
    assert 0 == rmqtool(*command).code
    shutil.rmtree(stores[1] / "commitlog")
    (stores[1] / "commitlog").mkdir()
    growing[0].grow(found[80]["physical_offset"])
    done = rmqtool(*command)
    assert 3 == done.code
    assert str(stores[1]) in done.err
    again = pq.read_table(output / f"store={str(stores[0]).replace('/', '%2F')}")
    assert sorted(again["physical_offset"].to_pylist()) == offsets(found[:80])
    (output / "other").write_text("")
    done = rmqtool(*command)
    assert (2, True) == (done.code, "holds no batches of many stores" in done.err)
    done = rmqtool(*command, "--partition-by", "store")
    assert (2, True) == (done.code, "in a directory of it" in done.err)


def test_command(whole: Path, tmp_path: Path) -> None:
    """The same command each night; it says where rows go, and when there are none."""
    growing, output = Growing(whole, tmp_path / "growing"), tmp_path / "out"
    found = records(whole)
    command = ("export", str(growing.store), "--output", str(output), "--since-last")
    growing.grow(found[30]["physical_offset"])
    with held_by_another(growing.store):
        done = rmqtool(*command)
        assert 0 == done.code
        assert "new messages go to batch=000001" in done.err
        growing.grow(found[70]["physical_offset"])
        assert "batch=000002" in rmqtool(*command).err
        again = rmqtool(*command)
    assert (0, b"") == (again.code, again.out)
    assert "nothing new since the last batch" in again.err
    assert offsets(found[:70]) == exported(output)
    assert all((output / f"batch={n:06}" / SUCCESS).exists() for n in (1, 2))
    cut_and_write_on(growing.store, found[40]["physical_offset"], dropped=1)
    refused = rmqtool(*command)
    assert 2 == refused.code
    assert "the commitlog was cut after it was exported" in refused.err
    assert "try: export all that is there now into a new directory" in refused.err
