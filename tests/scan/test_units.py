"""Files of units: every whole unit once, whatever the cut; holes are zeros that nobody reads."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.formats.batch_queue import BATCH_CQ_UNIT
from rmqtool.formats.consume_queue import CQ_UNIT, PRE_BLANK
from rmqtool.scan import batch_queue, consume_queue
from rmqtool.scan.units import scan_units
from rmqtool.store.segment import SegmentPart
from tests.scan.segments import whole, written

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.formats.layout import Layout


@given(
    raw=st.binary(max_size=400),
    cuts=st.lists(st.integers(1, 399), max_size=3, unique=True),
    layout=st.sampled_from([CQ_UNIT, BATCH_CQ_UNIT]),
    batch_bytes=st.sampled_from([1, 50, 1 << 20]),
)
def test_each_unit_once(
    raw: bytes, cuts: list[int], layout: Layout, batch_bytes: int, tmp_path: Path
) -> None:
    """Parts tile the whole units of a file, and columns are what the layout reads."""
    segment = written(tmp_path, raw, 4000)
    edges = [0, *sorted(cut for cut in cuts if cut < len(raw)), len(raw)]
    batches = [
        batch
        for begin, end in pairwise(edges)
        for batch in scan_units(SegmentPart(segment, begin, end), layout, batch_bytes=batch_bytes)
    ]
    whole_bytes = len(raw) // layout.size * layout.size
    assert raw[:whole_bytes] == b"".join(batch.raw.tobytes() for batch in batches)
    position = 0
    for batch in batches:
        assert position == batch.position
        assert (4000 + position) // layout.size == batch.first
        for number in range(batch.count):
            unit = layout.parse(raw[position + number * layout.size :][: layout.size])
            assert unit == {name: batch.column(name)[number] for name in unit}
        position = batch.end
    assert whole_bytes == position


def test_holes(tmp_path: Path) -> None:
    """The holes of a sparse file are units of zeros, and are not read."""
    size = 40_000
    path = tmp_path / f"{0:020}"
    with path.open("wb") as file:
        file.seek(20_000)
        file.write(b"\1" * 20)
        file.truncate(size)
    segment = written(tmp_path, b"", 20)
    segment = type(segment)(type(segment.place).of(path), "consumequeue/T/0", 0, size)
    batches = list(consume_queue.scan(whole(segment)))
    assert size // 20 == sum(batch.count for batch in batches)
    assert [1000] == [
        batch.first + number for batch in batches for number in np.flatnonzero(~batch.is_zero)
    ]
    for batch in batches:
        assert (not batch.is_hole) or not batch.column("size").any()


@pytest.mark.parametrize(
    ("values", "accepted", "blank"),
    [
        ((0, 91, 0), True, False),
        ((5, 0, 0), False, False),
        ((-1, 91, 0), False, False),
        ((0, 0x7FFFFFFF, 0), True, True),
        ((1, 0x7FFFFFFF, 0), True, False),
    ],
)
def test_consume_queue(
    values: tuple[int, int, int], accepted: bool, blank: bool, tmp_path: Path
) -> None:
    """Which units a broker accepts, and which of them are pre-blanks."""
    raw = CQ_UNIT.packer.pack(*values)
    assert blank == (raw == PRE_BLANK)
    (batch,) = consume_queue.scan(whole(written(tmp_path, raw)))
    assert [accepted] == consume_queue.is_accepted(batch).tolist()
    assert [blank] == consume_queue.is_pre_blank(batch).tolist()


@pytest.mark.parametrize(
    ("change", "accepted"),
    [
        ({}, True),
        ({"batch_size": 0}, False),
        ({"msg_base_offset": -1}, False),
        ({"size": 0}, False),
        ({"physical_offset": -1}, False),
    ],
)
def test_batch_queue(change: dict[str, int], accepted: bool, tmp_path: Path) -> None:
    """Which units of a batch queue a broker accepts."""
    raw = BATCH_CQ_UNIT.build(dict.fromkeys(BATCH_CQ_UNIT.positions, 1) | change)
    (batch,) = batch_queue.scan(whole(written(tmp_path, raw)))
    assert [accepted] == batch_queue.is_accepted(batch).tolist()
