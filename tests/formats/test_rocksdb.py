"""Rows of RocksDB databases: vectors of real brokers, builders, and what is no row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.errors import DecodeError
from rmqtool.formats import rocksdb_config, rocksdb_queue, rocksdb_store
from rmqtool.formats.consume_queue import CQ_UNIT
from rmqtool.formats.rocksdb_databases import DATABASES
from rmqtool.formats.rocksdb_families import READERS, pop_row, reader_of
from rmqtool.formats.rocksdb_store import IndexKey
from tests.formats.strategies import LONGS
from tests.rocksdb_keys import half_key, pop_key, v2_name_key, v2_offset_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.formats.annotate import Span
    from rmqtool.formats.rocksdb_row import RocksdbRow

TOPIC: Final = b"rocksdb-orders"
NAMES: Final = st.binary(min_size=1, max_size=20).filter(lambda name: b"@" not in name)
INTS: Final = st.integers(-(2**31), 2**31 - 1)


def tiled(raw: bytes, spans: tuple[Span, ...]) -> bool:
    """Say whether spans cover all bytes, one after another."""
    ends = [span.position + span.length for span in spans]
    return [0, *ends] == [*(span.position for span in spans), len(raw)]


def test_unit_vector() -> None:
    """A unit of a 5.3.3 broker; its first 20 bytes are a unit of a file."""
    key = bytes.fromhex("0000000e01726f636b7364622d6f7264657273010000000001 0000000000000000")
    value = bytes.fromhex("0000000000000000 00000166 000000000027a807 000001a1fc1aa864")
    row = rocksdb_queue.unit_row(key, value)
    assert key == rocksdb_queue.unit_key(TOPIC, 0, 0)
    assert "unit" == row.kind
    assert (TOPIC, 0, 0) == tuple(
        row.values[name] for name in ("topic", "queue_id", "queue_offset")
    )
    assert (0, 358, 2598919) == tuple(CQ_UNIT.parse(value[:20]).values())
    assert (358, 2598919, 0x1A1FC1AA864) == tuple(
        row.values[name] for name in ("size", "tags_code", "store_timestamp")
    )
    assert tiled(key, row.key_spans)
    assert tiled(value, row.value_spans)


def test_offset_vectors() -> None:
    """A `max` row and the end of dispatch, as a 5.3.3 broker wrote them."""
    key = bytes.fromhex("0000000e01726f636b7364622d6f7264657273016d61780100000000")
    row = rocksdb_queue.offset_row(key, bytes.fromhex("0000000000008f87000000000000003b"))
    assert key == rocksdb_queue.offset_key(TOPIC, 0, b"max")
    assert ("max", 36743, 59) == (
        row.kind,
        row.values["physical_offset"],
        row.values["queue_offset"],
    )
    key = bytes.fromhex("0000001001434845434b504f494e545f544f504943016d61780100000000")
    row = rocksdb_queue.offset_row(key, bytes.fromhex("00000000000091d0"))
    assert key == rocksdb_queue.CHECKPOINT_KEY
    assert ("checkpoint", 37328) == (row.kind, row.values["dispatched"])


def test_config_vectors() -> None:
    """Data version, topic, and the two offsets of which one has topic and group swapped."""
    version = bytes.fromhex("01000101646174615f76657273696f6e")
    numbers = (0).to_bytes(8, "big") + (5).to_bytes(8, "big") + (2).to_bytes(8, "big")
    row = rocksdb_config.v2_row(version, numbers)
    assert ("consumer_offset_version", 2) == (row.kind, row.values["counter"])
    topic = bytes.fromhex("01000302000d6d6164652d62792d61646d696e")
    row = rocksdb_config.v2_row(topic, b'\x01{"attributes":{}}')
    assert topic == v2_name_key(rocksdb_config.TOPIC, b"made-by-admin")
    assert ("topic", b'{"attributes":{}}') == (row.kind, row.values["json"])
    offset = v2_offset_key(1, b"reader-group-1", b"made-by-admin", 1)
    assert offset.startswith(bytes.fromhex("01000102000e"))
    row = rocksdb_config.v2_row(offset, (7).to_bytes(8, "big"))
    assert ("consumer_offset", b"reader-group-1", b"made-by-admin", 1, 7) == (
        row.kind,
        *(row.values[name] for name in ("group", "topic", "queue_id", "queue_offset")),
    )


def test_pop_vector() -> None:
    """The key of a popped message, as a broker wrote it."""
    key = bytes.fromhex("000001a202c1ab83706f705f67406f72646572734000000000400000000000000000")
    row = pop_row(key, b"{}")
    assert key == pop_key(0x1A202C1AB83, b"pop_g", b"orders", 0, 0)
    assert (b"pop_g", b"orders") == (row.values["group"], row.values["topic"])
    assert tiled(key, row.key_spans)


@given(NAMES, INTS, LONGS)
def test_unit_keys(topic: bytes, queue_id: int, queue_offset: int) -> None:
    """A key that was built says what it was built from, and lies between the bounds."""
    key = rocksdb_queue.unit_key(topic, queue_id, queue_offset)
    found = rocksdb_queue.unit_row(key, bytes(28)).values
    assert (topic, queue_id, queue_offset) == tuple(
        found[name] for name in ("topic", "queue_id", "queue_offset")
    )
    begin = rocksdb_queue.queue_prefix(topic, queue_id, rocksdb_queue.RANGE_BEGIN)
    end = rocksdb_queue.queue_prefix(topic, queue_id, rocksdb_queue.RANGE_END)
    assert begin < key < end


@given(NAMES, st.sampled_from([b"K", b"T", b"U"]), st.binary(max_size=9), NAMES, LONGS)
def test_index_keys(topic: bytes, kind: bytes, key: bytes, unique: bytes, offset: int) -> None:
    """A key of the index, whatever its text holds, is taken apart again."""
    entry = IndexKey(topic, kind, unique if kind == b"U" else key, unique)
    raw = rocksdb_store.index_key(entry, 1_795_230_967_168, offset)
    row = rocksdb_store.index_row(raw, bytes(8))
    assert (topic, unique, offset) == tuple(
        row.values[name] for name in ("topic", "unique_key", "physical_offset")
    )
    assert kind == b"U" or key == row.values["key"]
    assert 0 == row.values["hour"] % rocksdb_store.HOUR_MS
    assert tiled(raw, row.key_spans)


@given(LONGS, NAMES, st.binary(max_size=9))
def test_store_keys(number: int, topic: bytes, name: bytes) -> None:
    """Keys of timer messages and of open halves are taken apart again."""
    timer = rocksdb_store.timer_row(rocksdb_store.timer_key(number, name), bytes(12))
    assert (number, name) == (timer.values["deliver_time"], timer.values["unique_key"])
    half = rocksdb_store.trans_row(half_key(number, topic, name), bytes(8))
    assert (number, topic, name) == tuple(
        half.values[part] for part in ("physical_offset", "topic", "transaction_id")
    )


@pytest.mark.parametrize(
    ("read", "name"),
    [
        (rocksdb_store.index_row, rocksdb_store.LAST_OFFSET),
        (rocksdb_store.index_row, rocksdb_store.LAST_TIME),
        (rocksdb_store.timer_row, rocksdb_store.TIMER_SCANNED),
        (rocksdb_store.timer_row, rocksdb_store.TIMER_DELIVERED),
        (rocksdb_store.trans_row, rocksdb_store.LAST_OFFSET),
    ],
)
def test_checkpoints(read: Callable[[bytes, bytes], RocksdbRow], name: bytes) -> None:
    """Rows whose keys are words hold a number."""
    row = read(name, (17).to_bytes(8, "big"))
    assert ("checkpoint", 17) == (row.kind, row.values["number"])


@pytest.mark.parametrize("path", DATABASES)
def test_every_family_is_read(path: str) -> None:
    """Each family of a database that is declared has a reader."""
    assert None not in [reader_of(path, family) for family in DATABASES[path].families]


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@given(key=st.binary(max_size=60), value=st.binary(max_size=40))
def test_any_bytes(read: Callable[[bytes, bytes], RocksdbRow], key: bytes, value: bytes) -> None:
    """Whatever bytes there are, they are a row whose spans tile them, or a DecodeError."""
    try:
        row = read(key, value)
    except DecodeError:
        return
    assert tiled(key, row.key_spans)
    assert tiled(value, row.value_spans)


@pytest.mark.parametrize("position", range(33))
def test_control_bytes(position: int) -> None:
    """A unit's key with one byte less, or another control byte, is none."""
    key = bytearray(rocksdb_queue.unit_key(TOPIC, 3, 5))
    if key[position] == 1 and position in {4, 19, 24}:
        key[position] = 2
    else:
        del key[position]
    with pytest.raises(DecodeError):
        rocksdb_queue.unit_row(bytes(key), bytes(28))
