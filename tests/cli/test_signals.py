"""A signal gets through, even where its exception is swallowed, and clean-up is left in peace."""

from __future__ import annotations

import os
import signal
import time

import pytest

from rmqtool.cli.signals import Terminated, stoppable


@pytest.mark.parametrize(
    ("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)]
)
def test_swallowed(number: signal.Signals, kind: type[BaseException]) -> None:
    """An exception that a C library's callback swallows comes again."""
    swallowed = []
    with pytest.raises(kind), stoppable():
        try:
            os.kill(os.getpid(), number)
            time.sleep(5)
        except kind as error:
            swallowed.append(error)
        time.sleep(30)
        pytest.fail("nothing came")
    assert 1 == len(swallowed)


def test_clean_up_is_not_interrupted() -> None:
    """While an exception of ours is on its way, no second one disturbs what runs."""
    done = []
    with pytest.raises(Terminated), stoppable():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        finally:
            until = time.monotonic() + 0.7
            while time.monotonic() < until:
                pass
            done.append("cleaned up")
    assert ["cleaned up"] == done


def test_handlers_are_put_back() -> None:
    """Whoever calls rmqtool as a library keeps his own handlers."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with stoppable():
        pass
    assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
