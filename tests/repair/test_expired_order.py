"""Units of expired messages: those that damage changed are found, and order comes back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool import repair
from rmqtool.formats.consume_queue import CQ_UNIT, PRE_BLANK
from rmqtool.queues.kinds import as_units
from rmqtool.repair.queues.unwanted_units import ExpiredOrder
from rmqtool.startup import predict
from rmqtool.store.tree import open_store
from tests import plain_store
from tests.repair.repaired import Broken, broken
from tests.stores import broker_conf, fixture_store

SIZE: Final = 200
BOUND: Final = 1000 * SIZE
SOUND: Final = [CQ_UNIT.packer.pack(number * SIZE, SIZE, 7) for number in range(40)]


def restored(raw: list[bytes], chunk: int = 1000) -> tuple[list[int], npt.NDArray[np.void]]:
    """Judge units, chunk by chunk; give which were replaced, and what is there then."""
    order, units, rows = ExpiredOrder(), list(raw), []
    for begin in range(0, len(units), chunk):
        wild = order.wild(as_units(b"".join(raw[begin : begin + chunk])), BOUND)
        for row, unit in wild.items():
            rows.append(begin + row)
            units[begin + row] = unit
    return rows, as_units(b"".join(units))


def test_sound() -> None:
    """What points forward stays, pre-blank in front and repeated units included."""
    assert [] == restored(SOUND)[0]
    assert [] == restored([PRE_BLANK] * 3 + SOUND[3:9] + [SOUND[9]] * 4 + SOUND[10:])[0]


@given(
    wild=st.dictionaries(
        st.integers(1, 38),
        st.one_of(
            st.just(bytes(20)),
            st.tuples(st.integers(BOUND + 1, 1 << 62), st.integers(1, 1 << 30)).map(
                lambda one: CQ_UNIT.packer.pack(*one, 7)
            ),
            st.tuples(st.integers(-(1 << 62), -1), st.integers(1, 1 << 30)).map(
                lambda one: CQ_UNIT.packer.pack(*one, 7)
            ),
            st.tuples(st.integers(0, BOUND), st.integers(BOUND + 2, 1 << 30)).map(
                lambda one: CQ_UNIT.packer.pack(*one, 7)
            ),
        ),
        max_size=12,
    ),
    chunk=st.integers(1, 50),
)
def test_impossible(wild: dict[int, bytes], chunk: int) -> None:
    """Exactly the impossible ones are replaced, by units that point between their neighbours."""
    rows, units = restored([wild.get(number, raw) for number, raw in enumerate(SOUND)], chunk)
    assert sorted(wild) == rows
    assert (units["size"] > 0).all()
    assert (np.diff(units["physical_offset"].astype(np.int64)) >= 0).all()


@given(at=st.integers(2, 36), other=st.integers(0, BOUND))
def test_out_of_order(at: int, other: int) -> None:
    """A unit that points elsewhere in the log is replaced alone; close by it may be either."""
    units = list(SOUND)
    units[at] = CQ_UNIT.packer.pack(other, SIZE, 7)
    rows, _ = restored(units)
    distance = abs(other - at * SIZE)
    if distance <= SIZE:
        assert [] == rows
    elif distance > 2 * SIZE:
        assert [at] == rows
    else:
        assert rows in ([at - 1], [at], [at + 1])


@pytest.mark.parametrize("version", ["4.9.3", "5.3.3", "5.5.0"])
def test_queue_of_a_store(version: str, tmp_path: Path) -> None:
    """Garbage over expired units, behind a queue's end, and a torn file: repaired, nothing lost."""
    store = broken(f"rocketmq-{version}-expired", None, tmp_path)
    assert store is not None
    queues = store.root / "consumequeue"
    with min((queues / "expired-orders/2").iterdir()).open("r+b") as file:
        file.seek(7 * 20)
        file.write(b"\x7f garbage" * 11)
    (idle,) = (queues / "expired-idle/0").iterdir()
    with min((queues / "expired-orders/3").iterdir()).open("r+b") as file:
        file.seek(-600, 2)
        file.write(b"in front of the first message that is there " * 10)
    with sorted((queues / "expired-orders/1").iterdir())[-2].open("r+b") as file:
        file.seek(0, 2)
        file.write(b"longer than a file may be")
    with idle.open("r+b") as file:
        file.write(b"five hundred".ljust(20) * 24 + bytes(8))  # then a unit at the log's begin
        file.seek(45 * 20)
        file.write(b"behind the end of the queue")
        file.truncate(46 * 20 + 7)
    assert {"CQ-RANGE", "FS-LEN"} <= {finding.code for finding in store.findings()}
    repair.apply(store.plan(), in_place=True)
    assert ([], []) == (store.findings(), store.plan().edits)
    assert not predict(open_store(store.root, store.conf), version).loses


