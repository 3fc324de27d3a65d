"""RocksDB databases are read whole, unchanged, and damage is never fewer rows in silence."""

from __future__ import annotations

import os
import shutil
import signal
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.errors import DamagedDatabase, UnreadablePath
from rmqtool.formats.rocksdb_families import reader_of
from rmqtool.formats.rocksdb_queue import unit_key
from rmqtool.queues.rocks import RocksQueues
from rmqtool.store import rocksdb_cell, rocksdb_database, rocksdb_idle
from rmqtool.store.place import Place
from rmqtool.store.rocksdb_cell import Cell, CellFailed, limits
from rmqtool.store.rocksdb_database import Database
from rmqtool.store.rocksdb_frames import LARGEST_KEY
from rmqtool.store.rocksdb_idle import databases_wait
from rmqtool.store.rocksdb_manifest import read_log, read_manifest
from rmqtool.store.rocksdb_table import check_table, crc32c
from tests.hostile.generators import queues
from tests.rocksdb import NAMES, databases, edit, fixture, rows_of, state_of

if TYPE_CHECKING:
    from collections.abc import Callable

each_store = pytest.mark.parametrize("name", NAMES)
QUEUES: Final = "rocketmq-5.5.0-rocksdb-crash"
MANY_LINKS: Final = 20_000  # to remove them takes a while
MARGIN: Final = 20  # seconds, on a machine that does other things


def table_of(directory: Path) -> Path:
    """Give the table file with the units."""
    return max(directory.glob("*.sst"), key=lambda path: path.stat().st_size)


@each_store
def test_every_row_has_a_shape(name: str, tmp_path: Path) -> None:
    """Each row of each family of each database is one that RocketMQ is known to write."""
    store = fixture(name, tmp_path)
    found = {path: rows_of(directory, path) for path, directory in databases(store).items()}
    assert found
    assert any(rows for of in found.values() for rows in of.values())
    for path, families in found.items():
        for family, rows in families.items():
            read = reader_of(path, family)
            assert read is not None or not rows
            for key, value in rows:
                assert read is not None
                assert read(key, value).kind


@each_store
def test_evidence_is_unchanged(name: str, tmp_path: Path) -> None:
    """Content, inode, mtime and ctime of every file stay, and no file is added."""
    store = fixture(name, tmp_path)
    before = state_of(store)
    for path, directory in databases(store).items():
        rows_of(directory, path)
    assert before == state_of(store)


@each_store
def test_live_files(name: str, tmp_path: Path) -> None:
    """The MANIFEST as it is read here names the tables that the library uses, and their sizes."""
    store = fixture(name, tmp_path)
    for path, directory in databases(store).items():
        manifest = read_manifest(Place.of(directory))
        with Database(Place.of(directory), path) as database:
            assert {table.name for table in manifest.tables.values()} == {*database.live}
            assert {*manifest.families.values()} == {*database.families}
        assert not manifest.problem
        for table in manifest.tables.values():
            assert table.size == (directory / table.name).stat().st_size
            content = check_table(Place.of(directory / table.name))
            assert content.is_finished
            assert [] == content.problems
        for log in directory.glob("*.log"):
            assert not read_log(Place.of(log), lambda _, __: None).problem


def test_ranges(tmp_path: Path) -> None:
    """Ranges, limits, single keys and last rows are those of the whole."""
    store = fixture(QUEUES, tmp_path)
    directory = store / "consumequeue"
    rows = rows_of(directory, "consumequeue")["default"]
    with Database(Place.of(directory), "consumequeue") as database:
        begin, end = rows[10][0], rows[40][0]
        found = [key for batch in database.rows("default", begin, end) for key in batch.keys]
        assert [key for key, _ in rows[10:40]] == found
        limited = database.rows("default", begin, b"", 5)
        assert 5 == sum(len(batch) for batch in limited)
        assert rows[39] == database.last("default", begin, end)
        assert rows[-1] == database.last("default", b"", b"")
        assert database.last("default", b"\xff", b"") is None
        assert database.last("default", begin, begin) is None
        assert rows[12][1] == database.get("default", rows[12][0])
        assert database.get("default", rows[12][0] + b"x") is None
        assert [] == list(database.rows("no such family"))
        first = next(iter(database.rows("default")))  # the rest is not read
        assert rows[0][0] == first.keys[0]
        assert rows[12][1] == database.get("default", rows[12][0])


