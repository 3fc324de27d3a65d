"""Signals as exceptions that get through, so that staged files are cleaned up on the way out."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType

AGAIN_SECONDS: Final = 0.25
WRITING_SECONDS: Final = 5.0  # that a slow reader of a pipe has for the rows of one chunk

_Chunk = TypeVar("_Chunk")


class Terminated(BaseException):
    """Somebody asked the process to end."""


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGINT, Terminated on SIGTERM and SIGHUP while the block runs.

    Who is told by `nohup` to outlive its terminal does.

    What a handler raises is swallowed where C code calls Python: in a callback of the kernels'
    loader, in a finaliser. So it is raised again until somebody handles it.
    """
    _STOPPER.begin()
    before = {
        number: signal.signal(number, _STOPPER.stop)
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


def goes_on() -> None:
    """Say, where such an exception is handled, that the run goes on as if none had come."""
    has_ended()
    _STOPPER.begin()


def whole_chunks(chunks: Iterable[_Chunk]) -> Iterator[_Chunk]:
    """Give chunks of rows one by one; a signal does not cut the rows of one off.

    It is raised when the next chunk is asked for, or after `WRITING_SECONDS`.
    """
    for chunk in chunks:
        _STOPPER.waits_until = monotonic() + WRITING_SECONDS
        try:
            yield chunk
        finally:
            _STOPPER.waits_until = 0.0
        _STOPPER.stop(signal.SIGALRM, None)


class _Stopper:
    """The handler of all these signals; the alarm is its own.

    Attributes:
        waits_until: what was asked for is not done before; by the monotonic clock.
    """

    def __init__(self) -> None:
        self._kind: type[BaseException] | None = None
        self.waits_until = 0.0

    def begin(self) -> None:
        """Forget what was asked for before."""
        self._kind, self.waits_until = None, 0.0

    def stop(self, number: int, _frame: FrameType | None) -> None:
        """Raise what the signal asks for, unless that is on its way already."""
        if number == signal.SIGINT:
            self._kind = KeyboardInterrupt
        elif number in {signal.SIGTERM, signal.SIGHUP}:
            self._kind = Terminated
        if self._kind is None:
            return
        signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
        if monotonic() < self.waits_until:
            return
        if number != signal.SIGALRM or not _is_handled():
            raise self._kind


_STOPPER: Final = _Stopper()


def _is_handled() -> bool:
    """Say whether a block of clean-up runs because of a signal."""
    error = sys.exc_info()[1]
    while error is not None:
        if isinstance(error, KeyboardInterrupt | Terminated):
            return True
        error = error.__context__
    return False
