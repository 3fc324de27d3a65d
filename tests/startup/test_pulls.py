"""What a pull makes of units that lead nowhere, or make the broker throw."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.startup.files import FileQueue, ModelFile
from rmqtool.startup.pull import LogExtent, Pull
from tests.inflict import write_at
from tests.startup.oracle import Oracle
from tests.startup.test_against_stores import ALWAYS, compare
from tests.stores import fixture_before, fixture_store, manifest

LENGTH: Final = 1 << 20
UNITS: Final = 2_000
ROW: Final = 100  # in the pull that begins at 96

# Physical offset and size of one unit, messages handed out.
ODD: Final = (
    pytest.param(1 << 40, 100, 96 + 4 + UNITS - 896, id="no file: 800 units are looked at"),
    pytest.param(100, LENGTH, 100 + UNITS - 900, id="past the end of the file"),
    pytest.param(100, -1, 96, id="size below 0"),
    pytest.param(10_000, (1 << 31) - 500, 96 + 4, id="more than a pull takes, and than Java adds"),
    pytest.param(100, (1 << 31) - 50, 96, id="more than Java adds, to either"),
)
QUEUE: Final = "consumequeue/traffic-orders/3"
RECOVERED: Final = 3  # files
SIZES: Final = (-501_612_274, (1 << 31) - 1)


@pytest.mark.parametrize(("offset", "size", "delivered"), ODD)
def test_odd_unit(offset: int, size: int, delivered: int) -> None:
    """One unit costs up to 800, or all that come after it, and those of its pull before it."""
    units = np.zeros(UNITS, CQ_UNIT.dtype)
    units["physical_offset"], units["size"] = np.arange(UNITS) * 100, 100
    units["physical_offset"][ROW], units["size"][ROW] = offset, size
    log = FileQueue("commitlog", LENGTH, [ModelFile("0", 0, LENGTH, wrote_position=LENGTH)])
    pull = Pull(LogExtent(log))
    pull.add(units)
    assert delivered == pull.delivered


@pytest.mark.broker
@pytest.mark.parametrize("size", SIZES)
def test_judged(oracle: Oracle, size: int, tmp_path: Path) -> None:
    """A real store hands out as much, of a unit in a file that recovery does not look at."""
    name = fixture_before(oracle.jvm.version, "traffic")
    root = fixture_store(name, tmp_path)
    half = int(manifest(name)["settings"]["mappedFileSizeConsumeQueue"]) // 2
    for path in (root / "consumequeue").glob("*/*/*"):
        raw = path.read_bytes()
        path.write_bytes(raw[:half])
        path.with_name(f"{int(path.name) + half:020}").write_bytes(raw[half:])
    first, *rest = sorted((root / QUEUE).iterdir())
    assert len(rest) > RECOVERED
    write_at(first, 40 * CQ_UNIT.size + 8, struct.pack(">i", size))
    opened = tmp_path / "opened" / "store"
    shutil.copytree(root, opened)
    settings = {**manifest(name)["settings"], **ALWAYS, "mappedFileSizeConsumeQueue": half}
    compare(oracle, root, opened, settings)
