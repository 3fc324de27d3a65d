"""What rmqtool raises on purpose.

An error says that something could not be done; damage found in a store is rows (see `findings`).
A leaf keeps its facts as attributes, words them in `__str__` and owns its exit code;
only `cli/main.py` turns it into words on stderr and an exit code.
"""

from __future__ import annotations

import enum
import errno
from typing import Any, ClassVar, Final, Self

_ROOT: Final = "the store root, the directory with commitlog in it: storePathRootDir in broker.conf"
_OWNER: Final = "as the user that the broker runs as, or on a copy that you may read"
_WRITABLE: Final = "a place where you may write, or as the user that the broker runs as"


class Trouble(enum.Enum):
    """Why a path cannot be used, as far as somebody acts on it."""

    MISSING = enum.auto()  # nothing is there
    NO_FILE = enum.auto()  # a file of what is there is not
    DENIED = enum.auto()
    READ_ONLY = enum.auto()
    MEDIUM = enum.auto()  # the disk fails
    FULL = enum.auto()
    TOO_LARGE = enum.auto()
    LINK = enum.auto()
    DIRECTORY = enum.auto()  # in place of a file
    NAME = enum.auto()  # that no file can have
    IN_STORE = enum.auto()  # a target that lies in what is read
    NO_EDIT = enum.auto()  # that could be taken back
    STALE_PLAN = enum.auto()
    UNKNOWN_FILE = enum.auto()  # that may hold messages: a disk image, a fragment
    EXPLAINED = enum.auto()  # the reason itself says what to try
    OTHER = enum.auto()

    @classmethod
    def of(cls, error: Exception) -> Trouble:
        """Tell what an operating system means by its error."""
        number = getattr(error, "errno", None)
        return _BY_NUMBER.get(number, cls.OTHER) if number else cls.OTHER


_BY_NUMBER: Final = {
    errno.ENOENT: Trouble.MISSING,
    errno.EACCES: Trouble.DENIED,
    errno.EPERM: Trouble.DENIED,
    errno.EROFS: Trouble.READ_ONLY,
    errno.EIO: Trouble.MEDIUM,
    errno.ENOSPC: Trouble.FULL,
    errno.EDQUOT: Trouble.FULL,
    errno.EFBIG: Trouble.TOO_LARGE,
    errno.ELOOP: Trouble.LINK,
    errno.EISDIR: Trouble.DIRECTORY,
    errno.ENAMETOOLONG: Trouble.NAME,
}
# What to try next.
_TO_READ: Final = {
    Trouble.MISSING: _ROOT,
    Trouble.DENIED: _OWNER,
    Trouble.MEDIUM: "on a copy of the disk, made with a tool that skips bad sectors",
    Trouble.LINK: "with the path that the link leads to: ls -l shows it",
    Trouble.TOO_LARGE: "without this file: no broker's is so large",
    Trouble.DIRECTORY: "with a file in it",
    Trouble.EXPLAINED: "",
}
_READABLE: Final = "with a path that is there and may be read: ls -l shows it"
_DATABASE: Final = "rmqtool validate STORE: it finds what is damaged in a database, file by file"
_TO_WRITE: Final = {
    Trouble.IN_STORE: "a place outside of the store",
    Trouble.MISSING: "a directory that exists, for the new file or directory in it",
    Trouble.DENIED: _WRITABLE,
    Trouble.READ_ONLY: _WRITABLE,
    Trouble.FULL: "a disk with more room",
    Trouble.TOO_LARGE: "a file system that takes files of this size",
    Trouble.MEDIUM: "another disk: this one fails",
    Trouble.NO_EDIT: "ls STORE: each edit in place leaves a directory rmqtool-undo-TIME there",
    Trouble.NAME: "another name",
    Trouble.EXPLAINED: "",
}
_BESIDE: Final = "the log, which is read like any other: rmqtool dump STORE, rmqtool query STORE"
_NEW_PLAN: Final = "a new plan: rmqtool repair STORE --plan FILE"
_AFTER_CHANGE: Final = (
    "rmqtool validate STORE: its present state; rmqtool-undo-TIME in it has what was replaced"
)


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


class PathError(RmqtoolError):
    """Something cannot be done with a file or directory.

    Attributes:
        path: which one.
        reason: why not.
        trouble: the same, for whoever acts on it.
    """

    def __init__(self, *, path: str, reason: str, trouble: Trouble = Trouble.OTHER) -> None:
        super().__init__()
        self.path, self.reason, self.trouble = path, reason, trouble

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class StoreError(PathError):
    """A store, or a file of it, cannot be used."""


