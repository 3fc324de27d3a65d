"""`carve` against a plain search, record by record, and against what nobody stored."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from rmqtool.carve.carving import Carved, Carving
from rmqtool.carve.options import CarveOptions
from rmqtool.cli.main import main
from rmqtool.formats.properties import CRC32
from tests.carve.images import carve, cut, log, plain_search, record
from tests.cli.run import rmqtool
from tests.evidence import Evidence
from tests.stores import fixture_store
from tests.truth.fixture import Fixture

SECTOR: Final = 512
ENDS: Final = 5  # places of an image with a cut before them
STORES: Final = (
    "rocketmq-4.9.3-traffic", "rocketmq-5.3.3-traffic", "rocketmq-5.5.0-property-crc",
    "rocketmq-5.3.3-dledger", "rocketmq-4.9.3-ipv6", "rocketmq-5.5.0-batch-queue",
)  # fmt: skip


@pytest.mark.parametrize("name", STORES)
def test_whole_logs(name: str, tmp_path: Path, evidence: Evidence) -> None:
    """Out of the segments of a broker, one after the other, comes each record of its log."""
    fixture = Fixture(name, fixture_store(name, tmp_path))
    evidence.keep(fixture.store)
    paths = {
        path.parent for path in fixture.store.rglob("0" * 20) if "log" in str(path.parent.name)
    }
    logs = [path for path in paths if path.name == "commitlog"] or [
        path.parent for path in fixture.store.rglob("data/" + "0" * 20)
    ]
    segments = sorted(path for directory in logs for path in directory.iterdir())
    image = b"".join(segment.read_bytes() for segment in segments)
    done, raw = carve(tmp_path, image)
    expected = [
        record.raw for record in sorted(fixture.records, key=lambda record: record.physical_offset)
    ]
    assert expected == cut(raw)
    assert (len(expected), 0, 0, 0) == (done.records, done.damaged, done.partial, done.lone_left)
    assert sum(bool(record.body) for record in fixture.records) <= sum(
        store.crc for store in done.stores
    )


def test_lines(tmp_path: Path, evidence: Evidence) -> None:
    """A line tells where a record lies, in the image and in its log, and how sure it is."""
    image = bytes(1024) + log(3, start=4096, bodies=[b"one", b"", b"three"]) + bytes(700)
    (tmp_path / "image").write_bytes(image)
    evidence.keep(tmp_path / "image")
    assert 0 == main(["carve", f"{tmp_path}/image", "--output", f"{tmp_path}/out.jsonl"])
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    found = plain_search(image)
    assert ["crc", "chain", "crc"] == [line["grade"] for line in lines]
    assert [(line.position, line.physical_offset, len(line.raw)) for line in found] == [
        (line["position"], line["physical_offset"], line["size"]) for line in lines
    ]
    assert {("orders", 0, "10.0.0.1:10911")} == {
        (line["topic"], line["queue_id"], line["store"]) for line in lines
    }


@pytest.mark.parametrize("seed", range(50))
def test_cuts(seed: int, tmp_path: Path) -> None:
    """Of a log that is cut at random every whole record comes out, and nothing else."""
    image, stored = damaged_log(seed)
    _, raw = carve(tmp_path, image, lone=True)
    whole = [one.raw for one in plain_search(image)]
    assert sorted(whole) == sorted(cut(raw))
    done, raw = carve(tmp_path, image)
    found = cut(raw)
    assert set(found) <= stored, "no invented message"
    assert len(whole) == len(found) + done.lone_left
    assert done.lone_left <= ENDS


def damaged_log(seed: int) -> tuple[bytes, set[bytes]]:
    """Give a log that is cut and overwritten at random, and the records that were in it."""
    dice = np.random.default_rng(seed)
    whole = log(
        int(dice.integers(2, 60)), start=int(dice.integers(1 << 20)) * SECTOR, seed=seed + 1000
    )
    stored = {one.raw for one in plain_search(whole)}
    first, left_out = int(dice.integers(len(whole))) // 2, int(dice.integers(1, 300))
    image = bytearray(whole[first:-left_out])
    for _ in range(int(dice.integers(4))):
        at = int(dice.integers(len(image))) // SECTOR * SECTOR
        image[at : at + SECTOR] = bytes(SECTOR) if dice.integers(2) else dice.bytes(SECTOR)
    return bytes(image), stored


def test_record_in_a_body(tmp_path: Path) -> None:
    """A record that a message carries is none of its own, whether or not the message is whole."""
    inner = log(5, start=1 << 30, seed=1)
    raw = log(9, seed=2, bodies=[b"x", b"y", b"dump:" + inner + b"end"])
    assert raw == carve(tmp_path, raw)[1]
    outer = plain_search(raw)
    damaged = bytearray(raw)
    damaged[outer[2].position + 90] ^= 1  # in the body, before the records in it
    done, found = carve(tmp_path, bytes(damaged))
    assert [one.raw for one in outer if one is not outer[2]] == cut(found)
    assert (1, 5) == (done.damaged, done.lone_left)
    assert set(cut(inner)) <= set(cut(carve(tmp_path, bytes(damaged), lone=True)[1]))
    cut_off = raw[outer[2].position + 88 :]  # its header is gone: nothing tells that it was there
    done, found = carve(tmp_path, bytes(outer[2].position + 88) + cut_off)
    assert [one.raw for one in outer[3:]] == cut(found)


def test_copies_and_conflicts(tmp_path: Path) -> None:
    """What is there twice is written once; what claims the same place is written, and said."""
    first, second = log(20, seed=1), log(20, seed=2)
    done, raw = carve(tmp_path, first + bytes(SECTOR - len(first) % SECTOR) + first)
    assert (first, 20) == (raw, done.stores[0].overlaps.duplicates)
    done, raw = carve(tmp_path, first, second)
    assert sorted(cut(first) + cut(second)) == sorted(cut(raw))
    assert 39 >= done.conflicts >= 20
    assert not done.is_whole
    half = len(cut(first)[0])
    done, raw = carve(tmp_path, first[:-half], first[half:])  # two dumps of one disk
    assert first == raw
    assert done.is_whole


def test_search(tmp_path: Path) -> None:
    """A search finds the runs that are written afterwards, and writes nothing itself."""
    image, output = tmp_path / "image", tmp_path / "out.rmq"
    image.write_bytes(bytes(SECTOR) + log(20) + bytes(SECTOR) + log(5, start=1 << 20))
    with ExitStack() as keep:
        carving = Carving(CarveOptions((str(image),), str(output)), keep)
        runs = carving.search(Carved(carving.images))
    assert ([20, 5], [0, 1 << 20]) == (runs.counts.tolist(), runs.offsets.tolist())
    assert not output.exists()


def test_stores(tmp_path: Path) -> None:
    """Stores are told apart by their hosts; a broker whose address changed is one store."""
    moved = log(4, start=8192, host=bytes([10, 0, 0, 2]))
    image = log(5)
    image += bytes(8192 - len(image)) + moved
    image += log(3, start=8192 + len(moved), host=bytes([10, 0, 0, 3]))
    done, _ = carve(tmp_path, image, output="out", by_store=True)
    assert [("10.0.0.1:10911", 5, 1), ("10.0.0.2:10911", 7, 2)] == [
        (store.store, store.records, store.hosts) for store in done.stores
    ]
    names = ["10.0.0.1-10911.rmq", "10.0.0.2-10911.rmq"]
    assert names == sorted(path.name for path in (tmp_path / "out").iterdir())
    assert [str(tmp_path / "out" / name) for name in names] == [store.file for store in done.stores]


def test_without_a_body(tmp_path: Path) -> None:
    """A record without a body counts if neighbours agree, or if it has a checksum of all it is."""
    empty = record(4096, b"")
    done, raw = carve(tmp_path, bytes(512) + empty + bytes(100))
    assert (b"", 1) == (raw, done.lone_left)
    assert empty == carve(tmp_path, bytes(512) + empty, lone=True)[1]
    pair = empty + record(4096 + len(empty), b"")
    assert pair == carve(tmp_path, pair)[1]
    sealed = record(4096, b"", properties=f"{CRC32}\x010000000000\x02".encode())
    digits = f"{checksum(sealed[:-20]):010}"[::-1].encode()
    sealed = sealed[:-11] + digits + sealed[-1:]
    done, raw = carve(tmp_path, sealed)
    assert (sealed, 1) == (raw, done.stores[0].crc)
    wrong = bytearray(sealed)
    wrong[15] ^= 1  # the queue
    done, raw = carve(tmp_path, bytes(wrong))
    assert (b"", 1) == (raw, done.damaged)


def checksum(raw: bytes) -> int:
    """Give what brokers store of bytes."""
    import zlib

    return zlib.crc32(raw) & 0x7FFFFFFF


@pytest.mark.parametrize(
    ("head", "command"),
    [
        (b"QFI\xfb\0\0\0\3", "qemu-img convert -f qcow2 -O raw"),
        (b"KDMV\1\0\0\0", "qemu-img convert -f vmdk -O raw"),
        (b"# Disk DescriptorFile\n", "qemu-img convert -f vmdk -O raw"),
        (b"vhdxfile", "qemu-img convert -f vhdx -O raw"),
        (bytes(0x40) + b"\x7f\x10\xda\xbe", "qemu-img convert -f vdi -O raw"),
        (b"EVF\x09\x0d\x0a\xff", "ewfexport -t"),
        (b"\0" * 80, ""),
    ],
)
def test_virtual_disks(head: bytes, command: str, tmp_path: Path) -> None:
    """An image of a virtual disk is named, with the command that makes a raw one of it."""
    image = tmp_path / "my disk"
    image.write_bytes(head + bytes(4096))
    run = rmqtool("carve", image, "--output", tmp_path / "new.rmq")
    assert bool(command) == ("compressed or scattered records in it are not found" in run.err)
    assert command in run.err
    assert not command or f"'{image}'" in run.err
