"""The pages of section 1: `rmqtool(1)` and one a command, read off the command line itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.cli.commands import (
    CONTENTS,
    DESCRIPTION,
    HELP,
    NAMES,
    PROGRAM,
    VERSION,
    described,
    load,
)
from rmqtool.cli.declaration import Option, parameters
from rmqtool.cli.exits import EXIT_STATUS
from rmqtool.cli.manual.blocks import (
    Page,
    References,
    Section,
    Subsection,
    Synopsis,
    Term,
    Text,
    texts,
)
from rmqtool.cli.manual.brief import usage
from rmqtool.cli.manual.examples import examples
from rmqtool.cli.manual.sections import remote, sections

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.cli.declaration import Parameter
    from rmqtool.cli.manual.blocks import Block

COMMANDS, FILES, MISCELLANEOUS = 1, 5, 7
FORMATS: Final = f"{PROGRAM}-formats"
TABLES: Final = f"{PROGRAM}-tables"
FINDINGS: Final = f"{PROGRAM}-findings"
SPARK: Final = f"{PROGRAM}-spark"
OUTPUT: Final = """
Standard output holds rows and nothing else; progress, remarks and errors go to standard error.
Rows are a table on a terminal and JSON lines elsewhere; --format chooses table, json, jsonl or
csv.

In JSON, integers are raw, bytes are text, and where they are no UTF-8 a field with _b64 after its
name has them exactly. Every row has every column: what was not read, or is not there, is null.
Times are ISO 8601 in UTC with milliseconds.
Field order is fixed and nothing depends on locale or clock.

Positions and sizes on the command line are 4096, 4KiB or 0x1000; times are ISO 8601, UTC unless an
offset is given, or milliseconds since 1970.

Bodies of messages are shown only on request: evidence holds personal data.
"""
ENVIRONMENT: Final = (
    ("NO_COLOR", "When set, tables have no colour, unless --color says always."),
    ("TERM", "No colour where it is dumb."),
    ("COLUMNS", "Width of tables and of these pages, instead of the terminal's own."),
    ("NUMBA_CACHE_DIR", ("Native code is kept in this directory; see XDG_CACHE_HOME.")),
    ("XDG_CACHE_HOME", ("Native code, which is compiled at the first run, is kept in the directory "
     "rmqtool of it, ~/.cache by default. It has to be an absolute path. A directory that another "
     "user owns or may write to is not used, nor is one below such a directory. 'rmqtool warm-up' "
     "run by root keeps the code beside the installed modules, for all users.")),
    ("PYTHONPATH", ("Python's own. rmqtool imports nothing from the current directory, which may "
     "be that of a store, but an empty entry here makes Python do so. 'python -m rmqtool' looks "
     "there for some of Python's own modules, too: use the program rmqtool, or 'python -P -m "
     "rmqtool'.")),
    ("RMQTOOL_DEBUG", ("When set, a bug is reported on standard error with its traceback instead "
     "of in a file.")),
)  # fmt: skip


def overview() -> Page:
    """Give `rmqtool(1)`."""
    summary, *described_ = texts(DESCRIPTION)
    blocks: list[Block] = [
        Section("SYNOPSIS"),
        Synopsis(PROGRAM, "COMMAND [OPTIONS] [ARGUMENTS]"),
        Synopsis(PROGRAM, "help [TOPIC]"),
        Section("DESCRIPTION"),
        summary,
        *described_,
        Section("COMMANDS"),
    ]
    for task, names in CONTENTS.items():
        blocks.append(Subsection(task))
        blocks += [Term(f"{PROGRAM}-{name}(1)", (text,)) for name, text in names.items()]
    blocks += [Section("OPTIONS"), *_items([VERSION, HELP])]
    blocks += [Section("OUTPUT"), *texts(OUTPUT)]
    blocks += remote()
    blocks += _exit_status()
    named = [*_variables().items(), *ENVIRONMENT]
    blocks += [Section("ENVIRONMENT"), *(Term(name, (text,)) for name, text in named)]
    blocks += examples(PROGRAM)
    blocks += see_also(PROGRAM)
    return Page(PROGRAM, COMMANDS, _sentence(summary.text), tuple(blocks))


def _variables() -> dict[str, str]:
    """Give the environment variables that stand for options, with what they do."""
    users: dict[tuple[str, str], list[str]] = {}
    for name in NAMES:
        for parameter in parameters(load(name)):
            if isinstance(parameter.declaration, Option) and parameter.declaration.env:
                users.setdefault(
                    (parameter.declaration.env, parameter.declaration.names), []
                ).append(name)
    return {
        env: f"Value of {option} where that is not given: {', '.join(names)}."
        for (env, option), names in users.items()
    }


def command_page(name: str) -> Page:
    """Give the page of one command."""
    summary, *more = map(Text, described(name))
    known = parameters(load(name))
    blocks: list[Block] = [
        Section("SYNOPSIS"),
        Synopsis(f"{PROGRAM} {name}", usage(name)),
        Section("DESCRIPTION"),
        summary,
        *more,
        Section("ARGUMENTS"),
        *_items(one for one in known if one.is_argument),
        Section("OPTIONS"),
        *_items([*(one for one in known if not one.is_argument), HELP]),
    ]
    blocks += sections(name)
    blocks += _exit_status()
    blocks += examples(name)
    blocks += see_also(f"{PROGRAM}-{name}")
    return Page(f"{PROGRAM}-{name}", COMMANDS, _sentence(summary.text), tuple(blocks))


def _items(found: Iterable[Parameter]) -> Iterator[Term]:
    for one in found:
        term = one.declaration.metavar if one.is_argument else one.term
        yield Term(term, (" ".join(one.text.split()),), is_option=True)


def _exit_status() -> list[Block]:
    codes = [Term(str(int(code)), (text,)) for code, text in EXIT_STATUS.items()]
    return [Section("EXIT STATUS"), *codes]


def see_also(this: str) -> list[Block]:
    """Give the section SEE ALSO of a page: all others."""
    pages = [
        (PROGRAM, COMMANDS),
        *((f"{PROGRAM}-{name}", COMMANDS) for name in NAMES),
        (FORMATS, FILES),
        (TABLES, FILES),
        (FINDINGS, MISCELLANEOUS),
        (SPARK, MISCELLANEOUS),
    ]
    return [Section("SEE ALSO"), References(tuple(page for page in pages if page[0] != this))]


def _sentence(text: str) -> str:
    """Word the first sentence of a help text as NAME wants it."""
    return text[:1].lower() + text[1:].rstrip(".")
