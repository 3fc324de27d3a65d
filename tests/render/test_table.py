"""Tables fit the terminal, never cut a number or a time, and never hide damage."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from rmqtool.render.sink import Sink
from rmqtool.render.table import TableWriter, cell_length

TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)


def lines(
    rows: list[dict[str, object]], width: int | None, optional: tuple[str, ...] = ()
) -> list[str]:
    """Write a table and give its lines."""
    out = io.BytesIO()
    table = TableWriter(Sink(out, "test", width), list(rows[0]), optional, color=False)
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
