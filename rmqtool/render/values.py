r"""Values as text: exact in JSON, harmless on a terminal, in a table or in a CSV file.

A store holds what strangers sent. Nothing of it may steer a terminal (escape sequences, C1
controls), turn the reading direction, look like another text, or run in a spreadsheet. So every
character that does not print, and the backslash itself, is written as an escape (`\x1b`,
`\u202e`, `\\`); that keeps different contents different, too. JSON needs no such loss: there the
same characters are `\u` escapes, which every reader turns back into exactly what was stored.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Final

import orjson

from rmqtool.times import iso_time

if TYPE_CHECKING:
    from collections.abc import Callable

_PIECE: Final = 1 << 16  # characters of a text that are escaped at a time
_NOT_PLAIN: Final = re.compile(r"[^ -\[\]-~]+")
_NOT_ASCII: Final = re.compile(r"[^ -~]")
_KEPT: Final = 4096  # bytes that orjson takes for the shortest line
# What begins a formula; spreadsheets of East Asia take the full-width characters, too.
_FORMULA: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SIMPLE: Final = frozenset({str, int, float, bool, type(None)})  # most rows have nothing else
_DEEPEST: Final = 100  # levels of nesting; orjson ends at 254
# What orjson leaves as it is, and a terminal or an editor may act on: DEL, C1, everything that
# turns, joins, hides or separates without being seen. All of it can only stand inside a string.
_RAW_IN_JSON: Final = re.compile(
    "[\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]+"
)


def escape(text: str) -> str:
    """Give the text with every character that does not print as an escape."""
    if text.isprintable() and "\\" not in text:
        return text
    return _replaced(_NOT_PLAIN, _escape_run, text)


def _replaced(
    pattern: re.Pattern[str], escape_run: Callable[[re.Match[str]], str], text: str
) -> str:
    """Escape what a pattern finds, piece by piece: a text may have millions of such characters."""
    if len(text) <= _PIECE:
        return pattern.sub(escape_run, text)
    pieces = (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
    return "".join([pattern.sub(escape_run, piece) for piece in pieces])


def _escape_run(match: re.Match[str]) -> str:
    return "".join(map(_escape_character, match.group()))


@lru_cache(maxsize=1 << 10)
def _escape_character(character: str) -> str:
    if character.isprintable() and character != "\\":
        return character
    return character.encode("unicode_escape").decode("ascii")


def as_text(value: object) -> str:
    """Give any value on one harmless line: nothing for None, JSON for a mapping."""
    if value is None:
        return ""
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, Mapping):
        return _NOT_ASCII.sub(_escape_in_json, dump_json(_plain(value)).decode())
    if isinstance(value, list | tuple | set | frozenset):
        return " ".join(as_text(item) for item in value)
    return _scalar_text(value)


def _scalar_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return iso_time(_milliseconds(value))
    if isinstance(value, bytes):
        return escape(value.decode("utf-8", "surrogateescape"))
    return escape(str(value))


def as_csv(value: object) -> str:
    """Give a value as a CSV cell: as in a table, and no spreadsheet takes it for a formula."""
    text = as_text(value)
    if not isinstance(value, int | float) and text.startswith(_FORMULA):
        return f"'{text}"
    return text


def json_row(row: Mapping[str, object]) -> dict[str, object]:
    """Give a row as plain JSON values, in the order of its fields.

    Bytes are text; where they are not UTF-8 the text has replacement characters, and a twin
    field with `_b64` after its name holds them exactly.
    """
    plain: dict[str, object] = {}
    for name, value in row.items():
        plain[name] = _plain(value)
        if raw := _raw_if_not_text(value):
            plain[f"{name}_b64"] = base64.b64encode(raw).decode("ascii")
    return plain


def json_line(row: Mapping[str, object], columns: Sequence[str]) -> bytes:
    """Give some fields of a row as one line of JSON.

    Args:
        row: what is missing is null.
        columns: names of the fields, in order.
    """
    is_whole = (*row,) == tuple(columns)
    values = row if is_whole else {name: row.get(name) for name in columns}
    if _SIMPLE.issuperset(map(type, values.values())):
        try:
            return dump_json(values, orjson.OPT_APPEND_NEWLINE)
        except TypeError:  # a file name that is no text, an integer of more than 64 bits
            pass
    return dump_json(json_row(values), orjson.OPT_APPEND_NEWLINE)


def json_lines(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> bytes:
    """Give some fields of rows as JSON, a line each: see `json_line`; nothing without rows."""
    if len(rows) > 1 and columns and columns[0].isidentifier():  # one may be long: it is not copied
        lines = _lines_at_once(rows, tuple(columns))
        if lines is not None:
            return lines
    return b"".join([json_line(row, columns) for row in rows])


def _lines_at_once(rows: Sequence[Mapping[str, object]], columns: tuple[str, ...]) -> bytes | None:
    """Give rows that have just these fields, all simple; None for others."""
    types = set(map(type, chain.from_iterable(row.values() for row in rows)))
    if set(map(tuple, rows)) != {columns} or not _SIMPLE.issuperset(types):
        return None
    try:
        text = dump_json(rows)
    except TypeError:  # see `json_line`
        return None
    # No value is an object, and what follows a text is no letter: only between two rows does one
    # end and another begin with this name.
    begin = b"{" + dump_json(columns[0])
    return text[1:-1].replace(b"}," + begin, b"}\n" + begin) + b"\n"


def _raw_if_not_text(value: object) -> bytes | None:
    """Give the bytes of a value that has no UTF-8 text; None for all others."""
    if isinstance(value, bytes):
        raw = value
    elif isinstance(value, str) and not value.isascii():
        raw = _encode(value)
    else:
        return None
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw
    return None


def _encode(text: str) -> bytes:
    """Give the bytes of a text: those of a file name where Python kept them as surrogates."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")  # a lone half of a pair, out of JSON


def _plain(value: object, depth: int = 0) -> object:
    """Give a value made of what JSON knows."""
    if isinstance(value, str):
        return value if value.isascii() else _encode(value).decode("utf-8", "replace")
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, datetime):
        return iso_time(_milliseconds(value))
    if isinstance(value, Mapping | Sequence | set | frozenset):
        return _plain_container(value, depth)
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(value)  # no 64-bit reader would keep it
    return value


def _plain_container(
    value: Mapping[object, object] | Sequence[object] | set[object] | frozenset[object], depth: int
) -> object:
    if depth >= _DEEPEST:
        return str(value)
    if isinstance(value, Mapping):
        return {_plain(str(key)): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_plain(item, depth + 1) for item in value]
    return sorted(str(item) for item in value)


def _milliseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def dump_json(value: object, option: int = 0) -> bytes:
    """Give the UTF-8 JSON of plain values, with what does not print as Unicode escapes."""
    raw = orjson.dumps(value, option=option)
    if raw.isascii() and b"\x7f" not in raw:
        # A copy of what is short: orjson's own keeps 4 KiB.
        return bytes(memoryview(raw)) if len(raw) < _KEPT else raw
    return _replaced(_RAW_IN_JSON, _escape_json, raw.decode()).encode()


def _escape_in_json(match: re.Match[str]) -> str:
    return match.group() if match.group().isprintable() else _escape_json(match)


def _escape_json(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be")  # a pair of escapes beyond the first plane
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
