"""Examples of the pages: transcripts of runs over stores that real brokers wrote.

`examples/NAME.txt` holds those of one page. `# ` begins an example and says what it shows; `$ `
is what is typed; what follows is standard output, then `stderr: ` lines, then `exit: `. A test
runs them all, and `--update-golden` writes down what came out.
"""

from __future__ import annotations

import re
import textwrap
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.cli.manual.blocks import Block

CAPTION: Final = "# "
PROMPT: Final = "$ "
ON_STDERR: Final = "stderr: "
EXIT: Final = "exit: "
GOES_ON: Final = " \\"  # as a shell wants it
GLUE: Final = "\0"  # stands for a space that no line may end at
_OPTION_VALUE: Final = re.compile(r"( --?[\w-]+) (?=[^-])")
WIDTH: Final = 72  # what is left of 80 columns beside the indent of a page


def examples(name: str) -> list[Block]:
    """Give the section EXAMPLES of a page; nothing where it has none."""
    from rmqtool.cli.manual.blocks import Section, Text

    file = files("rmqtool.cli").joinpath("examples", f"{name}.txt")
    if not file.is_file():
        return []
    blocks: list[Block] = []
    shown: list[str] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith(CAPTION):
            blocks += _verbatim(shown)
            blocks.append(Text(line.removeprefix(CAPTION)))
            shown = []
        else:
            shown += _as_seen(line)
    return [Section("EXAMPLES"), *blocks, *_verbatim(shown)]


def first_example(name: str) -> tuple[str, str] | None:
    """Give what the first example of a page shows, and what is typed; None without one.

    What other commands made ready for it is not the example.
    """
    file = files("rmqtool.cli").joinpath("examples", f"{name}.txt")
    if not file.is_file():
        return None
    caption = ""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith(PROMPT) and name in line.split():
            return caption, line.removeprefix(PROMPT)
        if line.startswith(CAPTION):
            caption = line.removeprefix(CAPTION)
    return None


def _verbatim(lines: list[str]) -> list[Block]:
    from rmqtool.cli.manual.blocks import Verbatim

    return [Verbatim(tuple(lines))] if lines else []


def _as_seen(line: str) -> Iterator[str]:
    """Give a line of a transcript as a person sees it on a terminal."""
    if line.startswith(PROMPT):
        *first, last = _folded(_OPTION_VALUE.sub(rf"\1{GLUE}", line), WIDTH - len(GOES_ON))
        yield from (f"{line}{GOES_ON}" for line in first)
        yield last
    elif line.startswith(ON_STDERR):
        yield from _folded(line.removeprefix(ON_STDERR), WIDTH)
    elif line.startswith(EXIT):
        if line != f"{EXIT}0":
            yield from (f"{PROMPT}echo $?", line.removeprefix(EXIT))
    else:
        yield line


def _folded(line: str, width: int) -> list[str]:
    lines = textwrap.wrap(
        line, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    return [line.replace(GLUE, " ") for line in lines]
