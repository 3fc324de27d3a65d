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
    prose,
    texts,
)
from rmqtool.cli.manual.brief import usage
from rmqtool.cli.manual.examples import examples

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.cli.declaration import Parameter
    from rmqtool.cli.manual.blocks import Block

COMMANDS, FILES, MISCELLANEOUS = 1, 5, 7
FORMATS: Final = f"{PROGRAM}-formats"
TABLES: Final = f"{PROGRAM}-tables"
FINDINGS: Final = f"{PROGRAM}-findings"
SPARK: Final = f"{PROGRAM}-spark"
DECODERS: Final = f"{PROGRAM}-decoders"


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
    variables = (Term(name, (text,)) for name, text in _variables().items())
    blocks += prose(PROGRAM, exit_status=_exit_status(), variables=variables)
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
        *_items(parameter for parameter in known if parameter.is_argument),
        Section("OPTIONS"),
        *_items([*(parameter for parameter in known if not parameter.is_argument), HELP]),
    ]
    lists = {"views": _views(), "functions": _functions()} if name == "sql" else {}
    blocks += prose(name, **lists)
    blocks += _exit_status()
    blocks += examples(name)
    blocks += see_also(f"{PROGRAM}-{name}")
    return Page(f"{PROGRAM}-{name}", COMMANDS, _sentence(summary.text), tuple(blocks))


def spark_page() -> Page:
    """Give `rmqtool-spark(7)`: stores as Spark tables, the engine of bulk commands, and size."""
    from rmqtool.reads.options import NAMES

    options = (Term(name, (f"{text[:1].upper()}{text[1:]}.",)) for name, text in NAMES.items())
    blocks = (*prose("spark", options=options), *see_also(SPARK))
    return Page(SPARK, MISCELLANEOUS, "stores as Spark tables, and bulk work on a cluster", blocks)


def decoders_page() -> Page:
    """Give `rmqtool-decoders(7)`: bodies by a command or a function of the user's own."""
    blocks = (*prose("decoders"), *examples("decoders"), *see_also(DECODERS))
    return Page(DECODERS, MISCELLANEOUS, "bodies by a decoder of your own", blocks)


def _items(parameters: Iterable[Parameter]) -> Iterator[Term]:
    for parameter in parameters:
        term = parameter.declaration.metavar if parameter.is_argument else parameter.term
        yield Term(term, (" ".join(parameter.text.split()),), is_option=True)


def _views() -> Iterator[Term]:
    from rmqtool.reads.views import VIEWS

    for view in VIEWS.values():
        yield Term(view.name, (f"{view.meaning[:1].upper()}{view.meaning[1:]}.",))


def _functions() -> Iterator[Term]:
    from rmqtool.sql.dialect import MACROS

    for signature, body in MACROS.items():
        yield Term(signature, (f"{' '.join(body.split())}.",))


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
        (DECODERS, MISCELLANEOUS),
    ]
    return [Section("SEE ALSO"), References(tuple(page for page in pages if page[0] != this))]


def _sentence(text: str) -> str:
    """Word the first sentence of a help text as NAME wants it."""
    return text[:1].lower() + text[1:].rstrip(".")
