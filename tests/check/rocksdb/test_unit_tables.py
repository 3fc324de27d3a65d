"""Units that the table files confirm are what the library gives; all others it is asked for."""

from __future__ import annotations

from collections import Counter
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.check.rocksdb import unit_tables
from rmqtool.check.rocksdb.kernels_units import DOUBT, LARGEST_KEY, PUT, confirm, extent
from rmqtool.check.rocksdb.unit_tables import UnitTables
from rmqtool.formats.consume_queue import CQ_UNIT_SIZE
from rmqtool.formats.rocksdb_queue import queue_prefix, unit_key
from rmqtool.store.place import Place
from rmqtool.store.rocksdb_database import Database
from rmqtool.store.rocksdb_table import table_index
from tests import inflict, rocksdb
from tests.check.validation import run
from tests.damage_rocksdb import CLEAN, COMBINED, CRASH, DAMAGES, MIDDLE, QUEUES, TOPIC, table_of
from tests.stores import fixture_store

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.derive.queue_runs import QueueRun

PREFIX: Final = queue_prefix(b"topic", 3)
NEIGHBOUR: Final = queue_prefix(b"topic", 2)
LATER: Final = queue_prefix(b"topic", 4)
ODD: Final = PREFIX[:-1] + b"\2"
DELETION: Final = 0
MERGE: Final = 2
NONE: Final = -1
TIME: Final = Struct(">q")
INTEGER: Final = Struct("<I")
HASHED: Final = Struct("<HI")


class Write(NamedTuple):
    """One write of a unit to a table, as a test makes it up."""

    prefix: bytes
    number: int
    wrong: int = NONE  # byte of the value that is another one
    kind: int = PUT
    more: bytes = b""

    @property
    def key(self) -> bytes:
        """Key of the row."""
        return self.prefix + TIME.pack(self.number) + self.more

    @property
    def value(self) -> bytes:
        """Value of the row."""
        if self.kind == DELETION:
            return b""
        found = bytearray(unit_of(self.number) + TIME.pack(self.number * 7))
        if self.wrong != NONE:
            found[self.wrong] ^= 1
        return bytes(found)


def unit_of(number: int) -> bytes:
    """Give the unit that is right for a number."""
    return number.to_bytes(1, "big") * CQ_UNIT_SIZE


def varint(number: int) -> bytes:
    """Give a number as RocksDB writes it: 7 bits a byte."""
    if number < 128:
        return bytes([number])
    return bytes([number & 127 | 128]) + varint(number >> 7)


def block_of(writes: list[Write], interval: int, buckets: int = 0) -> bytes:
    """Make a data block as RocksDB does; later writes of a key have higher sequence numbers.

    Args:
        writes: what is in it.
        interval: entries from one whole key to the next.
        buckets: of the hash table that brokers have put into it; 0 for none.
    """
    made, restarts, last = bytearray(), [], b""
    numbered = enumerate(writes, 1)
    for row, (number, one) in enumerate(sorted(numbered, key=lambda at: (at[1].key, -at[0]))):
        key = one.key + (number << 8 | one.kind).to_bytes(8, "little")
        shared = 0
        if row % interval:
            pairs = zip(key, last, strict=False)
            shared = next((place for place, (a, b) in enumerate(pairs) if a != b), len(last))
        else:
            restarts.append(len(made))
        own = key[shared:]
        made += varint(shared) + varint(len(own)) + varint(len(one.value)) + own + one.value
        last = key
    for place in restarts:
        made += INTEGER.pack(place)
    if not buckets:
        return bytes(made + INTEGER.pack(len(restarts)))
    made += b"\xff" * buckets + HASHED.pack(buckets, len(restarts) | 1 << 31)
    return bytes(made)


def confirmed(block: bytes, begin: int, end: int) -> int:
    """Ask the kernel for the numbers from `begin` on."""
    units = np.frombuffer(bytearray(b"".join(map(unit_of, range(begin, end)))), np.uint8)
    times = np.arange(begin, end, dtype=np.int64) * 7
    first = np.frombuffer(bytearray(PREFIX + TIME.pack(begin)), np.uint8)
    seen = np.zeros(end - begin, np.uint8)
    window = np.frombuffer(bytearray(block), np.uint8)
    keys = (first, np.zeros(LARGEST_KEY, np.uint8))
    found = confirm(window, len(block), (begin, end), keys, (units, times, seen))
    assert found in {DOUBT, int(seen.sum())}
    return found


