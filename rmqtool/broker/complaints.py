"""What a broker passes over in its broker.conf without a word: keys and values.

A key is known to the releases that keys.py lists. What a broker makes of a value is in conf.py for
the keys that matter here; of others it is the type that tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rmqtool.broker.conf import KEYS, LENGTHS, PATHS, Key, parse_boolean, parse_integer
from rmqtool.broker.keys import OF_THE_MACHINE, KnownKey, known_keys
from rmqtool.broker.rules import Rules
from rmqtool.formats.java import parse_long

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.broker.conf import BrokerConf
    from rmqtool.broker.release import Version

MEANT: Final = 0.9  # so much alike are a key and the one that was meant
ALIKE: Final = 0.75  # so much are a key and the one that is named as a hint
NUMBER: Final = "a number without spaces"


class Complaint(NamedTuple):
    """One thing about a broker.conf that a broker passes over without a word."""

    key: str  # as it is spelled in the file
    line: int  # its number, from 1; 0 when it is not known
    value: str  # as it is in the file
    says: str  # what is wrong and what counts instead, a phrase
    # another release knows the key, as one file is often used for several, or nothing tells that
    # another key was meant: a broker may be of a company that has keys of its own
    is_note: bool = False

    def __str__(self) -> str:
        return f"line {self.line}: {self.key}: {self.says}"


def complaints(conf: BrokerConf, version: Version) -> Iterator[Complaint]:
    """Yield what a broker of a release passes over in its file: what it takes for not given."""
    known = known_keys()
    for name, value in conf.values.items():
        row = known.get(name)
        is_note = row is not None and not row.is_known_to(version)
        if row is None:
            says, is_note = _unknown(name, version)
        elif is_note:
            says = _of_another(row, value, version)
        elif name in KEYS:
            says = _passed_over(KEYS[name], value, version)
        else:
            says = _unreadable(row, value)
        if says:
            yield Complaint(name, conf.lines.get(name, 0), value, says, is_note)


def _unknown(name: str, version: Version) -> tuple[str, bool]:
    """Say which key is near one that no release knows, and whether that is only a hint."""
    from difflib import get_close_matches  # seldom needed, and slow to load

    names = [row.name for row in known_keys().values() if row.is_known_to(version)]
    meant = [known for known in names if known.casefold() == name.casefold()]
    meant = meant or get_close_matches(name, names, 1, MEANT)
    if meant:
        return f"brokers ignore it: the key is {meant[0]}", False
    near = get_close_matches(name, names, 1, ALIKE)
    hint = f"; the nearest key is {near[0]}" if near else ""
    return f"no release knows this key, so {version} ignores it{hint}", True


def _of_another(row: KnownKey, value: str, version: Version) -> str:
    """Say which release knows a key that this one does not; empty where that changes nothing."""
    ours = KEYS.get(row.name)
    read = ours.read(value) if ours else _read(row.type, value)
    if read is None or value == row.default or (ours and read == ours.default):
        return ""
    later = [span.first for span in row.spans if span.first > version]
    if later:
        return f"{version} ignores it: {later[0]} brought it"
    return f"{version} ignores it: {row.spans[-1].last} was the last release that knew it"


def _read(java_type: str, text: str) -> object:
    """Read a text as Java does; None where it leaves the default."""
    match java_type:
        case "int":
            return parse_integer(text)
        case "long":
            return parse_long(text)
        case "boolean":
            return parse_boolean(text)
    return text.strip() or None


def _unreadable(row: KnownKey, value: str) -> str:
    """Say what counts in place of a value that the type of its key does not allow."""
    if row.type in {"int", "long"} and _read(row.type, value) is None:
        default = "" if row.default == OF_THE_MACHINE else f" {row.default}"
        return f"{value!r} is not {NUMBER}: the default{default} counts"
    if row.type == "boolean" and value.lower() not in {"true", "false"}:
        return f"{value!r} is not true or false: it counts as false"
    return ""


def _passed_over(key: Key[Any], value: str, version: Version) -> str:
    read = key.read(value)
    if read is None and key.default != "":
        return f"{value!r} is not {key.expects}: the default {key.default} counts"
    if key in LENGTHS and read is not None and read <= 0:
        return f"{value} is not a length that a broker works with"
    if read is False and value.lower() != "false":
        return f"{value!r} is not {key.expects}: it counts as false"
    if key in PATHS and value != value.strip() and not Rules(version).trims_settings:
        return f"{version} takes the spaces at the end of {value!r} for part of the path"
    return ""
