"""Sizes and ranges as people type them."""

from __future__ import annotations

import enum
import re
from typing import Final

from rmqtool.errors import UsageError

_NUMBER: Final = re.compile(r"(0x[0-9a-f]+|[0-9]+)\s*((?:ki|mi|gi|ti)?b?|[kmgt]b)", re.IGNORECASE)
_UNITS: Final = {
    "": 1,
    "ki": 1 << 10,
    "mi": 1 << 20,
    "gi": 1 << 30,
    "ti": 1 << 40,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
}
_LARGEST: Final = 2**63 - 1


class Boundary(enum.StrEnum):
    """Which message a time asks for."""

    LOWER = "lower"  # first one stored at or after
    UPPER = "upper"  # last one stored at or before


def size(option: str, text: str) -> int:
    """Read `4096`, `4KiB`, `4KB` (4,000 bytes) or `0x1000`.

    Raises:
        UsageError: it is not of these.
    """
    match = _NUMBER.fullmatch(text.strip())
    # In hex digits a B is a digit, and a unit cannot follow.
    if match is None:
        raise UsageError(option=option, reason=f"{text!r} is not a size; 4096, 4KiB and 0x1000 are")
    number = int(match.group(1), 0 if match.group(1).lower().startswith("0x") else 10)
    number *= _UNITS[match.group(2).lower().removesuffix("b")]
    if number > _LARGEST:
        raise UsageError(option=option, reason=f"{text} does not fit 64 bits")
    return number


def number_range(option: str, text: str | None) -> tuple[int | None, int | None]:
    """Read `A:B`, half open; either may be left out. Raises UsageError: it is no range."""
    if text is None:
        return None, None
    start, separator, end = text.partition(":")
    if not separator:
        raise UsageError(option=option, reason=f"{text!r} is not a range A:B")
    return (size(option, start) if start else None, size(option, end) if end else None)
