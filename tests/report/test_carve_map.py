"""The map of a carving: fragments and bars are those of the records that were written."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from rmqtool.carve.carving import Carving
from rmqtool.carve.options import CarveOptions
from rmqtool.report import carve_map
from tests.cli.run import rmqtool
from tests.stores import fixture_store

FIXTURE: Final = "rocketmq-5.3.3-traffic"
SECTOR: Final = 512
HOSTILE: Final = "<script>alert(1)</script>.img"
CELL: Final = re.compile(r"<td[^>]*>([^<]*)</td>")
RECTANGLE: Final = re.compile(
    r'<rect x="([\d.]+)" y="4" width="([\d.]+)" height="16" class="(\w+)"'
)


def _image(tmp_path: Path, name: str) -> Path:
    """Make an image of two files of a log, with noise between them."""
    store = fixture_store(FIXTURE, tmp_path)
    noise = np.random.default_rng(1)
    parts = [
        piece
        for file in sorted((store / "commitlog").iterdir())[:2]
        for piece in (noise.bytes(100 * SECTOR), file.read_bytes()[: 200 * SECTOR])
    ]
    image = tmp_path / name
    image.write_bytes(b"".join(parts))
    return image


def _carved(image: Path, tmp_path: Path) -> tuple[str, list[dict[str, object]]]:
    """Give the page and the lines of the records."""
    lines, page = tmp_path / "out.jsonl", tmp_path / "map.html"
    rmqtool("carve", image, "--lone", "--output", lines, "--map", page)
    found = [json.loads(line) for line in lines.read_bytes().splitlines()]
    return page.read_text(encoding="utf-8"), found


def test_fragments(tmp_path: Path) -> None:
    """Each stretch without a gap is a row; the bar of the image is blue where records lie."""
    page, records = _carved(_image(tmp_path, "disk.img"), tmp_path)
    rows = [CELL.findall(one) for one in page.split("<tbody>")[1].split("</tr>")[:-1]]
    assert len(rows) == 2
    assert len(records) == sum(int(cell.replace(",", "")) for row in rows for cell in row[3:6])
    for _, begin, end, *_, position, _, _ in rows:
        inside = [
            record
            for record in records
            if int(begin) <= int(str(record["physical_offset"])) < int(end)
        ]
        assert inside[0]["position"] == int(position)
        last = inside[-1]
        assert int(end) == int(str(last["physical_offset"])) + int(str(last["size"]))
    bars = page.split("<svg")
    image = next(one for one in bars if "place in the image" in one)
    drawn = [(float(x), float(w)) for x, w, kind in RECTANGLE.findall(image) if kind == "record"]
    scale = carve_map.COLUMNS / (600 * SECTOR)
    assert [100 * SECTOR * scale, 400 * SECTOR * scale] == [x for x, _ in drawn]


def test_hostile_name(tmp_path: Path) -> None:
    """What an image is called is text, and nothing else."""
    image = _image(tmp_path, HOSTILE.replace("/", "-"))
    page, _ = _carved(image, tmp_path)
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_many_fragments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not shown is counted."""
    monkeypatch.setattr(carve_map, "MOST_FRAGMENTS", 1)
    options = CarveOptions((str(_image(tmp_path, "disk.img")),), str(tmp_path / "out.rmq"))
    with ExitStack() as keep:
        work = Carving(options, keep)
        drawn = carve_map.CarveMap(work.images)
        done = work.run(take=drawn.add)
    assert (1, 1) == (len(drawn.fragments), drawn.more_fragments)
    assert "1 more fragments are not shown here" in drawn.page(done, 0, "1")


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    """Where the file cannot be written, there is no map of it."""
    image, page = _image(tmp_path, "disk.img"), tmp_path / "map.html"
    (tmp_path / "out.rmq").touch()
    assert 2 <= rmqtool("carve", image, "--output", tmp_path / "out.rmq", "--map", page).code
    assert not page.exists()