def test_size_alone(tmp_path: Path) -> None:
    """A unit of an expired message whose size goes beyond the log is put right."""
    store = broken("rocketmq-4.9.3-expired", None, tmp_path)
    assert store is not None
    files = sorted((store.root / "consumequeue/expired-orders/1").iterdir())
    with files[0].open("r+b") as file:
        file.seek(8)
        file.write(b"\x7f")
    assert ["CQ-RANGE"] == [finding.code for finding in store.findings()]
    repair.apply(store.plan(), in_place=True)
    assert ([], []) == (store.findings(), store.plan().edits)


@pytest.mark.parametrize("version", ["4.9.3", "5.3.3", "5.5.0"])
def test_first_segment_lost(version: str, tmp_path: Path) -> None:
    """Units of a lost first segment are passed over, those that are lost themselves, too."""
    store = broken(f"rocketmq-{version}-expired", None, tmp_path)
    assert store is not None
    first = min((store.root / "commitlog").iterdir())
    os.truncate(first, 72)
    files = sorted((store.root / "consumequeue/expired-orders/3").iterdir())
    os.truncate(files[1], 16)
    repair.apply(store.plan(), in_place=True)
    assert ([], []) == (store.findings(), store.plan().edits)
    assert not predict(open_store(store.root, store.conf), version).loses


@pytest.mark.parametrize(("size", "is_there"), [(1020, True), (1000 - 20 * 3, True), (0, False)])
def test_length_alone(size: int, is_there: bool, tmp_path: Path) -> None:
    """A queue of expired messages gets the length that brokers load; without a unit it goes."""
    store = broken("rocketmq-4.9.3-expired", None, tmp_path)
    assert store is not None
    (idle,) = (store.root / "consumequeue/expired-idle/0").iterdir()
    os.truncate(idle, size)
    repair.apply(store.plan(), in_place=True)
    assert ([], []) == (store.findings(), store.plan().edits)
    assert [1000] * is_there == [path.stat().st_size for path in [idle] if path.exists()]


def test_nothing_has_expired(tmp_path: Path) -> None:
    """A queue of noise alone goes: no message of it is in a log that begins at 0."""
    store = broken("rocketmq-5.5.0-crash", None, tmp_path)
    assert store is not None
    (file,) = (store.root / "consumequeue/主题-тема/0").iterdir()
    noise = np.random.default_rng(1).bytes(703)
    file.write_bytes(bytes(1297) + noise)
    for segment in sorted((store.root / "commitlog").iterdir()):
        start = max(87263 - int(segment.name), 0)
        with segment.open("r+b") as opened:
            opened.seek(start)
            opened.write(bytes(segment.stat().st_size - start))
    repair.apply(store.plan(), in_place=True)
    assert ([], []) == (store.findings(), store.plan().edits)
    assert not file.exists()


def test_cut_file(tmp_path: Path) -> None:
    """What is cut off a file of expired messages is put back in their order at once."""
    name = "rocketmq-5.5.0-ext"
    root = fixture_store(name, tmp_path)
    plain_store.segments(root)[0].unlink()
    first, *_ = plain_store.numbered(root / "consumequeue" / "ext-orders" / "0")
    first.write_bytes(first.read_bytes()[:557])
    store = Broken(root, str(broker_conf(name)))
    repair.apply(store.plan(), in_place=True)
    assert [] == store.plan().edits
    offsets = [unit.physical_offset for unit in plain_store.units(first.parent)]
    assert sorted(offsets) == offsets


def test_units_after_lost_ones(tmp_path: Path) -> None:
    """A unit of another queue after units of lost messages stands for a lost one, too.

    It was taken for one of an expired message, with a place in front of those beside it.
    """
    name = "rocketmq-5.5.0-expired"
    root, lost = fixture_store(name, tmp_path), 327_680
    queues = root / "consumequeue"
    idle, other = queues / "expired-idle/0" / f"{0:020d}", queues / "expired-orders/2"
    idle.write_bytes((other / f"{5000:020d}").read_bytes())
    (root / "commitlog" / f"{lost:020d}").unlink()
    units = [unit.physical_offset for unit in plain_store.units(idle.parent)]
    assert [True, False] == [offset < lost + 65_536 for offset in (units[0], units[-1])]
    store = Broken(root, str(broker_conf(name)))
    repair.apply(store.plan(), in_place=True)
    assert [] == store.plan().edits
    repaired = [unit.physical_offset for unit in plain_store.units(idle.parent)]
    assert len(units) == len(repaired)
    assert {lost + 65_535} == {*repaired}
