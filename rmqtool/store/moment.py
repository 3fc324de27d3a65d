"""The moment at which a store is read: what a broker that runs on it does meanwhile.

A broker appends, makes its next files, deletes expired ones, and a topic with its queues. What it
deleted since it was listed is gone, not unreadable. What differs because of such a change does not
differ each time.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TypeVar

from rmqtool.errors import Trouble, UnreadablePath
from rmqtool.plural import counted
from rmqtool.store.artefact import ArtefactKind, FamilyDepth
from rmqtool.store.segment import start_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from rmqtool.store.artefact import Artefact
    from rmqtool.store.place import Place

Seen = TypeVar("Seen")
GONE: Final = frozenset({Trouble.MISSING, Trouble.NO_FILE})
QUEUES: Final = frozenset(
    {
        ArtefactKind.CONSUME_QUEUE,
        ArtefactKind.CONSUME_QUEUE_EXT,
        ArtefactKind.BATCH_QUEUE,
        ArtefactKind.COMPACTION_LOG,
        ArtefactKind.COMPACTION_QUEUE,
    }
)
# Seconds before each further look; what is wrong in each of them is. A broker may wait for the disk
# between two files that it writes.
PAUSES: Final = (0.5, 4.0)
_LAST: Final = "~"  # sorts after the name of any file


class Moment:
    """What a running broker may do to a store while it is read; nothing without one.

    Args:
        root: of the store.
        branches: what lies there.
        lock_held: tells whether a process holds the lock.
    """

    def __init__(
        self, root: Place, branches: tuple[Artefact, ...], lock_held: Callable[[], bool | None]
    ) -> None:
        self._root, self._branches, self._ask = root, branches, lock_held
        self._was_live = False

    @property
    def is_live(self) -> bool:
        """Whether a broker runs on the store, or ran since this was first asked."""
        self._was_live = self._was_live or bool(self._ask())
        return self._was_live

    def is_gone(self, path: str, error: UnreadablePath) -> bool:
        """Tell whether a running broker has deleted something since it was listed.

        It deletes the oldest files of a log, a queue and the index, never one between two others;
        and queues with all their files. Source: DefaultMessageStore.CleanCommitLogService,
        CleanConsumeQueueService, IndexService#deleteExpiredFile,
        DefaultMessageStore#cleanUnusedTopic, #deleteTopics, 4.9.3 to 5.5.0.

        Args:
            path: what cannot be read, from the root on or as the error has it.
            error: why not.
        """
        if error.trouble not in GONE or not self.is_live:
            return False
        inner = path.removeprefix(f"{self._root}/")
        directory, _, name = inner.rpartition("/")
        depth = self._queue_depth(inner)
        if depth is None and start_of(name) is None:
            return False
        place = self._root
        try:
            for part in filter(None, directory.split("/")):
                place = place.child(part)
            names = [name for name, _ in place.names()]
        except UnreadablePath as above:
            return depth is not None and above.trouble in GONE
        if depth in {FamilyDepth.TOPIC, FamilyDepth.QUEUE}:
            return name not in names
        left = [name for name in names if start_of(name) is not None]
        return name < min(left, default=_LAST if depth else "")

    def is_replaced(self, path: str, error: UnreadablePath) -> bool:
        """Tell whether a running broker replaces a file that has a name of its own.

        Source: MixAll#string2File, 5.1.0 to 5.5.0: the file is removed, then another one gets its
        name.
        """
        name = path.rpartition("/")[2]
        return error.trouble in GONE and start_of(name) is None and self.is_live

    def has_no_queue(self, path: str) -> bool:
        """Tell whether a running broker has deleted the queue, or topic, that a path lies in."""
        depth = self._queue_depth(path)
        if depth is None or not self.is_live:
            return False
        place, parts = self._root, path.split("/")
        for part in parts[: len(parts) - max(depth - FamilyDepth.QUEUE, 0)]:
            place = place.child(part)
        return place.stat() is None

    def _queue_depth(self, path: str) -> int | None:
        """Tell how deep in a family of queues something lies; None outside of all."""
        for artefact in self._branches:
            if artefact.kind in QUEUES and path.startswith(f"{artefact.path}/"):
                return artefact.level + 1 + path.count("/", len(artefact.path) + 1)
        return None

    def settled(
        self,
        look: Callable[[], Seen],
        wrong: Callable[[Seen], Collection[object]],
        kept: Callable[[Seen, Collection[object]], Seen],
    ) -> Seen:
        """Look again where something is wrong beside a running broker, and believe what stays.

        Args:
            look: reads the store anew each time.
            wrong: names what is wrong.
            kept: leaves of a result what was wrong before, too, under the same names.

        Raises:
            UnreadablePath: a file may not be read, or one is gone each time.
        """
        if not self.is_live:
            return look()
        seen = looked_again(look)
        for pause in PAUSES:
            if not (names := wrong(seen)):
                break
            time.sleep(pause)
            seen = kept(looked_again(look), names)
        return seen


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
