"""Queues that a rebuild would replace by ones that lead to fewer messages: they are refused."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from rmqtool.derive.queue_runs import QueueKind
from rmqtool.errors import NotSound, UnreadablePath
from rmqtool.formats.consume_queue import CQ_UNIT_SIZE
from rmqtool.queues.discovery import Queues
from rmqtool.queues.reach import is_record_of, messages_out_of_reach, places_in, places_of
from rmqtool.rebuild.sinks import WritingSink
from rmqtool.store.record_heads import LogReader
from rmqtool.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt

    from rmqtool.queues.units import QueueUnits
    from rmqtool.rebuild.consume_queue import QueueFileBytes
    from rmqtool.store.tree import Store
    from rmqtool.writing.output_tree import OutputTree

    Int64s = npt.NDArray[np.int64]
    Stretch = tuple[int, int]

INSTEAD = "rmqtool repair, which keeps the units of such queues"


@dataclass(slots=True)
class _Changed:
    """What is written over in one queue."""

    before: list[Int64s] = field(default_factory=list)
    after: list[Int64s] = field(default_factory=list)
    written: list[Stretch] = field(default_factory=list)  # numbers of units
    same: list[Stretch] = field(default_factory=list)  # of them, those that are so already


class WatchingSink(WritingSink):
    """Writes, and compares with the queue files that are there.

    Args:
        tree: gives the tree that takes the place of a directory.
        store: whose queues are replaced.
        skipped: see `WritingSink`.
    """

    def __init__(self, tree: Callable[..., OutputTree], store: Store, *, skipped: int = 0) -> None:
        super().__init__(tree, skipped=skipped)
        self._store, self._queues = store, Queues(store)
        self._changed: dict[tuple[str, int], _Changed] = defaultdict(_Changed)

    def put(self, pieces: list[QueueFileBytes]) -> None:
        """Take pieces of one file, in order of their place."""
        super().put(pieces)
        for piece in pieces:
            if piece.kind is QueueKind.CONSUME_QUEUE and not piece.is_filler:
                self._compare(piece)

    def _compare(self, piece: QueueFileBytes) -> None:
        first = (piece.file_start + piece.position) // CQ_UNIT_SIZE
        count = len(piece.data) // CQ_UNIT_SIZE
        changed = self._changed[piece.topic, piece.queue_id]
        _extend(changed.written, first, first + count)
        queue = self._queues.files.queue(piece.topic, piece.queue_id)
        try:
            old = queue.packed(first, count) if queue is not None else b""
        except UnreadablePath:
            return  # nobody can read it now, either
        if old == piece.data:
            _extend(changed.same, first, first + count)
            return
        changed.before.append(places_of(old))
        changed.after.append(places_of(piece.data))

    def refuse_harm(self, topic: str | None) -> None:
        """Refuse what was staged if a queue would lead to fewer sound messages.

        Args:
            topic: the one whose queues are replaced; None is all.

        Raises:
            NotSound: one would.
        """
        store = self._store
        with self._queues as queues, LogReader(store.old_commitlog, store.commitlog) as log:
            for queue in queues.files.queues():
                name = (queue.topic, queue.queue_id)
                if topic is not None and (topic != queue.topic or name not in self._changed):
                    continue
                fewer = self._out_of_reach(queue, self._changed[name], log)
                if fewer > 0:
                    harm = f"{counted(fewer, 'message')} of topic {name[0]} queue {name[1]} "
                    raise NotSound(
                        path=str(store.root), harm=f"{harm}would be out of reach", instead=INSTEAD
                    )

    def _out_of_reach(self, queue: QueueUnits, changed: _Changed, log: LogReader) -> int:
        """Count messages that go: units that are written over, and all beside what is written."""
        try:
            rest = places_in(queue, changed.written, inside=False)
            return messages_out_of_reach(
                [*changed.before, rest],
                changed.after,
                partial(places_in, queue, changed.same),
                partial(is_record_of, log, queue.topic, queue.queue_id),
            )
        except UnreadablePath:
            return 0


def _extend(stretches: list[Stretch], first: int, end: int) -> None:
    """Add a stretch, as part of the last one where it follows that."""
    if stretches and stretches[-1][1] == first:
        stretches[-1] = (stretches[-1][0], end)
    else:
        stretches.append((first, end))
