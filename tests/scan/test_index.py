"""Index files: chains are what the entries say they must be, on real files and on damaged ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rmqtool.formats.index import FIRST_ENTRY, INDEX_ENTRY, INDEX_HEADER, entry_position
from rmqtool.scan.index import BadLink, Chains, EntryBatch, read_slots, scan
from rmqtool.store.index_files import in_use
from rmqtool.store.tree import open_store
from tests.stores import broker_conf, fixture_names, fixture_store

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from rmqtool.store.index_files import IndexFile
    from rmqtool.store.place import OpenFile


def whole_table(file: OpenFile, index: IndexFile) -> npt.NDArray[np.int32]:
    """Give all slots that there are."""
    pieces = [np.empty(0, np.int32)]
    for first, slots in read_slots(file, index.slots):
        assert first == sum(map(len, pieces))
        pieces.append(slots.copy())
    return np.concatenate(pieces)


def bad_links(index: IndexFile, batch_entries: int) -> tuple[list[BadLink], int]:
    """Follow all chains; give the wrong links and the slots that point elsewhere."""
    with index.open() as file:
        held = in_use(index, file)
        assert held is not None
        chains = Chains(index.slots)
        wrong = [
            link
            for batch in scan(file, held, batch_entries=batch_entries)
            for link in chains.follow(batch)
        ]
        slots = whole_table(file, index)
    return wrong, int(np.count_nonzero(slots != chains.newest))


@pytest.mark.parametrize("batch_entries", [7, 1 << 16])
@pytest.mark.parametrize("name", fixture_names(scenario="traffic"))
def test_chains_of_brokers(name: str, batch_entries: int, tmp_path: Path) -> None:
    """In a real broker's file every link and every slot is as the entries say."""
    store = open_store(fixture_store(name, tmp_path), broker_conf(name))
    assert store.index_files()
    for index in store.index_files():
        assert ([], 0) == bad_links(index, batch_entries)


@pytest.mark.parametrize("field", ["key_hash", "previous"])
def test_damaged_links(field: str, tmp_path: Path) -> None:
    """A bit in a hash or a link is seen at that entry."""
    name = fixture_names("5.3.3", "traffic")[0]
    root = fixture_store(name, tmp_path)
    index = open_store(root, broker_conf(name)).index_files()[0]
    position = entry_position(index.slots, 40) + INDEX_ENTRY.positions[field] + 3
    path = root / index.path
    raw = bytearray(path.read_bytes())
    raw[position] ^= 1
    path.write_bytes(raw)
    links, slots = bad_links(index, 16)
    assert 40 in {link.number for link in links}
    assert slots == 0 or field == "key_hash"


def test_negative_hash() -> None:
    """An entry with a negative hash has no slot."""
    entry = {"key_hash": -5, "physical_offset": 0, "time_difference": 0, "previous": 3}
    raw = np.frombuffer(bytearray(INDEX_ENTRY.build(entry)), np.uint8).reshape(1, -1)
    assert [BadLink(FIRST_ENTRY, -1, 3)] == Chains(5).follow(EntryBatch(FIRST_ENTRY, raw))


def test_short_files(tmp_path: Path) -> None:
    """A file that ends early gives what is there."""
    name = fixture_names("4.9.3", "traffic")[0]
    root = fixture_store(name, tmp_path)
    index = open_store(root, broker_conf(name)).index_files()[0]
    path = root / index.path
    whole = path.read_bytes()
    for size in (0, 39, INDEX_HEADER.size + 10, entry_position(index.slots, 3) + 5):
        path.write_bytes(whole[:size])
        with index.open() as file:
            held = in_use(index, file)
            assert (size >= INDEX_HEADER.size) == (held is not None)
            slots = whole_table(file, index)
            assert len(slots) == min(max(size - INDEX_HEADER.size, 0) // 4, index.slots)
            stored = 0 if held is None else sum(map(len, scan(file, held)))
            assert stored == (2 if size > entry_position(index.slots, 3) else 0)
