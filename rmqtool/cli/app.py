"""The table of contents: which commands there are, and what each is for.

A command `x-y` is the function `x_y` in `cmd_x_y.py`. Its module is imported when it is called
for, so that `--help` and a single lookup pay for nothing else.
"""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass
from importlib import import_module
from itertools import groupby
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer.core import TyperCommand, TyperGroup

from rmqtool.errors import UsageError

if TYPE_CHECKING:
    from typer._click.core import Command, Context
    from typer._click.formatting import HelpFormatter

PROGRAM: Final = "rmqtool"
_BRACES: Final = re.compile(r"\{(.+)\}")  # Typer's, around what must be there
_TWICE: Final = re.compile(r"\[(\[.+\])\]")  # its brackets around those of a metavar
_TYPE: Final = re.compile(r"(?<=[A-Z\]]) <[a-z\[\]]+>$")
HELP_NAMES: Final = {"help_option_names": ["-h", "--help"]}


@dataclass(frozen=True, slots=True)
class Entry:
    """One command in the table of contents.

    Attributes:
        task: what a person wants to do, the heading of the command in the help.
        name: as typed.
        summary: the first line of the command's own help.
    """

    task: str
    name: str
    summary: str


CONTENTS: Final = (
    Entry("Look", "info", "Show a store at a glance: its content, its writer, how it was left."),
    Entry("Look", "dump", "Show what is in a store, a directory or a file of it, row by row."),
    Entry("Look", "query", "Find a message by ID, key, offset or time, verified and explained."),
    Entry("Look", "startup", "Foretell what a broker would do if it were started on a store now."),
    Entry("Prove", "validate", "Prove a whole store sound, or say exactly what is wrong with it."),
    Entry("Prove", "report", "Draw a store on one HTML page that can be attached to a ticket."),
    Entry("Repair", "repair", "Repair a store so that every undamaged message survives a start."),
    Entry("Repair", "rebuild", "Rebuild consume queues and key index from the commitlog."),
    Entry("Repair", "rebuild-cq", "Rebuild consume queues from the commitlog."),
    Entry("Repair", "rebuild-index", "Rebuild the key index from the commitlog."),
    Entry("Work on", "export", "Write a table of a store to Parquet, CSV or JSON lines files."),
    Entry("Work on", "sql", "Answer a question about a store in SQL."),
    Entry("Learn", "help", "Show a page of the manual: a command, the formats, a finding."),
)


class Contents(TyperGroup):
    """Finds commands in `CONTENTS` and lists them by task."""

    def list_commands(self, ctx: Context) -> list[str]:  # noqa: ARG002  (an override)
        """Give the names, in the order of the table."""
        return [entry.name for entry in CONTENTS]

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:  # noqa: ARG002
        """Import and build one command; None when there is none of that name."""
        if cmd_name not in (entry.name for entry in CONTENTS):
            return None
        return command(cmd_name)

    def resolve_command(
        self, ctx: Context, args: list[str]
    ) -> tuple[str | None, Command | None, list[str]]:
        """Find the command that is called; where there is none, say what may have been meant.

        Raises:
            UsageError: there is no such command.
        """
        name = args[0]
        if name in self.list_commands(ctx) or name.startswith("-"):
            return super().resolve_command(ctx, args)
        reason = f"there is no command {name!r}; {self._meant(ctx, name)}"
        raise UsageError(option="COMMAND", reason=reason)

    def _meant(self, ctx: Context, name: str) -> str:
        if os.path.exists(name):  # noqa: PTH110 - somebody's path, as it was typed
            return f"to look at it: {PROGRAM} info {name}"
        known = self.list_commands(ctx)
        near = difflib.get_close_matches(name, known)
        return f"nearest: {' '.join(near)}" if near else f"there are: {' '.join(known)}"

    def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:  # noqa: ARG002
        """Show an example, and where there are more."""
        _write_example(PROGRAM, formatter)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:  # noqa: ARG002
        """Write the table of contents, without importing a command."""
        for task, entries in groupby(CONTENTS, lambda entry: entry.task):
            with formatter.section(task):
                formatter.write_dl([(entry.name, entry.summary) for entry in entries])


class OneCommand(TyperCommand):
    """A command whose help names arguments as a person would write them."""

    def collect_usage_pieces(self, ctx: Context) -> list[str]:
        """Give the usage line without the brackets that Typer sets around a metavar."""
        return [_bare(piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        """List arguments, without their Python types, and options."""
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            params = [one for one in self.get_params(ctx) if one.param_type_name == kind]
            records = [one.get_help_record(ctx) for one in params]
            if rows := [(_TYPE.sub("", term), text) for term, text in filter(None, records)]:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:  # noqa: ARG002
        """Show an example, and where there are more."""
        _write_example(str(self.name), formatter)


def _write_example(name: str, formatter: HelpFormatter) -> None:
    """Write the first example of a page of the manual, and how to get to the others."""
    from rmqtool.cli.manual_examples import first_example

    if found := first_example(name):
        caption, typed = found
        with formatter.section("Example"):
            indent = " " * formatter.current_indent
            shown = fill(
                caption, formatter.width - 2, initial_indent=indent, subsequent_indent=indent
            )
            formatter.write(f"{shown}\n")
            # As one line: a terminal joins what it breaks itself, and it can be copied.
            formatter.write(f"{indent}{typed}\n")
    page = f"help {name}" if name != PROGRAM else "help"
    formatter.write(f"\nMore: {PROGRAM} {page}\n")


def _bare(piece: str) -> str:
    return _TWICE.sub(r"\1", _BRACES.sub(r"\1", piece))


def command(name: str) -> TyperCommand:
    """Build one command from its function."""
    function = getattr(import_module(f"rmqtool.cli.cmd_{_python(name)}"), _python(name))
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name, cls=OneCommand, context_settings=HELP_NAMES)(function)
    built = typer.main.get_command(alone)
    assert isinstance(built, TyperCommand)  # noqa: S101  (a Typer with one command is that command)
    return built


def _python(name: str) -> str:
    return name.replace("-", "_")


def _show_versions(asked: bool) -> None:
    if asked:
        from rmqtool.cli.versions import versions

        typer.echo("\n".join(versions()))
        raise typer.Exit


def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_versions,
            is_eager=True,
            help="Show the versions of rmqtool and of every library that it uses, and exit.",
        ),
    ] = False,
) -> None:
    """Inspect, prove, repair and rebuild the store of an Apache RocketMQ broker.

    STORE is a store root, a directory of it or a single file, of a broker that is down or a copy.
    Nothing is written unless a command says so. 'rmqtool COMMAND --help' shows the options,
    'rmqtool help COMMAND' a page with examples.
    """


def application() -> TyperGroup:
    """Build the whole command line."""
    app = typer.Typer(
        cls=Contents,
        name=PROGRAM,
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,  # they print local variables: evidence
        context_settings=HELP_NAMES,
    )
    app.callback()(root)
    return typer.main.get_group(app)
