"""The kernels that write JSON agree, byte for byte, with the plain way."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.findings.in_rows import damaged_in
from rmqtool.render.values import json_line
from rmqtool.tables.arrow import plain_rows
from rmqtool.tables.json_line_kernels import SLACK
from rmqtool.tables.json_lines import json_lines

SPECIAL = st.sampled_from(
    ["\x00", "\x08\t\n\x0c\r", '"\\/', "\x7f", "\x80", "\x9f", "\xa0", "\xad", "\u061c", "\u200b",
     "\u2028", "\u202e", "\u2060", "\ufeff", "\ufffd", "\U000e0001", "\U0001f600", "é中"]
)  # fmt: skip
TEXT = st.lists(SPECIAL | st.text(st.characters(codec="utf-8"), max_size=8)).map("".join)
INT64 = st.integers(-(2**63), 2**63 - 1)
SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("small", pa.int32()),
        ("time", pa.timestamp("us", "UTC")),
        ("text", pa.string()),
        ("word", pa.dictionary(pa.int32(), pa.string())),
        ("keys", pa.list_(pa.string())),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("is_so", pa.bool_()),
        ("share", pa.float64()),
        ("numbers", pa.list_(pa.int64())),
        ("maybe", pa.string()),
        ("null", pa.string()),
    ]
)
ROW = st.fixed_dictionaries(
    {
        "number": st.none() | INT64,
        "small": st.none() | st.integers(-(2**31), 2**31 - 1),
        "time": st.none() | INT64,
        "text": st.none() | TEXT,
        "word": st.none() | st.sampled_from(["few", "wörds", '"\x1b']),
        "keys": st.none() | st.lists(TEXT, max_size=3),
        "properties": st.none()
        | st.dictionaries(TEXT, TEXT, max_size=4).map(lambda d: [*d.items()]),
        "is_so": st.none() | st.booleans(),
        "share": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "numbers": st.none() | st.lists(INT64, max_size=3),
        "maybe": st.none() | TEXT,
        "null": st.none(),
    }
)


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Make a batch; times as microseconds, as no `datetime` holds them all."""
    arrays = []
    for field in SCHEMA:
        values = [row[field.name] for row in rows]
        kind = pa.int64() if field.name == "time" else field.type
        plain = pa.string() if field.name == "word" else kind
        array = pa.array(values, plain)
        arrays.append(array.dictionary_encode() if field.name == "word" else array.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def plain(batch: pa.RecordBatch, columns: list[str]) -> bytes:
    """Write a batch the plain way."""
    return b"".join(json_line(row, columns) for row in plain_rows(batch))


@given(st.lists(ROW, max_size=6))
def test_parity(rows: list[dict[str, Any]]) -> None:
    """All types, all characters, and nulls: the same bytes."""
    batch = batch_of(rows)
    found = json_lines(batch, SCHEMA.names)
    assert (len(rows), plain(batch, SCHEMA.names)) == (found.count, bytes(found.text))


@given(st.lists(ROW, min_size=2, max_size=8), st.permutations(SCHEMA.names), st.data())
def test_parity_of_parts(rows: list[dict[str, Any]], names: list[str], data: st.DataObject) -> None:
    """So it is for a slice of a batch, and for some columns in another order."""
    start = data.draw(st.integers(0, len(rows)))
    some = batch_of(rows).slice(start, data.draw(st.integers(0, len(rows) - start)))
    columns = names[: data.draw(st.integers(1, len(names)))]
    assert plain(some, columns) == bytes(json_lines(some, columns).text)


@given(ROW, st.integers(1, 3), st.permutations(SCHEMA.names))
def test_rows_that_are_alike(row: dict[str, Any], count: int, names: list[str]) -> None:
    """What stands with the names, as it is the same in all rows, is what a row alone has."""
    batch, columns = batch_of([row] * count), names[:4]
    assert json_line(plain_rows(batch)[0], columns) * count == bytes(
        json_lines(batch, columns).text
    )


def test_rows_that_differ_last() -> None:
    """A number that only the last row has is not taken for that of all."""
    words = pa.array(["one", "one", "two"]).dictionary_encode()
    columns = {"number": [7, 7, 8], "word": words, "null": [None, None, 0], "end": [1, 1, 1]}
    batch = pa.RecordBatch.from_pydict(columns)
    assert plain(batch, [*columns]) == bytes(json_lines(batch, [*columns]).text)


def test_times() -> None:
    """Every year has its text: leap days, before 1970, beyond four digits."""
    milliseconds = [
        *range(-62_167_219_200_001, 253_402_300_800_001, 86_399_999 * 1237),
        *(951_782_399_999, 951_782_400_000, 4_107_542_400_000, -1, 0, 253_402_300_799_999),
        *(253_402_300_800_000, -62_167_219_200_000, -62_167_219_200_001, 2**63 // 1000 - 1),
    ]
    rows = [dict.fromkeys(SCHEMA.names) | {"time": one * 1000} for one in milliseconds]
    batch = batch_of(rows)
    assert plain(batch, ["time"]) == bytes(json_lines(batch, ["time"]).text)


def test_numbers() -> None:
    """Every count of digits, both signs, and the integer that has no positive twin."""
    powers = [10**digits for digits in range(19)]
    numbers = [0, *powers, *(number - 1 for number in powers), 2**63 - 1]
    rows = [{"number": sign * number} for number in numbers for sign in (1, -1)]
    batch = pa.RecordBatch.from_pylist([*rows, {"number": -(2**63)}])
    assert plain(batch, ["number"]) == bytes(json_lines(batch, ["number"]).text)


def test_lengths() -> None:
    """Texts as long as what is copied in one go, a byte longer and shorter, plain or escaped."""
    names = [("n" * size, "v" * size) for size in range(2 * SLACK + 2)]
    texts = [text for _, text in names] + [text + "\n" for _, text in names]
    schema = pa.schema([("keys", pa.list_(pa.string())), ("text", pa.string())])
    rows = [{"text": text, "keys": [text, "k", text]} for text in texts]
    batch = pa.RecordBatch.from_pylist(rows, schema)
    assert plain(batch, schema.names) == bytes(json_lines(batch, schema.names).text)
    maps = pa.array([names, []], pa.map_(pa.string(), pa.string()))
    batch = pa.RecordBatch.from_arrays([maps], ["properties"])
    assert plain(batch, ["properties"]) == bytes(json_lines(batch, ["properties"]).text)


def test_damage_is_counted() -> None:
    """Lines know how many of them have a code, and a torn tail is no damage."""
    batch = pa.RecordBatch.from_pylist([{"code": "CL-CRC"}, {"code": None}, {"code": "CL-TAIL"}])
    lines = json_lines(batch, ["code"])
    assert (2, 1) == (lines.coded, damaged_in(lines))
