"""Many files at once are what they are one by one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from rmqtool.errors import OutputExists, RmqtoolError, WriteFailed
from rmqtool.many_files import kernels
from rmqtool.many_files.files import FEW, FILES, ManyFiles, put
from rmqtool.writing.output import OutputDirectory
from rmqtool.writing.output_tree import OutputTree, Ownership
from tests.evidence import Trace, snapshot

LENGTH: Final = 100_000
LEAD: Final = b"\0\1\2\3\4\5\6\7\x08\t" * 2
NAME: Final = f"{LENGTH:020}"
COUNT: Final = 3 * FILES + 7
MODES: Final = (0o022, 0o077)
OWNER: Final = Ownership(65_534, 65_533, 0o750, 0o604)  # who is not root gives the modes alone
OPEN: Final = Path("/proc/self/fd")


def _files(count: int = COUNT, above: tuple[str, ...] = ("a", "b", "c/d")) -> ManyFiles:
    """Give files of all kinds: with and without data, with much, little and nothing before it."""
    dice = np.random.default_rng(count)
    sizes = dice.integers(0, 40, count) * 20
    leads = np.where(np.arange(count) % 7, 0, dice.integers(0, 50, count))
    leads[count // 2] = LENGTH // len(LEAD) - 40  # more than is written at once
    sizes[1] = 0
    return ManyFiles(
        above,
        np.sort(dice.integers(0, len(above), count)),
        [f"{number}/{NAME}" for number in range(count)],
        LENGTH,
        LEAD,
        leads,
        dice.integers(0, 256, int(sizes.sum()), dtype=np.uint8),
        np.append(0, np.cumsum(sizes)),
        1_700_000_000_000 + np.arange(count) * 1001,
    )


def _one_by_one(tree: OutputTree, files: ManyFiles) -> None:
    for number, (path, mtime_ms) in enumerate(files.names):
        lead = files.lead * int(files.leads[number])
        data = files.data[files.ends[number] : files.ends[number + 1]]
        pieces = [(0, lead), (len(lead), data.tobytes())]
        tree.file(*path.split("/"), size=files.length, pieces=pieces, mtime_ms=mtime_ms)


def _files_of(path: Path) -> dict[str, Trace]:
    """Give what there is of files; directories have the time of the run."""
    return {name: trace for name, trace in snapshot(path).items() if trace.digest}


def _modes(path: Path) -> dict[str, tuple[int, ...]]:
    """Give owners and modes of all below a directory, and the blocks that hold something."""
    found = {entry: entry.stat() for entry in path.rglob("*")}
    return {
        str(entry.relative_to(path)): (
            facts.st_uid,
            facts.st_gid,
            facts.st_mode,
            facts.st_blocks * entry.is_file(),
        )
        for entry, facts in found.items()
    }


@pytest.mark.parametrize("owner", [None, OWNER], ids=["of the process", "another"])
@pytest.mark.parametrize("mask", MODES)
def test_same_as_one_by_one(mask: int, owner: Ownership | None, tmp_path: Path) -> None:
    """Names, bytes, lengths, holes, owners, modes and mtimes are the same, below a subtree, too."""
    files, before = _files(), os.umask(mask)
    try:
        with OutputDirectory(tmp_path / "many") as output:
            tree = output.subtree("queues", owner=owner)
            assert put(tree, files)
            named = output.contents()
        with OutputDirectory(tmp_path / "each") as output:
            _one_by_one(output.subtree("queues", owner=owner), files)
            expected = output.contents()
    finally:
        os.umask(before)
    assert named[1] == expected[1]
    assert {name: file.mtime_ns for name, file in named[0].items()} == {
        name: file.mtime_ns for name, file in expected[0].items()
    }
    assert _files_of(tmp_path / "each") == _files_of(tmp_path / "many")
    assert _modes(tmp_path / "each") == _modes(tmp_path / "many")


def test_not_possible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few are not worth it, and a system without these functions makes none: nothing is done."""
    with OutputDirectory(tmp_path / "new") as output:
        assert not put(output, _files(FEW - 1))
        monkeypatch.setattr(kernels, "calls", lambda: None)
        assert not put(output, _files())
    assert not [*(tmp_path / "new").iterdir()]


def _write(path: Path, files: ManyFiles, *, is_taken: bool) -> None:
    with OutputDirectory(path) as output:
        if is_taken:
            taken = [*files.names][COUNT // 3][0]
            output.file(*taken.split("/"), size=1)
        put(output, files)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({}, OutputExists, "was written already"),
        ({"paths": [f"{'x' * 300}/{NAME}"] * COUNT}, WriteFailed, "name"),
        ({"length": -1}, WriteFailed, "Invalid"),
    ],
    ids=["taken", "long name", "bad length"],
)
def test_refused(
    change: dict[str, Any], kind: type[RmqtoolError], words: str, tmp_path: Path
) -> None:
    """What the system refuses is said with its path, and nothing appears."""
    files = _files()._replace(**change)
    open_before = len([*OPEN.iterdir()])
    with pytest.raises(kind, match=words) as caught:
        _write(tmp_path / "new", files, is_taken=not change)
    assert str(tmp_path) in str(caught.value)
    assert not [*tmp_path.iterdir()]
    assert open_before == len([*OPEN.iterdir()])
