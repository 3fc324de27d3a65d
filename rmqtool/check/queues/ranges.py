"""Where queues begin and end, by what they hold and by what the log wants of them."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rmqtool.errors import DecodeError, UnreadablePath
from rmqtool.queues.discovery import UNIT_FAMILIES, by_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.inspection import Inspection, QueueName
    from rmqtool.check.log.facts import LogFacts
    from rmqtool.ledger.sound import WholeQueues

QUEUES: Final = ("consumequeue", "batchconsumequeue")


@dataclass(slots=True)
class QueueFacts:
    """What one validation learns of all queues; who compares them with the log writes it."""

    # largest physical offset of a queue unit; None when the queues were not read
    newest_unit: int | None = None
    newest_batch: int = -1  # likewise of batch queues alone
    # queue to the queue offset after the last record that the log has for it, if it is not whole
    wanted: dict[QueueName, int] = field(default_factory=dict)
    # first and next queue offset of queues that hold what the log wants, and nothing else
    whole: list[WholeQueues] = field(default_factory=list)

    def ends(self) -> Iterator[tuple[QueueName, int]]:
        """Yield queues, and the queue offset after the last record that the log has for each."""
        yield from self.wanted.items()
        for queues in self.whole:
            yield from ((name, end) for name, (_, end) in queues.items())

    def note_newest(self, physical_offset: int) -> None:
        """Take note of a unit that is as its record wants it."""
        self.newest_unit = max(self.newest_unit or 0, physical_offset)


class QueueRanges:
    """The first and the next queue offset of each queue, looked up once.

    Args:
        inspection: of the store.
        facts: of its log, which was read.
        queues: what was learned of queues meanwhile.
    """

    def __init__(self, inspection: Inspection, facts: LogFacts, queues: QueueFacts) -> None:
        self._inspection, self._facts, self._queues = inspection, facts, queues
        self._known: dict[QueueName, tuple[int, int] | None] = {}

    def names(self) -> Iterator[QueueName]:
        """Give the queues that are there, or that the log has records for, each once."""
        known = [*map(self._inspection.units, UNIT_FAMILIES)]
        for number, names in enumerate([*known, (name for name, _ in self._queues.ends())]):
            for name in names:
                if not any(name in earlier for earlier in known[:number]):
                    yield name

    def has(self, name: QueueName) -> bool:
        """Tell whether a queue is there, or the log has records for it."""
        is_there = any(name in self._inspection.units(family) for family in UNIT_FAMILIES)
        return is_there or name in self._queues.wanted

    def messages(self, only: str | None = None) -> Counter[str]:
        """Count the messages of each topic, or of one, by where its queues begin and end.

        What cannot be read counts for none; the queue's own check says so.
        """
        counts: Counter[str] = Counter()
        others = {name for name in self._queues.wanted if only in {None, name[0]}}
        for queues in self._queues.whole:
            for topic, count in queues.messages():
                counts[topic] += count
        for family in UNIT_FAMILIES:
            for topic, numbers in by_topic(self._inspection.units(family)):
                if only not in {None, topic}:
                    continue
                whole = (queues.numbers_of(topic) for queues in self._queues.whole)
                others.update((topic, number) for number in {*numbers}.difference(*whole))
        for name in others:
            with suppress(DecodeError, UnreadablePath):
                first, end = self.of(*name) or (0, 0)
                counts[name[0]] += end - first
        return counts

    def of(self, topic: str, queue_id: int) -> tuple[int, int] | None:
        """Give a queue's first and next queue offset; None when nothing can be said.

        Units that the queue has lost count as there: their own finding says so, and what goes
        by queue offsets is right again when they have been rebuilt.

        Raises:
            UnreadablePath: a file cannot be read.
        """
        name = (topic, queue_id)
        for queues in self._queues.whole:
            if (whole := queues.get(name)) is not None:
                return whole
        if name not in self._known:
            span = self._on_disk(name)
            if span is not None and name in self._queues.wanted:
                span = span[0], max(span[1], self._queues.wanted[name])
            self._known[name] = span
        return self._known[name]

    def _on_disk(self, name: QueueName) -> tuple[int, int] | None:
        inspection = self._inspection
        if inspection.options.topic not in {None, name[0]}:
            return None  # its queues were not listed
        for family in UNIT_FAMILIES:
            if queue := inspection.units(family).get(name):
                if any(queue.unread()) or (family == "rocksdb" and self._lags()):
                    return None
                span = queue.span(self._facts.oldest)
                # Files without a unit of their own hold fillers only: the queue begins after.
                return (span.min_offset, span.max_offset) if span.last else None
        is_unknown = any(
            inspection.is_below_unread(f"{directory}/{name[0]}/{name[1]}") for directory in QUEUES
        )
        if inspection.scope.has_rocksdb_queues and inspection.is_above_unread("consumequeue"):
            return None
        return None if is_unknown or self._lags() else (0, 0)

    def _lags(self) -> bool:
        """Tell whether queues in RocksDB may go on after all that this run has read of them.

        Without a clean stop the database is as it was at its last flush. The records after that
        tell, if they were read: not at --level quick, nor where they expired or are taken over.
        """
        inspection, scope = self._inspection, self._inspection.scope
        if not (scope.has_rocksdb_queues and scope.has_crashed):
            return False
        source = inspection.queues.database.source if scope.compares_rocksdb else None
        if source is None:
            return True
        left = [
            segment.end
            for segment in inspection.store.commitlog.segments
            if segment.path in scope.taken_over or inspection.is_known_unread(segment.path)
        ]
        return (source.dispatched or 0) < max(left, default=self._facts.oldest)
