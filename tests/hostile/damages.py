"""What a stranger does to the files of a store, by chance."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

Thing = TypeVar("Thing")
MOST_DAMAGES: Final = 6


def damage_some(top: Path, chance: np.random.Generator) -> None:
    """Damage some files of a store, each in one of several ways."""
    files = sorted(path for path in top.rglob("*") if path.is_file())
    for _ in range(_below(chance, MOST_DAMAGES) + 1):
        path = one_of(chance, files)
        if path.is_file() and not path.is_symlink():
            one_of(chance, DAMAGES)(path, chance)


def one_of(chance: np.random.Generator, things: Sequence[Thing]) -> Thing:
    """Take one, each as likely."""
    return things[_below(chance, len(things))]


def _below(chance: np.random.Generator, end: int) -> int:
    return int(chance.integers(end))


def _flip(path: Path, chance: np.random.Generator) -> None:
    raw = _used(path)
    for _ in range(min(_below(chance, 40) + 1, len(raw))):
        raw[_below(chance, len(raw))] ^= 1 << _below(chance, 8)
    _write(path, raw)


def _numbers(path: Path, chance: np.random.Generator) -> None:
    """Put numbers at the ends of their range where numbers may be."""
    raw = _used(path)
    for _ in range(_below(chance, 10) + 1):
        at = _below(chance, max(len(raw) // 4, 1)) * 4
        extreme = one_of(chance, [0, 1, -1, 2**31 - 1, -(2**31), 2**30, 4096])
        raw[at : at + 4] = extreme.to_bytes(4, "big", signed=True)
    _write(path, raw)


def _zeros(path: Path, chance: np.random.Generator) -> None:
    raw = _used(path)
    at = _below(chance, len(raw) or 1)
    length = one_of(chance, [1, 20, 512, 4096])
    raw[at : at + length] = bytes(len(raw[at : at + length]))
    _write(path, raw)


def _cut(path: Path, chance: np.random.Generator) -> None:
    os.truncate(path, _below(chance, path.stat().st_size + 1))


def _extend(path: Path, chance: np.random.Generator) -> None:
    os.truncate(path, path.stat().st_size + one_of(chance, [1, 4096, 1 << 30, 1 << 40]))


def _rename(path: Path, chance: np.random.Generator) -> None:
    number = one_of(chance, [0, 1, 2**63 - 1, _below(chance, 2**40), 4096 * _below(chance, 99)])
    target = path.with_name(f"{number:020}")
    if not target.exists():
        path.rename(target)


def _text(path: Path, chance: np.random.Generator) -> None:
    """Put what parsers of JSON and of properties choke on in the place of a text."""
    deep = b"[" * 100_000
    texts = [
        b"",
        b"{",
        deep,
        b'{"a":' * 50_000,
        b"\xff\xfe\0",
        b'{"x":1e999999}',
        b"{" + b"9" * 5000,
    ]
    if path.stat().st_size < 1 << 16:
        raw = path.read_bytes()
        cut = _below(chance, len(raw) + 1)
        path.write_bytes(one_of(chance, [*texts, raw[:cut] + deep + raw[cut:]]))


def _replace(path: Path, chance: np.random.Generator) -> None:
    path.unlink()
    kind = one_of(chance, ["fifo", "directory", "nowhere", "file", "directory out"])
    outside = next(above / "outside" for above in path.parents if (above / "outside").is_dir())
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "nowhere":
        path.symlink_to("nowhere")
    else:
        path.symlink_to(outside / ("file" if kind == "file" else "directory"))


def _used(path: Path) -> bytearray:
    """Read the part of a file in which something lies, and a bit more."""
    with path.open("rb") as file:
        raw = file.read(1 << 26)
    return bytearray(raw[: len(raw.rstrip(b"\0")) + 64])


def _write(path: Path, raw: bytes | bytearray) -> None:
    with path.open("r+b") as file:
        file.write(raw)


DAMAGES: Final[tuple[Callable[[Path, np.random.Generator], None], ...]] = (
    *(_flip, _flip, _numbers, _numbers, _zeros, _text, _cut, _extend, _rename, _replace),
)
OF_ARCHIVES: Final = (_flip, _numbers, _zeros, _cut, _extend)
OF_EXTRACTS: Final = (_flip, _flip, _numbers, _zeros, _text, _cut)
