"""Read the broker's JSON files as the broker does: the `.bak` where the file itself will not do.

Which files are damaged is judged in config.py; the other checks only want the content.
Source: ConfigManager#load, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rmqtool.errors import DecodeError, UnreadablePath
from rmqtool.formats import config
from rmqtool.store.branch import BranchKind, Level
from rmqtool.store.place import EntryKind, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store.place import Place
    from rmqtool.store.tree import Store

LARGEST_CONFIG: Final = 256 << 20  # bytes; consumer offsets of a large broker have some MiB
BACKUP: Final = ".bak"
JSON_WITHOUT_SUFFIX: Final = frozenset({"timermetrics", "transactionMetrics"})


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """One file of `config/`.

    Attributes:
        place: where it lies.
        path: the same relative to the store root.
        name: last part of the path.
        size: bytes.
    """

    place: Place
    path: str
    name: str
    size: int

    @property
    def is_json(self) -> bool:
        """Whether a broker writes JSON under this name."""
        name = self.name.removesuffix(BACKUP)
        return name.endswith(".json") or name in JSON_WITHOUT_SUFFIX

    def parse(self) -> dict[str, Any]:
        """Read it.

        Raises:
            UnreadablePath: it cannot be read.
            DecodeError: it is not what a broker writes.
        """
        return config.parse_object(self.place.read(LARGEST_CONFIG), path=self.path)


def config_files(store: Store) -> Iterator[ConfigFile]:
    """Give the files of `config/`, or the one that was asked for.

    Raises:
        UnreadablePath: the directory may not be listed.
    """
    for branch in store.branches_of(BranchKind.CONFIG):
        if branch.level is Level.FILE:
            entry = branch.place.stat()
            if entry is not None:
                yield ConfigFile(branch.place, branch.path, branch.place.name, entry.size)
            continue
        for entry in branch.place.entries():
            if entry.kind is EntryKind.FILE:
                path = f"{branch.path}/{printable(entry.name)}"
                yield ConfigFile(branch.place.child(entry.name), path, entry.name, entry.size)


def document(store: Store, name: str) -> tuple[dict[str, Any], str] | None:
    """Give what the broker would load under a name, and the path it came from; None for nothing."""
    try:
        files = {file.name: file for file in config_files(store)}
    except UnreadablePath:
        return None  # config.py says so
    for candidate in (name, name + BACKUP):
        file = files.get(candidate)
        if file is None:
            continue
        try:
            return file.parse(), file.path
        except (UnreadablePath, DecodeError):
            continue
    return None
