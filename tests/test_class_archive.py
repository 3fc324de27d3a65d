"""Archives of Java classes: made once, by one process, and only read where they are there."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from tests.class_archive import WRITES, archive, make, reading, writing


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a Java that is none, first on the path; archives are kept below the same directory."""
    program = tmp_path / "jvm" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_bytes(b"")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setenv("RMQTOOL_CACHE", str(tmp_path / "cache"))
    return program


def test_name(java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another Java, jar or length of one is another archive; no Java is none."""
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"1")
    names = [archive("broker", [jar])]
    jar.write_bytes(b"12")
    names += [archive("broker", [jar]), archive("broker", [jar, java])]
    (tmp_path / "jvm" / "release").write_text("JAVA_VERSION=21", encoding="utf-8")
    names.append(archive("broker", [jar]))
    assert len({*names}) == len(names) == 4
    assert all(name is not None and name.is_relative_to(tmp_path / "cache") for name in names)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert archive("broker", [jar]) is None


def test_made_once(tmp_path: Path) -> None:
    """What is there is read and not made again; a run that wrote nothing leaves nothing."""
    path = tmp_path / "archives" / "broker.jsa"
    assert () == reading(path) == reading(None)
    make(path, lambda _new, _scratch: None)
    assert not path.exists()
    runs = []

    def run(new: Path, scratch: Path) -> None:
        runs.append(scratch)
        assert scratch.is_dir()
        new.write_bytes(b"classes")

    for _ in range(2):
        make(path, run)
    assert b"classes" == path.read_bytes()
    assert 1 == len(runs)
    assert not runs[0].exists()
    assert f"-XX:SharedArchiveFile={path}" in reading(path)
    assert f"{WRITES}{path}" in writing(path)


def test_made_by_another(tmp_path: Path) -> None:
    """Who finds another process at it goes on without."""
    path = tmp_path / "broker.jsa"
    lock = os.open(path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        make(path, lambda _new, _scratch: pytest.fail("a second one is made"))
    finally:
        os.close(lock)
    assert not path.exists()
