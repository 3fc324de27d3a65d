"""The manifest of a store: what its files were when a validation had read them.

One JSON document. A later validation takes it to say what changed since, and to leave unread what
a broker never touches again: the sealed segments of an append-only log.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from rmqtool.check.manifest.circumstances import Circumstances
from rmqtool.check.options import CheckLevel
from rmqtool.errors import StoreError
from rmqtool.formats.config import load_written
from rmqtool.store.address import place_of

if TYPE_CHECKING:
    import os

FORMAT: Final = "rmqtool manifest 2"
# Its `sha256` is that of the used bytes, which is now `used_sha256`.
OLDEST: Final = "rmqtool manifest 1"
_BEGINS: Final = tuple(
    json.dumps({"format": format_}).encode()[:-1] for format_ in (FORMAT, OLDEST)
)
MOST_BYTES: Final = 1 << 30  # of a manifest that is read: some four million files


class ManifestFile(NamedTuple):
    """One file of a store."""

    path: str  # relative to the store root, `/` separated
    kind: str  # what it is, as `dump --as` calls it
    size: int  # bytes
    mtime_ns: int  # last change, ns since 1970 UTC
    inode: int  # its number in the file system; 0 where there is not one
    used: int = 0  # bytes up to the last one that is not zero: files are made ahead of need
    # of these bytes; empty when the file could not be read, or changed meanwhile
    used_sha256: str = ""
    # of the whole file, as `sha256sum` gives it; empty for that, and for holes of 4 GiB and more
    sha256: str = ""
    records: int | None = None  # messages, queue units or index entries; None for other files
    # a commitlog segment after which the log goes on: brokers never write to it again
    sealed: bool = False
    # of a sealed segment, as `DefaultMessageStore#calcDeltaChecksum` gives it for the physical
    # offsets of the file; empty where none was made
    range_checksum: str = ""

    def is_same_file(self, other: ManifestFile) -> bool:
        """Tell whether nothing hints at a change; the content was not looked at."""
        return (self.size, self.mtime_ns, self.inode) == (other.size, other.mtime_ns, other.inode)

    def is_same_content(self, other: ManifestFile) -> bool:
        """Tell whether both were read and hold the same."""
        is_same = bool(self.used_sha256) and self.used_sha256 == other.used_sha256
        return is_same and self.used == other.used and (self.size == other.size or not other.sealed)


class Change(enum.StrEnum):
    """What became of a file since a manifest was made."""

    NEW = "new"
    GONE = "gone"
    GROWN = "grown"
    REWRITTEN = "rewritten"
    SAME = "the same"
    TAKEN_OVER = "taken over"


def change_of(then: ManifestFile | None, now: ManifestFile, until_mark: str) -> Change:
    """Say what became of a file.

    Args:
        then: what the manifest says of it; None where it does not know the file.
        now: what the file is.
        until_mark: sha256 of its bytes up to where the used ones ended then.
    """
    if then is None:
        return Change.NEW
    if now.is_same_content(then):
        return Change.SAME
    is_same_until = until_mark == then.used_sha256 or not then.used
    if then.used_sha256 and is_same_until and not then.sealed:  # made ahead of need
        return Change.GROWN
    return Change.REWRITTEN  # as far as anybody knows, where one of them could not be read


def is_manifest(path: str) -> bool:
    """Tell by its first bytes whether a file is a manifest."""
    try:
        with place_of(path).open() as file:
            return file.read_at(0, len(_BEGINS[0])) in _BEGINS
    except StoreError:
        return False


class Manifest(NamedTuple):
    """All files of a store after one validation."""

    store: str  # absolute path of the store root
    level: CheckLevel  # how deep it was validated, what was taken over included
    is_proven: bool  # all of the log, its queues and its index were compared, and nothing was wrong
    log_end: int  # where the next record goes
    files: dict[str, ManifestFile]  # by path
    made: Circumstances | None = None  # who made it, where, when, by which command

    def encode(self) -> bytes:
        """Give the document; one line a file, so that two manifests can be compared by `diff`."""
        head = {
            "format": FORMAT,
            **({} if self.made is None else {"made": dataclasses.asdict(self.made)}),
            "store": self.store,
            "level": str(self.level),
            "is_proven": self.is_proven,
            "log_end": self.log_end,
        }
        lines = ",\n".join(json.dumps(file._asdict()) for file in self.files.values())
        text = json.dumps(head)[:-1] + f', "files": [\n{lines}\n]}}\n'
        return text.encode("utf-8", "backslashreplace")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a manifest.

        Raises:
            UnreadablePath: it cannot be read.
            StoreError: it is not one.
        """
        raw = place_of(path).read(MOST_BYTES)
        try:
            return cls.decode(raw)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            reason = "is not a manifest of rmqtool validate --manifest"
            raise StoreError(path=str(path), reason=reason) from error

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Take a document apart.

        Raises:
            ValueError, TypeError, KeyError, RecursionError: it is no manifest.
        """
        document = load_written(raw)
        if document["format"] not in {FORMAT, OLDEST}:
            message = f"not the format {FORMAT!r}"
            raise ValueError(message)
        is_old = document["format"] == OLDEST
        files = [_file(_newer(entry) if is_old else entry) for entry in document["files"]]
        made = document.get("made")
        return cls(
            str(document["store"]),
            CheckLevel(document["level"]),
            document["is_proven"] is True,
            int(document["log_end"]),
            {file.path: file for file in files},
            None if made is None else Circumstances(**made),
        )


def _newer(facts: dict[str, Any]) -> dict[str, Any]:
    """Give one file's line of the oldest format as the newest has it."""
    return {**facts, "used_sha256": facts["sha256"], "sha256": ""}


_TEXTS: Final = ("path", "kind", "sha256", "used_sha256", "range_checksum")
_KINDS: Final = {**dict.fromkeys(_TEXTS, str), "sealed": bool}


def _file(facts: dict[str, Any]) -> ManifestFile:
    """Read one file's line; what another release may have added is passed over."""
    known = {name: facts[name] for name in ManifestFile._fields}
    for name, value in known.items():
        kind = _KINDS.get(name, int)
        if not isinstance(value, kind) and not (name == "records" and value is None):
            message = f"{name} is {value!r}"
            raise TypeError(message)
    return ManifestFile(**known)
