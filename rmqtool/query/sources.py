"""What a lookup asks: the log, the index and the queues of a store, kept open between questions."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, Self

from rmqtool.errors import UnreadablePath
from rmqtool.formats.config_names import TOPICS_JSON
from rmqtool.query import topics
from rmqtool.query.consume_queue import Queue
from rmqtool.query.log import Log
from rmqtool.queues.discovery import Queues
from rmqtool.store.artefact import ArtefactKind
from rmqtool.store.key_index import KeyIndex

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqtool.query.answer import Answer
    from rmqtool.query.log import LogRecord
    from rmqtool.queues.units import QueueUnits
    from rmqtool.store.tree import Store

QUEUES_OPEN: Final = 64


class Sources:
    """The log, the index and the queues of a store. A context manager; keeps files open.

    Attributes:
        store: to look into.
        scan: None searches the log where index or queues fail; True always searches all of it;
            False never does.
        log: its records.
        index: its index files.
        queues: its queues.

    Args:
        store: to look into.
        scan: as above.
        jobs: threads that search the log; None is one for each processor.
    """

    def __init__(self, store: Store, *, scan: bool | None = None, jobs: int | None = None) -> None:
        self.store, self.scan = store, scan
        self.log = Log(store, jobs)
        self.index = KeyIndex(store)
        self.log.known_end = self.index.latest
        self.queues = Queues(store, QUEUES_OPEN)
        self._known: dict[tuple[str, int], Queue | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.log.__exit__(*exception)
        self.index.__exit__(*exception)
        self.queues.close()

    @cached_property
    def topics(self) -> list[str]:
        """The topics that records of this store are likely to have."""
        return topics.known_topics(self.store)

    def queue(self, topic: str, queue_id: int) -> Queue | None:
        """Give a queue; None without one."""
        key = topic, queue_id
        if key not in self._known:
            units = self.queues.queue(topic, queue_id)
            if units is None or units.kind is ArtefactKind.ROCKSDB:
                units = self.unflushed_queues.get(key, units)
            self._known[key] = Queue(units, self.log.start) if units else None
        return self._known[key]

    def queues_of(self, topic: str) -> list[Queue]:
        """Give all queues of a topic, by number.

        Raises:
            UnreadablePath: a directory may not be listed.
        """
        numbers = {queue.queue_id for queue in self.queues.queues_of(topic)}
        numbers |= {number for name, number in self.unflushed_queues if name == topic}
        queues = (self.queue(topic, number) for number in sorted(numbers))
        return [queue for queue in queues if queue is not None]

    @cached_property
    def queue_topics(self) -> list[str]:
        """The topics that have queues. Raises UnreadablePath: a directory may not be listed."""
        late = [topic for topic, _ in self.unflushed_queues]
        return list(dict.fromkeys([*self.queues.topics(), *late]))

    @cached_property
    def unflushed_queues(self) -> Mapping[tuple[str, int], QueueUnits]:
        """Queues in RocksDB with units that only the end of the log tells: not flushed yet.

        Raises:
            UnreadablePath: the database or the log cannot be read.
        """
        source = self.queues.database.source
        if source is None or self.scan is False:
            return {}
        if max(source.dispatched or 0, self.log.start) >= self.log.end:
            return {}
        from rmqtool.query.unflushed_units import unflushed_queues  # the kernels take long to load

        return unflushed_queues(self.log, source)

    @cached_property
    def keeps_queues(self) -> bool:
        """Whether there are directories of queues that can be listed; RocksDB has its own."""
        try:
            return bool(self.queue_topics)
        except UnreadablePath:
            return False

    @cached_property
    def knows_topics(self) -> bool:
        """Whether directories or configuration tell which topics there are."""
        return self.keeps_queues or bool(self.store.config(TOPICS_JSON))

    @staticmethod
    def verified(record: LogRecord, answer: Answer, how: str) -> None:
        """Take down that a record was verified, and as what."""
        verified = record.verified
        answer.trail.add(
            "record",
            f"verified: {verified if verified.startswith(how) else f'{how}, {verified}'}",
            record.segment.path,
            record.position,
            record.physical_offset,
        )
