"""Everything derived from a Layout sees the same values in the same bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from construct import Bytes, Const, Int16ub, Int32sl, Padding, Struct, this
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqtool.errors import DecodeError, Truncated
from rmqtool.formats.layout import Layout, NotDescriptive
from rmqtool.formats.registry import LAYOUTS

SIZES = {
    "message_prefix": 48,
    "message_middle_v4_v4": 40,
    "message_middle_v4_v6": 52,
    "message_middle_v6_v4": 52,
    "message_middle_v6_v6": 64,
    "blank": 8,
    "client_message_prefix": 20,
    "dledger_entry": 48,
    "dledger_blank": 8,
    "dledger_index_unit": 32,
    "consume_queue_unit": 20,
    "consume_queue_ext_unit": 20,
    "batch_consume_queue_unit": 46,
    "index_header": 40,
    "index_slot": 4,
    "index_entry": 20,
    "checkpoint": 48,
    "tiered_index_header": 28,
    "tiered_index_slot": 8,
    "tiered_index_item": 32,
    "tiered_index_compacted_item": 28,
    "timer_slot": 32,
    "timer_log_record": 52,
    "timer_blank": 16,
    "timer_check": 56,
    "offset_message_id": 16,
    "offset_message_id_v6": 28,
    "unique_key_tail": 12,
    "client_message_id": 17,
    "rocksdb_queue_key_head": 5,
    "rocksdb_queue_key_tail": 14,
    "rocksdb_queue_unit": 28,
    "rocksdb_queue_offset_key_tail": 5,
    "rocksdb_queue_end": 16,
    "rocksdb_dispatched": 8,
    "rocksdb_index_hour": 8,
    "rocksdb_index_offset": 8,
    "rocksdb_index_time": 8,
    "rocksdb_number": 8,
    "rocksdb_timer_time": 8,
    "rocksdb_timer": 12,
    "rocksdb_half_offset": 8,
    "rocksdb_half": 8,
    "rocksdb_config_key": 4,
    "rocksdb_config_name_length": 2,
    "rocksdb_config_queue": 4,
    "rocksdb_config_version": 24,
    "rocksdb_config_offset": 8,
    "rocksdb_pop_time": 8,
    "rocksdb_pop_tail": 13,
}
# Every layout reads the begin of them; what differs does so in nearly all bytes.
some_bytes = st.binary(min_size=max(SIZES.values()), max_size=max(SIZES.values()))
few = settings(max_examples=settings().max_examples // 5)


def test_sizes() -> None:
    """Each structure has the bytes that RocketMQ gives it, and none is forgotten here."""
    assert {layout.name: layout.size for layout in LAYOUTS.values()} == SIZES


@few
@given(some_bytes)
def test_parity(drawn: bytes) -> None:
    """Construct, struct and numpy see the same values, and build inverts parse."""
    for layout in LAYOUTS.values():
        raw = drawn[: layout.size]
        row = layout.parse(raw)
        assert raw == layout.build(row)
        assert tuple(row.values()) == layout.packer.unpack(raw)
        assert raw == layout.packer.pack(*row.values())
        found = np.frombuffer(raw, layout.dtype)[0]
        assert row == {
            field.name: int(found[field.name]) if field.is_integer else found[field.name].tobytes()
            for field in layout.fields
        }, layout.name


@few
@given(some_bytes)
def test_arrow(drawn: bytes) -> None:
    """A row goes through the Arrow schema unchanged, trailing zeros of addresses included."""
    for layout in LAYOUTS.values():
        row = layout.parse(drawn[: layout.size])
        table = pa.RecordBatch.from_pylist([row], schema=layout.arrow)
        assert [row] == table.to_pylist(), layout.name


def test_fields_tile() -> None:
    """Fields lie one behind the other, and struct and numpy agree about the size."""
    for layout in LAYOUTS.values():
        position = 0
        for field in layout.fields:
            assert position == field.position == layout.positions[field.name], layout.name
            assert position == dict(layout.dtype.fields or {})[field.name][1], layout.name
            position += field.size
        assert layout.size == position == layout.packer.size == layout.dtype.itemsize, layout.name


def test_every_field_is_explained() -> None:
    """The hex view and the manual have a phrase for the structure and for each field."""
    for layout in LAYOUTS.values():
        assert layout.doc, layout.name
        assert all(field.doc for field in layout.fields), layout.name


def test_short_bytes() -> None:
    """One byte too few is an error with its place, never a guess."""
    for layout in LAYOUTS.values():
        with pytest.raises(Truncated, match=r"a/b: at 0x7 \(7\)"):
            layout.parse(bytes(layout.size - 1), path="a/b", position=7)


def test_unbuildable_values() -> None:
    """A missing value and one that does not fit are refused."""
    for layout in LAYOUTS.values():
        with pytest.raises(DecodeError):
            layout.build({})
        with pytest.raises(DecodeError):
            layout.build({field.name: 2**64 for field in layout.fields})


REFUSED = {
    "unsigned": Struct("field" / Int16ub),
    "little-endian": Struct("field" / Int32sl),
    "constant": Struct("field" / Const(b"x")),
    "skipped": Struct("field" / Padding(2)),
    "length from elsewhere": Struct("field" / Bytes(this.other)),
    "nameless": Struct(Bytes(4)),
}


@pytest.mark.parametrize("struct", REFUSED.values(), ids=REFUSED)
def test_only_descriptions(struct: Struct) -> None:
    """What asserts, skips, points, or has no sign or name is no Layout."""
    with pytest.raises(NotDescriptive):
        _ = Layout("refused", struct).fields