class NotAStore(StoreError):
    """Nothing of a RocketMQ store was recognised here."""

    @property
    def next_step(self) -> str:
        """Where stores are; of a file what finds messages in it."""
        if self.trouble is Trouble.UNKNOWN_FILE:
            import shlex  # few need it

            return shlex.join(["rmqtool", "carve", self.path, "--output", "SAVED.rmq"])
        return _ROOT


class UnreadablePath(StoreError, OSError):
    """The operating system refused to list or read a path."""

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"

    @property
    def next_step(self) -> str:
        """Another path, another user, or another disk."""
        return _TO_READ.get(self.trouble, _READABLE)


class DamagedDatabase(UnreadablePath):
    """RocksDB cannot open a database, or cannot read it to its end."""

    @property
    def next_step(self) -> str:
        """What is wrong in it, and what a start would do."""
        return _DATABASE


class UnsupportedStore(StoreError):
    """Recognised, but its content cannot be read (a RocksDB queue, for example)."""

    @property
    def next_step(self) -> str:
        """What can be read of it."""
        return "" if self.trouble is Trouble.EXPLAINED else _BESIDE


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
    """The magic code is not one that RocketMQ writes here."""


class RepairError(PathError):
    """Something could not be written, or must not be."""

    @property
    def next_step(self) -> str:
        """Another place, another user, or more room."""
        return _TO_WRITE.get(self.trouble, "a new place")


class WriteFailed(RepairError, OSError):
    """The operating system refused to write: a full disk, a missing permission, a bad sector."""

    @classmethod
    def of(cls, path: object, error: OSError) -> Self:
        """Give the error for a path from what the operating system said."""
        made = cls(path=str(path), reason=error.strerror or str(error), trouble=Trouble.of(error))
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
            "once the cause is gone, rmqtool repair --undo STORE, with the --broker-conf that the "
            "edit had: it goes on from here, and puts back what there was"
        )


class OutputExists(RepairError):
    """The target is there already; nothing is ever overwritten without being told."""

    @property
    def next_step(self) -> str:
        """Another target."""
        return "" if self.trouble is Trouble.EXPLAINED else "another name"


class NotSound(RepairError):
    """What would be written is damaged, or does harm, so it is not written.

    Attributes:
        instead: what to do instead.
    """

    def __init__(self, *, path: str, harm: str, instead: str) -> None:
        super().__init__(path=path, reason=f"nothing was written: {harm}")
        self.instead = instead

    @property
    def next_step(self) -> str:
        """The option, or the command, that writes a sound store."""
        return self.instead


class PlanMismatch(RepairError):
    """The store is no longer the one that the plan was made for."""

    @property
    def next_step(self) -> str:
        """Another plan, or a look at the store."""
        if self.trouble is Trouble.EXPLAINED:
            return ""
        return _NEW_PLAN if self.trouble is Trouble.STALE_PLAN else _AFTER_CHANGE


class DecoderFailed(RmqtoolError):
    """A decoder of the user's own ended, hangs, or does not keep to the protocol.

    Attributes:
        command: as it was given.
        reason: what it did.
    """

    def __init__(self, *, command: str, reason: str) -> None:
        super().__init__()
        self.command, self.reason = command, reason

    def __str__(self) -> str:
        return f"--decoder {self.command!r} {self.reason}"

    @property
    def next_step(self) -> str:
        """The protocol."""
        return "rmqtool help decoders: what a decoder reads and answers"


class RemotingError(RmqtoolError):
    """A name server or a broker cannot be reached, refuses, or does not answer as one.

    Attributes:
        address: of the peer.
        reason: why not.
        is_unsure: a request was on its way: whether it was carried out is unknown.
        step: what to try; without, it is a look at the cluster.
    """

    def __init__(
        self, *, address: str, reason: str, is_unsure: bool = False, step: str = ""
    ) -> None:
        super().__init__()
        self.address, self.reason, self.is_unsure, self.step = address, reason, is_unsure, step

    def __str__(self) -> str:
        return f"{self.address}: {self.reason}"

    @property
    def next_step(self) -> str:
        """What was named, or a look at the cluster."""
        return (
            self.step
            or "mqadmin clusterList -n ADDRESS: the brokers of the cluster, and their addresses"
        )


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
