"""How a command ends, and what it says on stderr meanwhile."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Final

from rmqtool.errors import OutputClosed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.errors import StoreError

DONE: Final = 0
NO: Final = 1
NOT_DONE: Final = 2
IN_PART: Final = 3
BUG: Final = 70
INTERRUPTED: Final = 128 + signal.SIGINT
TERMINATED: Final = 128 + signal.SIGTERM
EXIT_STATUS: Final = {
    DONE: "Done: found, sound, the same.",
    NO: "Done, and the answer is no: nothing found, damage found, stores differ.",
    NOT_DONE: "Not done: the command line, or a path that cannot be read, is not supported or is "
    "locked by a running broker.",
    IN_PART: "Done in part: some input could not be read; stderr names it.",
    BUG: "A bug in rmqtool; stderr says where the report was written.",
    INTERRUPTED: "Interrupted.",
    OutputClosed.exit_code: "The reader of the output went away.",
    TERMINATED: "Terminated.",
}


def say(sentence: str) -> None:
    """Tell the person something on stderr, harmless whatever a file name or a topic holds."""
    from rmqtool.render.values import escape

    if sys.stderr is None:
        return
    lines = [f"rmqtool: {escape(line)}" for line in sentence.splitlines()]
    try:
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        sys.stderr.flush()
    except OSError:
        return  # nobody is listening, and the exit code still speaks


def say_unread(unread: Sequence[StoreError]) -> None:
    """Say what could not be read, and what to try, once."""
    for error in unread:
        say(str(error))
    for step in dict.fromkeys(error.next_step for error in unread):
        say(f"try: {step}")
