"""`rmqtool info`: sections as rows, in every format, with the exit code of the design."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from rmqtool.cli.main import main
from rmqtool.info.overview import SECTIONS
from rmqtool.info.overview_rows import table
from tests.evidence import Evidence
from tests.imports import imports
from tests.store.built_store import build_store
from tests.stores import fixture_names, fixture_store

NOT_COUNTED = "lost messages are not counted: rmqtool doctor {} counts them"
HOSTILE = "\x1b[31m\u202e=cmd\n"


@pytest.fixture
def store(tmp_path: Path, evidence: Evidence) -> Path:
    """A store that a real broker wrote, under guard."""
    return evidence.keep(fixture_store(fixture_names(scenario="traffic")[-1], tmp_path))


def info(capfd: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    """Run the command; give exit code, output and what it said."""
    code = main(["info", *map(str, arguments)])
    return code, *capfd.readouterr()


def test_problems_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What cannot be read is told whichever sections are asked for beside it: it is advised so."""
    store = fixture_store("rocketmq-5.5.0-rocksdb", tmp_path)
    (store / "consumequeue" / "CURRENT").write_bytes(b"x")
    code, out, advice = info(capfd, store, "--format", "json")
    problems = json.loads(out)["problems"]
    assert (3, 1) == (code, len(problems))
    assert f"rmqtool info {store} --section problems" in advice
    code, out, _ = info(capfd, store, "--section", "problems", "--format", "json")
    assert (3, problems) == (code, json.loads(out))


def test_json(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """JSON is one document with all sections, each row with all fields, times in ISO 8601."""
    code, out, said = info(capfd, store, "--format", "json")
    document: dict[str, list[dict[str, Any]]] = json.loads(out)
    assert (0, f"rmqtool: {NOT_COUNTED.format(store)}\n") == (code, said)
    assert [*SECTIONS] == [*document]
    for name, rows in document.items():
        fields = list(table(name).names)
        assert all([*row][: len(fields)] == fields for row in rows)
    assert {len("2026-11-21T02:03:04.005Z")} == {
        len(row["first_store_time"]) for row in document["topics"]
    }


def test_json_lines(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A line is one row of one section, and together they are the document."""
    _, lines, _ = info(capfd, store, "--format", "jsonl")
    _, document, _ = info(capfd, store, "--format", "json")
    by_section: dict[str, list[Any]] = {name: [] for name in SECTIONS}
    for line in lines.splitlines():
        row = json.loads(line)
        by_section[row.pop("section")].append(row)
    assert json.loads(document) == by_section


def test_table(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A table has a title for each section."""
    code, out, _ = info(capfd, store, "--format", "table")
    assert 0 == code
    assert {f"{name}:" for name in SECTIONS} - {"problems:"} <= {*out.splitlines()}
    assert "traffic-orders" in out


def test_sound_is_not_said(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A table does not end in "problems: none", as nothing was checked; who asks for it gets it."""
    _, out, said = info(capfd, store, "--format", "table")
    assert "problems" not in out
    assert f"nothing was checked; to check every record: rmqtool validate {store}" in said
    _, out, said = info(capfd, store, "--format", "table", "--section", "problems")
    assert "problems: none" in said


def test_lost_messages(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Where messages are counted, info says that lost ones are not, and which command does so."""
    for section in ("topics", "queues"):
        _, _, said = info(capfd, store, "--section", section)
        assert f"rmqtool: {NOT_COUNTED.format(store)}\n" == said
    _, _, said = info(capfd, store / "consumequeue", "--section", "queues")
    assert "rmqtool: lost messages are not counted\n" == said
    _, _, said = info(capfd, store, "--section", "segments")
    assert not said


def test_one_section(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One section is rows of one kind, which CSV can hold, too."""
    _, out, _ = info(capfd, store, "--section", "segments", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert ["full"] * (len(rows) - 1) + ["last"] == [row["state"] for row in rows]
    _, out, _ = info(capfd, store, "--section", "end", "--format", "jsonl")
    assert "zeros" == json.loads(out)["stopped_at"]


def test_unknown_section(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A section that does not exist is refused, and the others are named."""
    code, out, said = info(capfd, store, "--section", "toppics")
    assert (2, "") == (code, out)
    assert "no section 'toppics'; nearest: topics" in said
    code, out, said = info(capfd, store, "--section", "zzz")
    assert all(name in said for name in SECTIONS)


@pytest.mark.parametrize("kind", ["missing", "empty", "random", "fifo", "loop"])
def test_no_store(tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: str) -> None:
    """What is no store is a line on stderr and the next step, nothing on stdout, exit code 2."""
    path = tmp_path / "x"
    if kind == "empty":
        path.mkdir()
    elif kind == "random":
        path.write_bytes(os.urandom(1000))
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path)
    code, out, said = info(capfd, path)
    what, *next_step = said.splitlines()
    assert (2, "", True) == (code, out, str(path) in what)
    assert next_step == [one for one in next_step if one.startswith("rmqtool: try: ")]


def test_read_in_part(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be read is exit code 3, a row and a sentence; the rest is there."""
    build_store(tmp_path, 10)
    (tmp_path / "index").mkdir()
    scandir = os.scandir

    def refuse(path: str | int) -> object:
        shown = os.readlink(f"/proc/self/fd/{path}") if isinstance(path, int) else path  # noqa: PTH115
        if str(shown).endswith("index"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    code, out, said = info(capfd, tmp_path, "--format", "json")
    document = json.loads(out)
    assert (3, 10) == (code, document["topics"][0]["messages"])
    assert ["permission denied"] == [row["reason"] for row in document["problems"]]
    assert "could not be read" in said


def test_hostile_names(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Names of topics reach a terminal escaped and JSON exactly."""
    build_store(tmp_path, 10)
    (tmp_path / "consumequeue/T").rename(tmp_path / "consumequeue" / HOSTILE)
    _, out, _ = info(capfd, tmp_path, "--format", "table")
    assert not {"\x1b", "\u202e"} & {*out}
    _, out, _ = info(capfd, tmp_path, "--format", "json")
    assert HOSTILE == json.loads(out)["topics"][0]["topic"]


def test_broker_conf(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Lengths that are configured are shown as such; what a broker cannot read is passed over."""
    build_store(tmp_path / "store", 10)
    conf = tmp_path / "broker.conf"
    conf.write_text("mappedFileSizeCommitLog=8192\n")
    _, out, _ = info(capfd, tmp_path / "store", "--broker-conf", conf, "--format", "json")
    document = json.loads(out)
    length = document["geometry"][0]
    assert ("commitlog", 8192, "configured") == tuple(length.values())
    assert ["odd-length"] == [row["oddity"] for row in document["oddities"]]
    conf.write_text("mappedFileSizeCommitLog=8k\n")
    code, out, _ = info(capfd, tmp_path / "store", "--broker-conf", conf, "--format", "json")
    assert (0, True) == (code, "mappedFileSizeCommitLog" in out)


def test_light() -> None:
    """Nothing below `info` imports numpy or its like, except inside of functions."""
    heavy = {"numpy", "numba", "pyarrow", "pandas", "pyspark"}
    assert [] == [
        one
        for one in imports()
        if one.importer.startswith(("rmqtool.store", "rmqtool.info", "rmqtool.cli.commands.info"))
        and one.imported.split(".")[0] in heavy
        and not one.is_lazy
    ]
