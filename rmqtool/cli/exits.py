"""How a command ends, and what it says on stderr meanwhile.

| exit | meaning |
|---|---|
| 0 | done; found, sound, same |
| 1 | done; the answer is no: nothing found, damage found, stores differ |
| 2 | not done: usage, unreadable, unsupported, locked |
| 3 | done in part: some input could not be read |
| 70 | a bug in rmqtool |
| 130 141 143 | interrupted, output closed, terminated |
"""

from __future__ import annotations

import signal
import sys
from typing import Final

DONE: Final = 0
NO: Final = 1
NOT_DONE: Final = 2
IN_PART: Final = 3
BUG: Final = 70
INTERRUPTED: Final = 128 + signal.SIGINT
TERMINATED: Final = 128 + signal.SIGTERM


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
