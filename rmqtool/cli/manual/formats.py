"""`rmqtool-formats(5)`: the byte tables of every Layout, and what joins them into files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.cli.manual.blocks import Page, Section, Subsection, Term, Text, texts
from rmqtool.cli.manual.commands import FORMATS, see_also
from rmqtool.cli.manual.examples import examples
from rmqtool.cli.manual.files import ARTEFACTS, CONVENTIONS, TEXT_FILES
from rmqtool.formats.registry import LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.cli.manual.blocks import Block
    from rmqtool.cli.manual.files import FileKind
    from rmqtool.formats.layout import Field, Layout

NUMBER: Final = 5


def formats_page() -> Page:
    """Give the whole page."""
    blocks: list[Block] = [Section("DESCRIPTION"), *texts(CONVENTIONS)]
    shown: set[str] = set()
    for artefact in ARTEFACTS:
        shown |= {*artefact.layouts}
        blocks += artefact_blocks(artefact)
    blocks += _others(shown)
    blocks.append(Section("TEXT FILES"))
    blocks += [Term(name, (text,)) for name, text in TEXT_FILES.items()]
    blocks += examples("formats")
    blocks += see_also(FORMATS)
    return Page(FORMATS, NUMBER, "files of the store of an Apache RocketMQ broker", tuple(blocks))


def artefact_blocks(artefact: FileKind) -> list[Block]:
    """Give what is said of one kind of file."""
    blocks: list[Block] = [Section(artefact.title.upper()), *texts(artefact.before)]
    for name in artefact.layouts:
        blocks += _layout(LAYOUTS[name])
    return [*blocks, *texts(artefact.after)]


def layout_page(name: str) -> Page:
    """Give what the page says of one structure."""
    layout = LAYOUTS[name]
    heading = Section(_heading(layout))
    return Page(name, NUMBER, layout.doc, (heading, *map(field_item, layout.fields)))


def _others(shown: set[str]) -> Iterator[Block]:
    """Give the structures that no artefact names yet."""
    left = [layout for name, layout in LAYOUTS.items() if name not in shown]
    if left:
        yield Section("OTHER STRUCTURES")
    for layout in left:
        yield from _layout(layout)


def _layout(layout: Layout) -> Iterator[Block]:
    yield Subsection(_heading(layout))
    yield Text(_sentence(layout.doc))
    yield from map(field_item, layout.fields)


def _heading(layout: Layout) -> str:
    return f"{layout.name}, {layout.size} bytes"


def field_item(field: Field) -> Term:
    """Give one field: its place, its type, its name and what it holds."""
    kind = f"int{8 * field.size}" if field.is_integer else f"bytes[{field.size}]"
    return Term(f"{field.position:>2}  {kind}  {field.name}", (_sentence(field.doc),))


def _sentence(text: str) -> str:
    is_word = text.partition(" ")[0].isalpha()  # and no path, no number
    return f"{text[:1].upper() if is_word else text[:1]}{text[1:].rstrip('.')}."
