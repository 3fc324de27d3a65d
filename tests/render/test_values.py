"""Values as text: exact in JSON, harmless everywhere else."""

from __future__ import annotations

import base64
import csv
import io
import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.render.values import as_csv, as_text, escape, json_line, json_lines, json_row
from rmqtool.times import iso_time

HOSTILE = [
    "\x1b[31mred", "\x9b31m", "\x00", "\x7f", "a\nb", "\r", "\u202eabc", "\u2066", "\u200b",
    "\ufeff", "\u2028", "\U000e0041", "\\x1b", "=cmd|' /C calc'!A0", "../../etc/passwd",
]  # fmt: skip
TEXTS = st.text(st.characters(codec="utf-8")) | st.sampled_from(HOSTILE)


@given(TEXTS)
def test_escape_prints(text: str) -> None:
    """What comes out has no character that a terminal acts on, or that nobody sees."""
    assert escape(text).isprintable()
    assert not {unicodedata.category(c) for c in escape(text)} & {"Cc", "Cf", "Cs", "Zl", "Zp"}


@given(TEXTS, TEXTS)
def test_escape_keeps_apart(one: str, other: str) -> None:
    """Different contents stay different."""
    assert (one == other) == (escape(one) == escape(other))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "true"),
        (-5, "-5"),
        ("plain é 中", "plain é 中"),
        ("\x1b[0m", "\\x1b[0m"),
        ("back\\slash", "back\\\\slash"),
        (b"\xff", "\\udcff"),
        (["a", "b\n"], "a b\\n"),
        ({"k": 'v"\x1b'}, '{"k":"v\\"\\u001b"}'),
    ],
)
def test_as_text(value: object, text: str) -> None:
    """Each kind of value has one text on one line."""
    assert text == as_text(value)


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
def test_formula(start: str) -> None:
    """No spreadsheet takes a text for a formula; a number stays one."""
    assert f"'{start}1+1" == as_csv(f"{start}1+1")
    assert "-1" == as_csv(-1)


@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_csv_lines(texts: list[str]) -> None:
    """A row is one line, whatever it holds."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow([as_csv(text) for text in texts])
    assert 1 == len(out.getvalue().splitlines())
    assert not any(
        cell.startswith(("=", "+", "-", "@")) for cell in next(csv.reader([out.getvalue()]))
    )


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=8,
)


@given(st.dictionaries(TEXTS.filter(lambda name: not name.endswith("_b64")), VALUES, max_size=4))
def test_json_is_exact(row: dict[str, object]) -> None:
    """A reader of JSON gets back exactly what was there, and a terminal sees it harmless."""
    line = json_line(row, list(row))
    assert row == json.loads(line)
    text = line.decode().removesuffix("\n")
    assert not {unicodedata.category(c) for c in text} & {"Cc", "Cf", "Zl", "Zp"}


@given(
    st.lists(st.sampled_from([*'"\\,:{}', "},{", "a", "b"]), min_size=1, max_size=3, unique=True),
    st.data(),
)
def test_lines_of_many_rows(columns: list[str], data: st.DataObject) -> None:
    """Rows that are written together are the lines of each, whatever stands in them."""
    texts = st.lists(st.sampled_from([*'"\\,:{}a', "},{"])).map("".join)
    values = texts | st.integers() | st.none() | st.binary(max_size=2)
    rows = data.draw(st.lists(st.fixed_dictionaries(dict.fromkeys(columns, values)), max_size=4))
    assert b"".join(json_line(row, columns) for row in rows) == json_lines(rows, columns)
    reverse = columns[::-1]
    assert b"".join(json_line(row, reverse) for row in rows) == json_lines(rows, reverse)


@given(st.binary())
def test_bytes_are_exact(raw: bytes) -> None:
    """Bytes are text, with an exact twin where they are no UTF-8."""
    row = json_row({"a": raw})
    try:
        assert {"a": raw.decode()} == row
    except UnicodeDecodeError:
        assert raw == base64.b64decode(str(row["a_b64"]))


def test_json_survives_what_it_cannot_hold() -> None:
    """Numbers beyond 64 bits, deep nesting and lone surrogates neither fail nor lie."""
    deep: object = 0
    for _ in range(500):
        deep = [deep]
    row = {"big": 2**80, "deep": deep, "name": "file-\udcff", "lone": "\ud800"}
    found = json.loads(json_line(row, list(row)))
    assert (str(2**80), "file-\ufffd") == (found["big"], found["name"])
    assert b"file-\xff" == base64.b64decode(found["name_b64"])
    inner = found["deep"]
    levels = 0
    while isinstance(inner, list):
        inner, levels = inner[0], levels + 1
    assert 500 == levels + inner.count("[")  # what lies too deep is text


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_iso_time(milliseconds: int) -> None:
    """A time within the calendar is what the standard library says."""
    from datetime import UTC, datetime, timedelta

    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    expected = f"{moment:%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"
    assert f"{moment.year:04}-{expected}" == iso_time(milliseconds)