def test_nothing_stays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No directory of links is left, read to the end or not; nobody else may write into it."""
    store = fixture(QUEUES, tmp_path)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    rows_of(store / "consumequeue", "consumequeue")
    forgotten = Database(Place.of(store / "consumequeue"), "consumequeue")
    (made,) = temporary.iterdir()
    assert (0, os.geteuid()) == (made.stat().st_mode & 0o022, made.stat().st_uid)
    del forgotten
    assert [] == [*temporary.iterdir()]


@given(st.binary(max_size=200))
def test_crc32c(data: bytes) -> None:
    """The routine of isal and the table agree."""
    assert crc32c(data, by_table=True) == crc32c(data)


def test_crc32c_vector() -> None:
    """The value of RFC 3720."""
    assert 0x8A9136AA == crc32c(bytes(32)) == crc32c(bytes(32), by_table=True)


def _flip(path: Path, position: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[position] ^= 0x10
    path.write_bytes(raw)


def _no_current(directory: Path) -> None:
    (directory / "CURRENT").unlink()


def _strange_current(directory: Path) -> None:
    (directory / "CURRENT").write_bytes(b"MANIFEST-000099\n")


def _no_manifest(directory: Path) -> None:
    next(directory.glob("MANIFEST-*")).unlink()


def _no_table(directory: Path) -> None:
    table_of(directory).unlink()


def _short_table(directory: Path) -> None:
    os.truncate(table_of(directory), 1000)


def _flipped_data(directory: Path) -> None:
    _flip(table_of(directory), 100)


@pytest.mark.parametrize(
    "damage",
    [_no_current, _strange_current, _no_manifest, _no_table, _short_table, _flipped_data],
)
def test_damage_is_an_error(damage: Callable[[Path], None], tmp_path: Path) -> None:
    """What the library refuses, or cannot read to its end, is an error that names the database."""
    directory = fixture(QUEUES, tmp_path) / "consumequeue"
    damage(directory)
    with pytest.raises(DamagedDatabase) as caught:
        rows_of(directory, "consumequeue")
    assert "consumequeue" == caught.value.path
    assert "rmqtool-rocksdb-" not in caught.value.reason


def test_cut_manifest(tmp_path: Path) -> None:
    """A MANIFEST that is cut off opens as fewer tables; the edits, read here, tell."""
    directory = fixture(QUEUES, tmp_path) / "consumequeue"
    place = Place.of(directory)
    whole = read_manifest(place)
    path = directory / whole.name
    raw = path.read_bytes()
    for size in range(len(raw)):
        path.write_bytes(raw[:size])
        manifest = read_manifest(place)
        tables = {int(path.stem) for path in directory.glob("*.sst")}
        assert manifest.problem or tables - manifest.named or manifest.tables == whole.tables


def test_bytes_after_a_manifest(tmp_path: Path) -> None:
    """Whatever is written past the last edit is noticed, of whatever type it claims to be."""
    directory = fixture(QUEUES, tmp_path) / "consumequeue"
    place = Place.of(directory)
    path = directory / read_manifest(place).name
    raw = path.read_bytes()
    for kind in range(256):
        path.write_bytes(raw + b"\xee" * 4 + b"\x05\x7f" + bytes([kind]) + b"\xee" * 25)
        assert read_manifest(place).problem, kind


def test_flipped_manifest(tmp_path: Path) -> None:
    """Each flipped byte of a MANIFEST is noticed."""
    directory = fixture(QUEUES, tmp_path) / "consumequeue"
    place = Place.of(directory)
    path = directory / read_manifest(place).name
    raw = path.read_bytes()
    for position in range(len(raw)):
        path.write_bytes(raw)
        _flip(path, position)
        assert read_manifest(place).problem, position


def test_flipped_table(tmp_path: Path) -> None:
    """Each flipped byte of a table file is noticed, filters and padding too."""
    directory = fixture(QUEUES, tmp_path) / "consumequeue"
    path = min(directory.glob("*.sst"), key=lambda path: path.stat().st_size)
    raw = path.read_bytes()
    for position in [*range(0, len(raw) - 60, 5), *range(len(raw) - 60, len(raw))]:
        path.write_bytes(raw)
        _flip(path, position)
        content = check_table(Place.of(path))
        assert content.problems, position
    for size in range(0, len(raw), 7):
        path.write_bytes(raw[:size])
        assert not check_table(Place.of(path)).is_finished


def test_log_content(tmp_path: Path) -> None:
    """Records before the damage are read; each flipped byte is noticed."""
    directory = fixture(QUEUES, tmp_path) / "config" / "topics"
    path = max(directory.glob("*.log"), key=lambda path: path.stat().st_size)
    raw, seen = path.read_bytes(), list[int]()
    whole = read_log(Place.of(path), lambda position, _: seen.append(position))
    assert whole.records == len(seen) > 3
    assert whole.end == whole.size == len(raw)
    for position in range(0, len(raw), 3):
        path.write_bytes(raw)
        _flip(path, position)
        content = read_log(Place.of(path), lambda _, __: None)
        assert content.problem
        assert content.records == sum(1 for path in seen if path <= position) - 1
    for size in {*range(0, len(raw), 7), *seen}:
        path.write_bytes(raw[:size])
        content = read_log(Place.of(path), lambda _, __: None)
        assert content.problem or size in {0, *seen}
    path.write_bytes(raw + bytes(5000))  # allocated in advance
    assert not read_log(Place.of(path), lambda _, __: None).problem


def test_not_a_database(tmp_path: Path) -> None:
    """A directory that is not there is an error, and is not made."""
    with pytest.raises(UnreadablePath):
        Database(Place.of(tmp_path / "none"), "none")
    assert not (tmp_path / "none").exists()
    (tmp_path / "empty").mkdir()
    with pytest.raises(DamagedDatabase):
        Database(Place.of(tmp_path / "empty"), "empty")
    assert [] == list((tmp_path / "empty").iterdir())
    shutil.rmtree(tmp_path / "empty")


def test_hole_in_a_log(tmp_path: Path) -> None:
    """Judging a log costs nothing for a hole of a terabyte, and what lies past it is found."""
    directory = fixture(QUEUES, tmp_path) / "config" / "topics"
    path = max(directory.glob("*.log"), key=lambda path: path.stat().st_size)
    whole = read_log(Place.of(path), lambda _, __: None)
    with path.open("r+b") as file:
        file.seek(1 << 40)
        file.write(b"x" * 100)
    content = read_log(Place.of(path), lambda _, __: None)
    assert whole.records == content.records
    assert content.problem


@pytest.mark.parametrize("kind", ["CURRENT", "IDENTITY", "MANIFEST-*", "*.log"])
def test_hole_of_a_terabyte(tmp_path: Path, kind: str) -> None:
    """A file that RocksDB would read to its end, or into memory, is not given to it."""
    _, directory = next(iter(databases(fixture(QUEUES, tmp_path)).items()))
    path = next(directory.glob(kind))
    os.truncate(path, 1 << 40)
    with pytest.raises(DamagedDatabase, match=r"1,099,511,627,776 bytes; at most"):
        Database(Place(str(directory)), "consumequeue")


def test_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that keeps RocksDB busy without an answer is damaged, and nothing is left."""
    directory = fixture(QUEUES, tmp_path) / "consumequeue"
    os.truncate(next(directory.glob("*.log")), 4 << 30)  # zeros, each of which it looks at
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(rocksdb_cell, "SILENCE_SECONDS", 0.5)
    begin = time.monotonic()
    with pytest.raises(DamagedDatabase, match="no answer for 0"):
        Database(Place.of(directory), "consumequeue")
    assert time.monotonic() - begin < rocksdb_cell.SILENCE_SECONDS + MARGIN
    assert [] == [*temporary.iterdir()]


