"""Files of a queue or log that are there and cannot be read: nothing is known of their stretch."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, TypeVar

from rmqtool.errors import Trouble, UnreadablePath
from rmqtool.plural import counted
from rmqtool.store.entry import EntryKind
from rmqtool.store.segment import NAME_DIGITS, OddityKind, start_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from rmqtool.store.segment import MappedFiles, Oddity
    from rmqtool.store.tree import Store

Seen = TypeVar("Seen")
GONE: Final = frozenset({Trouble.MISSING, Trouble.NO_FILE})
REASONS: Final = {
    OddityKind.LINK: "a link, which is not followed",
    OddityKind.NOT_A_FILE: "neither a file nor a directory",
    OddityKind.DIRECTORY: "a directory in place of a file",
}


def error_of(oddity: Oddity) -> UnreadablePath | None:
    """Say why an oddity is something that cannot be read; None when it is another one."""
    reason, trouble = REASONS.get(oddity.kind, ""), oddity.trouble
    if oddity.kind is OddityKind.UNREADABLE:
        reason = oddity.actual
    elif oddity.kind is OddityKind.MISSING and trouble is Trouble.LINK:
        reason = f"{oddity.actual}, where nothing is"
    elif oddity.kind is OddityKind.LINK:
        trouble = Trouble.LINK
    name = oddity.path.rpartition("/")[2]
    is_segment = len(name) == NAME_DIGITS and start_of(name) is not None
    if not reason or (oddity.kind is OddityKind.DIRECTORY and not is_segment):
        return None
    return UnreadablePath(path=oddity.path, reason=reason, trouble=trouble)


def no_file(path: str, kind: EntryKind) -> UnreadablePath:
    """Say that something has the name of a file, but is not one."""
    trouble = Trouble.LINK if kind is EntryKind.LINK else Trouble.OTHER
    reason = f"a {kind} in place of a file"
    if kind is EntryKind.OTHER:
        reason = REASONS[OddityKind.NOT_A_FILE]
    return UnreadablePath(path=path, reason=reason, trouble=trouble)


def has_expired(store: Store, path: str, error: UnreadablePath) -> bool:
    """Tell whether a running broker has deleted a file since its directory was listed.

    It deletes the oldest files of a log, a queue and the index, never one between two others.
    Source: DefaultMessageStore.CleanCommitLogService, CleanConsumeQueueService,
    IndexService#deleteExpiredFile, 4.9.3 to 5.5.0.

    Args:
        store: that is read.
        path: of the file, from its root on.
        error: why it cannot be read.
    """
    directory, _, name = path.rpartition("/")
    is_gone = error.trouble in GONE
    if not (is_gone and start_of(name) is not None and store.lock_held()):
        return False
    place = store.root
    try:
        for part in filter(None, directory.split("/")):
            place = place.child(part)
        left = [name for name, _ in place.names() if start_of(name) is not None]
    except UnreadablePath:
        return False
    return name < min(left, default="")


def looked_again(look: Callable[[], Seen], attempts: int = 20) -> Seen:
    """Look at a store until no file vanishes meanwhile: a running broker deletes expired ones.

    Args:
        look: reads the store anew each time.
        attempts: at most so many; one takes long where files are many, and the machine is busy.

    Raises:
        UnreadablePath: a file may not be read, or is gone each time.
    """
    for _ in range(attempts - 1):
        try:
            return look()
        except UnreadablePath as error:
            if error.trouble not in GONE:
                raise
    return look()


def expired_sentences(expired: Collection[str]) -> Iterator[str]:
    """Say how many files expired while a store was read; nothing when none did."""
    if expired:
        yield f"{counted(len(expired), 'file')} expired meanwhile: a running broker deleted them"


def unread_stretches(files: MappedFiles) -> Iterator[tuple[Oddity, int, int]]:
    """Yield what has the name of a segment and cannot be read, with its begin and end."""
    for oddity in files.oddities:
        start = start_of(oddity.path.rpartition("/")[2])
        if start is not None and error_of(oddity):
            yield oddity, start, start + files.file_length


class UnreadStretches:
    """The same, ordered once: a directory may have as many holes as unreadable files."""

    def __init__(self, files: MappedFiles) -> None:
        self._starts = sorted(start for _, start, _ in unread_stretches(files))
        self._length = files.file_length

    def has(self, start: int, end: int) -> bool:
        """Tell whether a stretch without a file is there, but cannot be read."""
        number = bisect_right(self._starts, start) - 1
        return number >= 0 and end <= self._starts[number] + self._length
