"""A plain command line without Typer, as its import takes longer than a lookup takes to answer.

What is not plain (a wrong option, a missing value) is left to Typer, which has the words for it.
Both read the same declarations, and that they read a line alike is tested over all options.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rmqtool.cli.commands import DEFAULT, HELP, NAMES, PROGRAM, VERSION, load
from rmqtool.cli.declaration import Kind, build, parameters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.cli.declaration import Command, Parameter, Raw


class NotPlainError(Exception):
    """This command line is for Typer."""


def read(words: Sequence[str]) -> Command | None:
    """Read a command line; None when Typer is to do it.

    Args:
        words: without the program's name.

    Raises:
        UsageError: a value is not one.
    """
    first, *rest = words or [""]
    if not rest and first in (*HELP.spellings, *VERSION.spellings):
        from rmqtool.cli.commands.help import Brief, Versions

        return Brief(PROGRAM) if first in HELP.spellings else Versions()
    if first not in NAMES:
        if not _is_place(first):
            return None
        first, rest = DEFAULT, [first, *rest]
    command = load(first)
    if first == "help" and rest:
        own = {name for parameter in (*parameters(command), HELP) for name in parameter.spellings}
        if rest[0].startswith("--") and rest[0].partition("=")[0] not in own:
            return build(command, {"topic": rest[:1]})  # what an option means
    try:
        given = _given(rest, parameters(command))
    except NotPlainError:
        return None
    if HELP.name in given:
        from rmqtool.cli.commands.help import Brief

        return Brief(first)
    return build(command, given)


def _is_place(word: str) -> bool:
    """Tell whether a word that is no command is a store, or is written as the path of one."""
    if not word or word.startswith("-"):
        return False
    if os.sep in word or os.path.lexists(word):
        return True
    from rmqtool.store.address import archive_of

    return archive_of(word) is not None


def _given(words: Sequence[str], known: Sequence[Parameter]) -> dict[str, Raw]:
    """Take a command line apart. Raises NotPlainError: it is not plain."""
    spelt = {name: parameter for parameter in (*known, HELP) for name in parameter.spellings}
    given: dict[str, Raw] = {}
    places: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word == "-":
            places.append(word)
            continue
        name, separator, value = word.partition("=")
        option = spelt.get(name)
        if option is None or (separator and option.kind is Kind.FLAG):
            raise NotPlainError
        if option.kind is Kind.FLAG:
            _put(given, option, option.spellings[name])
        else:
            _put(given, option, value if separator else next(rest, ""))
    if HELP.name not in given:
        _place(given, places, [parameter for parameter in known if parameter.is_argument])
        if any(parameter.is_required and parameter.name not in given for parameter in known):
            raise NotPlainError
    return given


def _put(given: dict[str, Raw], option: Parameter, value: str | bool) -> None:
    """Put one value where it belongs. Raises NotPlainError: Typer has to look at it."""
    if value == "":
        raise NotPlainError
    if option.is_many and isinstance(value, str):
        values = given.setdefault(option.name, [])
        if isinstance(values, list):
            values.append(value)
    elif option.name in given:
        raise NotPlainError
    else:
        given[option.name] = value


def _place(given: dict[str, Raw], places: list[str], arguments: Sequence[Parameter]) -> None:
    """Put what has no name where it belongs. Raises NotPlainError: there is too much."""
    for argument in arguments:
        if argument.is_many and places:
            given[argument.name], places = places, []
        elif places:
            given[argument.name] = places.pop(0)
    if places:
        raise NotPlainError
