"""Annotated bytes: every byte has an owner."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.formats import annotate
from rmqtool.formats.message import Message, decode, encode
from rmqtool.formats.registry import LAYOUTS
from tests.formats.strategies import messages
from tests.formats.vectors import RECORD_V1

LARGEST = max(layout.size for layout in LAYOUTS.values())


def tiles(found: list[annotate.Span], size: int, start: int = 0) -> bool:
    """Tell whether spans lie one behind the other over all bytes, none of them empty."""
    ends = [span.position + span.length for span in found]
    starts = [span.position for span in found]
    return [start, *ends] == [*starts, start + size] and all(span.length > 0 for span in found)


@given(messages())
def test_record_is_tiled(message: Message) -> None:
    """Spans of a record cover each byte once."""
    raw = encode(message)
    assert tiles(annotate.body_spans(message, raw), len(raw))


@given(st.binary(min_size=LARGEST, max_size=LARGEST))
def test_layout_is_tiled(drawn: bytes) -> None:
    """Spans of a fixed structure cover each byte once, wherever it lies."""
    for layout in LAYOUTS.values():
        spans = annotate.layout_spans(layout, drawn[: layout.size], 100)
        assert tiles(spans, layout.size, 100), layout.name


def test_values() -> None:
    """Values of the appendix's record, in words."""
    found = {span.name: span.value for span in annotate.body_spans(decode(RECORD_V1), RECORD_V1)}
    assert found["magic_code"] == "-626843481 (0xdaa320a7)"
    assert found["born_timestamp"] == "1700000000000 (2023-11-14T22:13:20.000Z)"
    assert found["born_address"] == "10.0.0.1"
    assert found["sys_flag"] == "0 (none)"
    assert found["property KEYS"] == "ORDER-1"
    assert found["topic"] == "TopicTest"


def test_dropped_property() -> None:
    """A property that readers drop is said to be."""
    message = Message(properties_bytes=b"a\x01\x02")
    spans = annotate.body_spans(message, encode(message))
    assert spans[-1].value.startswith("dropped by the reader")


@pytest.mark.parametrize(
    ("milliseconds", "expected"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (2**63 - 1, "-"),
        (-(2**63), "-"),
    ],
)
def test_time_text(milliseconds: int, expected: str) -> None:
    """Times are UTC with milliseconds; outside the calendar there is none."""
    assert expected == annotate.time_text(milliseconds)
