"""A plain command line without Typer's machinery, for commands whose answer must be instant.

Typer builds its parameters with pydantic, which takes twice as long to import as a lookup takes to
answer. The declarations of a command stay the only ones: they are read from its signature. What
is not plain (help, a wrong option, a missing value) is left to Typer, which has the words for it.
"""

from __future__ import annotations

from enum import StrEnum
from importlib import import_module
from inspect import Parameter, signature
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args, get_origin, get_type_hints

from typer.models import ArgumentInfo, OptionInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COMMANDS: Final = frozenset({"query"})


class NotPlainError(Exception):
    """This command line is for Typer."""


def call(arguments: Sequence[str]) -> int | None:
    """Run a command and return its exit code; None when Typer is to do it.

    Args:
        arguments: without the program's name.
    """
    if not arguments or arguments[0] not in COMMANDS:
        return None
    name = arguments[0]
    function = getattr(import_module(f"rmqtool.cli.cmd_{name}"), name)
    try:
        values = _values(_Declared(function), arguments[1:])
    except NotPlainError:
        return None
    code: int = function(**values)
    return code


class _Declared:
    """The parameters of a command, as its function declares them."""

    def __init__(self, function: Callable[..., object]) -> None:
        hints = get_type_hints(function, include_extras=True)
        self.options: dict[str, tuple[str, object, bool]] = {}
        self.arguments: list[tuple[str, bool]] = []
        for name, parameter in signature(function).parameters.items():
            if get_origin(hints[name]) is not Annotated:
                raise NotPlainError
            kind, declared = get_args(hints[name])[:2]
            if isinstance(declared, ArgumentInfo):
                self.arguments.append((name, parameter.default is Parameter.empty))
            elif isinstance(declared, OptionInfo):
                # In an annotation Typer keeps the first name where the default would stand.
                self._option(
                    name, _inner(kind), (str(declared.default), *(declared.param_decls or ()))
                )

    def _option(self, name: str, kind: object, spelt: Sequence[str]) -> None:
        for words in spelt:
            yes, _, no = words.partition("/")
            self.options[yes] = name, kind, True
            if no:
                self.options[no] = name, kind, False


def _inner(kind: object) -> object:
    """Give the type of an option without its None."""
    if isinstance(kind, UnionType):
        kinds = [one for one in get_args(kind) if one is not NoneType]
        return kinds[0] if len(kinds) == 1 else None
    return kind


def _values(declared: _Declared, words: Sequence[str]) -> dict[str, Any]:
    """Read a command line.

    Raises:
        NotPlainError: it is not plain.
    """
    values: dict[str, Any] = {}
    given: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word == "-":
            given.append(word)
            continue
        spelt, has_value, value = word.partition("=")
        if spelt not in declared.options:
            raise NotPlainError
        name, kind, truth = declared.options[spelt]
        if kind is bool:
            if has_value or name in values:
                raise NotPlainError
            values[name] = truth
            continue
        if not has_value:
            value = next(rest, None) or ""
            if not value:
                raise NotPlainError
        _take(values, name, kind, value)
    for (name, _), text in zip(declared.arguments, given, strict=False):
        values[name] = text
    needed = sum(is_needed for _, is_needed in declared.arguments)
    if not needed <= len(given) <= len(declared.arguments):
        raise NotPlainError
    return values


def _take(values: dict[str, Any], name: str, kind: object, value: str) -> None:
    """Put one value where it belongs.

    Raises:
        NotPlainError: it is there already, or of a kind that Typer has to check.
    """
    if kind == list[str]:
        values.setdefault(name, []).append(value)
    elif name in values:
        raise NotPlainError
    elif kind is str:
        values[name] = value
    elif isinstance(kind, type) and issubclass(kind, StrEnum) and value in list(kind):
        values[name] = kind(value)
    else:
        raise NotPlainError
