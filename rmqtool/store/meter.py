"""How many bytes of files are read: what a question takes from a disk or a bucket."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator


class Meter:
    """Counts what one thread reads.

    Attributes:
        bytes: so far.
    """

    def __init__(self) -> None:
        self.bytes = 0


_CHOSEN: Final[ContextVar[Meter | None]] = ContextVar("meter", default=None)


@contextmanager
def metered() -> Iterator[Meter]:
    """Count the bytes that this thread reads of files while the block runs."""
    meter = Meter()
    token = _CHOSEN.set(meter)
    try:
        yield meter
    finally:
        _CHOSEN.reset(token)


def count_read(length: int) -> None:
    """Take note of bytes that were read."""
    meter = _CHOSEN.get()
    if meter is not None:
        meter.bytes += length
