"""Pack stores as people do, and archives as a stranger may."""

from __future__ import annotations

import gzip
import io
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import zstandard


def as_tar(store: Path, target: Path) -> None:
    """Pack with tar."""
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as tar:
        tar.add(store, "store")


def _packed_tar(store: Path) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        tar.add(store, "./backup/store")
    return raw.getvalue()


def gnu_tar(target: Path, top: Path, *words: str) -> Path:
    """Pack names in a directory with the tar of this machine."""
    command = ["tar", "-cf", str(target), "-C", str(top), *words]
    subprocess.run(command, check=True)  # noqa: S603 - the tests' own words
    return target


def as_tar_gz(store: Path, target: Path) -> None:
    """Pack with tar and gzip."""
    target.write_bytes(gzip.compress(_packed_tar(store), 1))


def as_tar_zst(store: Path, target: Path) -> None:
    """Pack with tar and zstd."""
    target.write_bytes(zstandard.ZstdCompressor(write_checksum=True).compress(_packed_tar(store)))


def as_zip(store: Path, target: Path) -> None:
    """Pack with zip, compressed."""
    _zip(store, target, zipfile.ZIP_DEFLATED)


def as_stored_zip(store: Path, target: Path) -> None:
    """Pack with zip -0."""
    _zip(store, target, zipfile.ZIP_STORED)


def _zip(store: Path, target: Path, method: int) -> None:
    with zipfile.ZipFile(target, "w", method) as packed:
        for path in sorted(store.rglob("*")):
            packed.write(path, f"store/{path.relative_to(store)}")


PACKERS: Final[dict[str, Callable[[Path, Path], None]]] = {
    "s.tar": as_tar,
    "s.tar.gz": as_tar_gz,
    "s.tgz": as_tar_gz,
    "s.tar.zst": as_tar_zst,
    "s.zip": as_zip,
    "stored.ZIP": as_stored_zip,
}


def header(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
    """Give the header of a tar member that tarfile would not write."""
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = size, kind, link
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def block(data: bytes) -> bytes:
    """Give data as a tar has it: in whole blocks."""
    return data + bytes(-len(data) % tarfile.BLOCKSIZE)


END: Final = bytes(2 * tarfile.BLOCKSIZE)
