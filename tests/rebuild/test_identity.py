"""What is rebuilt from the log of a real broker is, byte for byte, what that broker wrote.

Where that is impossible by nature, the tests say which bytes differ and why: units that point into
`consumequeue_ext` get the plain tags code, and where segments have expired the broker's own files
hold more than the log does (tests/broker/test_rebuild.py has the reference for those).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqtool import rebuild
from rmqtool.formats.batch_queue import BATCH_CQ_UNIT, BATCH_CQ_UNIT_SIZE
from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE, PRE_BLANK
from rmqtool.formats.consume_queue_ext import decode, is_ext_address, real_offset
from rmqtool.formats.index import entry_position
from rmqtool.many_files import files as many_files
from rmqtool.rebuild import index_file
from rmqtool.store.tree import open_store
from tests import inflict
from tests.evidence import Evidence
from tests.plain_store import records
from tests.stores import broker_conf, fixture_names, fixture_store, manifest

FAMILIES = ("consumequeue", "batchconsumequeue", "index")
HUGE = "default-geometry"  # gigabytes of holes, seconds to read
WHOLE = [name for name in fixture_names() if "expired" not in name]
EXPIRED = fixture_names(scenario="expired")


def files_of(root: Path, *families: str) -> dict[str, Path]:
    """Give the files of some families by their path below the root."""
    return {
        path.relative_to(root).as_posix(): path
        for family in families
        for path in sorted((root / family).rglob("*"))
        if path.is_file()
    }


def rebuilt(name: str, tmp_path: Path, evidence: Evidence) -> tuple[Path, Path]:
    """Rebuild everything of a fixture; give the store and what was rebuilt."""
    store = fixture_store(name, tmp_path)
    if HUGE not in name:
        evidence.keep(store)
    output = tmp_path / "new"
    result = rebuild.all(store, output, broker_conf=str(broker_conf(name)))
    assert result.is_complete
    assert len(records(store)) == result.records or "dledger" in name
    return store, output


def plain(store: Path, path: str, raw: bytes) -> bytes:
    """Give units with the tags codes that their ext units have."""
    ext_files = sorted((store / path.replace("consumequeue", "consumequeue_ext")).parent.glob("*"))
    ext = b"".join(file.read_bytes() for file in ext_files)
    units = []
    for position in range(0, len(raw), CQ_UNIT_SIZE):
        unit = CQ_UNIT.parse(raw[position : position + CQ_UNIT_SIZE])
        if is_ext_address(unit["tags_code"]):
            found = decode(ext[real_offset(unit["tags_code"]) :])
            assert found is not None
            unit["tags_code"] = found.tags_code
        units.append(CQ_UNIT.build(unit))
    return b"".join(units)


@pytest.mark.parametrize("few", [1, many_files.FEW])
@pytest.mark.parametrize("name", WHOLE)
def test_identity(
    name: str, few: int, tmp_path: Path, evidence: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same files of the same lengths with the same bytes; RocksDB queues are not files.

    Kernels make what they can, or nothing, as of few queues.
    """
    monkeypatch.setattr(many_files, "FEW", few)
    store, output = rebuilt(name, tmp_path, evidence)
    families = FAMILIES[2:] if "rocksdb" in name else FAMILIES
    expected, found = files_of(store, *families), files_of(output, *families)
    assert [*expected] == [*found]
    has_ext = (store / "consumequeue_ext").is_dir()
    for path, file in expected.items():
        raw = file.read_bytes()
        if has_ext and path.startswith("consumequeue/"):
            raw = plain(store, path, raw)
        assert raw == found[path].read_bytes(), path


