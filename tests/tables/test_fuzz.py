"""Damage of any kind gives rows or a refusal: no exception of another kind, no hang."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqtool.errors import RmqtoolError
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.tree import open_store
from rmqtool.tables.bodies import BodyMode, BodyOptions
from rmqtool.tables.views import VIEWS
from tests.stores import fixture_names, fixture_store
from tests.tables.dumped import rows

LONGEST = 256 << 10
SCENARIOS = ("timer", "ext", "dledger", "batch-queue", "traffic")


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, bytes]]:
    """Give a small file of each kind, in a place that tells nothing, with what it holds."""
    found: dict[str, tuple[Path, bytes]] = {}
    for scenario in SCENARIOS:
        name = fixture_names("5.3.3", scenario)[0]
        root = fixture_store(name, tmp_path_factory.mktemp(scenario))
        for branch in open_store(root).artefacts():
            raw = (root / branch.path).read_bytes()[:LONGEST]
            if raw and str(branch.kind) in VIEWS and branch.kind not in found:
                directory = tmp_path_factory.mktemp("sample")
                found[str(branch.kind)] = directory / f"{0:020}", raw
    assert {"commitlog", "dledger", "consume-queue", "index", "timer-log"} <= found.keys()
    return found


KINDS = sorted(str(kind) for kind in ArtefactKind if str(kind) in VIEWS)
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["flip", "cut", "zero", "random", "repeat"]),
        st.floats(0, 1),
        st.binary(min_size=1, max_size=64),
    ),
    min_size=1,
    max_size=4,
)


def damaged(raw: bytes, edits: list[tuple[str, float, bytes]]) -> bytes:
    """Damage bytes in some ways."""
    found = bytearray(raw)
    for what, where, data in edits:
        position = int(where * max(len(found) - 1, 0))
        stretch = slice(position, position + len(data))
        if what == "flip" and found:
            found[position] ^= data[0] or 1
        elif what == "cut":
            del found[position:]
        elif what == "zero":
            found[stretch] = bytes(len(found[stretch]))
        elif what == "random":
            found[stretch] = data[: len(found[stretch])]
        elif what == "repeat":
            found[stretch] = found[: len(found[stretch])]
    return bytes(found)


def words_of(kind: str) -> list[str]:
    """Give every view of files of a kind."""
    return [view.word for view in VIEWS.values() if str(view.branch) == kind]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=settings().max_examples // 5)
@given(edits=EDITS)
def test_damaged_files(
    samples: dict[str, tuple[Path, bytes]], kind: str, edits: list[tuple[str, float, bytes]]
) -> None:
    """A file of each kind with some damage, through each of its views, and as hex."""
    if kind not in samples:
        return  # not a file of its own in these stores
    path, raw = samples[kind]
    path.write_bytes(damaged(raw, edits))
    _show(path, kind)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10)
@given(raw=st.binary(max_size=3000))
def test_random_files(tmp_path: Path, kind: str, raw: bytes) -> None:
    """Random bytes, whatever they are said to be."""
    path = tmp_path / f"{0:020}"
    path.write_bytes(raw)
    _show(path, kind)


def _show(path: Path, kind: str) -> None:
    body = BodyOptions(BodyMode.TEXT)
    for word, is_hex, as_json in itertools.product(words_of(kind), (False, True), (False, True)):
        try:
            rows(path, word, is_hex=is_hex, as_json=as_json, fillers=True, body=body)
        except RmqtoolError:
            continue