NUMBERS: Final = st.integers(0, 60)
PREFIXES: Final = st.sampled_from([NEIGHBOUR, PREFIX, LATER])
RIGHT: Final = st.tuples(PREFIXES, NUMBERS).map(lambda at: Write(*at))
VALUE_BYTES: Final = range(CQ_UNIT_SIZE + TIME.size)
OTHERS: Final = [*((at, PUT) for at in VALUE_BYTES), (NONE, DELETION), (NONE, MERGE)]
WRONG: Final = st.tuples(NUMBERS, st.sampled_from(OTHERS)).map(
    lambda at: Write(PREFIX, at[0], *at[1])
)
STRANGE: Final = st.tuples(
    st.sampled_from([PREFIX, ODD]), NUMBERS, st.binary(min_size=1, max_size=3)
).map(lambda at: Write(at[0], at[1], more=at[2]))


@given(
    st.lists(RIGHT, min_size=1, max_size=80),
    st.lists(WRONG, max_size=2),
    st.tuples(st.integers(1, 16), st.sampled_from([0, 1, 300])),
    st.tuples(NUMBERS, NUMBERS),
)
def test_blocks(
    right: list[Write], wrong: list[Write], shape: tuple[int, int], ends: tuple[int, int]
) -> None:
    """The kernel counts what a list of the writes says, and doubts where one is wrong."""
    begin, end = min(ends), max(ends) + 1
    wanted = [one for one in right + wrong if one.prefix == PREFIX and begin <= one.number < end]
    expected = len({one.number for one in wanted})
    if any(one in wrong for one in wanted):
        expected = DOUBT
    block = block_of(right + wrong, *shape)
    assert expected == confirmed(block, begin, end)
    there = [one.number for one in right + wrong if one.prefix == PREFIX] or [DOUBT]
    window = np.frombuffer(bytearray(block), np.uint8)
    first = np.frombuffer(bytearray(PREFIX + TIME.pack(0)), np.uint8)
    keys = (first, np.zeros(LARGEST_KEY, np.uint8))
    assert (min(there), max(there)) == extent(window, len(block), keys)


@pytest.mark.parametrize("other", OTHERS)
def test_one_unit(other: tuple[int, int]) -> None:
    """One wrong byte of a value, or another kind of write, is doubt, at each place of a block."""
    for number in (0, 7, 19):
        writes = [Write(PREFIX, one, *(other if one == number else ())) for one in range(20)]
        assert DOUBT == confirmed(block_of(writes, 4), 0, 20)


@given(st.lists(RIGHT, min_size=1, max_size=30), st.lists(STRANGE, min_size=1, max_size=2))
def test_strange_rows(right: list[Write], strange: list[Write]) -> None:
    """Where rows of no known shape lie among the units, nothing more than is there is counted."""
    found = confirmed(block_of(right + strange, 4), 0, 61)
    assert found in {DOUBT, len({one.number for one in right if one.prefix == PREFIX})}


@given(
    st.tuples(st.integers(1, 16), st.sampled_from([0, 20])),
    st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(1, 255)), min_size=1, max_size=3),
    st.integers(0, 1 << 12),
)
def test_damaged_blocks(shape: tuple[int, int], flips: list[tuple[int, int]], cut: int) -> None:
    """Any bytes have an answer, and it never is more than was asked for."""
    block = bytearray(block_of([Write(PREFIX, number) for number in range(40)], *shape))
    for place, bits in flips:
        block[place % len(block)] ^= bits
    for content in (bytes(block), bytes(block)[: cut % len(block)]):
        assert DOUBT <= confirmed(content, 5, 30) <= 25


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Counter[bool]:
    """Count how often the tables confirmed the units of a run, and how often not."""
    found: Counter[bool] = Counter()
    plain = UnitTables.confirm

    def counted(self: UnitTables, one: QueueRun, count: int) -> bool:
        answer = plain(self, one, count)
        found[answer] += 1
        return answer

    monkeypatch.setattr(unit_tables.UnitTables, "confirm", counted)
    return found


@pytest.mark.parametrize("name", [CLEAN, CRASH, COMBINED, "rocketmq-5.3.3-rocksdb"])
def test_sound(name: str, tmp_path: Path, answers: Counter[bool]) -> None:
    """The tables of real brokers confirm all units: the library is not asked for one."""
    run(fixture_store(name, tmp_path))
    assert answers[True] > 0
    assert 0 == answers[False]


