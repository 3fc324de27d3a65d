"""Archives of loaded Java classes: a JVM that maps one starts with half of the CPU.

Java itself makes them (`-XX:ArchiveClassesAtExit`) and ignores one of another class path. They are
kept beside the jars of brokers, by Java and class path; who finds none starts as ever.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.kept import cache_directory

WRITES = "-XX:ArchiveClassesAtExit="
# Whatever Java has against an archive, tests of what is printed are not to see it.
_SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def archive(name: str, jars: Iterable[Path]) -> Path | None:
    """Give the path of an archive, which need not be there; None without Java.

    Args:
        name: what the archive is of.
        jars: the class path.
    """
    java = shutil.which("java")
    if java is None:
        return None
    release = Path(java).resolve().parents[1] / "release"
    known = release.read_bytes() if release.is_file() else b""
    paths = sorted((str(path), path.stat().st_size) for path in jars)
    digest = hashlib.sha256(known + repr((java, paths)).encode()).hexdigest()
    return cache_directory() / "archives" / f"{name}-{digest[:16]}.jsa"


def reading(path: Path | None) -> tuple[str, ...]:
    """Give options of Java that map an archive; none where it is not there."""
    return () if path is None or not path.is_file() else (f"-XX:SharedArchiveFile={path}", *_SILENT)


def writing(path: Path) -> tuple[str, ...]:
    """Give options of Java that write an archive at an orderly exit."""
    return (f"{WRITES}{path}", *_SILENT)


def make(path: Path, run: Callable[[Path, Path], object]) -> None:
    """Make an archive, unless it is there or another process is about to make it.

    Args:
        path: of the archive.
        run: starts Java, `writing` to the first path, and waits until it has ended; the second is
            a directory of its own.
    """
    if path.is_file():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        with tempfile.TemporaryDirectory(prefix=".", dir=path.parent) as work:
            new = Path(work, path.name)
            run(new, Path(work))
            if new.is_file():
                new.replace(path)
