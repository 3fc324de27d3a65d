"""Parts of files: what is data is cut, and a hole is one part however long it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.parts import parts
from rmqtool.store.tree import open_store
from rmqtool.tables.inputs import segment_parts
from rmqtool.tables.views import VIEWS

MIB = 1 << 20


def _store(tmp_path: Path, size: int, data: dict[int, int]) -> Path:
    """Make a log of one sparse file with data at some places."""
    log = tmp_path / "commitlog"
    log.mkdir()
    with (log / f"{0:020}").open("wb") as file:
        for position, length in data.items():
            file.seek(position)
            file.write(b"x" * length)
        file.truncate(size)
    return tmp_path


@pytest.mark.parametrize(
    ("size", "data"),
    [
        (1 << 40, {}),
        (1 << 40, {0: 4096}),
        (1 << 40, {(1 << 39) + 12345: 9 * MIB}),
        ((1 << 40) - 777, {0: 4096, (1 << 40) - 4096: 100}),
        (64 * MIB, {0: 64 * MIB}),
        (10 * MIB + 5, {MIB: 7 * MIB}),
    ],
    ids=["hole", "begin", "middle", "ends", "full", "half"],
)
def test_holes(size: int, data: dict[int, int], tmp_path: Path) -> None:
    """Parts tile the file, those with data are short, and there are few others."""
    store = open_store(_store(tmp_path, size, data))
    view = VIEWS[str(ArtefactKind.COMMITLOG)]
    for found in (
        parts(store.commitlog, 4 * MIB),
        segment_parts(store, view, (None, None), 4 * MIB),
    ):
        assert 0 == found[0].begin
        assert size == found[-1].end
        assert [part.end for part in found[:-1]] == [part.begin for part in found[1:]]
        assert len(found) <= 3 * len(data) + sum(data.values()) // (4 * MIB) + 3
        for position, length in data.items():
            for part in found:
                if part.begin < position + length and position < part.end:
                    assert part.length <= 8 * MIB
