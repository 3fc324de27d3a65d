"""Images of file systems: deleted, formatted and partly overwritten, and what is still there."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.carve.images import carve, cut, plain_search
from tests.stores import fixture_store

STORE = "rocketmq-5.3.3-traffic"
EXT4 = pytest.mark.skipif(not shutil.which("debugfs"), reason="e2fsprogs is not installed")
XFS = pytest.mark.skipif(not shutil.which("mkfs.xfs"), reason="xfsprogs is not installed")


def run(*words: object) -> None:
    """Run a tool of a file system."""
    subprocess.run([*map(str, words)], check=True, capture_output=True)  # noqa: S603 - fixed words


def segments(tmp_path: Path) -> list[Path]:
    """Give the commitlog files of a broker."""
    return sorted((fixture_store(STORE, tmp_path) / "commitlog").iterdir())


def judge(tmp_path: Path, image: Path, stored: set[bytes], ends: int = 2) -> int:
    """Hold what is carved against a plain search; give the number of whole records.

    The last record before each of `ends` places may be left out: another file may begin in it.
    """
    found = [one.raw for one in plain_search(image.read_bytes())]
    done, raw = carve(tmp_path, image)
    written = cut(raw)
    assert len(found) == len(written) + done.lone_left
    assert set(written) <= set(found)
    assert set(written) <= stored, "no invented message"
    assert done.lone_left <= ends
    assert sorted(set(found)) == sorted(cut(carve(tmp_path, image, lone=True)[1]))
    print(  # noqa: T201 - `pytest -s` shows the numbers
        f"{image.name}: {len(stored)} records stored, {len(set(found))} whole on the image, "
        f"{len(written)} carved, {done.lone_left} in doubt, "
        f"{done.partial} partial, {done.damaged} damaged"
    )
    return len(written)


@EXT4
def test_ext4(tmp_path: Path) -> None:
    """Segments that were removed come out whole; where they are overwritten, the rest does."""
    files = segments(tmp_path)
    stored = {one.raw for file in files for one in plain_search(file.read_bytes())}
    image = tmp_path / "ext4"
    with image.open("wb") as file:
        file.truncate(4 << 20)
    run("mke2fs", "-q", "-t", "ext4", "-d", files[0].parent, image)
    for one in files[1:]:
        run("debugfs", "-w", "-R", f"rm /{one.name}", image)
    assert len(stored) == judge(tmp_path, image, stored)
    dice = np.random.default_rng(1)
    for number, content in enumerate([b"a line of a log\n" * 700, dice.bytes(9000), bytes(5000)]):
        new = tmp_path / f"new{number}"
        new.write_bytes(content)
        run("debugfs", "-w", "-R", f"write {new} new{number}", image)
    left = judge(tmp_path, image, stored, 4)
    assert len(stored) - 200 < left < len(stored) - 20


@XFS
def test_xfs(tmp_path: Path) -> None:
    """A disk that was formatted anew still holds the records that nothing was written over."""
    files = segments(tmp_path)
    stored = {one.raw for file in files for one in plain_search(file.read_bytes())}
    lines = ["/dev/null", "0 0", "d--755 0 0"]
    lines += [f"{file.name} ---644 0 0 {file}" for file in files]
    (tmp_path / "proto").write_text("\n".join([*lines, "$", "$", ""]))
    image = tmp_path / "xfs"
    with image.open("wb") as file:
        file.truncate(32 << 20)
    run("mkfs.xfs", "--unsupported", "-q", "-p", tmp_path / "proto", image)
    run("mkfs.xfs", "--unsupported", "-q", "-f", image)
    formatted = judge(tmp_path, image, stored)
    assert len(stored) - 150 < formatted, "mkfs writes over some of them"
    raw, dice = bytearray(image.read_bytes()), np.random.default_rng(2)
    for one in plain_search(bytes(raw))[::150]:
        at = one.position // 4096 * 4096
        raw[at : at + 4096] = dice.bytes(4096) if at % 3 else bytes(4096)
    image.write_bytes(raw)
    left = judge(tmp_path, image, stored, 12)
    assert formatted - 200 < left < formatted - 50


@EXT4
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may attach a device")
def test_device(tmp_path: Path) -> None:
    """A block device that is named gives what its image gives."""
    image = tmp_path / "disk"
    image.write_bytes(b"".join(segment.read_bytes() for segment in segments(tmp_path)))
    words = ["losetup", "--find", "--show", "--read-only", str(image)]
    found = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    if found.returncode:
        pytest.skip(f"no loop device: {found.stderr}")
    device = Path(found.stdout.strip())
    try:
        done, raw = carve(tmp_path, device)
    finally:
        run("losetup", "--detach", device)
    assert carve(tmp_path, image)[1] == raw
    assert done.is_whole
