"""The broker's JSON files, with the fallback to `.bak` that the broker itself has.

Source: ConfigManager#load, #loadBak, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rmqtool.errors import DecodeError, UnreadablePath
from rmqtool.formats.config import parse_object
from rmqtool.store.place import EntryKind

if TYPE_CHECKING:
    from rmqtool.store.place import Place

BACKUP = ".bak"
LARGEST_CONFIG = 1 << 30  # consumerOffset.json of 50,000 queues and many groups has some 100 MB
# JSON without the extension; compaction/position-checkpoint is one more.
METRICS = {"timermetrics", "transactionMetrics"}


@dataclass(frozen=True, slots=True)
class ConfigDocument:
    """What one configuration file says.

    Attributes:
        name: of the file, without `.bak`.
        path: the file that was taken, relative to the store root; empty when none could be.
        document: its content; empty when no file could be taken.
        is_backup: the `.bak` was taken, as the broker would do.
        problems: why a file was not taken, one sentence each.
    """

    name: str
    path: str
    document: dict[str, Any] = field(repr=False)
    is_backup: bool
    problems: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.path)


def read_config(place: Place, path: str) -> ConfigDocument:
    """Read a configuration file; the `.bak` where it is missing, empty or cannot be parsed.

    Nothing raises: a broker without the file takes its defaults, and says nothing.

    Args:
        place: of the file; it need not exist.
        path: the same relative to the store root.
    """
    problems: list[str] = []
    for suffix in ("", BACKUP):
        found = _read(place.parent.child(place.name + suffix), path + suffix, problems)
        if found is not None:
            return ConfigDocument(place.name, path + suffix, found, bool(suffix), (*problems,))
    return ConfigDocument(place.name, "", {}, False, (*problems,))


def is_json(name: str) -> bool:
    """Tell by its name whether a file in `config` holds JSON."""
    name = name.removesuffix(BACKUP).removesuffix(".tmp")
    return name.endswith(".json") or name in METRICS


def _read(place: Place, path: str, problems: list[str]) -> dict[str, Any] | None:
    try:
        entry = place.stat()
        if entry is None:
            return None
        if entry.kind is not EntryKind.FILE:
            problems.append(f"{path}: is a {entry.kind}, not a file")
            return None
        raw = place.read(LARGEST_CONFIG)
    except UnreadablePath as error:
        problems.append(str(error))
        return None
    if not raw.strip(b"\0 \t\r\n"):
        problems.append(f"{path}: is empty")
        return None
    try:
        return parse_object(raw, path=path)
    except DecodeError as error:
        problems.append(str(error))
        return None