def test_in_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What took too much time of a processor is not opened again; names are paid for together."""
    store = queues(tmp_path / "store", 1500)
    place = Place.of(store / "consumequeue")
    with (store / "consumequeue/000998.sst").open("wb") as file:
        file.truncate(1 << 40)  # a hole, which pays for nothing
    with Database(place, "consumequeue") as database:
        assert database.size < 1 << 30
        with pytest.raises(DamagedDatabase, match="the names of its queues cost more"):
            len(RocksQueues(database).ends)
    monkeypatch.setattr(rocksdb_idle, "FREE_SECONDS", 1.0)
    monkeypatch.setattr(rocksdb_database, "SECONDS_A_GIB", 0)
    begin, end = unit_key(b"k" * 60_000, 0, 0), b"\xff"

    def read() -> None:
        with Database(place, "consumequeue") as opened:
            while True:
                opened.last("default", begin, end)

    with databases_wait():
        with pytest.raises(DamagedDatabase, match="more time of a processor"):
            read()
        assert 0 == rocksdb_idle.free_seconds(str(store))
        monkeypatch.setattr(rocksdb_cell, "_start", None)  # it is not even started
        with pytest.raises(DamagedDatabase, match="more time of a processor"):
            read()


def test_long_key(tmp_path: Path) -> None:
    """A key that is longer than any ends the rows with a reason; those before it are there."""
    directory = fixture(QUEUES, tmp_path) / "config/topics"
    before = rows_of(directory, "config/topics")["default"]
    edit(directory, put={b"\xff" * (LARGEST_KEY + 1): b"{}"})
    with Database(Place.of(directory), "config/topics") as database:
        rows = database.rows("default")
        found = [pair for batch in islice(rows, 1) for pair in batch.items()]
        with pytest.raises(DamagedDatabase, match="a key is too long: 65,537 bytes"):
            next(rows)
    assert before == found


def test_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that needs more memory than it may have is damaged."""
    directory = fixture(QUEUES, tmp_path) / "consumequeue"
    monkeypatch.setattr(rocksdb_cell, "MEMORY_BYTES", 8 << 20)
    with pytest.raises(DamagedDatabase):
        Database(Place.of(directory), "consumequeue")


