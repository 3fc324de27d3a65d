"""The pages of section 1: `rmqtool(1)` and one a command, read off the command line itself."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from rmqtool.cli import exits, manual_repair, manual_spark
from rmqtool.cli.app import CONTENTS, PROGRAM, application, command, root
from rmqtool.cli.manual_examples import examples
from rmqtool.cli.manual_page import (
    Item,
    Page,
    References,
    Section,
    Subsection,
    Synopsis,
    texts,
)
from rmqtool.errors import OutputClosed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typer._click.core import Command, Context, Parameter

    from rmqtool.cli.manual_page import Block

COMMANDS, FILES, MISCELLANEOUS = 1, 5, 7
FORMATS: Final = f"{PROGRAM}-formats"
FINDINGS: Final = f"{PROGRAM}-findings"
SPARK: Final = f"{PROGRAM}-spark"
EXIT_STATUS: Final = (
    (exits.DONE, "Done: found, sound, the same."),
    (exits.NO, "Done, and the answer is no: nothing found, damage found, stores differ."),
    (exits.NOT_DONE, ("Not done: the command line, or a path that cannot be read, is not supported "
     "or is locked by a running broker.")),
    (exits.IN_PART, "Done in part: some input could not be read; stderr names it."),
    (exits.BUG, "A bug in rmqtool; stderr says where the report was written."),
    (exits.INTERRUPTED, "Interrupted."),
    (OutputClosed.exit_code, "The reader of the output went away."),
    (exits.TERMINATED, "Terminated."),
)  # fmt: skip
OUTPUT: Final = """
Standard output holds rows and nothing else; progress, remarks and errors go to standard error.
Rows are a table on a terminal and JSON lines elsewhere; --format chooses table, json, jsonl or
csv.

In JSON, integers are raw, bytes are text, and where they are no UTF-8 a field with _b64 behind its
name has them exactly. What was not read is null. Times are ISO 8601 in UTC with milliseconds.
Field order is fixed and nothing depends on locale or clock.

Positions and sizes on the command line are 4096, 4KiB or 0x1000; times are ISO 8601, UTC unless an
offset is given, or milliseconds since 1970.

Bodies of messages are shown only on request: evidence holds personal data.
"""
ENVIRONMENT: Final = (
    ("NO_COLOR", "When set, tables have no colour, unless --color says always."),
    ("TERM", "No colour where it is dumb."),
    ("COLUMNS", "Width of tables and of these pages, instead of the terminal's own."),
    ("XDG_CACHE_HOME", ("Compiled kernels are kept in the directory rmqtool of it; ~/.cache "
     "by default.")),
    ("RMQTOOL_DEBUG", ("When set, a bug is reported on standard error with its traceback instead "
     "of in a file.")),
)  # fmt: skip


def overview() -> Page:
    """Give `rmqtool(1)`."""
    described = texts(root.__doc__ or "")
    app = application()
    blocks: list[Block] = [
        Section("SYNOPSIS"),
        Synopsis(PROGRAM, "COMMAND [OPTIONS] [ARGUMENTS]"),
        Synopsis(PROGRAM, "help [TOPIC]"),
        Section("DESCRIPTION"),
        *described,
        Section("COMMANDS"),
    ]
    for task, entries in groupby(CONTENTS, lambda entry: entry.task):
        blocks.append(Subsection(task))
        blocks += [Item(f"{PROGRAM}-{entry.name}(1)", (entry.summary,)) for entry in entries]
    context = app.make_context(PROGRAM, [], resilient_parsing=True)
    blocks += [Section("OPTIONS"), *_items(app, context, "option")]
    blocks += [Section("OUTPUT"), *texts(OUTPUT)]
    blocks += manual_spark.remote()
    blocks += _exit_status()
    blocks += [Section("ENVIRONMENT"), *(Item(name, (text,)) for name, text in ENVIRONMENT)]
    blocks += examples(PROGRAM)
    blocks += see_also(PROGRAM)
    return Page(PROGRAM, COMMANDS, _sentence(described[0].text), tuple(blocks))


def command_page(name: str) -> Page:
    """Give the page of one command."""
    built = command(name)
    context = built.make_context(f"{PROGRAM} {name}", [], resilient_parsing=True)
    summary, *described = texts(built.help or "")
    blocks: list[Block] = [
        Section("SYNOPSIS"),
        Synopsis(f"{PROGRAM} {name}", _usage(built, context)),
        Section("DESCRIPTION"),
        summary,
        *described,
    ]
    for title, kind in (("ARGUMENTS", "argument"), ("OPTIONS", "option")):
        if items := list(_items(built, context, kind)):
            blocks += [Section(title), *items]
    blocks += manual_repair.sections(name)
    blocks += manual_spark.sections(name)
    blocks += _exit_status()
    blocks += examples(name)
    blocks += see_also(f"{PROGRAM}-{name}")
    return Page(f"{PROGRAM}-{name}", COMMANDS, _sentence(summary.text), tuple(blocks))


def _usage(built: Command, context: Context) -> str:
    """Give what follows the name: options that must be there, then the arguments."""
    needed = [
        _record(one, context)[0]
        for one in built.get_params(context)
        if one.param_type_name == "option" and one.required
    ]
    pieces = built.collect_usage_pieces(context)
    return " ".join([*pieces[:1], *needed, *pieces[1:]])


def _items(built: Command, context: Context, kind: str) -> Iterator[Item]:
    for one in built.get_params(context):
        if one.param_type_name == kind:
            term, text = _record(one, context)
            if kind == "argument":
                term = term.rpartition(" <")[0] or term
            yield Item(term, (" ".join(text.split()),), is_option=True)


def _record(one: Parameter, context: Context) -> tuple[str, str]:
    """Give a parameter as `--help` shows it: the term and the text."""
    return one.get_help_record(context) or (one.name or "", "")


def _exit_status() -> list[Block]:
    codes = [Item(str(int(code)), (text,)) for code, text in EXIT_STATUS]
    return [Section("EXIT STATUS"), *codes]


def see_also(this: str) -> list[Block]:
    """Give the section SEE ALSO of a page: all others."""
    pages = [
        (PROGRAM, COMMANDS),
        *((f"{PROGRAM}-{entry.name}", COMMANDS) for entry in CONTENTS),
        (FORMATS, FILES),
        (FINDINGS, MISCELLANEOUS),
        (SPARK, MISCELLANEOUS),
    ]
    return [Section("SEE ALSO"), References(tuple(page for page in pages if page[0] != this))]


def _sentence(text: str) -> str:
    """Word the first sentence of a help text as NAME wants it."""
    return text[:1].lower() + text[1:].rstrip(".")
