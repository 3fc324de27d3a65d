"""A plain command line without Typer, for commands whose answer must be instant.

Typer and the pydantic behind it take longer to import than a lookup takes to answer. What is not
plain (help, a wrong option, a missing value) is left to Typer, which has the words for it; that
both read a command line alike is tested over all options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Plain(NamedTuple):
    """How a command's plain line is read; each option by the name of its parameter.

    Attributes:
        arguments: parameters without an option, the first one required.
        texts: options that are taken as they stand.
        lists: options that may be given again.
        choices: options that have few values.
        flags: options without a value, and what they mean.
    """

    arguments: tuple[str, ...]
    texts: Mapping[str, str]
    lists: Mapping[str, str]
    choices: Mapping[str, str]
    flags: Mapping[str, tuple[str, bool]]


_DELIVERY: Final = {
    "--broker-conf": "broker_conf",
    "--output": "output",
    "--columns": "columns",
    "--color": "color",
    "--time-zone": "time_zone",
}
_QUIET: Final = {"--quiet": ("quiet", True), "-q": ("quiet", True)}
COMMANDS: Final = {
    "info": Plain(("store",), _DELIVERY, {"--section": "section"}, {"--format": "format_"}, _QUIET),
    "query": Plain(
        ("store", "requests"),
        _DELIVERY
        | {
            "--id": "id_",
            "--at": "at",
            "--queue": "queue",
            "--queue-offset": "queue_offset",
            "--time": "time",
            "--transaction": "transaction",
            "--like-broker": "like_broker",
            "--body-limit": "body_limit",
        },
        {"--key": "key", "--topic": "topic"},
        {"--boundary": "boundary", "--body": "body", "--format": "format_"},
        _QUIET
        | {
            "--trace": ("trace", True),
            "--explain": ("explain", True),
            "--scan": ("scan", True),
            "--no-scan": ("scan", False),
            "--raw": ("raw", True),
            "--hex": ("hex_", True),
        },
    ),
}


class NotPlainError(Exception):
    """This command line is for Typer."""


def call(words: Sequence[str]) -> int | None:
    """Run a command line and return its exit code; None when Typer is to do it.

    Args:
        words: without the program's name.
    """
    if not words or words[0] not in COMMANDS:
        return None
    command, *rest = words
    try:
        values = _values(rest, COMMANDS[command])
    except NotPlainError:
        return None
    if command == "info":
        from rmqtool.cli import answer_info

        return answer_info.run(answer_info.Asked(**values))  # type: ignore[arg-type]  # by name
    from rmqtool.cli import answer_query

    return answer_query.run(answer_query.Asked(**values))  # type: ignore[arg-type]  # by name


def _values(words: Sequence[str], plain: Plain) -> dict[str, object]:
    """Read a command line.

    Raises:
        NotPlainError: it is not plain.
    """
    values: dict[str, object] = {}
    given: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word == "-":
            given.append(word)
        elif word in plain.flags:
            name, truth = plain.flags[word]
            _set(values, name, truth)
        else:
            spelt, separator, value = word.partition("=")
            _take(values, plain, spelt, value if separator else next(rest, ""))
    if not 1 <= len(given) <= len(plain.arguments):
        raise NotPlainError
    return values | dict(zip(plain.arguments, given, strict=False))


def _take(values: dict[str, object], plain: Plain, spelt: str, value: str) -> None:
    """Put one value where it belongs.

    Raises:
        NotPlainError: Typer has to look at it.
    """
    if not value:
        raise NotPlainError
    if spelt in plain.lists:
        found = values.setdefault(plain.lists[spelt], [])
        if isinstance(found, list):
            found.append(value)
    elif spelt in plain.texts:
        _set(values, plain.texts[spelt], value)
    elif spelt in plain.choices:
        _set(values, plain.choices[spelt], _choice(plain.choices[spelt], value))
    else:
        raise NotPlainError


def _set(values: dict[str, object], name: str, value: object) -> None:
    if name in values:
        raise NotPlainError
    values[name] = value


def _choice(name: str, value: str) -> object:
    """Give a value of one of few.

    Raises:
        NotPlainError: it is none of them.
    """
    from rmqtool.query.requests import Boundary
    from rmqtool.render.emit import Format
    from rmqtool.tables.bodies import BodyMode

    kind = {"boundary": Boundary, "body": BodyMode, "format_": Format}[name]
    if value not in list(kind):
        raise NotPlainError
    return kind(value)
