"""The geometry of an index file is found from its content where nobody tells it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.formats.index import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT, file_length
from rmqtool.store.index_files import (
    IndexFile,
    all_in_use,
    index_file,
    is_index_name,
    names_by_begin,
)
from rmqtool.store.place import Place
from rmqtool.store.tree import open_store
from tests.stores import fixture_names, fixture_store, manifest


def write_index(path: Path, slots: int, entries: int, hashes: list[int], base: int = 0) -> None:
    """Write an index file as the broker would: entries chained by slot."""
    raw = bytearray(file_length(slots, entries))
    heads: dict[int, int] = {}
    for number, key_hash in enumerate(hashes, 1):
        entry = {
            "key_hash": key_hash,
            "physical_offset": base + 100 * number,
            "time_difference": number - 1,
            "previous": heads.get(key_hash % slots, 0),
        }
        at = file_length(slots, number)
        raw[at : at + INDEX_ENTRY.size] = INDEX_ENTRY.build(entry)
        heads[key_hash % slots] = number
    for slot, number in heads.items():
        at = file_length(0, 0) + INDEX_SLOT.size * slot
        raw[at : at + INDEX_SLOT.size] = INDEX_SLOT.build({"number": number})
    header = {
        "begin_timestamp": 1_700_000_000_000,
        "end_timestamp": 1_700_000_000_000 + 1000 * len(hashes),
        "begin_physical_offset": base + 100 if hashes else 0,
        "end_physical_offset": base + 100 * len(hashes),
        "hash_slot_count": len(heads),
        "index_count": len(hashes) + 1,
    }
    raw[: INDEX_HEADER.size] = INDEX_HEADER.build(header)
    path.write_bytes(raw)


def read(path: Path, slots: int | None = None, entries: int | None = None) -> IndexFile:
    """Look at one index file."""
    return index_file(Place.of(path), path.name, slots, entries)


@pytest.mark.parametrize("name", fixture_names())
def test_fixtures(name: str, tmp_path: Path) -> None:
    """The slots and entries that a real broker was told are found from its files."""
    settings = manifest(name)["settings"]
    default = {"maxHashSlotNum": "5000000", "maxIndexNum": "20000000"}
    told = [int((default | settings)[key]) for key in default]
    for file in open_store(fixture_store(name, tmp_path)).index_files():
        assert told == [file.slots, file.entries]


@given(
    slots=st.integers(1, 300),
    entries=st.integers(2, 300),
    hashes=st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=40),
    base=st.integers(0, 2**40),
)
def test_any_geometry(
    tmp_path_factory: pytest.TempPathFactory,
    slots: int,
    entries: int,
    hashes: list[int],
    base: int,
) -> None:
    """Whatever the geometry, what is found agrees with every entry that can be checked."""
    path = tmp_path_factory.mktemp("index") / "20260101000000000"
    hashes = hashes[: entries - 1]
    write_index(path, slots, entries, hashes, base)
    file = read(path)
    assert (slots, entries) == (file.slots, file.entries)


def test_configured_geometry(tmp_path: Path) -> None:
    """What is configured wins, and one of the two numbers gives the other one."""
    path = tmp_path / "20260101000000000"
    write_index(path, 50, 70, [1, 2, 3])
    for slots, entries in ((50, 70), (50, None), (None, 70)):
        file = read(path, slots, entries)
        assert (50, 70) == (file.slots, file.entries)


def test_nothing_tells(tmp_path: Path) -> None:
    """An empty index of an unusual geometry, or no index at all, has no geometry."""
    path = tmp_path / "20260101000000000"
    for raw in (b"", bytes(39), bytes(1001), bytes(5000)):
        path.write_bytes(raw)
        assert (0, 0) == (read(path).slots, read(path).entries)


@given(st.binary(max_size=400))
def test_random_bytes(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    """Random bytes raise nothing."""
    path = tmp_path_factory.getbasetemp() / "20260101000000000"
    path.write_bytes(raw)
    assert 0 <= read(path).slots <= 400


def test_listing(tmp_path: Path) -> None:
    """Index files are listed by name; names that are no numbers are passed, as by the broker."""
    (tmp_path / "index").mkdir()
    for name in ("20260102000000000", "20260101000000000"):
        write_index(tmp_path / "index" / name, 10, 40, [7])
    (tmp_path / "index/readme").touch()
    (tmp_path / "index/20260103000000000").symlink_to("/etc/passwd")
    files = open_store(tmp_path / "index").index_files()
    assert ["20260101000000000", "20260102000000000"] == [file.name for file in files]
    assert all(re.fullmatch(r"index/\d{17}", file.path) for file in files)


def test_geometry_of_others(tmp_path: Path) -> None:
    """A file that does not tell its slots has those of most others: one broker makes all alike."""
    (tmp_path / "index").mkdir()
    names = [f"2026010{number}000000000" for number in range(1, 5)]
    for name, slots in zip(names, (10, 10, 20, 10), strict=True):
        write_index(tmp_path / "index" / name, slots, 37, [7, 8])
    damaged = tmp_path / "index" / names[3]
    raw = damaged.read_bytes()
    damaged.write_bytes(bytes(INDEX_HEADER.size) + raw[INDEX_HEADER.size :])
    store = open_store(tmp_path / "index")
    assert [10, 10, 20, 10] == [file.slots for file in store.index_files()]
    assert [10, 10, 20, 0] == store.file_lengths()["index_slots"]  # which damage must not add to


def test_geometry_of_a_pair(tmp_path: Path) -> None:
    """Slots and entries are those of one file, where two have different ones."""
    (tmp_path / "index").mkdir()
    for name, slots, entries in (("20260101000000000", 10, 90), ("20260102000000000", 20, 40)):
        write_index(tmp_path / "index" / name, slots, entries, [7, 8])
    geometry = open_store(tmp_path / "index").geometry
    assert (10, 90) == (geometry.index_slots.value, geometry.index_entries.value)


@pytest.mark.parametrize(
    ("count", "in_it"), [(4, 4), (2, 2), (0, 4), (-(1 << 31), 4), (41, 4), (40, 40)]
)
def test_entries_in_use(count: int, in_it: int, tmp_path: Path) -> None:
    """The header counts the entries; where its number cannot be right, they count."""
    path = tmp_path / "20260101000000000"
    write_index(path, 10, 40, [7, 8, 9])
    raw = bytearray(path.read_bytes())
    raw[36:40] = INDEX_HEADER["index_count"].build(count)
    path.write_bytes(raw)
    (held,) = all_in_use([read(path, 10, 40)])
    assert (in_it, 40, 100) == (held.end, held.room, held.begin)
    assert held.is_miscounted == (count in {0, -(1 << 31), 41})


def test_names_by_begin(tmp_path: Path) -> None:
    """Where the header is damaged the first entry tells where a file begins."""
    files = []
    for number, base in enumerate((0, 1000, 1000)):
        path = tmp_path / str(number)
        write_index(path, 10, 40, [7], base)
        files.append(read(path, 10, 40))
    raw = bytearray((tmp_path / "0").read_bytes())
    raw[16:24] = INDEX_HEADER["begin_physical_offset"].build(1100)
    (tmp_path / "0").write_bytes(raw)
    assert {100: ["0"], 1100: ["1", "2"]} == names_by_begin(files)


@pytest.mark.parametrize("mask", [1 << 3, 1 << 40, 1 << 63])
@pytest.mark.parametrize("place", [16, file_length(10, 1) + 4], ids=["header", "entry"])
def test_begin(place: int, mask: int, tmp_path: Path) -> None:
    """Of the two that tell the begin, that which the second entry contradicts is damaged."""
    path = tmp_path / "20260101000000000"
    write_index(path, 10, 40, [7, 8], 1 << 20)
    begin = (1 << 20) + 100
    raw = bytearray(path.read_bytes())
    raw[place : place + 8] = (begin ^ mask).to_bytes(8, "big")
    path.write_bytes(raw)
    (held,) = all_in_use([read(path, 10, 40)])
    assert begin == held.begin or mask == 1 << 3


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("20260101000000000", True), ("-5", True), ("9" * 19, False), ("1.bak", False), ("", False)],
)
def test_names(name: str, is_one: bool) -> None:
    """A broker loads what `Long#parseLong` takes for a number."""
    assert is_one == is_index_name(name)