@pytest.mark.parametrize("entries", [2, 7, 1000])
def test_index_windows(entries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few entries are handed over at a time, files and comparisons are the same."""
    monkeypatch.setattr(index_file, "WINDOW_ENTRIES", entries)
    store = fixture_store("rocketmq-5.5.0-traffic", tmp_path)
    assert [] == rebuild.index(store, check=True).differences
    rebuild.index(store, tmp_path / "new")
    expected, found = files_of(store, "index"), files_of(tmp_path / "new", "index")
    assert [(path, file.read_bytes()) for path, file in expected.items()] == [
        (path, file.read_bytes()) for path, file in found.items()
    ]
    torn = [*expected.values()][-1]
    raw = bytearray(torn.read_bytes())
    raw[entry_position(500, 21)] ^= 1
    torn.write_bytes(raw)
    (difference,) = rebuild.index(store, check=True).differences
    assert (entry_position(500, 21), 1) == (difference.position, difference.length)


@pytest.mark.parametrize("number", [0, -1])
def test_damaged_begin(number: int, tmp_path: Path) -> None:
    """The first entry tells of which file it is, too: it is one difference, not two files."""
    store = fixture_store("rocketmq-5.5.0-traffic", tmp_path)
    inflict.edit_header("begin_offset", lambda begin: begin ^ 1 << 40, number=number)(store)
    (difference,) = rebuild.index(store, check=True).differences
    path = sorted((store / "index").iterdir())[number]
    assert (f"index/{path.name}", 18) == (difference.path, difference.position)


def test_entry_0(tmp_path: Path) -> None:
    """The unused entry 0 stays zero, as `validate` says, too."""
    store = fixture_store("rocketmq-5.5.0-traffic", tmp_path)
    (path, *_) = sorted((store / "index").iterdir())
    inflict.flip_bits(path, entry_position(500, 0) + 7, 1)
    (difference,) = rebuild.index(store, check=True).differences
    assert (entry_position(500, 0) + 7, 1) == (difference.position, difference.length)


@pytest.mark.parametrize("name", EXPIRED)
def test_expired(name: str, tmp_path: Path, evidence: Evidence) -> None:
    """Where segments have expired, the units of all messages that are left are the broker's.

    In a file that begins with expired units a rebuild has pre-blank ones, as a broker's has.
    """
    store, output = rebuilt(name, tmp_path, evidence)
    start = open_store(store).commitlog.start
    expected, found = files_of(store, "consumequeue"), files_of(output, "consumequeue")
    assert found.keys() <= expected.keys()
    for path, file in expected.items():
        raw = file.read_bytes()
        units = [raw[at : at + CQ_UNIT_SIZE] for at in range(0, len(raw), CQ_UNIT_SIZE)]
        expired = [int.from_bytes(unit[:8], "big") < start and any(unit) for unit in units]
        if path in found:
            left = [PRE_BLANK if old else unit for unit, old in zip(units, expired, strict=True)]
            assert b"".join(left) == found[path].read_bytes(), path
        else:
            assert all(expired[: sum(map(any, units))]), path


@pytest.mark.parametrize(
    "name", [name for name in WHOLE if HUGE not in name and "rocksdb" not in name]
)
def test_mtimes(name: str, tmp_path: Path, evidence: Evidence) -> None:
    """The mtime of a queue file is the store time of its last unit: 4.9 and 5.0 search by it."""
    store, output = rebuilt(name, tmp_path, evidence)
    if "dledger" in name:
        pytest.skip("the plain reader steps over no entry headers")
    times = {record.integer("physical_offset"): record.integer("store_timestamp")
             for record in records(store)}  # fmt: skip
    for path, file in files_of(output, *FAMILIES[:2]).items():
        size, layout = CQ_UNIT_SIZE, CQ_UNIT
        if path.startswith("batch"):
            size, layout = BATCH_CQ_UNIT_SIZE, BATCH_CQ_UNIT
        used = file.read_bytes().rstrip(b"\0")
        start = (len(used) - 1) // size * size
        last = layout.parse(used[start:].ljust(size, b"\0"))
        assert times[next(iter(last.values()))] == file.stat().st_mtime_ns // 1_000_000, path


@pytest.mark.parametrize("name", [name for name in (*WHOLE, *EXPIRED) if HUGE not in name])
def test_check(name: str, tmp_path: Path) -> None:
    """`check` agrees without a configuration, too: what it needs is in the files."""
    store = fixture_store(name, tmp_path)
    result = rebuild.all(store, check=True, broker_version=manifest(name)["version"])
    assert ([], True) == (result.differences, result.is_complete)
