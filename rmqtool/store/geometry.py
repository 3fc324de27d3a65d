"""How long each kind of file is: configured, else as the files are, else RocketMQ's default.

Only the commitlog's length can be read off one file with certainty; an index file does not
hold its number of slots. So each length says where it came from.
Source: MessageStoreConfig, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from rmqtool.formats import batch_queue, consume_queue, index

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.store.broker_conf import BrokerConf

MAPPED_FILE_SIZE_COMMIT_LOG = 1 << 30
MAPPED_FILE_SIZE_CONSUME_QUEUE_EXT = 50_331_648
MAPPED_FILE_SIZE_TIMER_LOG = 104_857_600
COMPACTION_MAPPED_FILE_SIZE = 104_857_600
COMPACTION_CQ_MAPPED_FILE_SIZE = 10_485_760


class LengthSource(enum.StrEnum):
    """Who says how long a file is."""

    CONFIGURED = "configured"
    FILES = "files"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Length:
    """One length and where it came from; bytes, or items for the index."""

    value: int
    source: LengthSource


@dataclass(frozen=True, slots=True)
class Geometry:
    """The lengths of a store.

    Attributes:
        commitlog: bytes of a commitlog file, DLedger data likewise.
        consume_queue: bytes of a consume queue file, a multiple of 20.
        consume_queue_ext: bytes of an ext file.
        batch_queue: bytes of a batch queue file.
        timer_log: bytes of a timer log file.
        index_slots: hash slots of an index file.
        index_entries: entries of an index file, the unused entry 0 included.
        compaction_log: bytes of a compaction log file.
        compaction_queue: bytes of a compaction queue file.
    """

    commitlog: Length
    consume_queue: Length
    consume_queue_ext: Length
    batch_queue: Length
    timer_log: Length
    index_slots: Length
    index_entries: Length
    compaction_log: Length
    compaction_queue: Length

    @property
    def index_size(self) -> int:
        """Bytes of an index file."""
        return index_size(self.index_slots.value, self.index_entries.value)

    def items(self) -> Iterator[tuple[str, Length]]:
        """Give all lengths with their names."""
        return ((field.name, getattr(self, field.name)) for field in fields(self))


def index_size(slots: int, entries: int) -> int:
    """Give the bytes of an index file of so many slots and entries."""
    return index.file_length(slots, entries)


def configured_lengths(conf: BrokerConf | None) -> dict[str, int]:
    """Give the lengths that a broker.conf sets, by the attribute names of `Geometry`.

    Raises:
        UsageError: one of them is no length.
    """
    if conf is None:
        return {}
    log, queue = conf.length("compactionMappedFileSize"), conf.length("compactionCqMappedFileSize")
    found = {
        "commitlog": conf.length("mappedFileSizeCommitLog"),
        "consume_queue": conf.length("mappedFileSizeConsumeQueue"),
        "consume_queue_ext": conf.length("mappedFileSizeConsumeQueueExt"),
        "batch_queue": conf.length("mapperFileSizeBatchConsumeQueue"),
        "timer_log": conf.length("mappedFileSizeTimerLog"),
        "index_slots": conf.length("maxHashSlotNum"),
        "index_entries": conf.length("maxIndexNum"),
    }
    if found["consume_queue"]:
        found["consume_queue"] = consume_queue.file_length(found["consume_queue"])
    if log or queue:
        queue = queue or COMPACTION_CQ_MAPPED_FILE_SIZE
        found["compaction_queue"] = compaction_queue_length(queue)
        found["compaction_log"] = compaction_log_length(log or COMPACTION_MAPPED_FILE_SIZE, queue)
    return {name: length for name, length in found.items() if length}


def compaction_queue_length(configured: int) -> int:
    """Give the bytes of a compaction queue file. Source: CompactionLog, 5.1.0 to 5.5.0."""
    return max(configured // batch_queue.BATCH_CQ_UNIT_SIZE, 1) * batch_queue.BATCH_CQ_UNIT_SIZE


def compaction_log_length(configured: int, configured_queue: int) -> int:
    """Give the bytes of a compaction log file: some five or more queue files, rounded.

    Source: CompactionStore, 5.1.0 to 5.5.0.
    """
    queue = compaction_queue_length(configured_queue)
    count, rest = divmod(configured, queue)
    if count < 5:  # noqa: PLR2004 - the broker's own constant
        return 5 * queue
    return count * queue if rest and rest < queue / 2 else (count + 1) * queue


DEFAULTS = {
    "commitlog": MAPPED_FILE_SIZE_COMMIT_LOG,
    "consume_queue": consume_queue.DEFAULT_FILE_LENGTH,
    "consume_queue_ext": MAPPED_FILE_SIZE_CONSUME_QUEUE_EXT,
    "batch_queue": batch_queue.DEFAULT_FILE_LENGTH,
    "timer_log": MAPPED_FILE_SIZE_TIMER_LOG,
    "index_slots": index.DEFAULT_HASH_SLOT_NUM,
    "index_entries": index.DEFAULT_INDEX_NUM,
    "compaction_log": compaction_log_length(
        COMPACTION_MAPPED_FILE_SIZE, COMPACTION_CQ_MAPPED_FILE_SIZE
    ),
    "compaction_queue": compaction_queue_length(COMPACTION_CQ_MAPPED_FILE_SIZE),
}


def geometry_of(configured: dict[str, int], from_files: dict[str, int]) -> Geometry:
    """Join what is configured, what the files show and the defaults, in this order."""

    def length(name: str) -> Length:
        if name in configured:
            return Length(configured[name], LengthSource.CONFIGURED)
        if from_files.get(name):
            return Length(from_files[name], LengthSource.FILES)
        return Length(DEFAULTS[name], LengthSource.DEFAULT)

    return Geometry(**{field.name: length(field.name) for field in fields(Geometry)})


def usual_length(lengths: Iterable[int]) -> int:
    """Give the most frequent length, the longest of equally frequent ones; 0 for none."""
    counts = Counter(length for length in lengths if length)
    return max(counts, key=lambda length: (counts[length], length), default=0)
