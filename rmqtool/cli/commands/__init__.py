"""The commands, a file each, and the table of contents.

To add a command `x-y`:

1. `commands/x_y.py` has a frozen dataclass `XY`, a `Command`. Its docstring is the help: a summary
   of one line, then paragraphs. Each field is an argument or an option (see `declaration.py`;
   those that several commands share are in `options.py`, `delivery.py`, `engines.py` and
   `choosing.py`). `run` calls the library once, hands rows to `Delivery.emit`, remarks to
   `Delivery.note`, and returns the exit code. It formats nothing and prints nothing. What is heavy
   is imported in `run`: who asks for help, or completes a word, loads all that stands above.
2. `CONTENTS` below names it, under what a person wants to do.
3. `examples/x-y.txt` has what the help and the manual show; a test runs it.

The fast reader of plain lines, Typer's command, `--help`, the manual page and completion follow:
nothing else is to be written. Tests then ask for a transcript.
"""

from __future__ import annotations

from importlib import import_module
from inspect import cleandoc
from typing import TYPE_CHECKING, Final

from rmqtool.cli.declaration import Option, flag

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rmqtool.cli.declaration import Command

PROGRAM: Final = "rmqtool"
DESCRIPTION: Final = """
Inspect, prove, repair and rebuild the store of an Apache RocketMQ broker.

STORE is a store root, a directory of it or a single file, of a broker that is down or a copy.
Nothing is written unless a command says so. 'rmqtool COMMAND --help' shows the options,
'rmqtool help COMMAND' a page with examples.
"""
HELP: Final = flag("help", Option("-h, --help", "Show this message and exit."))
VERSION: Final = flag(
    "version",
    Option(
        "--version",
        "Show the versions of rmqtool and of every library that it uses, and exit.",
    ),
)
CONTENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "Look": ("info", "dump", "query", "startup"),
    "Prove": ("validate", "report"),
    "Repair": ("repair", "rebuild", "rebuild-cq", "rebuild-index"),
    "Work on": ("export", "sql"),
    "Learn": ("help",),
}
NAMES: Final = tuple(name for names in CONTENTS.values() for name in names)


def load(name: str) -> type[Command]:
    """Give one command out of `NAMES`; no other is imported."""
    module = import_module(f"{__name__}.{name.replace('-', '_')}")
    found: type[Command] = getattr(module, name.title().replace("-", ""))
    return found


def paragraphs(text: str) -> list[str]:
    """Give the paragraphs of a docstring, each on one line."""
    return [" ".join(one.split()) for one in cleandoc(text).split("\n\n") if one.strip()]


def described(name: str) -> list[str]:
    """Give the paragraphs of a command's help: the summary first."""
    return paragraphs(load(name).__doc__ or "")


def summaries() -> Iterator[tuple[str, str]]:
    """Give each command with its summary."""
    return ((name, described(name)[0]) for name in NAMES)
