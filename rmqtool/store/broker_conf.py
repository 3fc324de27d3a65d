r"""A broker's configuration file: Java properties, of which rmqtool reads what concerns the store.

Source: BrokerStartup (Properties#load on a byte stream, so ISO 8859-1 and `\uXXXX`),
MessageStoreConfig, BrokerConfig, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import PurePath

from rmqtool.errors import UsageError
from rmqtool.store.place import Place
from rmqtool.store.remote import place_of

LARGEST_CONF = 1 << 20
MULTI_PATH_SPLITTER = ","  # JVM property rocketmq.broker.multiPathSplitter; not in the file

# Brokers know those of the log; the others stand in many a broker.conf, and say what is meant.
NAMES_A_PLACE = re.compile(r"storePath\w+|readOnlyCommitLogStorePaths|storeCheckpoint|abortFile")
CONTINUED_LINE = re.compile(r"(?<!\\)(?:\\\\)*\\$")
ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
KEY_AND_VALUE = re.compile(
    r"""((?:\\.|[^\\=:\s])*)   # a key ends at the first separator that is not escaped
        [ \t\f]*[=:]?[ \t\f]*  # one sign, spaces around it
        (.*)""",
    re.VERBOSE | re.DOTALL,
)
ESCAPED_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True)
class BrokerConf:
    """What a broker.conf says, as text by key.

    Attributes:
        path: where it was read from.
        values: keys as RocketMQ spells them; the last of equal keys counts.
    """

    path: str
    values: dict[str, str] = field(default_factory=dict)

    def text(self, key: str) -> str | None:
        """Give one value; None when the file does not set it or sets it to nothing."""
        return self.values.get(key, "").strip() or None

    def integer(self, key: str) -> int | None:
        """Give one value as a number; None when the file does not set it.

        Raises:
            UsageError: it is no number. A broker would take its default without a word, and
                rmqtool would then judge by a length that was never meant.
        """
        value = self.text(key)
        if value is None:
            return None
        try:
            return int(value)
        except ValueError as error:
            reason = f"{self.path}: {key}: {value!r} is not a number"
            raise UsageError(option="--broker-conf", reason=reason) from error

    def length(self, key: str) -> int | None:
        """Give one value as a length in bytes; None when the file does not set it.

        Raises:
            UsageError: it is no positive number.
        """
        value = self.integer(key)
        if value is not None and value <= 0:
            reason = f"{self.path}: {key}: {value} is not a length"
            raise UsageError(option="--broker-conf", reason=reason)
        return value

    def flag(self, key: str) -> bool | None:
        """Give one value as true or false, as Boolean.parseBoolean does; None when not set."""
        value = self.text(key)
        return None if value is None else value.lower() == "true"

    def paths(self, key: str) -> tuple[str, ...]:
        """Give one value as a list of directories, sorted as MultiPathMappedFileQueue does."""
        value = self.text(key) or ""
        return tuple(sorted({part.strip() for part in value.split(MULTI_PATH_SPLITTER)} - {""}))


def places_elsewhere(root: Place, broker_conf: str | BrokerConf | None) -> tuple[str, ...]:
    """Give what a configuration places outside of a store root: the only places written there.

    Names below the root, the broker's own or the one at hand, are none: what lies below it may be
    a link that the owner of the store has made.

    Returns:
        Absolute paths without links.

    Raises:
        UnreadablePath: the configuration cannot be read.
    """
    if broker_conf is None:
        return ()
    conf = broker_conf if isinstance(broker_conf, BrokerConf) else read_broker_conf(broker_conf)
    roots = {root.location, conf.text("storePathRootDir") or root.location}
    roots |= {os.path.realpath(one) for one in roots}
    found = []
    for key in filter(NAMES_A_PLACE.fullmatch, conf.values):
        for path in map(PurePath, conf.paths(key)):
            above = {str(one) for one in (path, *path.parents)}
            above |= {os.path.realpath(one) for one in above}
            place = os.path.realpath(path)
            if path.is_absolute() and ".." not in path.parts and place != "/":
                found += [] if above & roots else [place]
    return tuple(dict.fromkeys(found))


def read_broker_conf(path: str | os.PathLike[str] | Place) -> BrokerConf:
    """Read a broker.conf.

    Raises:
        UnreadablePath: it cannot be read.
    """
    place = path if isinstance(path, Place) else place_of(path)
    return BrokerConf(str(place), parse_properties(place.read(LARGEST_CONF)))


def parse_properties(raw: bytes) -> dict[str, str]:
    """Read Java properties; also the form of DLedger's `checkpoint` and `currterm`."""
    values = {}
    for line in _logical_lines(raw.decode("iso-8859-1")):
        match = KEY_AND_VALUE.match(line)
        if match and match[1]:
            values[_unescaped(match[1])] = _unescaped(match[2])
    return values


def _logical_lines(text: str) -> list[str]:
    """Join continued lines; drop comments and empty lines."""
    lines: list[str] = []
    open_line: str | None = None
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(" \t\f")
        if open_line is None and (not line or line[0] in "#!"):
            continue
        line = (open_line or "") + line
        if CONTINUED_LINE.search(line):
            open_line = line[:-1]
        else:
            lines.append(line)
            open_line = None
    return [*lines, open_line] if open_line else lines


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        escaped = match[1]
        if len(escaped) > 1:
            return chr(int(escaped[1:], 16))
        return ESCAPED_CONTROLS.get(escaped, escaped)

    return ESCAPE.sub(character, text)
