"""Files of a queue make one byte space; what does not fit is reported, never dropped."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.errors import Trouble
from rmqtool.store.parts import parts
from rmqtool.store.place import Place
from rmqtool.store.segment import (
    MappedFiles,
    Oddity,
    OddityKind,
    Segment,
    assemble,
    load,
    start_of,
)
from rmqtool.store.unread import error_of
from tests.store.built_store import name_of


def listed(directory: Path, file_length: int | None = None) -> MappedFiles:
    """List a directory that lies in a store as `commitlog`."""
    return load([(Place.of(directory), "commitlog")], file_length)


def write(directory: Path, sizes: dict[int, int]) -> None:
    """Write files of zeros by their start."""
    for start, size in sizes.items():
        (directory / name_of(start)).write_bytes(bytes(size))


def oddities(files: MappedFiles) -> list[tuple[OddityKind, str]]:
    """Give kinds and names of what is odd."""
    return [(oddity.kind, oddity.path.rpartition("/")[2]) for oddity in files.oddities]


def test_byte_space(tmp_path: Path) -> None:
    """Sound files follow each other without an oddity, wherever they begin."""
    write(tmp_path, {4096: 4096, 8192: 4096, 12288: 4096})
    files = listed(tmp_path)
    assert (4096, 16384, 4096, 3) == (files.start, files.end, files.file_length, len(files))
    assert [] == oddities(files)
    assert [None, 4096, 4096, 8192, None] == [
        segment and segment.start for segment in map(files.at, (4095, 4096, 8191, 8192, 16384))
    ]
    assert ["commitlog/00000000000000004096"] == [segment.path for segment in files][:1]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({0: 100, 200: 100}, [(OddityKind.HOLE, name_of(200))]),
        ({0: 100, 50: 100}, [(OddityKind.OVERLAP, name_of(50))]),
        ({0: 100, 100: 100, 200: 77}, [(OddityKind.ODD_LENGTH, name_of(200))]),
        ({0: 100, 100: 100, 200: 0}, [(OddityKind.EMPTY_FILE, name_of(200))]),
        ({0: 0}, [(OddityKind.EMPTY_FILE, name_of(0))]),
        (
            {0: 0, 100: 0},
            [
                (OddityKind.EMPTY_FILE, name_of(0)),
                (OddityKind.EMPTY_FILE, name_of(100)),
                (OddityKind.HOLE, name_of(100)),
            ],
        ),
        ({}, []),
    ],
)
def test_files_that_do_not_fit(
    tmp_path: Path, sizes: dict[int, int], expected: list[tuple[OddityKind, str]]
) -> None:
    """Each hole, overlap and odd length is named once, and its file stays listed."""
    write(tmp_path, sizes)
    assert expected == oddities(listed(tmp_path))
    assert len(sizes) == len(listed(tmp_path))


def test_nothing(tmp_path: Path) -> None:
    """A directory without files is a byte space of no bytes, from 0 to 0."""
    files = listed(tmp_path)
    assert (0, 0, 0, 0) == (files.start, files.end, files.size, len(files))
    assert not files


def test_hole_says_what_is_missing(tmp_path: Path) -> None:
    """A hole has the range of bytes that no file holds."""
    write(tmp_path, {0: 100, 300: 100})
    (hole,) = listed(tmp_path, 100).oddities
    assert (100, 200, name_of(100), name_of(300)) == (
        hole.start, hole.length, hole.expected, hole.actual,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("sizes", "missing"),
    [
        ({0: 100, 100: 100}, []),
        ({0: 100, 300: 100}, [(100, 200)]),
        ({0: 100, 100: 0, 200: 100}, [(100, 100)]),
        ({0: 100, 100: 30, 200: 100}, [(130, 70)]),
        ({0: 100, 100: 30, 300: 100}, [(130, 70), (200, 100)]),
        ({0: 100, 100: 100, 200: 0}, [(200, 100)]),
        ({0: 0, 100: 100}, [(0, 100)]),
        ({0: 130, 100: 100}, []),
        ({0: 100, 17: 0, 100: 100}, []),  # a name that is none of the log
    ],
    ids=str,
)
def test_missing(sizes: dict[int, int], missing: list[tuple[int, int]], tmp_path: Path) -> None:
    """Files say what no file holds beside them: what they lack, and what files are gone."""
    write(tmp_path, sizes)
    files = listed(tmp_path, 100)
    assert missing == sorted(one for segment in files for one in segment.missing)


@given(st.lists(st.sampled_from([None, 0, 1, 99, 100]), min_size=1, max_size=8))
def test_nothing_is_skipped(sizes: list[int | None]) -> None:
    """What files hold, and what no file holds, is all of the space that they span."""
    named = [
        Segment(Place.of("/"), name_of(100 * number), 100 * number, size)
        for number, size in enumerate(sizes)
        if size is not None
    ]
    files = assemble(named, [], [], 100)
    held = [(file.start, file.size) for file in files if file.size]
    stretches = sorted([*held, *(file for segment in files for file in segment.missing)])
    ends = [begin + length for begin, length in stretches]
    assert [begin for begin, _ in stretches[1:]] == ends[:-1]
    if stretches:
        assert (named[0].start, named[-1].start + 100) == (stretches[0][0], ends[-1])


def test_a_file_in_the_making(tmp_path: Path) -> None:
    """A running broker makes a file before it gives it its length: nothing is missing."""
    write(tmp_path, {0: 100, 100: 0})
    files = listed(tmp_path, 100)
    assert [(100, 100)] == files.segments[-1].missing
    assert [] == files.beside(is_live=True).segments[-1].missing


def test_other_entries(tmp_path: Path) -> None:
    """Whatever else lies in the directory is reported, and never opened."""
    write(tmp_path, {0: 100})
    (tmp_path / "notes.txt").touch()
    (tmp_path / "100").write_bytes(bytes(100))
    (tmp_path / name_of(300)).mkdir()
    (tmp_path / name_of(400)).symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / name_of(500))
    (tmp_path / "99999999999999999999").touch()
    expected = {
        "notes.txt": OddityKind.FOREIGN_NAME,
        "99999999999999999999": OddityKind.FOREIGN_NAME,  # does not fit a Java long
        "100": OddityKind.SHORT_NAME,
        name_of(300): OddityKind.DIRECTORY,
        name_of(400): OddityKind.LINK,
        name_of(500): OddityKind.NOT_A_FILE,
    }
    files = listed(tmp_path)
    assert expected == {name: kind for kind, name in oddities(files)}
    assert [0, 100] == [segment.start for segment in files]


def test_several_directories(tmp_path: Path) -> None:
    """Several commitlog paths make one byte space; the same name twice is a duplicate."""
    for name, sizes in {"a": {0: 100, 200: 100}, "b": {100: 100, 200: 100}}.items():
        (tmp_path / name).mkdir()
        write(tmp_path / name, sizes)
    files = load([(Place.of(tmp_path / name), name) for name in "ab"])
    assert ["a", "b", "a", "b"] == [segment.path[0] for segment in files]
    assert [OddityKind.DUPLICATE] == [kind for kind, _ in oddities(files)]


def test_names() -> None:
    """Names are read as Long.parseLong does, in the digits of any script."""
    assert 4096 == start_of(name_of(4096))
    arabic = name_of(4096).translate({ord("0") + digit: 0x660 + digit for digit in range(10)})
    assert 4096 == start_of(arabic)
    assert [None] * 4 == [start_of(name) for name in ("", "-1", "12a", "9" * 19 + "9")]


@given(st.lists(st.integers(0, 5000), max_size=6), st.integers(300, 2000))
def test_parts_tile(sizes: list[int], size: int) -> None:
    """Parts tile each file: no byte is left out or comes twice, and order is kept."""
    segments = [
        Segment(Place("/nowhere"), str(number), 10_000 * number, bytes_)
        for number, bytes_ in enumerate(sizes)
    ]
    cut = parts(segments, size)
    for segment in segments:
        of_segment = [part for part in cut if part.segment == segment]
        ends = [0, *(part.end for part in of_segment)]
        assert [part.begin for part in of_segment] == ends[:-1]
        assert segment.size == ends[-1]
        assert all(part.length <= 2 * size for part in of_segment)
    assert cut == sorted(cut, key=lambda part: (part.segment.start, part.begin))
    assert cut == pickle.loads(pickle.dumps(cut))  # noqa: S301 - our own bytes


@pytest.mark.parametrize(
    ("kind", "name", "trouble", "reason"),
    [
        (OddityKind.UNREADABLE, f"{0:020}", Trouble.DENIED, "it says so"),
        (OddityKind.LINK, f"{0:020}", Trouble.OTHER, "a link, which is not followed"),
        (OddityKind.MISSING, f"{0:020}", Trouble.LINK, "it says so, where nothing is"),
        (OddityKind.MISSING, f"{0:020}", Trouble.OTHER, ""),
        (OddityKind.DIRECTORY, f"{0:020}", Trouble.OTHER, "a directory in place of a file"),
        (OddityKind.DIRECTORY, "lost+found", Trouble.OTHER, ""),
        (OddityKind.HOLE, f"{0:020}", Trouble.OTHER, ""),
    ],
)
def test_what_cannot_be_read(kind: OddityKind, name: str, trouble: Trouble, reason: str) -> None:
    """Of the oddities of a directory, some mean that data was not read, and say why."""
    error = error_of(Oddity(kind, f"commitlog/{name}", actual="it says so", trouble=trouble))
    assert reason == (error.reason if error else "")
