"""The hex view shows every byte of every file once, in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.tree import open_store
from rmqtool.tables.bodies import BodyMode, BodyOptions
from rmqtool.tables.selection import Selection
from rmqtool.tables.views import VIEWS
from tests import inflict
from tests.store.built_store import build_store
from tests.stores import fixture_store
from tests.tables.dumped import rows

LONGEST = 4 << 20


def bytes_of(lines: list[dict[str, Any]]) -> bytes:
    """Put lines together again, and prove that they tile."""
    found = bytearray()
    for line in lines:
        assert len(found) == line["position"]
        raw = bytes.fromhex(line["hex"]) if "hex" in line else bytes(line["length"])
        assert line["length"] == len(raw)
        found += raw
    return bytes(found)


def test_every_byte(store: Path) -> None:
    """Each file of each kind, from its first byte to its last."""
    for branch in open_store(store).artefacts():
        path = store / branch.path
        word = str(branch.kind)
        if word not in VIEWS or not 0 < path.stat().st_size <= LONGEST:
            continue
        lines = rows(path, word, is_hex=True, fillers=True)
        if branch.kind is ArtefactKind.CONSUME_QUEUE_EXT:
            assert {"text"} == {line["field"] for line in lines}
        assert path.read_bytes() == bytes_of(lines)
        assert {branch.path} == {line["file"] for line in lines}


def test_record(tmp_path: Path) -> None:
    """The lines of one record name its fields and say what they hold."""
    built = build_store(tmp_path, 3)
    wanted = Selection(offsets=(built.offsets[1], built.offsets[2]))
    lines = rows(tmp_path, is_hex=True, selection=wanted)
    assert built.offsets[1] == lines[0]["physical_offset"]
    assert built.sizes[1] == sum(line["length"] for line in lines)
    assert ("total_size", str(built.sizes[1])) == (lines[0]["field"], lines[0]["value"])
    assert {"body", "topic", "properties_length"} <= {line["field"] for line in lines}


def test_redacted(tmp_path: Path) -> None:
    """A redacted body keeps its place and its length, not its bytes."""
    build_store(tmp_path, 1)
    (body,) = [
        line
        for line in rows(tmp_path, is_hex=True, body=BodyOptions(BodyMode.REDACTED))
        if line["field"] == "body"
    ]
    assert "hex" not in body
    assert body["length"] > 0


@pytest.mark.parametrize("damage", [b"\x55", b"\x00"], ids=["garbage", "zeros"])
def test_damage(tmp_path: Path, damage: bytes) -> None:
    """A stretch that is no record is shown as it is, with its code."""
    built = build_store(tmp_path, 8)
    first, *_ = open_store(tmp_path).commitlog
    path = tmp_path / first.path
    raw = bytearray(path.read_bytes())
    begin, end = built.offsets[2], built.offsets[4]
    raw[begin:end] = damage * (end - begin)
    path.write_bytes(raw)
    lines = rows(path, is_hex=True, fillers=True)
    assert bytes(raw) == bytes_of(lines)
    gap = [line for line in lines if line["field"] == "gap"]
    assert (begin, end - begin) == (gap[0]["position"], sum(line["length"] for line in gap))
    assert "CL-MAGIC" == gap[0]["code"]


@pytest.mark.parametrize("length", [0, 1, 20, 47, 48, 49])
@pytest.mark.parametrize("byte", [b"\0", b"\x01"])
def test_short_file(tmp_path: Path, length: int, byte: bytes) -> None:
    """A file that is shorter than its structure ends where it ends."""
    path = tmp_path / "checkpoint"
    path.write_bytes(byte * length)
    assert byte * length == bytes_of(rows(path, "checkpoint", is_hex=True))


def test_damaged_log(tmp_path: Path) -> None:
    """What a log lacks is a line of its own, and a record in a wrong place has its code."""
    store = fixture_store("rocketmq-5.3.3-traffic", tmp_path)
    first, second, third, _ = sorted((store / "commitlog").iterdir())
    length = first.stat().st_size
    inflict.set_field("physical_offset", lambda old: old + 512, where=0.01)(store)
    inflict.resize(second, 0)
    third.unlink()
    lines = rows(store, is_hex=True)
    missing = [line for line in lines if line["field"] == "missing"]
    assert [
        (length, length, "FS-LEN"),
        (2 * length, length, "FS-GAP"),
    ] == [(line["physical_offset"], line["length"], line["code"]) for line in missing]
    (moved,) = (line for line in lines if line.get("code") == "CL-PHYOFF")
    assert ("total_size", f"commitlog/{first.name}") == (moved["field"], moved["file"])
