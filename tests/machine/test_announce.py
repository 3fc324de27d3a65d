"""Who waits for the compiler is told so, once, and the wait is counted."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from rmqtool.machine import announce


@pytest.fixture(autouse=True)
def _as_new() -> Iterator[None]:
    """Let each test be the first one, and no later test hear of compiling."""
    announce.forget()
    yield
    announce.forget()
    announce.say(announce.COMPILING)


def test_once() -> None:
    """The first kernel that is compiled says so, and no other one."""
    told: list[str] = []
    announce.listen(told.append)
    for _ in range(2):
        with announce.compiling():
            pass
    assert [announce.COMPILING] == told


def test_nobody() -> None:
    """A library has nobody to tell."""
    with announce.compiling():
        pass


def test_seconds() -> None:
    """What was spent on compiling adds up, also where it failed."""
    before, begin = announce.seconds(), time.monotonic()
    with pytest.raises(ValueError, match="sleep length"), announce.compiling():
        fail_slowly()
    assert 0.05 <= announce.seconds() - before <= time.monotonic() - begin


def fail_slowly() -> None:
    """Fail after a while."""
    time.sleep(0.05)
    time.sleep(-1)
