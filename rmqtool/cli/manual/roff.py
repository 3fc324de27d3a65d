r"""Pages as roff, in man macros that groff and mandoc both know.

No tbl: a page is clean without a preprocessor, and reads on 60 columns as on 200.
Source: groff_man(7); `\-` is the ASCII minus, which a reader can search for and paste.
"""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Final

from rmqtool import __version__
from rmqtool.cli.manual.blocks import (
    References,
    Section,
    Subsection,
    Synopsis,
    Term,
    Text,
    Verbatim,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.cli.manual.blocks import Block, Page

RELEASED: Final = {"1.0.0": "2026-11-27"}  # the date that pages bear: never the clock's
WIDTH: Final = 78  # of the source: a change of a sentence is a diff of a line or two
_SPECIAL: Final = {
    "\\": r"\e",
    "-": r"\-",
    '"': r"\(dq",
    "'": r"\(aq",
    "`": r"\(ga",
    "^": r"\(ha",
    "~": r"\(ti",
}
_SENTENCE_END: Final = re.compile(r"(?<=[.?!]) (?=[A-Z])")


def roff(page: Page) -> str:
    """Give the whole page, ending in a line feed."""
    return "".join(f"{line}\n" for line in _lines(page))


def _lines(page: Page) -> Iterator[str]:
    name = _escape(page.name)
    yield r".\" Written by python -m rmqtool.cli.manual: change what it reads, not this page."
    yield ".nr HY 0"  # groff's macros turn hyphens on again in each paragraph, unless told so here
    yield (
        f'.TH "{name.upper()}" {page.number} {_escape(RELEASED[__version__])} '
        f'"rmqtool {_escape(__version__)}" "rmqtool manual"'
    )
    yield ".nh"  # a field name that is cut in two cannot be searched for
    yield ".ad l"
    yield ".SH NAME"
    yield rf"{name} \- {_escape(page.summary)}"
    for block in page.blocks:
        yield from _block(block)


def _block(block: Block) -> Iterator[str]:
    match block:
        case Section(title):
            yield f'.SH "{_escape(title)}"'
        case Subsection(title):
            yield f'.SS "{_escape(title)}"'
        case Term():
            yield from _item(block)
        case References(pages):
            yield ".PP"
            yield from _references(pages)
        case Text() | Verbatim() | Synopsis():
            yield ".PP"
            yield from _paragraph(block)


def _paragraph(block: Text | Verbatim | Synopsis) -> Iterator[str]:
    match block:
        case Text(text):
            yield from _filled(text)
        case Verbatim(lines):
            yield ".EX"
            yield from (_guard(_escape(line)) for line in lines)
            yield ".EE"
        case Synopsis(command, rest):
            yield rf"\fB{_escape(command)}\fR {_option(rest)}"


def _item(item: Term) -> Iterator[str]:
    yield ".TP"
    yield _option(item.term) if item.is_option else rf"\fB{_escape(item.term)}\fR"
    for number, text in enumerate(item.texts):
        if number:
            yield ".br"
        yield from _filled(text)


def _references(pages: tuple[tuple[str, int], ...]) -> Iterator[str]:
    last = len(pages) - 1
    for at, (name, number) in enumerate(pages):
        yield f".BR {_escape(name)} ({number}){',' if at < last else ''}"


def _option(term: str) -> str:
    """Set options bold and what stands for a value in italics."""
    words = []
    for word in term.split():
        bare = word.strip("[],/|")
        is_literal = bare.startswith("-")
        before, _, after = word.partition(bare) if bare else (word, "", "")
        font = "B" if is_literal else "I"
        middle = rf"\f{font}{_escape(bare)}\fR" if bare else ""
        words.append(f"{_escape(before)}{middle}{_escape(after)}")
    return " ".join(words)


def _filled(text: str) -> Iterator[str]:
    """Break a paragraph after sentences, then where a line gets long."""
    for sentence in _SENTENCE_END.split(text):
        for line in textwrap.wrap(sentence, WIDTH, break_long_words=False, break_on_hyphens=False):
            yield _guard(_escape(line))


def _guard(line: str) -> str:
    """Keep a leading dot from being a request."""
    return rf"\&{line}" if line.startswith(".") else line


def _escape(text: str) -> str:
    return "".join(map(_escape_character, text))


def _escape_character(character: str) -> str:
    if character in _SPECIAL:
        return _SPECIAL[character]
    return character if character.isascii() else rf"\[u{ord(character):04X}]"
