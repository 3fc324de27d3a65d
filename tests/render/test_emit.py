"""Rows in every format: the promised order, streamed, nothing added."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

from rmqtool.errors import OutputClosed, UsageError
from rmqtool.render.emit import emit, emit_all
from rmqtool.render.look import Format, Look
from rmqtool.render.sink import Sink
from rmqtool.rows import Chunk, JsonLines, Rows

COLUMNS = ("name", "number", "code")


def chunks() -> Iterator[Chunk]:
    """Give rows in all shapes in which they come."""
    yield [{"name": "one", "number": 1, "more": "unseen"}]
    yield pa.RecordBatch.from_pylist([{"name": "two", "number": 2, "code": "CL-X"}])
    yield []
    yield JsonLines(1, b'{"name":"three","number":3,"code":null}\n')


def rows(name: str = "things") -> Rows:
    """Give rows of one kind."""
    return Rows(COLUMNS, chunks(), name=name, optional={"code"})


def text(format_: Format, given: Rows | None = None, look: Look | None = None) -> str:
    """Emit rows and give what was written."""
    out = io.BytesIO()
    assert 3 == emit(given or rows(), look or Look(format_), Sink(out, "test"))
    return out.getvalue().decode()


EXPECTED = [
    {"name": "one", "number": 1, "code": None},
    {"name": "two", "number": 2, "code": "CL-X"},
    {"name": "three", "number": 3, "code": None},
]


def test_json_lines() -> None:
    """Each row is a line, all fields in order, whether they say something or not."""
    lines = text(Format.JSONL).splitlines()
    assert EXPECTED == [json.loads(line) for line in lines]
    assert '{"name":"two","number":2,"code":"CL-X"}' == lines[1]


def test_json() -> None:
    """JSON is one document."""
    assert EXPECTED == json.loads(text(Format.JSON))


def test_csv() -> None:
    """CSV has a header and every column in every line."""
    found = list(csv.reader(io.StringIO(text(Format.CSV))))
    assert [list(COLUMNS), ["one", "1", ""], ["two", "2", "CL-X"], ["three", "3", ""]] == found


def test_table() -> None:
    """A table is aligned, numbers to the right."""
    expected = ["name   number  code", "one         1", "two         2  CL-X", "three       3"]
    assert expected == text(Format.TABLE).splitlines()


def test_columns() -> None:
    """`--columns` chooses and orders; a name that does not exist is refused with those that do."""
    look = Look(Format.CSV, columns=("number", "name"))
    assert "number,name" == text(Format.CSV, look=look).splitlines()[0]
    with pytest.raises(UsageError, match="name number code"):
        emit(rows(), Look(Format.CSV, columns=("nothing",)), Sink(io.BytesIO(), "test"))


@pytest.mark.parametrize(
    ("format_", "expected"),
    [("table", b""), ("json", b"[]\n"), ("jsonl", b""), ("csv", b"name,number,code\n")],
)
def test_nothing(format_: str, expected: bytes) -> None:
    """Nothing found is an empty table, list or file, and still valid."""
    out = io.BytesIO()
    assert 0 == emit(Rows(COLUMNS, []), Look(Format(format_)), Sink(out, "test"))
    assert expected == out.getvalue()


def test_several_kinds() -> None:
    """Several kinds are one document, or lines that say their kind; CSV refuses."""
    out = io.BytesIO()
    emit_all([rows("a"), rows("b")], Look(Format.JSON), Sink(out, "test"))
    assert {"a": EXPECTED, "b": EXPECTED} == json.loads(out.getvalue())
    out = io.BytesIO()
    emit_all([rows("a"), Rows(("x",), [], name="b")], Look(Format.JSONL), Sink(out, "test"))
    assert ["a"] * 3 == [json.loads(line)["kind"] for line in out.getvalue().splitlines()]
    with pytest.raises(UsageError, match="csv"):
        emit_all([rows("a"), rows("b")], Look(Format.CSV), Sink(io.BytesIO(), "test"))


@pytest.mark.parametrize("format_", [Format.JSON, Format.JSONL, Format.TABLE])
def test_several_kinds_are_handed_on(format_: Format) -> None:
    """All that was written is handed on at the end, whatever the stream keeps back."""
    out, kept = io.BytesIO(), io.BytesIO()
    stream = io.BufferedWriter(out)
    emit_all([rows("a"), rows("b")], Look(format_), Sink(stream, "test"))
    emit_all([rows("a"), rows("b")], Look(format_), Sink(kept, "test"))
    assert kept.getvalue() == out.getvalue()


def test_kinds_without_rows() -> None:
    """A title with nothing below it says so, where the caller knows that nothing was left out."""
    out = io.BytesIO()
    kinds = [Rows(("x",), [], name="a"), rows("b")]
    emit_all(kinds, Look(Format.TABLE), Sink(out, "test"), empty="none")
    assert out.getvalue().startswith(b"a:\nnone\n\nb:\n")


class Gone:
    """A pipe whose reader went away after some bytes."""

    def __init__(self, left: int) -> None:
        self.left = left

    def write(self, data: bytes | memoryview, /) -> None:
        """Take bytes while somebody reads."""
        self.left -= len(data)
        if self.left < 0:
            raise BrokenPipeError

    def flush(self) -> None:
        """Hold nothing back."""


@pytest.mark.parametrize("format_", list(Format))
@pytest.mark.parametrize("left", [0, 10, 40])
def test_closed_pipe(format_: Format, left: int) -> None:
    """A reader that goes away is OutputClosed in every format, wherever it happens."""
    with pytest.raises(OutputClosed):
        emit(rows(), Look(format_), Sink(Gone(left), "test"))


def test_rows_appear_when_they_are_found() -> None:
    """JSON lines are handed on chunk by chunk, not at the end."""
    out = io.BytesIO()
    seen: list[int] = []

    def slow() -> Iterator[Chunk]:
        for number in range(3):
            seen.append(len(out.getvalue().splitlines()))
            yield [{"name": "x", "number": number}]

    emit(Rows(COLUMNS, slow()), Look(Format.JSONL), Sink(out, "test"))
    assert [0, 1, 2] == seen


class Short:
    """A stream that takes a few bytes at a time, as an unbuffered one does at a signal."""

    def __init__(self) -> None:
        self.taken = b""

    def write(self, data: bytes | memoryview, /) -> int:
        """Take three bytes at most."""
        self.taken += bytes(data[:3])
        return min(len(data), 3)

    def flush(self) -> None:
        """Do nothing."""


def test_short_writes() -> None:
    """What a stream did not take is written again: `PYTHONUNBUFFERED` makes stdout such a one."""
    stream = Short()
    sink = Sink(stream, "test")
    sink.write(b"0123456789")
    sink.write(b"")
    sink.write_lines(["abc", "d"])
    assert b"0123456789abc\nd\n" == stream.taken
