"""`--help`: a command in brief, or the table of contents, from the declarations."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING, Final

from rmqtool.cli.commands import (
    CONTENTS,
    DESCRIPTION,
    HELP,
    PROGRAM,
    VERSION,
    described,
    load,
    paragraphs,
)
from rmqtool.cli.declaration import parameters
from rmqtool.cli.manual.examples import first_example

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.cli.declaration import Parameter

WIDEST: Final = 80
NARROWEST: Final = 50
INDENT: Final = 2
TERM_WIDTH: Final = 30  # a longer one has a line of its own
GAP: Final = 2  # between a term and its text
NARROW_TEXT: Final = 10
TITLES: Final = ("Arguments", "Options", "Select", "Output", "Spark", "Common")
# The groups of options that commands share.
GROUPS: Final = {
    **dict.fromkeys(("choosing", "bodies"), "Select"),
    **dict.fromkeys(("delivery", "to"), "Output"),
    "choice": "Spark",
}
COMMON: Final = frozenset(
    {"as_user", "at", "broker_conf", "broker_version", "help", "jobs", "lang", "unpack_limit"}
)


def brief(name: str) -> str:
    """Give the help of a command, or of the program, as wide as the terminal."""
    columns = shutil.get_terminal_size((WIDEST, 0)).columns
    width = max(min(columns, WIDEST) - 2, NARROWEST)
    return "".join(
        f"{line}\n" for line in (_program(width) if name == PROGRAM else _of(name, width))
    )


def usage(name: str) -> str:
    """Give what follows the name of a command: options that must be there, then the arguments."""
    known = parameters(load(name))
    needed = [
        parameter.term for parameter in known if parameter.is_required and not parameter.is_argument
    ]
    return " ".join(
        ["[OPTIONS]", *needed, *(parameter.term for parameter in known if parameter.is_argument)]
    )


def _program(width: int) -> Iterator[str]:
    yield f"Usage: {PROGRAM} [OPTIONS] COMMAND [ARGS]..."
    yield from _prose(paragraphs(DESCRIPTION), width)
    yield from _terms(
        "Options", [(parameter.term, parameter.text) for parameter in (VERSION, HELP)], width
    )
    for task, names in CONTENTS.items():
        yield from _terms(task, [*names.items()], width)
    yield from _example(PROGRAM, width)
    yield from ("", f"More: {PROGRAM} help")


def _of(name: str, width: int) -> Iterator[str]:
    yield from _filled(f"Usage: {PROGRAM} {name} {usage(name)}", width, " " * len("Usage: "))
    yield from _prose(described(name), width)
    known = parameters(load(name))
    titles: dict[str, list[Parameter]] = {title: [] for title in TITLES}
    for parameter in (*known, HELP):
        titles[_title(parameter)].append(parameter)
    for title, group in titles.items():
        if group:
            yield from _terms(title, _rows(group), width)
    yield from _example(name, width)
    yield from ("", f"More: {PROGRAM} help {name}")


def _title(parameter: Parameter) -> str:
    """Give the heading of an option: what is a command's own comes first."""
    if parameter.is_argument:
        return "Arguments"
    if parameter.name in COMMON:
        return "Common"
    return GROUPS.get(parameter.group, "Options")


def _rows(parameters: Iterable[Parameter]) -> list[tuple[str, str]]:
    return [
        (parameter.declaration.metavar if parameter.is_argument else parameter.term, parameter.text)
        for parameter in parameters
    ]


def _prose(texts: Iterable[str], width: int) -> Iterator[str]:
    indent = " " * INDENT
    for text in texts:
        yield ""
        yield from _filled(f"{indent}{text}", width, indent)


def _terms(title: str, rows: list[tuple[str, str]], width: int) -> Iterator[str]:
    """Write a definition list: terms to the left, what they mean to the right."""
    column = INDENT + min(max(len(term) for term, _ in rows), TERM_WIDTH) + GAP
    room = max(width - column, NARROW_TEXT)
    yield from ("", f"{title}:")
    for term, text in rows:
        head = f"{' ' * INDENT}{term}"
        lines = textwrap.wrap(text, room, break_on_hyphens=False, break_long_words=False)
        if len(head) + GAP <= column and lines:
            yield f"{head:<{column}}{lines.pop(0)}"
        else:
            yield head
        yield from (f"{' ' * column}{line}" for line in lines)


def _example(name: str, width: int) -> Iterator[str]:
    """Write the first example of the page in the manual."""
    example_lines = first_example(name)
    if example_lines is None:
        return
    caption, typed = example_lines
    yield from ("", "Example:")
    yield from _filled(f"{' ' * INDENT}{caption}", width, " " * INDENT)
    # As one line: a terminal joins what it breaks itself, and it can be copied.
    yield f"{' ' * INDENT}{typed}"


def _filled(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=indent)
