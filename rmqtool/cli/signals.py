"""Signals as exceptions that get through, so that staged files are cleaned up on the way out."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

AGAIN_SECONDS: Final = 0.25


class Terminated(BaseException):
    """Somebody asked the process to end."""


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGINT, Terminated on SIGTERM and SIGHUP while the block runs.

    Who is told by `nohup` to outlive its terminal does.

    What a handler raises is swallowed where C code calls Python: in a callback of the kernels'
    loader, in a finaliser. So it is raised again until somebody handles it.
    """
    stopper = _Stopper()
    before = {
        number: signal.signal(number, stopper.stop)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN
    }
    hook, sys.unraisablehook = sys.unraisablehook, _hide_ours
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


def _hide_ours(swallowed: sys.UnraisableHookArgs) -> None:
    """Say nothing of our own exception where it was swallowed; it comes again."""
    if not isinstance(swallowed.exc_value, KeyboardInterrupt | Terminated):
        sys.__unraisablehook__(swallowed)


def has_ended() -> None:
    """Say, where such an exception is handled, that this was a good end: it is not raised again."""
    signal.setitimer(signal.ITIMER_REAL, 0)


class _Stopper:
    """The handler of all these signals; the alarm is its own."""

    def __init__(self) -> None:
        self._kind: type[BaseException] | None = None

    def stop(self, number: int, _frame: FrameType | None) -> None:
        """Raise what the signal asks for, unless that is on its way already."""
        if number == signal.SIGINT:
            self._kind = KeyboardInterrupt
        elif number in {signal.SIGTERM, signal.SIGHUP}:
            self._kind = Terminated
        if self._kind is None:
            return
        signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
        if number != signal.SIGALRM or not _is_handled():
            raise self._kind


def _is_handled() -> bool:
    """Say whether a block of clean-up runs because of a signal."""
    error = sys.exc_info()[1]
    while error is not None:
        if isinstance(error, KeyboardInterrupt | Terminated):
            return True
        error = error.__context__
    return False
