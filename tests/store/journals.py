"""Journals as tests change them: lines with new checksums, and journals of format 1."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

SEAL = ("line_bytes", "crc32")


def sealed(line: dict[str, Any]) -> str:
    """Give a line with its length and CRC-32; they are those of the line without them."""
    text = json.dumps({name: value for name, value in line.items() if name not in SEAL})
    return f'{text[:-1]}, "line_bytes": {len(text)}, "crc32": "{zlib.crc32(text.encode()):08x}"}}'


def resealed(text: str) -> str:
    """Give a journal that was changed with the checksums that it then must have."""
    return "".join(f"{sealed(json.loads(line))}\n" for line in text.splitlines())


def to_format_1(journal: Path) -> None:
    """Make of a journal what an earlier version would have written; it stays the same file."""
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    sides: dict[str, Any] = {}
    for line in lines:
        for name in SEAL:
            del line[name]
        if line.get("state") == "prepared":
            sides = {name: line.pop(name) for name in ("inodes", "fingerprints", "directories")}
        if line.get("state") == "committed":
            line.update(sides)
    lines[0]["journal"] = 1
    journal.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
