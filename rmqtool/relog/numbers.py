"""Queue offsets and references between records, in the order of the new log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import numpy as np

from rmqtool.broker import names
from rmqtool.errors import UsageError
from rmqtool.formats import java
from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.formats.sys_flag import SysFlag
from rmqtool.machine.arrays import is_in
from rmqtool.rebuild.placement import FEW_FILLERS
from rmqtool.relog import fields as at
from rmqtool.relog.fields import by_queue

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from rmqtool.relog.chunk import Chunk
    from rmqtool.relog.fields import Queue

    Int64s: TypeAlias = npt.NDArray[np.int64]
    Bools: TypeAlias = npt.NDArray[np.bool_]

HALF_TOPICS: Final = frozenset(topic.raw for topic in names.HALF_TOPICS)
_TYPE: Final = SysFlag.TRANSACTION_ROLLBACK_TYPE
_COMMIT: Final = SysFlag.TRANSACTION_COMMIT_TYPE


class QueueOffsetJudge:
    """Tells which queue offsets are possible where the records of one source lay.

    The field is in no checksum, and a flipped bit must not fill the disk with units; the rule is
    that of `rebuild.placement.Placement`.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[int, int], tuple[int, int]] = {}

    def possible(self, fields: Int64s) -> Bools:
        """Mark the records with a possible queue offset.

        Args:
            fields: int64, shape (ROWS, n); OFFSET is where they lay.
        """
        possible: Bools = np.ones(fields.shape[1], np.bool_)
        queues = by_queue(fields)
        order, is_first, _ = queues
        if not order.size:
            return possible
        offsets, places = fields[at.QUEUE_OFFSET, order], fields[at.OFFSET, order]
        following = offsets + fields[at.UNITS, order]
        before = np.concatenate([[0], following[:-1]])
        seen = np.concatenate([[0], places[:-1]])
        for number, queue in queues.firsts():
            before[number], seen[number] = self._last.get(queue, (0, 0))
        most = (places - seen) // SMALLEST_RECORD
        # Several that follow each other agree on a number.
        agrees = np.zeros(order.size, np.bool_)
        agrees[:-1] = (offsets[1:] == following[:-1]) & ~is_first[1:]
        agrees[1:] |= (offsets[1:] == following[:-1]) & ~is_first[1:]
        most = np.where(agrees, np.maximum(most, FEW_FILLERS), most)
        fits = (offsets >= 0) & (offsets - before <= most)
        # What comes after an impossible one is compared with what came before that.
        for number in np.flatnonzero(~fits).tolist():
            if number + 1 < order.size and not is_first[number + 1]:
                fits[number + 1] = (
                    offsets[number + 1] >= 0
                    and offsets[number + 1] - before[number]
                    <= (places[number + 1] - seen[number]) // SMALLEST_RECORD
                )
        possible[order] = fits
        for number, queue in queues.lasts():
            if fits[number]:
                self._last[queue] = int(following[number]), int(places[number])
        return possible


class Numbers(Protocol):
    """Says which queue offsets records have."""

    def number(self, chunk: Chunk) -> None:
        """Set QUEUE_OFFSET of the next records. Raises UsageError: it cannot be done with these."""
        ...


class KeptNumbers:
    """Leaves queue offsets as they are; of several sources no two may claim the same.

    Args:
        topics: numbers of topics.
        thinned: topics whose messages are numbered from 0 on all the same.
        is_needed: whether there are several sources.
    """

    def __init__(
        self, topics: Mapping[bytes, int], thinned: frozenset[bytes], *, is_needed: bool
    ) -> None:
        self._topics, self._thinned, self._is_needed = topics, thinned, is_needed
        self._anew = QueueNumbers(topics)
        self._next: dict[Queue, int] = {}

    def number(self, chunk: Chunk) -> None:
        """Refuse a queue offset that is not past those before it.

        Raises:
            UsageError: there is one.
        """
        fields = chunk.fields
        numbers = [self._topics[topic] for topic in self._thinned if topic in self._topics]
        thinned = np.isin(fields[at.TOPIC], np.array(numbers, np.int64))
        if thinned.any():
            part = np.ascontiguousarray(fields[:, thinned])
            self._anew.number_fields(part)
            fields[at.QUEUE_OFFSET, thinned] = part[at.QUEUE_OFFSET]
        if self._is_needed:
            self._refuse_taken(fields[:, ~thinned])

    def _refuse_taken(self, fields: Int64s) -> None:
        queues = by_queue(fields)
        if not queues.order.size:
            return
        offsets = fields[at.QUEUE_OFFSET, queues.order]
        following = offsets + fields[at.UNITS, queues.order]
        least = np.concatenate([[0], following[:-1]])
        for number, queue in queues.firsts():
            least[number] = self._next.get(queue, 0)
        if (taken := offsets < least).any():
            number = int(np.argmax(taken))
            topic, queue_id = queues.queues[:, number].tolist()
            reason = (
                f"messages of more than one source have queue offset {int(offsets[number])} in "
                f"topic {_name(self._topics, topic)} queue {queue_id}: renumber gives them new ones"
            )
            raise UsageError(option="--queue-offsets", reason=reason)
        for number, queue in queues.lasts():
            self._next[queue] = int(following[number])


