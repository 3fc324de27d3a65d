"""Bodies of inner batches: taken apart, put together, refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.errors import BadLength
from rmqtool.formats import inner_batch
from rmqtool.formats.inner_batch import ClientMessage
from tests.formats.strategies import INTS

BATCHES = st.lists(st.tuples(INTS, st.binary(max_size=20), st.binary(max_size=20)), max_size=4)


@given(BATCHES)
def test_round_trip(parts: list[tuple[int, bytes, bytes]]) -> None:
    """Messages come back in order, and their positions tile the body."""
    batch = b"".join(inner_batch.encode(ClientMessage(0, 0, *part)) for part in parts)
    messages = list(inner_batch.messages(batch))
    assert parts == [(message.flag, message.body, message.properties_bytes) for message in messages]
    ends = [message.position + message.total_size for message in messages]
    assert [0, *ends] == [*(message.position for message in messages), len(batch)]


def test_properties() -> None:
    """Properties of one message are those of a record."""
    raw = inner_batch.encode(ClientMessage(0, 0, 0, b"", b"TAGS\x01a\x02"))
    assert next(inner_batch.messages(raw)).properties == {"TAGS": "a"}


def test_lies() -> None:
    """What does not fit is refused with its place; what came before it is given."""
    raw = inner_batch.encode(ClientMessage(0, 0, 0, b"body", b""))
    for lie in (raw[:-1], b"\x7f" + raw[1:], raw[:16] + b"\x7f" + raw[17:], b"\x00"):
        messages = inner_batch.messages(raw + lie, path="log/00", position=100)
        assert next(messages).body == b"body"
        with pytest.raises(BadLength, match=rf"^log/00: at .* \({100 + len(raw)}\): total_size"):
            next(messages)
