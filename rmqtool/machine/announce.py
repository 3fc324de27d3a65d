"""What whoever waits is told of compiling, and how long compiling took."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COMPILING: Final = "compiling native code for this machine; it is kept for later runs"

_listeners: list[Callable[[str], None]] = []
_announced: set[str] = set()
_spent = [0.0]


def listen(listener: Callable[[str], None]) -> None:
    """Have a function called with each sentence that there is to say, and no other one."""
    _listeners[:] = [listener]


def forget() -> None:
    """Have no function called any more; what was said is new again."""
    _listeners.clear()
    _announced.clear()


def say(sentence: str) -> None:
    """Say a sentence, once in this process."""
    if sentence in _announced:
        return
    _announced.add(sentence)
    for listener in _listeners:
        listener(sentence)


@contextmanager
def compiling() -> Iterator[None]:
    """Say that native code is compiled, and count the time until that is done."""
    say(COMPILING)
    begin = time.monotonic()
    try:
        yield
    finally:
        _spent[0] += time.monotonic() - begin


def seconds() -> float:
    """Give the seconds that this process has waited for the compiler so far."""
    return _spent[0]