def test_killed(tmp_path: Path) -> None:
    """A process that is killed in the middle is an error of this database alone."""
    directory = fixture(QUEUES, tmp_path) / "consumequeue"
    with Database(Place.of(directory), "consumequeue") as database:
        mine = [one for one in children(os.getpid()) if b"rocksdb" in command_of(one)]
        (answering,) = (one for child in mine for one in children(child))
        os.kill(answering, signal.SIGKILL)
        with pytest.raises(DamagedDatabase, match="ended, status -9"):
            list(database.rows("default"))


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
@pytest.mark.parametrize("is_answered", [False, True])
def test_ended_by_a_signal(
    kind: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_answered: bool
) -> None:
    """The directory of links goes whatever signal comes, also to a process that is removing it.

    It does so once it has answered that there is no CURRENT: whoever reads that ends it.
    """
    temporary = tmp_path / "own"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    handles = [os.open(__file__, os.O_RDONLY)]
    links = {f"{number:06}.sst": handles[0] for number in range(MANY_LINKS)}
    if not is_answered:
        store = fixture(QUEUES, tmp_path)
        files = [path for path in (store / "consumequeue").iterdir() if path.is_file()]
        handles += [os.open(file, os.O_RDONLY) for file in files]
        links = dict(zip((file.name for file in files), handles[1:], strict=True))
    order = {
        "links": links,
        "copies": {},
        "mode": "point",
        "user": None,
        "open_files": -1,
        "limits": limits(0, MARGIN, 200),
    }
    cell = Cell(order, handles)
    with suppress(CellFailed):
        cell.read()
    (made,) = temporary.iterdir()
    while is_answered and len([*made.glob("*.sst")]) == MANY_LINKS:
        time.sleep(0.001)
    os.kill(cell.process.pid, kind)
    cell.process.wait(MARGIN)
    assert not made.exists()
    cell.end()
    for handle in handles:
        os.close(handle)


def command_of(process: int) -> bytes:
    """Give the command line of a process."""
    return Path(f"/proc/{process}/cmdline").read_bytes()


def children(process: int) -> list[int]:
    """Give the processes that one has started."""
    return [*map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())]


def process_of(database: Database) -> int:
    """Give the number of the process that answers."""
    return database._served.cell.process.pid  # noqa: SLF001 - nothing else tells


def asked(place: Place) -> int:
    """Open a database, read a row, close it; give the process that answered."""
    with Database(place, "consumequeue") as database:
        assert list(database.rows("default", limit=1))
        return process_of(database)


def test_waits_for_the_next(tmp_path: Path) -> None:
    """While a command runs, one process answers all who ask for the same files, and then ends."""
    place = Place.of(fixture(QUEUES, tmp_path) / "consumequeue")
    assert asked(place) != asked(place)
    with databases_wait():
        first = asked(place)
        assert asked(place) == first
        with Database(place, "consumequeue") as database, Database(place, "consumequeue") as other:
            assert process_of(database) == first != process_of(other)
        os.kill(first, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


def test_nothing_old_waits(tmp_path: Path) -> None:
    """Files that have changed are opened again; so is what has not answered, or is damaged."""
    store = fixture(QUEUES, tmp_path)
    place = Place.of(store / "consumequeue")
    with databases_wait():
        first = asked(place)
        table = table_of(store / "consumequeue")
        table.touch()
        assert (second := asked(place)) != first
        with Database(place, "consumequeue") as database:
            rows = database.rows("default")
            next(rows)  # and more of the answer is never read
        assert asked(place) != second
        del rows
        table.write_bytes(table.read_bytes()[:-100])
        with pytest.raises(DamagedDatabase):
            asked(place)


def test_a_child_asks_anew(tmp_path: Path) -> None:
    """A child never reads from what waits for its parent: both would share its answers."""
    place = Place.of(fixture(QUEUES, tmp_path) / "consumequeue")
    with databases_wait():
        first = asked(place)
        child = os.fork()
        if not child:
            os._exit(asked(place) == first)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert asked(place) == first
