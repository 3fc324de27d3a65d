"""What the tests say that some work has allocated: its own, all of it, and nothing else."""

from __future__ import annotations

import threading

import pytest

from tests.memory import peak


def test_peak() -> None:
    """The most that was held at a time counts, not all that was held one after another."""
    assert 3 << 20 <= peak(lambda: [bytes(1 << 20) for _ in range(3)]) < 4 << 20
    assert 1 << 20 <= peak(lambda: [len(bytes(1 << 20)) for _ in range(3)]) < 2 << 20


def test_others() -> None:
    """What another thread of the same process allocates meanwhile does not count."""
    is_over = threading.Event()

    def allocate() -> None:
        while not is_over.is_set():
            bytes(8 << 20)

    thread = threading.Thread(target=allocate)
    thread.start()
    try:
        assert peak(lambda: sum(range(100_000))) < 1 << 20
    finally:
        is_over.set()
        thread.join()


def test_failure(capfd: pytest.CaptureFixture[str]) -> None:
    """Work that fails is a failure, and is told."""
    with pytest.raises(AssertionError):
        peak(lambda: 1 // 0)
    assert "ZeroDivisionError" in capfd.readouterr().err
