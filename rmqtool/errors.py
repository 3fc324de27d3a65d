"""What rmqtool raises on purpose.

An error says that something could not be done; damage found in a store is rows (see `findings`).
A leaf keeps its facts as attributes, words them in `__str__` and owns its exit code;
only `cli/main.py` turns it into words on stderr and an exit code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

_ROOT: Final = "the store root, the directory with commitlog in it: storePathRootDir in broker.conf"
_OWNER: Final = "as the user that the broker runs as, or on a copy that you may read"
_WRITABLE: Final = "a place where you may write, or as the user that the broker runs as"
_ROOM: Final = "a disk with more room; what was there is as it was"

# What to try next, by words of the reason, the first that fits; "" fits all.
_TO_READ: Final = {
    "no such file or directory": _ROOT,
    "no such directory": _ROOT,
    "denied": _OWNER,
    "not permitted": _OWNER,
    "input/output error": "on a copy of the disk, made with a tool that passes over bad sectors",
    "link": "with the path that the link leads to: ls -l shows it",
    "is a directory": "with a file in it",
    "": "with a path that is there and may be read: ls -l shows it",
}
_TO_WRITE: Final = {
    "lies in the store": "a place outside of the store",
    "no such": "a directory that exists, for the new file or directory in it",
    "denied": _WRITABLE,
    "not permitted": _WRITABLE,
    "read-only": _WRITABLE,
    "no space": _ROOM,
    "quota": _ROOM,
    "too large": "a file system that takes files of this size",
    "input/output error": "another disk: this one fails",
    "no edit": "ls STORE: each edit in place leaves a directory rmqtool-undo-TIME there",
    "name": "another name",
    "": "a new place",
}
_BESIDE: Final = {
    "": "the log, which is read like any other: rmqtool dump STORE, rmqtool query STORE",
}
_AFTER_CHANGE: Final = {
    "plan was made": "a new plan: rmqtool repair STORE --plan FILE",
    "lies outside": "--in-place",
    "": "rmqtool validate STORE: what it is now; rmqtool-undo-TIME in it has what was replaced",
}


def _step(steps: Mapping[str, str], reason: str) -> str:
    """Give the step that fits; none where the reason names an option, or a choice, itself."""
    if "--" in reason or "choose" in reason:
        return ""
    return next((step for words, step in steps.items() if words in reason.lower()), "")


class RmqtoolError(Exception):
    """The root of everything that rmqtool raises on purpose."""

    exit_code: ClassVar[int] = 2

    @property
    def next_step(self) -> str:
        """What a person may try next; empty when the sentence says it, or nobody knows."""
        return ""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by attributes.

        The default replays `args`: a keyword-only constructor then breaks a whole process pool.
        """
        return _revive, (type(self), vars(self))


def _revive(kind: type[RmqtoolError], facts: dict[str, Any]) -> RmqtoolError:
    """Give back an error as it was, without running its constructor."""
    error = kind.__new__(kind)
    vars(error).update(facts)
    return error


class UsageError(RmqtoolError):
    """The command line or an option cannot be meant.

    Attributes:
        option: which one.
        reason: why not.
        step: what to try instead; without, it is the command's own help.
    """

    def __init__(self, *, option: str, reason: str, step: str = "") -> None:
        super().__init__()
        self.option, self.reason, self.step = option, reason, step

    def __str__(self) -> str:
        return f"{self.option}: {self.reason}"

    @property
    def next_step(self) -> str:
        """What was named; empty where that is to be the help."""
        return self.step


class NoSuchQueue(UsageError):
    """The log has no record for the queues that were to be rebuilt.

    Attributes:
        topic: whose queues.
        queue_id: which of them; None is all.
    """

    def __init__(self, *, topic: str, queue_id: int | None) -> None:
        what = f"queue {queue_id} of topic" if queue_id is not None else "topic"
        option = "--topic" if queue_id is None else "--queue"
        super().__init__(option=option, reason=f"the log has no record of {what} {topic!r}")
        self.topic, self.queue_id = topic, queue_id


class StoreError(RmqtoolError):
    """A store, or a file of it, cannot be used."""

    def __init__(self, *, path: str, reason: str) -> None:
        super().__init__()
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class NotAStore(StoreError):
    """Nothing of a RocketMQ store was recognised here."""

    @property
    def next_step(self) -> str:
        """Where stores are."""
        return _ROOT


class UnreadablePath(StoreError, OSError):
    """The operating system refused to list or read a path."""

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"

    @property
    def next_step(self) -> str:
        """Another path, another user, or another disk."""
        return _step(_TO_READ, self.reason)


class UnsupportedStore(StoreError):
    """Recognised, but its content cannot be read (a RocksDB queue, for example)."""

    @property
    def next_step(self) -> str:
        """What can be read of it."""
        return _step(_BESIDE, self.reason)


class StoreLocked(StoreError):
    """A running broker holds the store's lock."""

    @property
    def next_step(self) -> str:
        """Without the broker, or without the store."""
        return "again when the broker has stopped, or on a copy of the store"


class DecodeError(RmqtoolError, ValueError):
    """One record that was asked for cannot be read. A scan never raises this."""

    def __init__(self, *, path: str, position: int, field: str, reason: str) -> None:
        super().__init__()
        self.path, self.position, self.field, self.reason = path, position, field, reason

    def __str__(self) -> str:
        return f"{self.path}: at {self.position:#x} ({self.position}): {self.field}: {self.reason}"


class Truncated(DecodeError):
    """Fewer bytes are there than the record needs."""


class BadLength(DecodeError):
    """A length field does not agree with what surrounds it."""


class BadMagic(DecodeError):
    """The magic code is none that RocketMQ writes here."""


class RepairError(RmqtoolError):
    """Something could not be written, or must not be."""

    def __init__(self, *, path: str, reason: str) -> None:
        super().__init__()
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"

    @property
    def next_step(self) -> str:
        """Another place, another user, or more room."""
        return _step(_TO_WRITE, self.reason)


class WriteFailed(RepairError, OSError):
    """The operating system refused to write: a full disk, a missing permission, a bad sector."""

    @classmethod
    def of(cls, path: object, error: OSError) -> Self:
        """Give the error for a path from what the operating system said."""
        made = cls(path=str(path), reason=error.strerror or str(error))
        made.errno, made.strerror = error.errno, made.reason  # who knows only OSError asks these
        return made

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class EditUnfinished(WriteFailed):
    """An edit in place, or its undoing, stopped half way; both can be brought to their end."""

    @property
    def next_step(self) -> str:
        """What goes on where it stopped."""
        return (
            "once the cause is gone, rmqtool repair --undo STORE: it goes on from here, and puts "
            "back what there was"
        )


class OutputExists(RepairError):
    """The target is there already; nothing is ever overwritten without being told."""

    @property
    def next_step(self) -> str:
        """Another target."""
        return _step({"": "another name"}, self.reason)


class PlanMismatch(RepairError):
    """The store is no longer the one that the plan was made for."""

    @property
    def next_step(self) -> str:
        """Another plan, or a look at the store."""
        return _step(_AFTER_CHANGE, self.reason)


class EngineMissing(RmqtoolError):
    """What was asked for needs a package or a Java that is not here."""

    def __init__(self, *, needs: str, install: str) -> None:
        super().__init__()
        self.needs, self.install = needs, install

    def __str__(self) -> str:
        return f"{self.needs} is missing; install it with: {self.install}"


class OutputClosed(RmqtoolError):
    """The reader of our output went away; there is nobody left to tell."""

    exit_code = 141

    def __str__(self) -> str:
        return "output closed"