def test_versions_of_a_unit(tmp_path: Path, answers: Counter[bool]) -> None:
    """A unit written twice, the second time in another table, is confirmed if both are right."""
    store = fixture_store(CLEAN, tmp_path)
    key = unit_key(TOPIC, 0, MIDDLE)
    right = dict(rocksdb.rows_of(store / QUEUES, QUEUES)["default"])[key]
    rocksdb.edit(store / QUEUES, put={key: right})
    findings, _, _ = run(store)
    assert 0 == answers[False]
    rocksdb.edit(store / QUEUES, put={key: bytes(len(right))})
    rocksdb.edit(store / QUEUES, put={key: right})
    assert findings == run(store)[0]  # the last one counts, as the library says
    assert 1 == answers[False]
    rocksdb.edit(store / QUEUES, delete=(key,))
    assert "RQ-RANGE" in {str(finding.code) for finding in run(store)[0]}


@pytest.mark.parametrize("name", ["delete units", "redate unit"])
def test_same_findings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings are those that the library's rows give alone."""
    store = fixture_store(DAMAGES[name].fixture, tmp_path)
    DAMAGES[name].inflict(store)
    findings, _, _ = run(store)
    monkeypatch.setattr(UnitTables, "of", classmethod(lambda _, __: None))
    assert findings == run(store)[0]


def test_other_databases(tmp_path: Path) -> None:
    """With range deletions, rows in a log or a damaged index, only the library reads."""
    store = fixture_store(CLEAN, tmp_path)
    directory = store / QUEUES
    with Database(Place.of(directory), QUEUES) as database:
        made = UnitTables.of(database)
        assert made is not None
        made.close()
        (directory / "000999.log").write_bytes(b"x")
        assert UnitTables.of(database) is None
        (directory / "000999.log").unlink()
        table = table_of(directory)
        raw = bytearray(table.read_bytes())
        for place in range(len(raw) - 4096, len(raw), 64):
            raw[place] ^= 1
        table.write_bytes(raw)
        assert UnitTables.of(database) is None


def test_another_moment(tmp_path: Path) -> None:
    """Tables that came after the library opened the database are of another moment."""
    directory = fixture_store(CLEAN, tmp_path) / QUEUES
    with Database(Place.of(directory), QUEUES) as database:
        rocksdb.edit(directory, put={unit_key(TOPIC, 0, 1000): bytes(28)})
        assert UnitTables.of(database) is None


def test_range_deletion(tmp_path: Path) -> None:
    """A queue that a broker deleted is a range deletion: which rows it hides, the library says."""
    from rocksdict import AccessType, Options, Rdict

    store = fixture_store(CLEAN, tmp_path)
    directory = store / QUEUES
    options = Options(raw_mode=True)
    families = dict.fromkeys(Rdict.list_cf(str(directory), options), options)
    made = Rdict(str(directory), options, families, AccessType.read_write())
    rows = made.get_column_family("default")
    rows.delete_range(queue_prefix(TOPIC, 0, b"\0"), queue_prefix(TOPIC, 0, b"\2"))
    rows.flush()
    made.close()
    for name in ("rocksdict-config.json", *(path.name for path in directory.glob("*.log"))):
        (directory / name).unlink()
    with Database(Place.of(directory), QUEUES) as database:
        assert UnitTables.of(database) is None


def test_hole(tmp_path: Path, answers: Counter[bool]) -> None:
    """A unit that no table has, not even as deleted, is missing, and the tables do not say so."""
    store = fixture_store(CLEAN, tmp_path)
    key = unit_key(TOPIC, 0, MIDDLE)
    rocksdb.edit(store / QUEUES, delete=(key,), compacts=True)
    assert {"RQ-RANGE"} <= {str(finding.code) for finding in run(store)[0]}
    assert 0 < answers[False]


def test_stored_crc(tmp_path: Path, answers: Counter[bool]) -> None:
    """Rows that are right under a CRC that is not are those of a damaged block."""
    store = fixture_store(CLEAN, tmp_path)
    table = table_of(store / QUEUES)
    with Place.of(table).open() as file:
        index = table_index(file)
    assert index is not None
    inflict.flip_bits(table, index.handles[0].end - 1, 1)
    assert {"RD-BLOCK"} <= {str(finding.code) for finding in run(store)[0]}
    assert 0 == answers[True]
