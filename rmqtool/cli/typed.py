"""Typer's view of the commands: it reads every line that is not plain, and says what is wrong.

Only splitting a line is Typer's: it gets texts and flags, and `declaration.py` reads their values.
"""

from __future__ import annotations

import inspect
import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from rmqtool.cli.commands import NAMES, OTHER_LINES, OTHER_WORDS, PROGRAM, load
from rmqtool.cli.declaration import Argument, Command, Kind, build, parameters
from rmqtool.cli.manual.brief import brief
from rmqtool.errors import UsageError
from rmqtool.plural import meant, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typer._click.core import Command as Built
    from typer._click.core import Context

    from rmqtool.cli.declaration import Parameter

HELP_NAMES = {"help_option_names": ["-h", "--help"]}
TYPES = {Kind.FLAG: bool | None, Kind.TEXTS: list[str] | None, Kind.WORDS: list[str] | None}


def read(words: Sequence[str]) -> Command | int:
    """Read a command line; an exit code when Typer has answered already, to --help.

    Raises:
        UsageError: a value is not one.
        typer.TyperException: a line that no command understands.
        typer.Abort: interrupted.
        SystemExit: Typer's own answer to a closed pipe.
    """
    answer = _application().main(list(words), prog_name=PROGRAM, standalone_mode=False)
    return answer if isinstance(answer, Command | int) else 0


class _Contents(TyperGroup):
    """Finds commands by their names."""

    def list_commands(self, ctx: Context) -> list[str]:  # noqa: ARG002  (an override)
        """Give the names."""
        return [*NAMES]

    def get_command(self, ctx: Context, cmd_name: str) -> Built | None:  # noqa: ARG002
        """Import and build one command; None without one of that name."""
        return _command(cmd_name) if cmd_name in NAMES else None

    def resolve_command(
        self, ctx: Context, args: list[str]
    ) -> tuple[str | None, Built | None, list[str]]:
        """Find the command that is called; where there is not one, say what may have been meant.

        Raises:
            UsageError: there is no such command.
        """
        name, *rest = args
        if name in NAMES or name.startswith("-"):
            return super().resolve_command(ctx, args)
        meant_ = OTHER_WORDS.get(name.casefold()) or next(iter(nearest(name, NAMES)), "")
        step = shlex.join([PROGRAM, meant_, *rest]) if meant_ else f"{PROGRAM} --help"
        reason = f"there is no command {name!r}; {meant(meant_ or name, NAMES)}"
        if line := OTHER_LINES.get(name.casefold()):
            store = next((shlex.quote(word) for word in rest if not word.startswith("-")), "STORE")
            reason = f"there is no command {name!r}"
            step = f"{PROGRAM} {line.replace('STORE', store)}"
        raise UsageError(option="COMMAND", reason=reason, step=step)

    def get_help(self, ctx: Context) -> str:  # noqa: ARG002
        """Give the table of contents."""
        return brief(PROGRAM).rstrip("\n")


class _OneCommand(TyperCommand):
    """A command whose help comes from its declaration."""

    def get_help(self, ctx: Context) -> str:  # noqa: ARG002
        """Give the help."""
        return brief(str(self.name)).rstrip("\n")


def _application() -> TyperGroup:
    """Build the whole command line."""
    app = typer.Typer(
        cls=_Contents,
        name=PROGRAM,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,  # they print local variables: evidence
        context_settings=HELP_NAMES,
    )
    app.callback()(_root)
    return typer.main.get_group(app)


def _root() -> None:
    """Stand for the program itself."""


def _command(name: str) -> TyperCommand:
    """Build one command from its declaration."""
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name, cls=_OneCommand, context_settings=HELP_NAMES)(_reader(load(name)))
    built = typer.main.get_command(alone)
    assert isinstance(built, TyperCommand)  # noqa: S101  (a Typer with one command is that command)
    return built


def _reader(command: type[Command]) -> Callable[..., Command]:
    """Give a function with the parameters of a command, which gives the command."""

    def reader(**typed: Any) -> Command:  # noqa: ANN401 - what Typer gives
        return build(command, {name: raw for name, raw in typed.items() if raw not in (None, [])})

    # Typer takes parameters off the signature.
    reader.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                parameter.name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=_annotation(parameter),
                default=inspect.Parameter.empty if parameter.is_required else None,
            )
            for parameter in parameters(command)
        ]
    )
    reader.__annotations__ = {}
    return reader


def _annotation(parameter: Parameter) -> Any:  # noqa: ANN401 - an annotation is a special form
    """Give a parameter as Typer wants it: texts and flags."""
    if isinstance(parameter.declaration, Argument):
        declaration = typer.Argument(metavar=parameter.declaration.metavar)
    else:
        declaration = typer.Option(*parameter.declaration.names.split(", "))
    type_ = TYPES.get(parameter.kind, str | None)
    if parameter.is_required:
        type_ = list[str] if parameter.is_many else str
    return Annotated[type_, declaration]
