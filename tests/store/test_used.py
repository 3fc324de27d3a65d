"""What a file holds that was made ahead of need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from rmqtool.store.place import Place
from rmqtool.store.used import data_stretches

if TYPE_CHECKING:
    import pytest

SIZE = 40_000


@given(
    places=st.lists(st.integers(0, SIZE - 1), max_size=5),
    first=st.integers(0, SIZE),
    end=st.none() | st.integers(0, SIZE),
    chunk=st.integers(1, SIZE),
)
def test_data_stretches(
    tmp_path_factory: pytest.TempPathFactory,
    places: list[int],
    first: int,
    end: int | None,
    chunk: int,
) -> None:
    """Stretches are what the file holds, in order, and zeros are between them."""
    path = tmp_path_factory.mktemp("used") / "file"
    with path.open("wb") as file:
        file.truncate(SIZE)
        for place in places:
            file.seek(place)
            file.write(b"\1")
    raw, seen = path.read_bytes(), bytearray(SIZE)
    limit = SIZE if end is None else end
    last = first
    with Place.of(path).open() as opened:
        for position, stretch in data_stretches(opened, first, end, chunk):
            assert last <= position
            assert any(stretch[:chunk])
            assert len(stretch) <= chunk
            last = position + len(stretch)
            seen[position:last] = stretch
    assert last <= max(limit, first)
    assert raw[first:limit] == seen[first:limit]
