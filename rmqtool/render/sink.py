"""Where rendered bytes go, and what happens when nobody takes them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final, Protocol

from rmqtool.errors import OutputClosed, RepairError, Trouble

if TYPE_CHECKING:
    from collections.abc import Sequence


_LONG: Final = 1 << 20  # characters


class Writable(Protocol):
    """A binary stream."""

    def write(self, data: bytes | memoryview, /) -> int | None:
        """Take bytes, and say how many; None is all."""

    def flush(self) -> object:
        """Hand on what was taken."""


class Sink:
    """A binary stream whose failures are rmqtool's own errors.

    Attributes:
        name: what to call it in an error.
        width: columns of the terminal after it; None when it is not one.
    """

    def __init__(self, stream: Writable, name: str, width: int | None = None) -> None:
        self._stream, self.name, self.width = stream, name, width

    @property
    def is_terminal(self) -> bool:
        """Whether a person is looking."""
        return self.width is not None

    def write(self, data: bytes | memoryview) -> None:
        """Write all of it.

        Raises:
            OutputClosed: the reader went away.
            RepairError: the system refused, for example as a disk is full.
        """
        left = memoryview(data)
        try:
            while left:  # an unbuffered stream takes less when a signal comes meanwhile
                taken = self._stream.write(left)
                left = left[len(left) if taken is None else taken :]
        except OSError as error:
            raise self._failure(error) from error

    def write_lines(self, lines: Sequence[str]) -> None:
        """Write lines of text, each with its end, as UTF-8."""
        if sum(map(len, lines)) > _LONG:  # in memory as few times as can be
            for line in lines:
                self.write(line.encode("utf-8", "backslashreplace"))
                self.write(b"\n")
        elif lines:
            self.write("".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace"))

    def flush(self) -> None:
        """Hand on what was written, so that a slow reader sees each batch when it is there."""
        try:
            self._stream.flush()
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> Exception:
        """Give the error to raise, and keep Python from flushing into the same wall at exit."""
        if sys.stdout is not None and self._stream is sys.stdout.buffer:
            from rmqtool.writing.user_files import nowhere  # in here: it is seldom needed

            os.dup2(nowhere(), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return OutputClosed()
        return RepairError(
            path=self.name, reason=error.strerror or str(error), trouble=Trouble.of(error)
        )


def standard_output() -> Sink:
    """Give the process's own output.

    Raises:
        OutputClosed: it was closed before the start (`>&-`).
    """
    if sys.stdout is None:
        raise OutputClosed
    return Sink(sys.stdout.buffer, "standard output", terminal_width(sys.stdout.fileno()))


def terminal_width(descriptor: int) -> int | None:
    """Give the columns of the terminal behind a file descriptor; None when it is not one.

    `COLUMNS` wins, as everywhere; a terminal that does not know its width has 80 columns.
    """
    if not os.isatty(descriptor):
        return None
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    try:
        return os.get_terminal_size(descriptor).columns or 80
    except OSError:
        return 80
