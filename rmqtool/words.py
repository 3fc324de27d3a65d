"""What is said in words, wherever it is said."""

from __future__ import annotations


def counted(count: int, one: str, several: str = "") -> str:
    """Give a number of things: `1 row`, `2 rows`, `2 entries`."""
    return f"{count} {one if count == 1 else several or one + 's'}"
