"""Records are put into chunks, and into the order of their queues, whatever way is the quicker."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.relog import chunk as chunks
from rmqtool.relog import fields as at
from rmqtool.relog.fields import by_queue
from rmqtool.relog.take import TakeOptions, TakeRecords
from rmqtool.scan.batch import ScanOptions
from rmqtool.store.parts import parts
from rmqtool.store.tree import open_store
from tests.stores import fixture_names, fixture_store

SMALL = st.integers(0, 5)
WILD = st.integers(-(1 << 31), (1 << 31) - 1)  # a flipped bit makes any queue id


@given(
    queues=st.lists(st.tuples(SMALL, SMALL | WILD, st.integers(0, 2)), max_size=40),
    only_small=st.booleans(),
)
def test_by_queue(queues: list[tuple[int, int, int]], only_small: bool) -> None:
    """Those of one queue keep their order; queues stand by topic and queue id."""
    rows = [queue for queue in queues if not only_small or 0 <= queue[1] <= 5]
    fields = np.zeros((at.ROWS, len(rows)), np.int64)
    for number, (topic, queue_id, units) in enumerate(rows):
        fields[[at.TOPIC, at.QUEUE_ID, at.UNITS], number] = topic, queue_id, units
    expected = sorted(
        (number for number, queue in enumerate(rows) if queue[2]),
        key=lambda number: rows[number][:2],
    )
    found = by_queue(fields)
    assert expected == found.order.tolist()
    assert [rows[number][:2] for number in expected] == list(map(tuple, found.queues.T.tolist()))
    seen = [rows[number][:2] for number in expected]
    assert [
        number == 0 or seen[number] != seen[number - 1] for number in range(len(seen))
    ] == found.is_first.tolist()


@pytest.mark.parametrize("missing", [0, 1, 1000, 1 << 40])
def test_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: int) -> None:
    """A chunk has the bytes of its records, whether the room made for them holds all or not."""
    store = fixture_store(fixture_names("5.3.3", "traffic")[0], tmp_path)
    part = next(iter(parts(open_store(store).commitlog, 1 << 30)))
    log = Path(store, "commitlog", Path(part.segment.path).name).read_bytes()
    windows = ScanOptions(window_bytes=1 << 14, batch_rows=16)
    monkeypatch.setattr(TakeOptions, "scan", windows)
    used = int(TakeRecords(TakeOptions())(part).fields[at.SIZE].sum())
    monkeypatch.setattr(chunks, "_PAST_END", max(used - missing, 0) - part.length)
    chunk = TakeRecords(TakeOptions())(part)
    assert used == chunk.raw.size
    starts = np.cumsum(chunk.fields[at.SIZE]) - chunk.fields[at.SIZE]
    assert starts.tolist() == chunk.fields[at.START].tolist()
    places = (chunk.fields[[at.OFFSET, at.SIZE]].T - [part.segment.start, 0]).tolist()
    assert b"".join(log[start : start + size] for start, size in places) == chunk.raw.tobytes()
