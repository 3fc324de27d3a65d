"""Pages as plain text, for where there is no `man`: no roff, no control characters."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

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

INDENT: Final = 4
WIDEST: Final = 100  # longer lines are hard to read
NARROWEST: Final = 40


def plain(page: Page, columns: int) -> str:
    """Give the whole page, ending in a line feed.

    Args:
        page: what to write.
        columns: of the terminal; examples stay as they are, whatever it is.
    """
    width = max(min(columns, WIDEST), NARROWEST)
    name = Text(f"{page.name} - {page.summary}")
    blocks: tuple[Block, ...] = (Section("NAME"), name, *page.blocks)
    lines: list[str] = []
    is_headed = False
    for block in blocks:
        lines += [*_block(block, width)][is_headed:]  # no empty line below a heading
        is_headed = isinstance(block, Section | Subsection)
    return "\n".join([*lines[1:], ""])


def _block(block: Block, width: int) -> Iterator[str]:
    match block:
        case Section(title):
            yield ""
            yield title
        case Subsection(title):
            yield ""
            yield from _filled(title, width, INDENT // 2)
        case Text(text):
            yield ""
            yield from _filled(text, width, INDENT)
        case Term(term, texts):
            yield ""
            heads = _filled(term, width, INDENT)
            lines = [line for text in texts for line in _filled(text, width, 2 * INDENT)]
            if len(term) < INDENT and lines:  # there is room for both on one line
                heads, lines[0] = [], f"{heads[0]:<{2 * INDENT}}{lines[0].lstrip()}"
            yield from (*heads, *lines)
        case Verbatim(lines):
            yield ""
            yield from (f"{' ' * INDENT}{line}".rstrip() for line in lines)
        case Synopsis(command, rest):
            yield ""
            yield from _filled(f"{command} {rest}", width, INDENT)
        case References(pages):
            yield ""
            yield from _filled(", ".join(f"{n}({number})" for n, number in pages), width, INDENT)


def _filled(text: str, width: int, indent: int) -> list[str]:
    margin = " " * indent
    return textwrap.wrap(
        text,
        width,
        initial_indent=margin,
        subsequent_indent=margin,
        break_long_words=False,
        break_on_hyphens=False,
    )
