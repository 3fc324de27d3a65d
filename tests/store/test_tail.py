"""The real end of a log is found with a few reads, and equals what a walk over all of it finds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.formats.dledger import DLEDGER_ENTRY
from rmqtool.store.record_heads import LogReader
from rmqtool.store.tail import FoundBy, Stop, Tail, find_tail
from rmqtool.store.tree import Store, open_store
from tests.plain_store import records
from tests.store.built_store import FILE_LENGTH, FIRST_TIME_MS, Built, build_store, name_of
from tests.stores import fixture_names, fixture_store

# A plain walk knows nothing of DLedger, and takes seconds over files of 1 GiB.
OTHERS = [name for name in fixture_names() if name.endswith(("-default-geometry", "-dledger"))]
PLAIN = sorted({*fixture_names()} - {*OTHERS})


def tail_of(store: Store, dispatched: int | None = None) -> Tail:
    """Find the end of a store's log."""
    with LogReader(store.commitlog) as reader:
        return find_tail(store.commitlog, reader, dispatched=dispatched)


def overwrite(built: Built, physical_offset: int, raw: bytes) -> None:
    """Change bytes of a built log."""
    base = physical_offset // FILE_LENGTH * FILE_LENGTH
    with (built.root / "commitlog" / name_of(base)).open("r+b") as file:
        file.seek(physical_offset - base)
        file.write(raw)


@pytest.mark.parametrize("name", PLAIN)
def test_fixtures(name: str, tmp_path: Path) -> None:
    """In a real store the end is the one that a plain walk finds, with and without queues."""
    root = fixture_store(name, tmp_path)
    first, *_, last = records(root)
    store = open_store(root)
    for dispatched in (None, first.physical_offset, last.physical_offset):
        tail = tail_of(store, dispatched)
        assert tail.last is not None
        assert (last.physical_offset, last.size) == (tail.last.physical_offset, tail.last.size)
        assert last.integer("store_timestamp") == tail.last.store_timestamp
        assert (tail.last.end, Stop.ZEROS) == (tail.physical_offset, tail.stop)
        by_queues = FoundBy.BISECTION if dispatched is None else FoundBy.QUEUES
        assert by_queues == tail.found_by


@pytest.mark.parametrize("name", OTHERS)
def test_both_ways(name: str, tmp_path: Path) -> None:
    """The end is found from the first record and by bisection alike."""
    store = open_store(fixture_store(name, tmp_path))
    header = DLEDGER_ENTRY.size if store.is_dledger else 0
    by_queues, bisected = tail_of(store, store.commitlog.start + header), tail_of(store)
    assert (by_queues.last, by_queues.physical_offset) == (bisected.last, bisected.physical_offset)
    assert (FoundBy.QUEUES, FoundBy.BISECTION) == (by_queues.found_by, bisected.found_by)


