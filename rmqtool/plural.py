"""What is said in words, wherever it is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

NEAREST: Final = 3


def counted(count: int, singular: str, several: str = "") -> str:
    """Give a number of things: `1 row`, `2 rows`, `2,000 entries`."""
    return f"{count:,} {singular if count == 1 else several or singular + 's'}"


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """Give the names that are most like a word, the nearest first; upper case is as lower case."""
    from difflib import get_close_matches  # 5 ms: only who mistypes pays for it

    names = {name.casefold(): name for name in known}
    return [names[match] for match in get_close_matches(word.casefold(), names, NEAREST)]


def meant(word: str, known: Iterable[str]) -> str:
    """Say what may be meant by a name that does not exist: the nearest ones, else all there are."""
    names = list(known)
    if near := nearest(word, names):
        return f"nearest: {' '.join(near)}"
    return f"there are: {' '.join(names)}"
