"""Tell who waits that kernels are being compiled: the very first run on a machine takes a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_listeners: list[Callable[[], None]] = []


def listen(listener: Callable[[], None]) -> None:
    """Have a function called, once, when a kernel has to be compiled."""
    _listeners[:] = [listener]


def compiling() -> None:
    """Tell it; who was told once is not told again."""
    while _listeners:
        _listeners.pop()()
