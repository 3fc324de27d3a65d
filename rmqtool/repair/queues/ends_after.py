"""Where queues begin and end once the edits of a plan are made: what offsets are held against.

Queues in files are read as their edits leave them, so that a second repair finds the same ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqtool.errors import UnreadablePath
from rmqtool.queues.discovery import Queues
from rmqtool.repair.edited_place import with_edited_parts
from rmqtool.repair.plans import Action
from rmqtool.store.artefact import ArtefactKind

if TYPE_CHECKING:
    from rmqtool.queues.discovery import UnitFamily
    from rmqtool.repair.survey import LogSurvey
    from rmqtool.repair.writer import EditWriter
    from rmqtool.store.tree import Store

KINDS: Final = (ArtefactKind.CONSUME_QUEUE, ArtefactKind.BATCH_QUEUE)
FAMILIES: Final[tuple[UnitFamily, ...]] = ("queues", "batch_queues")


def with_repaired_queues(survey: LogSurvey, writer: EditWriter) -> Store:
    """Give a store whose queues in files read as they will be after the edits so far."""
    return with_edited_parts(survey.inspection.store, writer.edits, KINDS)


class EndsAfter:
    """The queues of a store after the edits that a plan has so far; a broker reads no others.

    Args:
        survey: of the store, once its queues are judged.
        writer: has the edits of queues.
    """

    def __init__(self, survey: LogSurvey, writer: EditWriter) -> None:
        self._survey = survey
        self._queues = Queues(with_repaired_queues(survey, writer))
        self._sources = (self._queues.files, self._queues.batches)
        self._log_start = survey.facts.oldest
        self._is_rebuilt = any(edit.action is Action.REBUILD for edit in writer.edits)
        self._known: dict[tuple[str, int], range | None] = {}

    def close(self) -> None:
        """Close the files that were read."""
        self._queues.close()

    def of(self, topic: str, queue_id: int) -> range | None:
        """Give the queue offsets of a queue's messages; None where nothing can be said.

        It ends at the offset of the next message. A queue that is not there begins and ends at 0.
        """
        name = (topic, queue_id)
        if name not in self._known:
            try:
                self._known[name] = self._find(topic, queue_id)
            except UnreadablePath:
                self._known[name] = None
        return self._known[name]

    def _in_database(self, topic: str, queue_id: int) -> range | None:
        """Give the same of a queue in RocksDB; after a crash nothing tells where it ends."""
        scope = self._survey.inspection.scope
        if not scope.has_rocksdb_queues or scope.has_crashed or self._is_rebuilt:
            return None
        queue = self._queues.database.queue(topic, queue_id)
        if queue is None or any(queue.unread()):
            return None
        span = queue.span(self._log_start)
        return range(span.min_offset, span.max_offset) if span.last else None

    def _find(self, topic: str, queue_id: int) -> range | None:
        inspection = self._survey.inspection
        name = (topic, queue_id)
        if not inspection.scope.compares_queues:
            return self._in_database(topic, queue_id)
        wanted = self._survey.queues.wanted_of(topic, queue_id)
        found_in = (source.queue(*name) for source in self._sources)
        queue = next((units for units in found_in if units is not None), None)
        if queue is None:
            if wanted is not None:  # in a directory that is yet to be made
                return wanted
            was_there = any(name in inspection.units(family) for family in FAMILIES)
            bounds = (0, 0) if was_there else self._survey.ranges.of(*name)
            return range(*bounds) if bounds else None
        span = queue.span(self._log_start)
        if any(queue.unread()) or span.last is None:
            return None  # without a unit of its own it begins past its fillers
        first, end = span.min_offset, span.max_offset
        if wanted is not None:
            first, end = min(first, wanted.start), max(end, wanted.stop)
        return range(first, end)