class QueueNumbers:
    """Numbers the messages of each queue from 0 on.

    Args:
        topics: numbers of topics.
    """

    def __init__(self, topics: Mapping[bytes, int]) -> None:
        self._topics = topics
        self._next: dict[Queue, int] = {}

    def number(self, chunk: Chunk) -> None:
        """Set QUEUE_OFFSET of the next records.

        Raises:
            UsageError: a record names queue offsets in its properties.
        """
        fields = chunk.fields
        if fields[at.IS_RARE].any():
            number = int(fields[at.TOPIC, int(np.argmax(fields[at.IS_RARE]))])
            reason = (
                f"topic {_name(self._topics, number)} has batch records or light message queues, "
                "whose queue offsets lie in properties, too: they can only be kept"
            )
            raise UsageError(option="--queue-offsets", reason=reason)
        self.number_fields(fields)

    def number_fields(self, fields: Int64s) -> None:
        """Set QUEUE_OFFSET of the next records.

        Args:
            fields: int64, shape (ROWS, n); of records that name no queue offsets elsewhere.
        """
        queues = by_queue(fields)
        if not queues.order.size:
            return
        units = fields[at.UNITS, queues.order]
        before = np.cumsum(units) - units
        starts = np.flatnonzero(queues.is_first)
        group = np.cumsum(queues.is_first) - 1
        base = np.array([self._next.get(queue, 0) for _, queue in queues.firsts()], np.int64)
        offsets = base[group] + before - before[starts][group]
        fields[at.QUEUE_OFFSET, queues.order] = offsets
        for number, queue in queues.lasts():
            self._next[queue] = int(offsets[number] + units[number])


def _name(topics: Mapping[bytes, int], number: int) -> str:
    return java.text(next(raw for raw, number_of in topics.items() if number_of == number))


class HalfPlaces:
    """Moves preparedTransactionOffset of committed messages along with their half messages.

    Args:
        topics: numbers of topics.

    Attributes:
        lone: committed messages whose half message is not in the new log; theirs is 0 now.
    """

    def __init__(self, topics: Mapping[bytes, int]) -> None:
        self.lone = 0
        self._topics = topics
        self._moved: dict[tuple[int, int], int] = {}

    def move(self, fields: Int64s, before: Int64s) -> None:
        """Set PREPARED of records that have a place.

        Args:
            fields: int64, shape (ROWS, n); OFFSET is the new place.
            before: int64, shape (n,); the old places, in the source of each.
        """
        half_topics = [self._topics[topic] for topic in HALF_TOPICS if topic in self._topics]
        is_half = is_in(fields[at.TOPIC], np.array(sorted(half_topics), np.int64))
        is_commit = ((fields[at.SYS_FLAG] & _TYPE) == _COMMIT) & (fields[at.PREPARED] != 0)
        for number in np.flatnonzero(is_half | is_commit).tolist():
            source = int(fields[at.SOURCE, number])
            if is_half[number]:
                self._moved[source, int(before[number])] = int(fields[at.OFFSET, number])
            if is_commit[number]:
                place = self._moved.get((source, int(fields[at.PREPARED, number])))
                self.lone += place is None
                fields[at.PREPARED, number] = place or 0
