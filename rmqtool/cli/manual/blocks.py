"""A page of the manual as data: blocks of text that `roff.py` and `plain.py` write.

Text is plain: whatever has a meaning to roff, or to a terminal, is the writers' affair.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

VERBATIM: Final = "    "  # begins a line that stays as it is


@dataclass(frozen=True, slots=True)
class Section:
    """A heading such as DESCRIPTION."""

    title: str


@dataclass(frozen=True, slots=True)
class Subsection:
    """A heading within a section."""

    title: str


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph; lines are filled."""

    text: str


@dataclass(frozen=True, slots=True)
class Term:
    """A term and what is said about it."""

    term: str  # an option, a code, a field
    texts: tuple[str, ...]  # each begins on a line of its own
    is_option: bool = False  # the term is an option with its value, or an argument


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Lines that stay as they are: what a terminal shows."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Synopsis:
    """How a command is called: its name and what follows."""

    command: str
    rest: str


@dataclass(frozen=True, slots=True)
class References:
    """Other pages."""

    pages: tuple[tuple[str, int], ...]  # such as ("rmqtool-info", 1)


Block = Section | Subsection | Text | Term | Verbatim | Synopsis | References


@dataclass(frozen=True, slots=True)
class Page:
    """One page."""

    name: str  # such as `rmqtool-info`
    number: int  # section of the manual: 1 commands, 5 files, 7 everything else
    summary: str  # one sentence for the section NAME
    blocks: tuple[Block, ...]  # all that follows

    @property
    def file_name(self) -> str:
        """Where it lies in `man/`."""
        return f"man{self.number}/{self.name}.{self.number}"


def texts(written: str) -> tuple[Text, ...]:
    """Give the paragraphs of a docstring or of a help text."""
    return tuple(
        Text(" ".join(paragraph.split()))
        for paragraph in written.split("\n\n")
        if paragraph.strip()
    )


def prose(name: str, **made: Iterable[Block]) -> list[Block]:
    """Give what `texts/NAME.txt` says; nothing where there is no such file.

    Between empty lines, `# ` begins a section, `## ` a subsection, and four spaces a line that
    stays as it is; lines after `: ` are said of the term above.

    Args:
        name: of the file.
        made: blocks that stand in the place of a line such as `@options`.
    """
    file = files("rmqtool.cli.manual").joinpath("texts", f"{name}.txt")
    return [*_blocks(file.read_text(encoding="utf-8"), made)] if file.is_file() else []


def _blocks(written: str, made: Mapping[str, Iterable[Block]]) -> Iterator[Block]:
    for is_verbatim, parts in groupby(written.strip("\n").split("\n\n"), _is_verbatim):
        if is_verbatim:
            lines = "\n\n".join(parts).splitlines()
            yield Verbatim(tuple(line.removeprefix(VERBATIM) for line in lines))
            continue
        for part in parts:
            term, is_term, text = part.partition("\n: ")
            if part.startswith("# "):
                yield Section(part.removeprefix("# "))
            elif part.startswith("## "):
                yield Subsection(part.removeprefix("## "))
            elif part.startswith("@"):
                yield from made[part.removeprefix("@")]
            elif is_term:
                yield Term(term, (" ".join(text.split()),))
            else:
                yield from texts(part)


def _is_verbatim(part: str) -> bool:
    return part.startswith(VERBATIM)
