"""Dump into a list, for tests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rmqtool.rows import Row, Rows, rows_of
from rmqtool.tables.dump import DumpOptions, DumpOutcome, dump


def rows(path: Path | str, word: str | None = None, **options: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - as DumpOptions takes it
    """Give the rows of one view."""
    found = dump(DumpOptions((str(path),), word, **options), DumpOutcome())
    assert 1 == len(found)
    return flat(found[0])


def flat(given: Rows) -> list[dict[str, Any]]:
    """Give the rows of all chunks."""
    chunks: Iterable[Any] = given
    return [without_nulls(row) for chunk in chunks for row in rows_of(chunk)]


def without_nulls(row: Row) -> dict[str, Any]:
    """Give the fields of a row that say something."""
    return {name: value for name, value in row.items() if value is not None}
