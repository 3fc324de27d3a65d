"""Machine code is trusted only where a kernel with known answers gave them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rmqtool.machine import announce, cache, compiled, probe
from rmqtool.machine.cache import KernelCode
from rmqtool.machine.compiled import PLAIN, PROBE, kernel


@kernel("int64(int64)")
def thrice(number: int) -> int:
    """Multiply."""
    return 3 * number


@kernel("int64(int64)")
def fourfold(number: int) -> int:
    """Multiply."""
    return 4 * number


@pytest.fixture(autouse=True)
def _forgetful() -> Iterator[None]:
    """Let each test ask the probe anew."""
    compiled._links.cache_clear()  # noqa: SLF001 - a process asks once
    announce.forget()
    yield
    compiled._links.cache_clear()  # noqa: SLF001
    announce.forget()
    announce.say(announce.COMPILING)


def test_right() -> None:
    """The probe as machine code, and as numba runs it by itself, gives the known answers."""
    linked, plain = PROBE.linked(), PROBE.plain()
    assert probe.ANSWERS == probe.answers(lambda *arguments: linked(arguments))
    assert probe.ANSWERS == probe.answers(lambda *arguments: plain(arguments))


def test_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a wrong answer numba runs kernels by itself, nothing is linked, and that is said once.

    Right answers come nevertheless.
    """
    told: list[str] = []
    announce.listen(told.append)
    monkeypatch.setattr(probe, "ANSWERS", (probe.ANSWERS[0], []))
    assert not compiled._links()  # noqa: SLF001 - so that the probe is linked here
    monkeypatch.setattr(compiled.Kernel, "linked", None)
    assert (42, 44) == (thrice(14), fourfold(11))
    assert sorted([PLAIN, announce.COMPILING]) == sorted(told)


def test_probe_is_asked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that passes for the probe, and is other code, is found out before a kernel is run."""
    other = fourfold.compile()  # type: ignore[attr-defined]
    monkeypatch.setattr(cache, "find", lambda *_: KernelCode(other.symbol, other.code))
    assert not compiled._links()  # noqa: SLF001
