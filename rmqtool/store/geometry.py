"""How long each kind of file is: configured, else as the files are, else RocketMQ's default.

A broker itself takes the default for a length that is not given: see `as_configured`.
Only the commitlog's length can be read off one file with certainty; an index file does not
hold its number of slots. So each length says where it came from.
Source: MessageStoreConfig, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

import enum
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqtool.broker import conf
from rmqtool.formats import batch_queue, consume_queue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.broker.release import Version

KEYS: Final = {
    "commitlog": conf.COMMITLOG_LENGTH,
    "consume_queue": conf.CONSUME_QUEUE_LENGTH,
    "consume_queue_ext": conf.EXT_LENGTH,
    "batch_queue": conf.BATCH_QUEUE_LENGTH,
    "timer_log": conf.TIMER_LOG_LENGTH,
    "index_slots": conf.INDEX_SLOTS,
    "index_entries": conf.INDEX_ENTRIES,
    "compaction_log": conf.COMPACTION_LOG_LENGTH,
    "compaction_queue": conf.COMPACTION_QUEUE_LENGTH,
}

# Bytes that configured lengths are multiples of: pages, and units of queues.
_UNITS: Final = (1 << 10, consume_queue.CQ_UNIT_SIZE, batch_queue.BATCH_CQ_UNIT_SIZE)


class LengthSource(enum.StrEnum):
    """Who says how long a file is."""

    CONFIGURED = "configured"
    FILES = "files"
    DEFAULT = "default"


class Length(NamedTuple):
    """One length and where it came from; bytes, or items for the index."""

    value: int
    source: LengthSource


class Geometry(NamedTuple):
    """The lengths of a store."""

    commitlog: Length  # bytes of a commitlog file, DLedger data likewise
    consume_queue: Length  # bytes of a consume queue file, a multiple of 20
    consume_queue_ext: Length  # bytes of an ext file
    batch_queue: Length  # bytes of a batch queue file
    timer_log: Length  # bytes of a timer log file
    index_slots: Length  # hash slots of an index file
    index_entries: Length  # entries of an index file, the unused entry 0 included
    compaction_log: Length  # bytes of a compaction log file
    compaction_queue: Length  # bytes of a compaction queue file

    def items(self) -> Iterator[tuple[str, Length]]:
        """Give all lengths with their names."""
        return zip(self._fields, self, strict=True)


def configured_lengths(
    broker_conf: conf.BrokerConf | None, version: Version | None = None
) -> dict[str, int]:
    """Give the lengths that a broker takes from its file, by the attribute names of `Geometry`.

    Args:
        broker_conf: the file; None when nobody gave it to us.
        version: of the broker; None for one that knows all keys.
    """
    given = {name: key.given(broker_conf, version) for name, key in KEYS.items()}
    lengths = {name: length for name, length in given.items() if length and length > 0}
    if "consume_queue" in lengths:
        lengths["consume_queue"] = consume_queue.file_length(lengths["consume_queue"])
    if {"compaction_log", "compaction_queue"} & lengths.keys():
        queue = lengths.get("compaction_queue", conf.COMPACTION_QUEUE_LENGTH.default)
        log = lengths.get("compaction_log", conf.COMPACTION_LOG_LENGTH.default)
        lengths["compaction_queue"] = compaction_queue_length(queue)
        lengths["compaction_log"] = compaction_log_length(log, queue)
    return lengths


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


DEFAULTS: Final = {name: key.default for name, key in KEYS.items()} | {
    "compaction_log": compaction_log_length(
        conf.COMPACTION_LOG_LENGTH.default, conf.COMPACTION_QUEUE_LENGTH.default
    ),
    "compaction_queue": compaction_queue_length(conf.COMPACTION_QUEUE_LENGTH.default),
}


def geometry_of(configured: dict[str, int], from_files: dict[str, int]) -> Geometry:
    """Join what is configured, what the files show and the defaults, in this order."""

    def length(name: str) -> Length:
        if name in configured:
            return Length(configured[name], LengthSource.CONFIGURED)
        if from_files.get(name):
            return Length(from_files[name], LengthSource.FILES)
        return Length(DEFAULTS[name], LengthSource.DEFAULT)

    return Geometry(**{name: length(name) for name in Geometry._fields})


def as_configured(broker_conf: conf.BrokerConf, version: Version) -> Geometry:
    """Give the lengths that a broker of a release goes by, whatever the files are."""
    return geometry_of(configured_lengths(broker_conf, version), {})


def refutes(lengths: list[int], configured: int, distance: int = 0) -> bool:
    """Tell whether files show that another length was configured for them.

    Their names are apart by another length, which some of them have. Or most of several files agree
    on one, and no file has the configured one; or a lone file is twice as long, or longer: damage
    adds no such lengths. Then the configuration is wrong, not the files. A file without a byte
    tells nothing of a lone file that is a little longer, or of a length that nobody configures: it
    was named after it.

    Args:
        lengths: bytes of each file, or items.
        configured: the length that is judged.
        distance: bytes between the names of two neighbours; 0 where neighbours differ.
    """
    usual = usual_length(lengths)
    if distance and distance != configured:
        is_lone = sum(map(bool, lengths)) == 1
        is_longer, is_round = usual > configured, any(usual % unit == 0 for unit in _UNITS)
        is_cut_or_grown = usual < 2 * configured if is_longer else not is_round
        return distance in lengths and not (is_lone and is_cut_or_grown)
    if not usual or configured in lengths:
        return False
    count = lengths.count(usual)
    return 2 * count > len(lengths) if count > 1 else len(lengths) == 1 and usual >= 2 * configured


def distance_of(starts: Iterable[int]) -> int:
    """Give the distance of the names of neighbours, bytes; 0 where it is not the same for all."""
    distances = {after - before for before, after in pairwise(sorted(starts))}
    return distances.pop() if len(distances) == 1 else 0


def usual_length(lengths: Iterable[int]) -> int:
    """Give the most frequent length, the longest of equally frequent ones; 0 for none."""
    counts = Counter(length for length in lengths if length)
    return max(counts, key=lambda length: (counts[length], length), default=0)
