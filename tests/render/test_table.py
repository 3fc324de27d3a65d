"""Tables fit the terminal, never cut a number or a time, and never hide damage."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.render.emit import TableWriter, cell_length
from rmqtool.render.sink import Sink

TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)


def lines(
    rows: list[dict[str, object]],
    width: int | None,
    optional: tuple[str, ...] = (),
    below: tuple[str, ...] = (),
) -> list[str]:
    """Write a table and give its lines."""
    out = io.BytesIO()
    sink = Sink(out, "test", width)
    table = TableWriter(sink, list(rows[0]), optional, color=False, below=below)
    table.write(rows)
    table.close()
    return out.getvalue().decode().splitlines()


@given(st.lists(TEXTS, min_size=1, max_size=6), st.integers(20, 120))
def test_width(texts: list[str], width: int) -> None:
    """On a terminal no line is wider than it, whatever the content."""
    rows: list[dict[str, object]] = [{"text": text, "other": text[::-1]} for text in texts]
    assert all(cell_length(line) <= width for line in lines(rows, width))


@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_pipe(texts: list[str]) -> None:
    """In a pipe every line is one row, and the second column begins where its header does."""
    rows: list[dict[str, object]] = [{"text": text, "end": "END"} for text in texts]
    found = lines(rows, None)
    start = found[0].index("end")
    assert len(texts) + 1 == len(found)
    assert {start} == {cell_length(line[: line.rindex("END")]) for line in found[1:]}


def test_numbers_are_whole() -> None:
    """A number is left out rather than cut."""
    rows: list[dict[str, object]] = [{"first": "a" * 30, "number": 123456789012}]
    assert "123456789012" in lines(rows, 26)[1]
    assert ["first", "aaaaaaaaaaaaaaaaaaaaaaa…"] == lines(rows, 24)


@pytest.mark.parametrize("name", ["message_id", "unique_key", "keys", "id", "store_time"])
def test_never_cut(name: str) -> None:
    """What cannot be used when it is cut is whole on the narrowest terminal, in later rows, too."""
    long = "7F0000010000927D0000000000006B70"
    for shown in ((name, "topic"), ("topic", name)):
        rows = [{name: "x", "topic": "t"}, {name: long, "topic": "t" * 99}]
        found = "\n".join(lines([{key: row[key] for key in shown} for row in rows], 50))
        assert long in found
        assert "t" * 99 not in found
    turned: list[dict[str, object]] = [{"field": name, "value": "v" * 60}]
    assert "v" * 60 in lines(turned, 50)[1]


def test_damage_is_never_left_out() -> None:
    """The code of a damage stands behind its line where there is no room for its column."""
    rows: list[dict[str, object]] = [
        {"name": "a" * 30, "code": None},
        {"name": "b" * 30, "code": "CL-CRC"},
    ]
    assert lines(rows, 16, ("code",))[2].endswith("code=CL-CRC")


def test_late_damage() -> None:
    """So it does when the first rows, which fix the columns, were sound."""
    rows: list[dict[str, object]] = [{"name": "a", "code": None}] * 300
    out = io.BytesIO()
    table = TableWriter(Sink(out, "test"), ["name", "code"], ("code",), color=False)
    table.write(rows)
    table.write([{"name": "b", "code": "CL-MAGIC"}])
    assert "b  code=CL-MAGIC" == out.getvalue().decode().splitlines()[-1]


HITS: dict[str, object] = {
    "code": "CL-X",
    "path": "commitlog/0",
    "message": "something is wrong with this record, and with the one behind it",
    "repair": "put it right; rmqtool repair STORE --dry-run",
}


def test_sentences_below() -> None:
    """Where there is no room for sentences they stand below, whole; a command has its own line."""
    assert [
        "code  path",
        "CL-X  commitlog/0",
        "    something is wrong with this record,",
        "    and with the one behind it",
        "    repair: put it right",
        "    rmqtool repair STORE --dry-run",
    ] == lines([HITS], 44, below=("message", "repair"))


def test_sentences_beside() -> None:
    """Where there is room, and in a pipe, a row is one line."""
    for width in (200, None):
        assert 2 == len(lines([HITS], width, below=("message", "repair")))
        assert lines([HITS], None) == lines([HITS], width, below=("message", "repair"))


@given(TEXTS, st.integers(30, 120))
def test_sentences_fit(text: str, width: int) -> None:
    """No line of a sentence is longer than the terminal is wide."""
    rows: list[dict[str, object]] = [{"code": "CL-X", "message": text * 9, "repair": text}]
    found = lines(rows, width, below=("message", "repair"))
    assert all(cell_length(line) <= width for line in found)
