"""What `rmqtool help` shows of a single word: a code, a family, a file, a structure, a field.

A word may be written as in a path, as in Java or as in this manual: `consumequeue`, `consumeQueue`
and `consume queue` are one.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Final

from rmqtool.cli.manual.blocks import Page, References, Section, Term, Text
from rmqtool.cli.manual.commands import FORMATS
from rmqtool.cli.manual.files import ARTEFACTS, TEXT_FILES
from rmqtool.cli.manual.findings import NUMBER as FINDINGS_NUMBER
from rmqtool.cli.manual.findings import code_page
from rmqtool.cli.manual.formats import NUMBER as FORMATS_NUMBER
from rmqtool.cli.manual.formats import artefact_blocks, field_item, layout_page
from rmqtool.cli.manual.tables import column_page
from rmqtool.dictionary import names as columns
from rmqtool.findings.catalogue import FAMILIES
from rmqtool.findings.registry import CODES
from rmqtool.formats.registry import LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqtool.cli.manual.blocks import Block

NEAREST: Final = 3
JSON: Final = "json"  # the key of config/*.json


def word_page(word: str) -> Page | None:
    """Make the page of a word; None when nothing has that name."""
    if word.startswith("--"):
        return _option(word)
    for part in reversed(word.split("/")):  # of a path, the last that means something
        for make in (_code, _family, _artefact, _layout, _text_file, _name):
            if (page := make(key(part))) is not None:
                return page
    return None


def _option(asked: str) -> Page | None:
    """Give what an option does, by command; the same text once for all that have it."""
    from rmqtool.cli.commands import NAMES, load
    from rmqtool.cli.declaration import parameters

    texts: dict[tuple[str, str], list[str]] = {}
    for name in NAMES:
        for parameter in parameters(load(name)):
            if asked in parameter.spellings:
                texts.setdefault((parameter.term, parameter.text), []).append(name)
    if not texts:
        return None
    blocks: list[Block] = [
        Term(term, (text, f"Of: {', '.join(names)}")) for (term, text), names in texts.items()
    ]
    return Page(asked, 1, "an option", (*blocks,))


def _name(asked: str) -> Page | None:
    """Give a name that is one of fields, of columns, or of both."""
    field, column = _field(asked), column_page(asked)
    if field is None or column is None:
        return field or column
    also = (*column.blocks, *field.blocks)
    return Page(column.name, column.number, "a column, and a field of files", also)


def key(word: str) -> str:
    """Give a word without what people write in different ways."""
    return re.sub(r"[^a-z0-9]", "", word.lower())


def nearest(word: str, others: Iterable[str]) -> list[str]:
    """Give the names that are most like a word, the nearest first.

    Args:
        word: what was asked for.
        others: names beside the words that have pages here.
    """
    fields = {field.name for layout in LAYOUTS.values() for field in layout.fields}
    files = {name for artefact in ARTEFACTS for name in artefact.names}
    known = {key(name): name for name in (*files, *fields, *columns(), *LAYOUTS, *CODES, *others)}
    return [known[match] for match in difflib.get_close_matches(key(word), known, NEAREST)]


def _code(asked: str) -> Page | None:
    return next((code_page(code) for code in CODES.values() if key(code) == asked), None)


def _family(asked: str) -> Page | None:
    """Give the codes of a family, such as those of CQ."""
    prefix = asked.upper()
    if prefix not in FAMILIES:
        return None
    items = [
        Term(code.name, (f"{code.meaning}; {code.severity}",))
        for code in CODES.values()
        if code.prefix == prefix
    ]
    title = FAMILIES[prefix].title
    more = Text(
        f"'rmqtool help {items[0].term}' shows the consequence and the remedy of each code."
    )
    blocks: tuple[Block, ...] = (Section(f"{prefix}: {title.upper()}"), *items, more)
    return Page(prefix, FINDINGS_NUMBER, f"finding codes, {title.lower()}", blocks)


def _layout(asked: str) -> Page | None:
    return next((layout_page(name) for name in LAYOUTS if key(name) == asked), None)


def _artefact(asked: str) -> Page | None:
    """Give what is said of the files of a kind, by its title or by the name of a file."""
    for artefact in ARTEFACTS:
        if asked in {key(artefact.title), *map(key, artefact.names)}:
            blocks = (*artefact_blocks(artefact), *_see(FORMATS, FORMATS_NUMBER))
            name = artefact.title.lower()
            return Page(name, FORMATS_NUMBER, "files of a store", blocks)
    return None


def _text_file(asked: str) -> Page | None:
    for names, text in TEXT_FILES.items():
        known = {key(path.rpartition("/")[2]) for path in names.split(", ")}
        if asked in known or (asked.endswith("json") and JSON in known):
            blocks = (Section("DESCRIPTION"), Text(text), *_see(FORMATS, FORMATS_NUMBER))
            return Page(names, FORMATS_NUMBER, "a text file of a store", blocks)
    return None


def _field(asked: str) -> Page | None:
    """Give every structure that has a field of that name."""
    fields = [
        (layout, field)
        for layout in LAYOUTS.values()
        for field in layout.fields
        if key(field.name) == asked
    ]
    if not fields:
        return None
    blocks: list[Block] = []
    for layout, field in fields:
        blocks += [Section(f"{layout.name}, {layout.size} bytes"), field_item(field)]
    name = fields[0][1].name
    return Page(name, FORMATS_NUMBER, "a field", (*blocks, *_see(FORMATS, FORMATS_NUMBER)))


def _see(name: str, number: int) -> tuple[Section, References]:
    return Section("SEE ALSO"), References(((name, number),))