@given(count=st.integers(0, 80), dledger=st.booleans(), data=st.data())
def test_any_length(
    tmp_path_factory: pytest.TempPathFactory, count: int, dledger: bool, data: st.DataObject
) -> None:
    """However full the last file is, both ways find the same end; unused files change nothing."""
    root = tmp_path_factory.mktemp("any")
    built = build_store(root, count, dledger=dledger)
    directory = root / ("dledger-n0/data" if dledger else "commitlog")
    unused = -(-built.end // FILE_LENGTH) * FILE_LENGTH
    for start in range(unused, unused + data.draw(st.integers(0, 2)) * FILE_LENGTH, FILE_LENGTH):
        (directory / name_of(start)).write_bytes(bytes(FILE_LENGTH))
    tail = tail_of(open_store(root))
    assert (built.end if count else 0) == tail.physical_offset
    if count:
        number = data.draw(st.integers(0, count - 1))
        by_queues = tail_of(open_store(root), built.offsets[number])
        assert tail.last == by_queues.last
        assert count - 1 - number == by_queues.records
    else:
        assert FoundBy.NOTHING == tail.found_by


def test_dledger_records_lie_in_entries(tmp_path: Path) -> None:
    """In a DLedger log the last record's own offset is 48 bytes behind its entry."""
    built = build_store(tmp_path, 30, dledger=True)
    store = open_store(tmp_path)
    assert store.is_dledger
    tail = tail_of(store)
    assert tail.last is not None
    assert built.offsets[-1] == tail.last.physical_offset
    assert built.offsets[-1] == built.end - built.sizes[-1]
    assert DLEDGER_ENTRY.size == built.offsets[0]


def test_dispatched_record_that_is_none(tmp_path: Path) -> None:
    """A queue that names what is no record is not believed."""
    built = build_store(tmp_path, 30)
    for nonsense in (built.offsets[3] + 1, 10**15, -5, 2**63 - 1):
        tail = tail_of(open_store(tmp_path), nonsense)
        assert (built.end, FoundBy.BISECTION) == (tail.physical_offset, tail.found_by)


def test_first_page_lost(tmp_path: Path) -> None:
    """A last file whose beginning is zeros is still seen to hold data."""
    built = build_store(tmp_path, 30)
    base = built.end // FILE_LENGTH * FILE_LENGTH
    overwrite(built, base, bytes(300))
    assert built.end == tail_of(open_store(tmp_path)).physical_offset


def test_garbage_at_the_end(tmp_path: Path) -> None:
    """What a truncation leaves behind the end is reported, and does not move the end."""
    built = build_store(tmp_path, 10)
    overwrite(built, built.end, b"\x00\x00\x01\x00rest of something")
    tail = tail_of(open_store(tmp_path), built.offsets[5])
    assert (built.end, Stop.NOT_A_RECORD) == (tail.physical_offset, tail.stop)
    assert tail.data_beyond is not None
    assert built.end <= tail.data_beyond < built.end + 4


@pytest.mark.parametrize("raw", [bytes(40), b"\xff" * 40])
def test_damage_that_stops_dispatch(raw: bytes, tmp_path: Path) -> None:
    """Records behind damage belong to the log, also where the queues end in front of it."""
    built = build_store(tmp_path, 60)
    assert built.offsets[25] // FILE_LENGTH < built.offsets[59] // FILE_LENGTH
    overwrite(built, built.offsets[25], raw)
    tail = tail_of(open_store(tmp_path), built.offsets[20])
    assert (built.end, FoundBy.BISECTION) == (tail.physical_offset, tail.found_by)
    assert (tail.stop, tail.data_beyond) == (Stop.ZEROS, None)


def test_remains_of_a_truncation(tmp_path: Path) -> None:
    """Records behind the end that are older than the last ones do not belong to the log."""
    built = build_store(tmp_path, 30)
    head, at = 56, built.offsets[26]  # the store time of a record; where the damage is
    newer = (FIRST_TIME_MS + 1000).to_bytes(8, "big")
    overwrite(built, built.offsets[25] + head, newer)
    overwrite(built, at, b"\xff" * 40)
    tail = tail_of(open_store(tmp_path), built.offsets[20])
    assert (built.end, Stop.ZEROS) == (tail.physical_offset, tail.stop)  # it may be a damaged time
    overwrite(built, built.offsets[24] + head, newer)
    tail = tail_of(open_store(tmp_path), built.offsets[20])
    assert (at, Stop.NOT_A_RECORD, at) == (tail.physical_offset, tail.stop, tail.data_beyond)


def test_sizes_that_lie(tmp_path: Path) -> None:
    """A record whose size leads out of its file ends the walk; nothing is read by that size."""
    built = build_store(tmp_path, 10)
    overwrite(built, built.offsets[-1], (2**31 - 1).to_bytes(4, "big"))
    tail = tail_of(open_store(tmp_path), built.offsets[5])
    assert (built.offsets[-1], Stop.NOT_A_RECORD) == (tail.physical_offset, tail.stop)


def test_blank_that_lies(tmp_path: Path) -> None:
    """A blank closes its file, whatever size it claims; the walk always advances."""
    built = build_store(tmp_path, 40)
    blank = next(
        at + size
        for at, size, after in zip(
            built.offsets, built.sizes, [*built.offsets[1:], built.end], strict=True
        )
        if at + size != after
    )
    overwrite(built, blank, (1).to_bytes(4, "big"))
    assert built.end == tail_of(open_store(tmp_path), 0).physical_offset


def test_file_cut_short(tmp_path: Path) -> None:
    """A last file that was cut in the middle of a record ends there."""
    built = build_store(tmp_path, 10)
    os.truncate(tmp_path / "commitlog" / name_of(0), built.offsets[-1] + 20)
    for dispatched in (None, built.offsets[2]):
        assert built.offsets[-1] == tail_of(open_store(tmp_path), dispatched).physical_offset


@given(st.lists(st.tuples(st.integers(0, FILE_LENGTH - 1), st.integers(1, 255)), max_size=8))
def test_flips(tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[int, int]]) -> None:
    """Whatever bytes are flipped, the search ends, inside of the log, and raises nothing."""
    root = tmp_path_factory.mktemp("flips")
    build_store(root, 12)
    path = root / "commitlog" / name_of(0)
    raw = bytearray(path.read_bytes())
    for position, mask in flips:
        raw[position] ^= mask
    path.write_bytes(raw)
    store = open_store(root)
    for dispatched in (None, 0):
        assert 0 <= tail_of(store, dispatched).physical_offset <= FILE_LENGTH
    with LogReader(store.commitlog) as reader:
        for head in (
            reader.first_from(store.commitlog.segments[0]),
            reader.last_before(store.commitlog.segments[0], FILE_LENGTH),
        ):
            assert head is None or head.physical_offset < FILE_LENGTH
