"""Images of strangers, and images that cannot be read to their end."""

from __future__ import annotations

import gzip
import os
import struct
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from rmqtool.carve import runs, search
from rmqtool.carve.carving import Carving
from rmqtool.carve.options import CarveOptions
from rmqtool.carve.search import Image, ImagePart
from rmqtool.cli.main import main
from rmqtool.errors import Trouble, UnreadablePath
from rmqtool.store.place import OpenFile, Place
from tests.carve.images import PREFIX, carve, cut, log, plain_search, record
from tests.evidence import Evidence

if TYPE_CHECKING:
    from typing_extensions import Buffer

PAGE: Final = 4096
MAGIC: Final = PREFIX + b"\xa7"


def test_long_records(tmp_path: Path) -> None:
    """A record that no window holds is a record like any other, and so is its damage."""
    dice = np.random.default_rng(3)
    first = log(2, seed=3)
    long = record(len(first), dice.bytes(5 << 20))
    raw = first + long + log(2, start=len(first) + len(long), seed=4)
    done, found = carve(tmp_path, raw)
    assert (raw, 5, 5) == (found, done.records, done.stores[0].crc)
    assert raw == carve(tmp_path, raw, raw[: len(first)] + bytes(5000) + raw[len(first) :])[1]
    damaged = bytearray(raw)
    damaged[len(first) + (3 << 20)] ^= 1
    done, found = carve(tmp_path, bytes(damaged))
    assert (raw[: len(first)] + raw[len(first) + len(long) :], 1) == (found, done.damaged)
    done, found = carve(tmp_path, raw[: len(first) + (4 << 20)])
    assert (first, 1) == (found, done.partial)


def test_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an image is cut into parts shows in nothing: parts of any length find the same."""
    inner = log(3, start=1 << 20, seed=7)
    raw = log(30, seed=8, bodies=[bytes(300), inner, b"x" * 5000, inner + inner]) + bytes(3000)
    whole, once = tmp_path / "whole", carve(tmp_path, raw)
    whole.write_bytes(raw)
    for part_bytes in (512, 1000, 4096):
        monkeypatch.setattr(
            Image.parts, "__defaults__", (part_bytes,)
        )  # a parameter's default: the only caller gives none
        done, found = carve(tmp_path, raw)
        assert once[1] == found == b"".join(one.raw for one in plain_search(raw))
        assert once[0].stores[0].row | {"file": ""} == done.stores[0].row | {"file": ""}


def test_core_file(tmp_path: Path) -> None:
    """Pages of mapped segments that lie in any order in a core file are put into theirs."""
    dice = np.random.default_rng(5)
    raw = log(200, seed=5)
    pages = [raw[at : at + PAGE].ljust(PAGE, b"\0") for at in range(0, len(raw), PAGE)]
    groups = [b"".join(pages[at : at + 3]) for at in range(0, len(pages), 3)]
    image = b"\x7fELF".ljust(PAGE, b"\1")
    for number in dice.permutation(len(groups)).tolist():
        image += groups[number] + dice.bytes(PAGE)
    _, found = carve(tmp_path, image, lone=True)
    expected = sorted(plain_search(image), key=lambda one: one.physical_offset)
    assert [one.raw for one in expected] == cut(found)
    done, found = carve(tmp_path, image)
    assert set(cut(found)) <= set(cut(raw))
    assert len(expected) - done.lone_left == len(cut(found))


def test_nothing_but_magic(tmp_path: Path) -> None:
    """Random bytes, magic codes alone and headers without records give nothing, and soon."""
    dice = np.random.default_rng(6)
    one = record(0, bytes(50))[:88]
    headers = bytearray(one * 20_000)
    for at in range(0, len(headers), 88):
        headers[at : at + 4] = struct.pack(">i", 1 << 30)
        headers[at + 84 : at + 88] = struct.pack(">i", (1 << 30) - 100)
    begin = time.process_time()
    images = ((dice.bytes(4 << 20), 0), (MAGIC * (1 << 20), 0), (bytes(headers), 20_000))
    for image, partial in images:
        done, found = carve(tmp_path, image)
        assert (b"", 0, 0, partial) == (found, done.damaged, done.lone_left, done.partial)
    assert time.process_time() - begin < 20, "in linear time"


def test_bodies_in_bodies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers that share the end of one record cost a bounded number of bytes, and are told of."""
    monkeypatch.setattr(search, "BUDGET_LEAST", 0)
    monkeypatch.setattr(search, "BUDGET_TIMES", 1)
    count, tail = 400, record(0, b"", topic=b"t")[88:]
    raw = b""
    for number in range(count):
        length = (count - number - 1) * 88 + 20_000
        head = bytearray(record(0, b"x")[:88])
        head[:4] = struct.pack(">i", 88 + length + len(tail))
        raw += bytes(head[:84]) + struct.pack(">i", length)
    raw += bytes(20_000) + tail
    done, found = carve(tmp_path, raw + log(3, seed=1))
    assert log(3, seed=1) == found, "what follows is found"
    assert (count, True) == (done.damaged + done.unjudged, done.unjudged > 0)


