"""A signal gets through, even where its exception is swallowed, and clean-up is left in peace."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from rmqtool.cli import signals
from rmqtool.cli.signals import Terminated, stoppable, whole_chunks


@pytest.fixture
def hears_hangup() -> Iterator[None]:
    """Let SIGHUP end the process, even where `nohup` has started the tests."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hears_hangup")
@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (signal.SIGINT, KeyboardInterrupt),
        (signal.SIGTERM, Terminated),
        (signal.SIGHUP, Terminated),
    ],
)
def test_swallowed(number: signal.Signals, kind: type[BaseException]) -> None:
    """An exception that a C library's callback swallows comes again."""
    swallowed: list[BaseException] = []
    with pytest.raises(kind):
        swallow(number, swallowed)
    assert [kind] == [type(error) for error in swallowed]


def swallow(number: signal.Signals, swallowed: list[BaseException]) -> None:
    """Do what the loader of compiled kernels does to an exception."""
    with stoppable():
        try:
            os.kill(os.getpid(), number)
            time.sleep(5)
        except (KeyboardInterrupt, Terminated) as error:
            swallowed.append(error)
        time.sleep(30)


def test_clean_up_is_not_interrupted() -> None:
    """While an exception of ours is on its way, no second one disturbs what runs."""
    done: list[str] = []
    with pytest.raises(Terminated):
        clean_up(done)
    assert ["cleaned up"] == done


def clean_up(done: list[str]) -> None:
    """Take longer to clean up than it takes until the exception would come again."""
    with stoppable():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        finally:
            until = time.monotonic() + 0.7
            while time.monotonic() < until:
                pass
            done.append("cleaned up")


def test_handlers_are_put_back() -> None:
    """Whoever calls rmqtool as a library keeps his own handlers."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with stoppable():
        pass
    assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


def test_nohup() -> None:
    """Who was started by `nohup` goes on when its terminal is closed."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stoppable():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_rows_are_not_cut_off() -> None:
    """What is being written is written to its end; then the signal is heard."""
    written: list[int] = []
    with pytest.raises(Terminated):
        write(written)
    assert [0, 1] == written


def write(written: list[int]) -> None:
    """Write chunks; somebody says stop in the middle of the second one."""
    with stoppable():
        for chunk in whole_chunks(iter(range(4))):
            if chunk == 1:
                os.kill(os.getpid(), signal.SIGTERM)
                _work(0.4)  # the alarm comes meanwhile, too
            written.append(chunk)


def test_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of a pipe who takes nothing does not keep the process for ever."""
    monkeypatch.setattr(signals, "WRITING_SECONDS", 0.1)
    begin = time.monotonic()
    with pytest.raises(Terminated):
        _fill_a_pipe()
    assert time.monotonic() - begin < 20


def _fill_a_pipe() -> None:
    reader, writer = os.pipe()
    try:
        with stoppable():
            for _ in whole_chunks(_one()):
                os.kill(os.getpid(), signal.SIGTERM)
                os.write(writer, bytes(1 << 20))
    finally:
        os.close(reader)
        os.close(writer)


def _one() -> Iterator[bool]:
    yield True


def _work(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass
