"""A plain command line without Typer, for commands whose answer must be instant.

Typer and the pydantic behind it take longer to import than a lookup takes to answer. What is not
plain (help, a wrong option, a missing value) is left to Typer, which has the words for it; that
both read a command line alike is tested over all options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import enum
    from collections.abc import Mapping, Sequence


class Plain(NamedTuple):
    """How a command's plain line is read; each option by the name of its parameter.

    Attributes:
        arguments: parameters without an option, the first one required.
        texts: options that are taken as they stand.
        lists: options that may be given again.
        choices: options that have few values.
        flags: options without a value, and what they mean.
        takes_many: the one argument may be given again.
    """

    arguments: tuple[str, ...]
    texts: Mapping[str, str]
    lists: Mapping[str, str]
    choices: Mapping[str, str]
    flags: Mapping[str, tuple[str, bool]]
    takes_many: bool = False


_STORE: Final = {"--broker-conf": "broker_conf", "--columns": "columns", "--color": "color"}
_OUTPUT: Final = {"--output": "output"}
_TIME_ZONE: Final = {"--time-zone": "time_zone"}
_VERSION: Final = {"--broker-version": "broker_version"}
_DELIVERY: Final = _STORE | _OUTPUT | _TIME_ZONE
_FORMAT: Final = {"--format": "format_"}
_QUIET: Final = {"--quiet": ("quiet", True), "-q": ("quiet", True)}
_REBUILD: Final = _STORE | _OUTPUT | _VERSION
_REBUILD_FLAGS: Final = _QUIET | {
    "--in-place": ("in_place", True),
    "--check": ("check", True),
    "--dry-run": ("dry_run", True),
}
_QUEUE_FLAGS: Final = _REBUILD_FLAGS | {
    "--like-broker": ("like_broker", True),
    "--ext": ("ext", True),
}
COMMANDS: Final = {
    "info": Plain(("store",), _DELIVERY, {"--section": "section"}, _FORMAT, _QUIET),
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
        _FORMAT | {"--boundary": "boundary", "--body": "body"},
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
    "validate": Plain(
        ("paths",),
        _STORE
        | _OUTPUT
        | _VERSION
        | {
            "--level": "level",
            "--topic": "topic",
            "--fail-on": "fail_on",
            "--sarif": "sarif",
            "--junit": "junit",
            "--manifest": "manifest",
            "--since-manifest": "since_manifest",
        },
        {"--only": "only", "--ignore": "ignore"},
        _FORMAT,
        _QUIET | {"--range-checksum": ("range_checksum", True)},
        takes_many=True,
    ),
    "repair": Plain(
        ("store",),
        _STORE
        | _OUTPUT
        | _VERSION
        | {"--plan": "plan", "--apply": "apply", "--quarantine": "quarantine"},
        {},
        _FORMAT,
        _QUIET
        | {
            "--dry-run": ("dry_run", True),
            "--in-place": ("in_place", True),
            "--yes": ("yes", True),
            "--undo": ("undo", True),
            "--bridge-missing": ("bridge_missing", True),
            "--clamp-offsets": ("clamp_offsets", True),
        },
    ),
    "rebuild": Plain(("store",), _REBUILD | _TIME_ZONE, {}, _FORMAT, _QUEUE_FLAGS),
    "rebuild-cq": Plain(("store",), _REBUILD | {"--topic": "topic"}, {}, _FORMAT, _QUEUE_FLAGS),
    "rebuild-index": Plain(("store",), _REBUILD | _TIME_ZONE, {}, _FORMAT, _REBUILD_FLAGS),
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
    return _answer(command, values)


def _answer(command: str, values: Mapping[str, Any]) -> int:
    """Let a command answer; its values have the names of what it is asked."""
    if command == "info":
        from rmqtool.cli import answer_info

        return answer_info.run(answer_info.Asked(**values))
    if command == "query":
        from rmqtool.cli import answer_query

        return answer_query.run(answer_query.Asked(**values))
    if command == "validate":
        from rmqtool.cli import answer_validate

        return answer_validate.run(answer_validate.Asked(**values))
    if command == "repair":
        from rmqtool.cli import answer_repair

        return answer_repair.run(answer_repair.Asked(**values))
    from rmqtool.cli import rebuilding

    return rebuilding.run(rebuilding.Asked(target=rebuilding.TARGETS[command], **values))


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
    if given and plain.takes_many:
        return values | {plain.arguments[0]: given}
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
    kind = _kind(name)
    if value not in list(kind):
        raise NotPlainError
    return kind(value)


def _kind(name: str) -> type[enum.StrEnum]:
    """Give the values that an option has."""
    if name == "boundary":
        from rmqtool.query.requests import Boundary

        return Boundary
    if name == "body":
        from rmqtool.tables.bodies import BodyMode

        return BodyMode
    from rmqtool.render.emit import Format

    return Format
