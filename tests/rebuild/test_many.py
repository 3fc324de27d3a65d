"""Rebuild for many stores at once: the same bytes as one by one, and one failure stops no other."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqtool import rebuild
from rmqtool.cli.main import main
from rmqtool.errors import NotAStore, UsageError, WriteFailed
from rmqtool.rebuild.many import Rebuilds, StoreRebuild
from rmqtool.rebuild.options import RebuildOptions, RebuildResult, Target
from tests.damage import DAMAGES
from tests.stores import fixture_store

KINDS = ("rocketmq-5.3.3-traffic", "rocketmq-4.9.3-dledger")
HARM = "zero-8-sectors-middle"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a directory of stores: sound, damaged, and one that is none."""
    top = tmp_path_factory.mktemp("fleet")
    for kind in KINDS:
        whole = fixture_store(kind, tmp_path_factory.mktemp("whole"))
        shutil.copytree(whole, top / kind / "store")
    shutil.copytree(top / KINDS[0], top / "damaged")
    DAMAGES[HARM].inflict(top / "damaged/store")
    (top / "empty/store").mkdir(parents=True)
    return top


def results(options: RebuildOptions, *paths: str) -> tuple[list[StoreRebuild], int]:
    """Give what becomes of stores, and the exit code."""
    work = Rebuilds(options, paths)
    return list(work.results(lambda *_: None)), work.exit_code


def files(top: Path) -> dict[str, bytes]:
    """Give the files below a directory."""
    return {
        str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("target", list(Target))
def test_same_bytes(target: Target, fleet: Path, tmp_path: Path) -> None:
    """Each store has the files that it gets alone, in a directory of its own, and a row."""
    options = RebuildOptions("", target, output=f"{tmp_path}/all")
    rebuilds, code = results(options, f"{fleet}/*/store")
    rows = {Path(str(rebuild.row["store"])).parent.name: rebuild.row for rebuild in rebuilds}
    assert ["damaged", "empty", *reversed(KINDS)] == list(rows)
    verdicts = {name: row["verdict"] for name, row in rows.items()}
    complete = dict.fromkeys(KINDS, "complete")
    assert {"damaged": "in part", "empty": "not rebuilt", **complete} == verdicts
    assert 3 == code
    alone: dict[Target, Callable[..., RebuildResult]] = {
        Target.QUEUES: rebuild.consume_queues,
        Target.INDEX: rebuild.index,
        Target.ALL: rebuild.all,
    }
    for name, row in rows.items():
        if name == "empty":
            assert "empty" in str(row["reason"])
            assert row.get("output") is None
            continue
        result = alone[target](fleet / name / "store", tmp_path / name)
        assert files(tmp_path / name) == files(Path(str(row["output"])))
        assert (result.records, result.units) == (row["records"], row["units"])
    again, code = results(options, f"{fleet}/*/store")
    assert {"not rebuilt"} == {rebuild.row["verdict"] for rebuild in again}
    assert 3 == code


def test_check(fleet: Path, tmp_path: Path) -> None:
    """With --check, each store is the same or differs, and nothing is written."""
    shutil.copytree(fleet / KINDS[0], tmp_path / "a")
    shutil.copytree(fleet / KINDS[0], tmp_path / "b")
    DAMAGES["flip-entry-hash"].inflict(tmp_path / "b/store")
    rebuilds, code = results(RebuildOptions("", check=True), f"{tmp_path}/*/store")
    assert ["same", "differs"] == [rebuild.row["verdict"] for rebuild in rebuilds]
    assert [0, 1] == [rebuild.row["differences"] for rebuild in rebuilds]
    assert 1 == code


def test_refused(fleet: Path) -> None:
    """What is for one store, or writes into one, is refused before anything is done."""
    with pytest.raises(UsageError):
        Rebuilds(RebuildOptions("", in_place=True), [f"{fleet}/*/store"])
    with pytest.raises(NotAStore):
        Rebuilds(RebuildOptions("", check=True), [f"{fleet}/none*/store"])
    inside = f"{fleet}/{KINDS[0]}/store/new"
    with pytest.raises(WriteFailed):
        Rebuilds(RebuildOptions("", output=inside), [f"{fleet}/*/store"])
    assert not Path(inside).exists()


def test_command(fleet: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The command takes a pattern or a file of stores; rows name the broker and the directory."""
    listed = tmp_path / "stores"
    listed.write_text(f"{fleet}/{KINDS[0]}/store\tbroker-a\n{fleet}/nothing*\n")
    code = main(
        ["rebuild-cq", "--stores-file", str(listed), "--output", f"{tmp_path}/new", "--quiet"]
    )
    said = capfd.readouterr()
    rows = [json.loads(line) for line in said.out.splitlines()]
    assert 3 == code, said.err
    assert ["broker-a", None] == [row.get("broker") for row in rows]
    assert ["complete", "not rebuilt"] == [row["verdict"] for row in rows]
    assert (Path(rows[0]["output"]) / "consumequeue").is_dir()
