"""The manual: which pages there are, and `python -m rmqtool.cli.manual man/`, which writes them.

1. `commands.py`, `formats.py`, `tables.py`, `findings.py` make pages (`blocks.py`) of the command
   tree, the Layouts, the dictionary and the codes; `examples.py` adds transcripts.
2. `roff.py` writes a page for `man`, `plain.py` for a terminal without it.

No clock and no network: the same sources give the same bytes. A drift test compares.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from rmqtool.cli.commands import NAMES, PROGRAM
from rmqtool.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.cli.manual.blocks import Page

REGENERATE: Final = "python -m rmqtool.cli.manual man/"
FORMATS: Final = "formats"
TABLES: Final = "tables"
FINDINGS: Final = "findings"
SPARK: Final = "spark"
DECODERS: Final = "decoders"
SECTION: Final = re.compile(r"[.(][1-9]\)?$")  # as in rmqtool-info(1)
FEW: Final = 4
WIDE: Final = 1000  # so that no line is broken


def topics() -> tuple[str, ...]:
    """Give what a whole page is about: rmqtool itself, each command, formats, tables, findings."""
    return (PROGRAM, *NAMES, FORMATS, TABLES, FINDINGS, SPARK, DECODERS)


def page(topic: str) -> Page:
    """Make the page of one of `topics()`."""
    if topic == FORMATS:
        from rmqtool.cli.manual.formats import formats_page

        return formats_page()
    if topic == TABLES:
        from rmqtool.cli.manual.tables import tables_page

        return tables_page()
    if topic == FINDINGS:
        from rmqtool.cli.manual.findings import findings_page

        return findings_page()
    if topic == SPARK:
        from rmqtool.cli.manual.commands import spark_page

        return spark_page()
    if topic == DECODERS:
        from rmqtool.cli.manual.commands import decoders_page

        return decoders_page()
    from rmqtool.cli.manual.commands import command_page, overview

    return overview() if topic == PROGRAM else command_page(topic)


def pages() -> Iterator[Page]:
    """Make all pages, one after the other."""
    return map(page, topics())


def whole_page(topic: str) -> Page | None:
    """Make the page of a topic as people write it: `query`, `rmqtool-query`; None without one."""
    asked = SECTION.sub("", topic.lower()).removeprefix(f"{PROGRAM}-")
    return page(asked) if asked in topics() else None


def entry(topic: str) -> Page:
    """Make what is said of a single word: a finding code, a structure, a field, a file.

    Raises:
        UsageError: there is not of that name; says which are near, or where it is named.
    """
    from rmqtool.cli.manual.words import nearest, word_page

    if (page := word_page(topic)) is not None:
        return page
    near, named = nearest(topic, topics()), _naming(topic)
    reason = f"no page {topic!r}"
    if near:
        reason += f"; nearest: {' '.join(near)}"
    if named:
        reason += f"; it is named in: {' '.join(named)}"
    if not near and not named:
        reason += f"; there are: {' '.join(topics())}"
    step = " ".join([PROGRAM, "help", *(named or near)[:1]])
    raise UsageError(option="TOPIC", reason=reason, step=step)


def _naming(word: str) -> list[str]:
    """Give the topics whose pages have a word, their examples aside; none if it is everywhere."""
    from rmqtool.cli.manual.blocks import Verbatim
    from rmqtool.cli.manual.plain import plain

    def text_of(topic: str) -> str:
        whole = page(topic)
        blocks = (block for block in whole.blocks if not isinstance(block, Verbatim))
        return plain(replace(whole, blocks=(*blocks,)), WIDE)

    alone = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])", re.IGNORECASE)
    naming = [topic for topic in topics() if alone.search(text_of(topic))]
    return naming if len(naming) <= FEW else []


def write(directory: str) -> None:
    """Write all pages into a directory that has man1, man5 and man7; those there are replaced."""
    from rmqtool.cli.manual.roff import roff
    from rmqtool.writing.output import OutputFile

    for page in pages():
        with OutputFile(PurePath(directory, page.file_name), overwrite=True) as file:
            file.text.write(roff(page))