def test_many_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores and runs are numbered up to a ceiling: one more run is refused in words."""
    monkeypatch.setattr(runs, "MOST_HOSTS", 3)
    raw = b"".join(
        log(2, start=PAGE, host=bytes([10, 0, 0, n]), seed=n).ljust(1024) for n in range(6)
    )
    done, found = carve(tmp_path, raw)
    assert (3, 12) == (len(done.stores), len(cut(found)))
    monkeypatch.setattr(runs, "MOST_RUNS", 4)
    with pytest.raises(UnreadablePath, match="more than 4 fragments"):
        carve(tmp_path, raw, output="more.rmq")
    assert not (tmp_path / "more.rmq").exists()


def test_compressed(tmp_path: Path, evidence: Evidence) -> None:
    """A compressed image is unpacked; one that is cut gives what comes before, and exit code 3."""
    raw = log(60, seed=9)
    packed = gzip.compress(raw)
    (tmp_path / "whole.gz").write_bytes(packed)
    (tmp_path / "cut.gz").write_bytes(packed[: len(packed) * 3 // 4])
    evidence.keep(tmp_path / "whole.gz")
    output = tmp_path / "a.rmq"
    assert 0 == main(["carve", str(tmp_path / "whole.gz"), "--output", str(output)])
    assert raw == output.read_bytes()
    output = tmp_path / "b.rmq"
    assert 3 == main(["carve", str(tmp_path / "cut.gz"), "--output", str(output)])
    assert raw.startswith(output.read_bytes())
    limit = ["--unpack-limit", "1KiB", "--output", str(tmp_path / "c.rmq")]
    assert 2 == main(["carve", str(tmp_path / "whole.gz"), *limit])
    assert not (tmp_path / "c.rmq").exists()


class Failing(OpenFile):
    """A disk with a bad sector."""

    bad = range(PAGE + 100, PAGE + 612)

    def read_into(self, buffer: Buffer, position: int) -> int:
        """Refuse to read the sector."""
        if position < self.bad.stop and position + memoryview(buffer).nbytes > self.bad.start:
            raise UnreadablePath(path="disk", reason="input/output error", trouble=Trouble.MEDIUM)
        return super().read_into(buffer, position)


def test_bad_sectors(tmp_path: Path) -> None:
    """What a disk does not give is zeros, counted; all around it is found."""
    raw = log(80, seed=10)
    (tmp_path / "disk").write_bytes(raw)
    with Place(str(tmp_path / "disk")).open() as file:
        image = Image("disk", Failing(file.place, file.fileno(), file.size))
        found = search.search(ImagePart(image, 0, image.size))
    hurt = [run for run in plain_search(raw) if run.position < 3 * PAGE]
    hurt = [run for run in hurt if run.position + len(run.raw) > PAGE]
    counted = sum(int(run[4].sum()) for run in found.runs)
    assert 80 - len(hurt) <= counted < 80
    assert PAGE <= image.unread_bytes <= 3 * PAGE
    assert image.first_refusal is not None


def test_shrinks(tmp_path: Path) -> None:
    """An image that is cut after the search is told of, and nothing half written stays."""
    image, output = tmp_path / "image", tmp_path / "out.rmq"
    image.write_bytes(log(30, seed=11))
    with ExitStack() as keep:
        carving = Carving(CarveOptions((str(image),), str(output), jobs=1), keep)
        with pytest.raises(UnreadablePath, match="it changed while it was read"):
            carving.run(lambda _: os.truncate(image, 1000))
    assert [image] == [*tmp_path.iterdir()]
