"""Hostile bytes: only DecodeError and its leaves come out, and no length in them is believed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from rmqtool.errors import DecodeError
from rmqtool.formats import (
    annotate,
    compression,
    config,
    consume_queue_ext,
    epoch,
    inner_batch,
    message,
    properties,
)
from rmqtool.formats.registry import LAYOUTS
from tests.formats.vectors import RECORD_V1, RECORD_V1_WITH_CRC
from tests.memory import peak

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

V6 = message.encode(
    message.sealed(
        message.Message(
            magic_code=message.MESSAGE_MAGIC_CODE_V2,
            born_address=bytes(range(16)),
            store_address=bytes(16),
            body=b"body",
            topic_bytes=b"topic",
            properties_bytes=b"TAGS\x01a\x02",
        )
    )
)
BATCH = b"".join(
    inner_batch.encode(inner_batch.ClientMessage(0, 0, 0, b"body", b"TAGS\x01a\x02"))
    for _ in range(3)
)


def read_record(raw: bytes) -> object:
    """Decode a record and all that is derived from it."""
    found = message.decode(raw)
    derived = (found.properties, found.keys, found.born_host, found.message_id, found.topic)
    return derived, compression.decompress(found.body, found.sys_flag, 1 << 16)


def read_spans(raw: bytes) -> object:
    """Annotate a record."""
    return annotate.body_spans(message.decode(raw), raw)


READERS: dict[str, tuple[Callable[[bytes], object], tuple[bytes, ...]]] = {
    "record": (read_record, (RECORD_V1, RECORD_V1_WITH_CRC, V6)),
    "spans": (read_spans, (RECORD_V1, V6)),
    "inner batch": (lambda raw: list(inner_batch.messages(raw)), (BATCH,)),
    "properties": (properties.decode, (b"KEYS\x01a b\x02TAGS\x01c\x02",)),
    "ext": (
        consume_queue_ext.decode,
        (consume_queue_ext.encode(consume_queue_ext.ExtUnit(34, 1, 2, bytes(14))),),
    ),
    "epoch": (epoch.decode, (b"1\n0\n1-0\n",)),
    "identity": (epoch.decode_identity, (b"c#b#1",)),
    "config": (config.parse, (b'{"offsetTable":{"T@G":{0:1,1:2\n}}}',)),
} | {name: (layout.parse, (bytes(layout.size),)) for name, layout in LAYOUTS.items()}
FLIPS = st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(1, 255)), max_size=6)


def survives(read: Callable[[bytes], object], raw: bytes) -> bool:
    """Read; an error that is not ours goes through and fails the test."""
    try:
        read(raw)
    except DecodeError as error:
        return len(str(error)) < 1000
    return True


def each_sample() -> Iterator[tuple[str, Callable[[bytes], object], bytes]]:
    """Give each reader with its name and each of its samples."""
    for name, (read, samples) in READERS.items():
        for raw in samples:
            yield name, read, raw


@given(FLIPS)
def test_flips(flips: list[tuple[int, int]]) -> None:
    """Flipped bits give a value or one clear error."""
    for name, read, sample in each_sample():
        raw = bytearray(sample)
        for position, mask in flips:
            raw[position % len(raw)] ^= mask
        assert survives(read, bytes(raw)), name


def _single_flips(raw: bytes) -> Iterator[bytes]:
    """Give every copy that differs in one bit."""
    for bit in range(len(raw) * 8):
        flipped = bytearray(raw)
        flipped[bit // 8] ^= 1 << bit % 8
        yield bytes(flipped)


def test_every_single_bit() -> None:
    """Each bit of each sample, flipped alone, gives a value or one clear error."""
    for name, read, raw in each_sample():
        assert all(survives(read, flipped) for flipped in _single_flips(raw)), name


def test_single_flips_are_many() -> None:
    """The samples have more than 10,000 bits together."""
    assert sum(len(raw) * 8 for _, samples in READERS.values() for raw in samples) > 10_000


@given(st.binary(max_size=300))
def test_random_bytes(raw: bytes) -> None:
    """Random bytes give a value or one clear error."""
    for name, (read, _) in READERS.items():
        assert survives(read, raw), name


@given(st.binary(min_size=140, max_size=140), st.integers(91, 148))
def test_random_bytes_behind_a_good_head(tail: bytes, size: int) -> None:
    """A record that begins well may go on in any way."""
    assert survives(read_record, size.to_bytes(4, "big") + RECORD_V1[4:8] + tail)


def test_cut_off() -> None:
    """Each prefix of sound bytes gives a value or one clear error."""
    for name, read, raw in each_sample():
        assert all(survives(read, raw[:length]) for length in range(len(raw) + 1)), name


HUGE = (b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff", b"\x40\x00\x00\x00")


def test_huge_lengths() -> None:
    """Huge numbers in any place allocate nothing of their size."""

    def read_all(read: Callable[[bytes], object], raw: bytes) -> None:
        for position in range(len(raw)):
            for number in HUGE:
                assert survives(read, raw[:position] + number + raw[position + 4 :])

    for name, read, raw in each_sample():
        assert peak(partial(read_all, read, raw)) < 4 << 20, name
