"""What a store has already is not written: files are compared, and holes of both cost nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqtool.writing.directory import spot_of
from rmqtool.writing.output import OutputDirectory
from rmqtool.writing.staged import has_content

LONG = 1 << 40  # bytes, a hole; read as zeros it would take minutes


def _sparse(path: Path, size: int, *pieces: tuple[int, bytes]) -> None:
    with path.open("wb") as file:
        file.truncate(size)
        for position, data in pieces:
            file.seek(position)
            file.write(data)


@pytest.mark.parametrize(
    ("pieces", "is_same"),
    [
        ([(20, b"unit")], True),
        ([(20, b"unit"), (LONG // 2, bytes(4096))], True),  # zeros on the disk
        ([(20, b"unit"), (LONG // 2, b"x")], False),
        ([(20, b"unit"), (LONG - 1, b"x")], False),
        ([(20, b"Unit")], False),
        ([], False),
    ],
)
def test_holes(pieces: list[tuple[int, bytes]], tmp_path: Path, *, is_same: bool) -> None:
    """Only what is data in one of the files is read."""
    there = tmp_path / "there"
    try:
        _sparse(there, LONG, *pieces)
    except OSError:
        pytest.skip("no file may be so long here")
    with OutputDirectory(tmp_path / "new") as output:
        new = output.file("queue", size=LONG, pieces=[(20, b"unit")])
        assert has_content(new, spot_of(there)) is is_same
