"""A plain command line without Typer, for lookups, whose answer must be instant.

Typer and the pydantic behind it take longer to import than a lookup takes to answer. What is not
plain (help, a wrong option, a missing value) is left to Typer, which has the words for it; that
both read a command line alike is tested over all options.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMAND: Final = "query"
ARGUMENTS: Final = ("store", "requests")
TEXTS: Final = {
    "--id": "id_",
    "--at": "at",
    "--queue": "queue",
    "--queue-offset": "queue_offset",
    "--time": "time",
    "--transaction": "transaction",
    "--like-broker": "like_broker",
    "--body-limit": "body_limit",
    "--broker-conf": "broker_conf",
    "--output": "output",
    "--columns": "columns",
    "--color": "color",
    "--time-zone": "time_zone",
}
LISTS: Final = {"--key": "key", "--topic": "topic"}
CHOICES: Final = {"--boundary": "boundary", "--body": "body", "--format": "format_"}
FLAGS: Final = {
    "--trace": ("trace", True),
    "--explain": ("explain", True),
    "--scan": ("scan", True),
    "--no-scan": ("scan", False),
    "--raw": ("raw", True),
    "--hex": ("hex_", True),
    "--quiet": ("quiet", True),
    "-q": ("quiet", True),
}


class NotPlainError(Exception):
    """This command line is for Typer."""


def call(words: Sequence[str]) -> int | None:
    """Run a command line and return its exit code; None when Typer is to do it.

    Args:
        words: without the program's name.
    """
    if not words or words[0] != COMMAND:
        return None
    gc.disable()  # what is imported stays: looking through it again and again takes 6 of 90 ms
    from rmqtool.cli.answer_query import Asked, run

    gc.enable()
    try:
        values = _values(words[1:])
    except NotPlainError:
        return None
    return run(Asked(**values))  # type: ignore[arg-type]  # checked one by one below


def _values(words: Sequence[str]) -> dict[str, object]:
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
        elif word in FLAGS:
            name, truth = FLAGS[word]
            _set(values, name, truth)
        else:
            spelt, separator, value = word.partition("=")
            _take(values, spelt, value if separator else next(rest, ""))
    if not 1 <= len(given) <= len(ARGUMENTS):
        raise NotPlainError
    return values | dict(zip(ARGUMENTS, given, strict=False))


def _take(values: dict[str, object], spelt: str, value: str) -> None:
    """Put one value where it belongs.

    Raises:
        NotPlainError: Typer has to look at it.
    """
    if not value:
        raise NotPlainError
    if spelt in LISTS:
        found = values.setdefault(LISTS[spelt], [])
        if isinstance(found, list):
            found.append(value)
    elif spelt in TEXTS:
        _set(values, TEXTS[spelt], value)
    elif spelt in CHOICES:
        _set(values, CHOICES[spelt], _choice(CHOICES[spelt], value))
    else:
        raise NotPlainError


def _set(values: dict[str, object], name: str, value: object) -> None:
    if name in values:
        raise NotPlainError
    values[name] = value


def _choice(name: str, value: str) -> object:
    from rmqtool.query.requests import Boundary
    from rmqtool.render.emit import Format
    from rmqtool.tables.bodies import BodyMode

    kind = {"boundary": Boundary, "body": BodyMode, "format_": Format}[name]
    if value not in list(kind):
        raise NotPlainError
    return kind(value)
