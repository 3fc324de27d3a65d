"""The broker's JSON dialect: fastjson, which writes integer keys of maps without quotes.

A key that is an object itself, as clients write it, becomes its own text without spaces.

Zeros past the end, as a crash leaves them, end the text; `null` in place of an object is not one.

What the files hold is in config_shapes.py. Strict JSON, as RocksDB values and metrics are, is
accepted alike.
Source: ConfigManager, RemotingSerializable, 4.9.3 to 5.5.0; observed, 5.3.3 and 5.5.0.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any, Final, NoReturn, TypeAlias, cast

from rmqtool.budget import OverBudget, ParseBudget
from rmqtool.errors import DecodeError

Json: TypeAlias = dict[str, Any] | list[Any] | str | int | float | bool | None

# A string is taken whole, so that what looks like a key inside of it is left alone; one that never
# ends runs to the end of the text, or a hostile file would be searched once for each of its quotes.
_STRING_OR_BARE_KEY: Final = (
    r'(?s)"(?:[^"\\]++|\\.)*+"?|(?<=[{,\s])-?\d++(?=\s*+:)'
    r'|\{[^{}"]*+(?:"(?:[^"\\]++|\\.)*+"[^{}"]*+)*+\}(?=\s*+:)'  # an object as a key
)
# Of a text of brackets each byte takes 24 bytes of memory, of one of small objects each value 100.
# 1,500,000 are the offsets of 30 groups in 50,000 queues.
MOST_VALUES: Final = 1_500_000
VALUE_STEPS: Final = 10  # see `budget`
BYTES_A_STEP: Final = 3
STEPS_OF_A_STORE: Final = 2 * MOST_VALUES * VALUE_STEPS  # a file and its `.bak`
STEPS_OF_A_DOCUMENT: Final = 80_000_000  # of a manifest of some 600,000 files
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_QUOTE: Final = '"'


def budget_of_store() -> ParseBudget:
    """Give what all configuration files of a store may cost, whatever their number."""
    return ParseBudget("the configuration files of this store, together,", free=STEPS_OF_A_STORE)


def load_written(raw: bytes) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Read a document that rmqtool wrote, and that a stranger may have changed.

    Raises:
        ValueError, RecursionError: it is no JSON, or has too many values.
    """
    budget = ParseBudget("its values", free=STEPS_OF_A_DOCUMENT)
    budget.spend(_values_in(raw) * VALUE_STEPS)
    return json.loads(raw)


def steps_of(name: bytes, raw: bytes) -> int:
    """Give what a row of configuration costs, before it is parsed: its name is kept, too."""
    return _values_in(raw) * VALUE_STEPS + (len(name) + len(raw)) // BYTES_A_STEP


def _values_in(raw: bytes) -> int:
    return sum(map(raw.count, (b",", b"[", b"{"))) + 1


def parse(raw: bytes, *, path: str = "<bytes>", budget: ParseBudget | None = None) -> Json:
    """Read a configuration file; map keys become text, as in any JSON.

    Args:
        raw: the file's bytes, UTF-8.
        path: where they came from, for the error.
        budget: of all files of the store; each path pays once. None where somebody else bounds it.

    Raises:
        DecodeError: it cannot be read, and the broker then takes the `.bak`; or it has more values
            than are read, or all files together have.
    """
    values = _values_in(raw)
    if values > MOST_VALUES:
        reason = f"its values are some {values:,}; of such a file at most {MOST_VALUES:,} are read"
        raise DecodeError(path=path, position=0, field="json", reason=reason)
    if budget is not None:
        try:
            budget.spend_once(path, values * VALUE_STEPS)
        except OverBudget as error:
            raise DecodeError(path=path, position=0, field="json", reason=str(error)) from error
    text = raw.rstrip(b"\0").decode("utf-8", "replace").removeprefix("\ufeff")
    try:
        document = _load(text)
        return _without_surrogates(document) if "\\u" in text else document
    except json.JSONDecodeError as error:
        position = len(text[: _position(text, error)].encode())
        raise DecodeError(path=path, position=position, field="json", reason=error.msg) from error
    except (ValueError, RecursionError) as error:  # too many digits; too deep
        raise DecodeError(path=path, position=0, field="json", reason=str(error)) from error


def parse_object(
    raw: bytes, *, path: str = "<bytes>", budget: ParseBudget | None = None
) -> dict[str, Any]:
    """Read a configuration file that must hold one object, as all of the broker's do.

    Raises:
        DecodeError: it cannot be read, or is something else.
    """
    document = parse(raw, path=path, budget=budget)
    if document is None:
        return {}
    if not isinstance(document, dict):
        reason = f"an object is needed, this is {type(document).__name__}"
        raise DecodeError(path=path, position=0, field="json", reason=reason)
    return document


def _load(text: str) -> Json:
    """Try strict JSON first: the regular expression costs more than the whole parse."""
    try:
        return cast("Json", json.loads(text, parse_constant=_refuse_constant))
    except json.JSONDecodeError:
        quoted = re.sub(_STRING_OR_BARE_KEY, _quote_bare_key, text)
        return cast("Json", json.loads(quoted, parse_constant=_refuse_constant))


def _position(text: str, error: json.JSONDecodeError) -> int:
    """Give where in the text an error is, without what we had put before it."""
    added = 0
    if error.doc != text:
        for match in re.finditer(_STRING_OR_BARE_KEY, text):
            if match.end() + added >= error.pos:
                break
            added += len(_quote_bare_key(match)) - len(match.group())
    return error.pos - added


def _quote_bare_key(match: re.Match[str]) -> str:
    key = match.group()
    if key.startswith(_QUOTE):
        return key
    if key.startswith("{"):
        with suppress(json.JSONDecodeError):
            key = json.dumps(json.loads(key), ensure_ascii=False, separators=(",", ":"))
        return json.dumps(key, ensure_ascii=False)
    return f"{_QUOTE}{key}{_QUOTE}"


def _refuse_constant(name: str) -> NoReturn:
    message = f"{name} is not a JSON number"
    raise ValueError(message)


def _without_surrogates(value: Json) -> Json:
    """Replace lone surrogates, which JSON can escape but no encoding can carry."""
    match value:
        case str():
            return _SURROGATE.sub("\ufffd", value)
        case list():
            return [_without_surrogates(item) for item in value]
        case dict():
            return {
                _SURROGATE.sub("\ufffd", name): _without_surrogates(item)
                for name, item in value.items()
            }
        case _:
            return value
