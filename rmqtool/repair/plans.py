"""A plan: every edit of a repair, with its reason, before anything is written.

A plan can be saved and applied later; it names what it was made for: all files with their lengths
and mtimes, and the digest of each range that it replaces. A store that is another one is refused.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from rmqtool import __version__
from rmqtool.errors import RepairError, UsageError
from rmqtool.findings.registry import CODES
from rmqtool.formats.config import load_written
from rmqtool.repair.log.content import Content
from rmqtool.store.names import relative_path
from rmqtool.store.place import Place

if TYPE_CHECKING:
    from rmqtool.findings.catalogue import Code

FORMAT: Final = 1
LARGEST_PLAN: Final = 1 << 30  # bytes of a plan's file
_CHUNK: Final = 1 << 20
QUEUE_DIRECTORIES: Final = frozenset({"consumequeue", "batchconsumequeue"})  # in files


class Action(enum.StrEnum):
    """What an edit does."""

    WRITE = "write"  # bytes of a file that stays
    LENGTH = "length"  # cut it, or extend it by zeros
    CREATE = "create"  # a file where none is
    REPLACE = "replace"  # a file by another one
    REMOVE = "remove"
    REBUILD = "rebuild"  # the queues in a database, from the log as the other edits leave it


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit."""

    action: Action  # what it does
    path: str  # file, relative to the store root; absolute where the broker keeps it elsewhere
    position: int  # first byte; 0 for whole files
    length: int  # bytes there that are replaced, or go
    size: int  # bytes of the file afterwards; for `write`, those that are written
    old: str  # sha256 of what is replaced; empty where nothing is
    new: str  # sha256 of what comes; empty where nothing does
    code: Code  # of the finding that it repairs
    reason: str  # why, one sentence
    lost: str = ""  # what is lost by it, or was lost before; empty for nothing
    content: Content | None = field(default=None, repr=False)  # what comes
    mtime_ms: int | None = None  # of a new file, ms since 1970; None leaves the time of writing

    def as_json(self) -> dict[str, Any]:
        """Give the form that a plan's file has."""
        facts = {name: getattr(self, name) for name in _FACTS}
        facts["action"] = str(self.action)
        return facts | {"content": self.content.as_json() if self.content else None}

    @classmethod
    def from_json(cls, document: dict[str, Any], replica: Place | None = None) -> Edit:
        """Read that form.

        Args:
            document: of a plan's file.
            replica: the store that lends bytes; None where none is named.

        Raises:
            LookupError, TypeError, ValueError: it is no such form.
            RepairError: its path could lead elsewhere.
        """
        facts = {name: document[name] for name in _FACTS}
        for name, kind in _FACTS.items():
            if not isinstance(facts[name], kind):
                raise TypeError(name)
        facts["action"], facts["code"] = Action(facts["action"]), CODES[facts["code"]]
        relative_path(tuple(facts["path"].removeprefix("/").split("/")))
        if min(facts["position"], facts["length"], facts["size"]) < 0:
            raise ValueError(facts["path"])
        raw = document["content"]
        edit = cls(**facts, content=None if raw is None else Content.from_json(raw, replica))
        if edit.content is not None:
            is_other = not edit.content.is_lent and edit.content.sha256 != edit.new
            if is_other or edit.content.size != edit.size:  # what is lent is left to `verify`
                raise ValueError(edit.path)
        return edit


_FACTS: Final[dict[str, Any]] = {
    "action": str, "path": str, "position": int, "length": int, "size": int, "old": str,
    "new": str, "code": str, "reason": str, "lost": str, "mtime_ms": (int, type(None)),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Left:
    """Something that is wrong and stays so."""

    code: Code  # of the finding
    path: str  # where
    message: str  # what is wrong
    why: str  # why it stays, or what helps
    count: int = 1  # how many of this kind


@dataclass(slots=True)
class Plan:
    """All edits of one repair, in the order in which they are made."""

    store: str  # absolute path of the store root
    broker_version: str  # by whose rules
    fingerprint: str = ""  # of the store that it was made for; empty where it is only looked at
    edits: list[Edit] = field(default_factory=list)  # what will be done
    left: list[Left] = field(default_factory=list)  # what is wrong and stays
    notes: list[str] = field(default_factory=list)  # what the person should know
    # absolute paths of what the broker's configuration places outside of the root; of the command
    # line, never from a plan's file
    elsewhere: tuple[str, ...] = ()
    # rows of `tables/lost_messages.py`; written to a plan's file, never read
    lost_messages: list[dict[str, Any]] = field(default_factory=list)
    broker_conf: str | None = None  # the broker's configuration file; of the command line alone

    @property
    def lost(self) -> list[Edit]:
        """The edits that stand for something lost."""
        return [edit for edit in self.edits if edit.lost]

    @property
    def counts(self) -> Counter[str]:
        """Edits by code."""
        return Counter(edit.code for edit in self.edits)

    def text(self) -> str:
        """Give the JSON text of a plan's file."""
        document = {
            "plan": FORMAT,
            "rmqtool": __version__,
            "store": self.store,
            "broker_version": self.broker_version,
            "fingerprint": self.fingerprint,
            "edits": [edit.as_json() for edit in self.edits],
            "left": [{name: getattr(left, name) for name in Left.__slots__} for left in self.left],
            "notes": self.notes,
            "lost_messages": self.lost_messages,
        }
        return json.dumps(document, indent=1) + "\n"


def read_plan(path: str, replica: Place | None = None) -> Plan:
    """Read a plan's file.

    Args:
        path: of the file.
        replica: the store that lends bytes; None where none is named.

    Raises:
        UsageError: it is not one that this version wrote.
        UnreadablePath: it cannot be read.
    """
    raw = Place.of(path).read(LARGEST_PLAN)
    try:
        return _read(load_written(raw), replica)
    except RepairError as error:  # a path that could lead elsewhere
        raise UsageError(option="--apply", reason=f"{path}: {error}") from error
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        reason = f"{path} is not a plan of this version of rmqtool"
        raise UsageError(option="--apply", reason=reason) from error


def _read(document: dict[str, Any], replica: Place | None) -> Plan:
    if document["plan"] != FORMAT:
        raise ValueError(document["plan"])
    return Plan(
        store=str(document["store"]),
        broker_version=str(document["broker_version"]),
        fingerprint=str(document["fingerprint"]),
        edits=[Edit.from_json(edit, replica) for edit in document["edits"]],
        left=[Left(**row | {"code": CODES[row["code"]]}) for row in document["left"]],
        notes=[str(note) for note in document["notes"]],
    )


def place_of(root: Place, path: str) -> Place:
    """Give the place of a path of an edit; a link of the root is followed, to look only."""
    if path.startswith("/"):
        return replace(root, location=path)
    first, *rest = PurePosixPath(path).parts
    place = root.child(first).resolved()
    for part in rest:
        place = place.child(part)
    return place


def digest_of(place: Place, position: int, length: int) -> str:
    """Digest a range of a file."""
    digest = hashlib.sha256()
    with place.open() as file:
        end = position + length
        while position < end:
            raw = file.read_at(position, min(_CHUNK, end - position))
            if not raw:
                break
            digest.update(raw)
            position += len(raw)
    return digest.hexdigest()
