"""A page of the manual as data: blocks of text that `roff.py` and `plain.py` write.

Text is plain: whatever has a meaning to roff, or to a terminal, is the writers' affair.
"""

from __future__ import annotations

from dataclasses import dataclass


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
