"""Who waits for the compiler is told so, once."""

from __future__ import annotations

from rmqtool.machine import announce


def test_once() -> None:
    """The listener is called by the first kernel that is compiled, and by no other."""
    told: list[str] = []
    announce.listen(lambda: told.append("compiling"))
    announce.compiling()
    announce.compiling()
    assert ["compiling"] == told


def test_nobody() -> None:
    """A library has nobody to tell."""
    announce.compiling()
