"""Queues that are made at once: each is one run that lies in one file where its records say.

A store of a million queues has a million of them, and few others. What `Placement` would find out
of each by itself, columns tell of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np

from rmqtool.broker.rules import passes_pre_blank
from rmqtool.formats.consume_queue import CQ_UNIT, CQ_UNIT_SIZE, PRE_BLANK
from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.many_files.files import ManyFiles
from rmqtool.rebuild.pieces import QueueFileBytes, QueueResult
from rmqtool.rebuild.placement import UnitTally
from rmqtool.store.names import name_problem
from rmqtool.store.segment import NAME_DIGITS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from rmqtool.derive.queue_runs import QueueRuns
    from rmqtool.rebuild.pieces import QueueOptions


class SingleRuns(NamedTuple):
    """Consume queues, each by its only run."""

    runs: QueueRuns  # one of each queue, with units one after the other
    topics: Sequence[str]  # of the runs' topics, as text; empty for those that have no queue here
    file_length: int  # bytes of a queue file

    @classmethod
    def of(
        cls, runs: QueueRuns, texts: Mapping[bytes, str], options: QueueOptions
    ) -> tuple[Self, QueueRuns]:
        """Take the queues that are one run, where nothing else is to do; give the other runs.

        Args:
            runs: all that the log has of their queues.
            texts: of topics.
            options: of the rebuild.
        """
        topics = [texts[topic] for topic in runs.queues.topics]
        is_single = _are_single(runs, topics, options)
        single = runs if is_single.all() else runs.chosen(is_single)
        others = runs.chosen(~is_single)
        return cls(single, topics, options.file_length), others

    @property
    def units(self) -> int:
        """How many units all have."""
        return int(self.runs.count.sum())

    def pieces(self) -> Iterator[list[QueueFileBytes]]:
        """Yield the bytes of the file of each."""
        for topic, run in zip(self._topic_texts, self.runs, strict=True):
            start, position = self._place(run.queue_offset)
            where = run.kind, topic, run.queue_id, start, self.file_length
            pieces = [QueueFileBytes(*where, position, run.units, run.store_timestamp)]
            if position:
                lead = PRE_BLANK * (position // CQ_UNIT_SIZE)
                filler = QueueFileBytes(*where, 0, lead, run.store_timestamp, is_filler=True)
                pieces.insert(0, filler)
            yield pieces

    def results(self) -> Iterator[QueueResult]:
        """Yield what became of each."""
        kind, runs = self.runs.kind, self.runs
        queue_ids = runs.queues.queue_id[runs.queue].tolist()
        columns = queue_ids, runs.queue_offset.tolist(), runs.count.tolist()
        for topic, queue_id, first, count in zip(self._topic_texts, *columns, strict=True):
            yield QueueResult(kind, topic, queue_id, first, first + count, 1, UnitTally(count))

    def files(self) -> ManyFiles:
        """Give the file of each."""
        runs = self.runs
        used, directory = np.unique(runs.queues.topic[runs.queue], return_inverse=True)
        starts, positions = self._place(runs.queue_offset)
        queue_ids = runs.queues.queue_id[runs.queue].tolist()
        paths = [
            f"{queue_id}/{start:0{NAME_DIGITS}}"
            for queue_id, start in zip(queue_ids, starts.tolist(), strict=True)
        ]
        return ManyFiles(
            [self.topics[number] for number in used.tolist()],
            directory,
            paths,
            self.file_length,
            PRE_BLANK,
            positions // CQ_UNIT_SIZE,
            runs.units.reshape(-1),
            np.append(0, np.cumsum(runs.count)) * CQ_UNIT_SIZE,
            runs.store_timestamp,
        )

    def _place(self, queue_offset: npt.NDArray[np.int64] | int) -> tuple[Any, Any]:
        """Give the start of the file of a unit, and its place there, both in bytes."""
        position = queue_offset * CQ_UNIT_SIZE
        within = position % self.file_length
        return position - within, within

    @property
    def _topic_texts(self) -> Iterator[str]:
        """Yield the topic of each queue."""
        runs = self.runs
        return map(self.topics.__getitem__, runs.queues.topic[runs.queue].tolist())


def _are_single(
    runs: QueueRuns, topics: Sequence[str], options: QueueOptions
) -> npt.NDArray[np.bool_]:
    """Tell which runs are all of their queue, and need nothing but to be put: bool, shape (n,).

    See `Placement` for what their numbers have to be.
    """
    if options.ext is not None or not len(runs):
        return np.zeros(len(runs), np.bool_)
    is_asked = np.array([_is_asked(topic, options) for topic in topics], np.bool_)
    is_single = is_asked[runs.queues.topic[runs.queue]]
    is_single &= np.bincount(runs.queue, minlength=len(runs.queues))[runs.queue] == 1
    if options.queue_id is not None:
        is_single &= runs.queues.queue_id[runs.queue] == options.queue_id
    offset = runs.queue_offset
    is_single &= offset >= 0
    if not options.proven:
        places = runs.units[runs.first].reshape(-1).view(CQ_UNIT.dtype)["physical_offset"]
        is_single &= offset <= places.astype(np.int64) // SMALLEST_RECORD
    if not (passes_pre_blank(options.log_start) or options.like_broker):  # see `Placement.lead`
        is_single &= offset % (options.file_length // CQ_UNIT_SIZE) == 0
    return is_single


def _is_asked(topic: str, options: QueueOptions) -> bool:
    """Tell whether the queues of a topic are wanted, and can be."""
    if options.topic not in {None, topic} or name_problem(topic) is not None:
        return False
    return options.is_deleted is None or not options.is_deleted(topic)


class QueueSink(Protocol):
    """Takes the pieces of queues: writes them, compares them, or only counts."""

    def put(self, pieces: list[QueueFileBytes]) -> None:
        """Take pieces of one file, in order of their place."""

    def put_single(self, queues: SingleRuns) -> None:
        """Take queues whole."""
