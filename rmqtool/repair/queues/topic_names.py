"""Put back a record's topic where its text is damaged, and what is proven of it.

No checksum covers the topic, but the property CRC of newer records. A flipped bit can make a name
that brokers refuse, and a bridge of a message that is whole; or one that nobody knows, in a queue
of its own. The true name is known where one of these has the record under it:

- the unit at its queue offset, in its queue of that topic, with units beside it that are right;
- an entry of the index, whose hash is that of the topic and one of the record's keys.

A property CRC, where the record has one, must agree with the name, too. Where the record's own text
has such a unit or entry, it is no damage: a plugin or another protocol stored it. Names that differ
in more bytes are found in misplaced.py, by their unit. Source: DefaultMessageStore
.CommitLogDispatcherBuildConsumeQueue, IndexService#buildIndex, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqtool.broker.dispatch import index_keys
from rmqtool.broker.names import topic_raw, topic_text
from rmqtool.errors import DecodeError, UnreadablePath
from rmqtool.findings.catalogue import Severity
from rmqtool.findings.registry_commitlog import CL_CRC, CL_LMQ, CL_PHYOFF, CL_PROPCRC, CL_TOPIC
from rmqtool.findings.registry_index import IX_KEY
from rmqtool.formats import java
from rmqtool.formats.message import Message, decode, encode
from rmqtool.formats.properties import LENGTH_BYTES, crc_matches
from rmqtool.judge.message import LEGAL_TOPIC
from rmqtool.queues.discovery import UNIT_FAMILIES
from rmqtool.repair.log.content import Content
from rmqtool.repair.writer import EditWriter
from rmqtool.scan.index import scan
from rmqtool.store.index_files import all_in_use

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from rmqtool.check.inspection import Inspection
    from rmqtool.findings.finding import Finding
    from rmqtool.queues.units import QueueUnits, Unit
    from rmqtool.repair.plans import Edit
    from rmqtool.store.record_heads import LogReader

DAMAGED_BYTES: Final = 4  # of a name, beside which it is still known
OF_TOPICS: Final = frozenset({CL_TOPIC, CL_PROPCRC, IX_KEY})
UNUSABLE: Final = frozenset({CL_CRC, CL_PHYOFF, CL_LMQ})
AS_QUEUED: Final = "the record's topic, as its queue has it: {}"
AS_INDEXED: Final = "the record's topic, as the index has it with the record's keys: {}"


def edits(inspection: Inspection, findings: Iterable[Finding], log: LogReader) -> list[Edit]:
    """Give the edits that put topics back.

    Args:
        inspection: of the store.
        findings: what a validation says of it.
        log: of the store.
    """
    defects_at: dict[int, set[Finding]] = defaultdict(set)
    for finding in findings:
        if finding.physical_offset is not None and finding.code in OF_TOPICS | UNUSABLE:
            defects_at[finding.physical_offset].add(finding)
    doubtful = {
        place: message
        for place, about in defects_at.items()
        if not any(
            finding.code in UNUSABLE and finding.severity is Severity.DAMAGE for finding in about
        )
        and (message := _message_at(place, log)) is not None
    }
    writer = EditWriter(inspection.store.root)
    names = _Names(inspection, log, np.array(sorted(doubtful), np.int64))
    for place, message in sorted(doubtful.items()):
        segment, proven = inspection.segment_at(place), names.of(place, message)
        if segment is None or proven is None:
            continue
        tail = len(message.topic_bytes) + LENGTH_BYTES + len(message.properties_bytes)
        position = place - segment.start + message.size - tail
        code = min((defect.code for defect in defects_at[place]), key=str)
        writer.write(segment, position, Content.of(proven.topic), code, proven.reason)
    return writer.edits


class _Proven(NamedTuple):
    """A name, and why it is the record's."""

    topic: bytes  # the name
    reason: str  # in words


def _message_at(physical_offset: int, log: LogReader) -> Message | None:
    head = log.head_at(physical_offset)
    if head is None:
        return None
    try:
        return decode(log.read_at(physical_offset, head.size))
    except DecodeError:
        return None


@dataclass(slots=True)
class _Names:
    """Finds the names of records."""

    inspection: Inspection  # of the store
    log: LogReader  # of the store
    # physical offsets of the records that are asked for: int64, shape (n,)
    places: npt.NDArray[np.int64]
    _known: dict[int, npt.NDArray[np.uint8]] | None = None
    _hashes: dict[int, set[int]] | None = None

    def of(self, place: int, message: Message) -> _Proven | None:
        """Give the one name that is proven and is not the record's own text; else None."""
        own = message.topic_bytes
        fits = [name for name in self._near(own) if self._agrees(message, name)]
        if self._has_unit(place, message, own) or self._is_indexed(place, message, own):
            return None
        queued = [fit for fit in fits if self._has_unit(place, message, fit)]
        if queued:
            words = f"{queued[0].decode()} queue {message.queue_id}"
            is_alone = len(queued) == 1 and self._is_alone(message, queued[0])
            return _Proven(queued[0], AS_QUEUED.format(words)) if is_alone else None
        indexed = [fit for fit in fits if self._is_indexed(place, message, fit)]
        if len(indexed) != 1:
            return None
        return _Proven(indexed[0], AS_INDEXED.format(indexed[0].decode()))

    def _near(self, own: bytes) -> Iterator[bytes]:
        """Yield the other names of its length that differ in a few bytes."""
        if self._known is None:
            self._known = self._all()
        known = self._known.get(len(own))
        if known is None:
            return
        differs = (known != np.frombuffer(own, np.uint8)).sum(axis=1)
        for row in np.flatnonzero((differs > 0) & (differs <= DAMAGED_BYTES)).tolist():
            yield known[row].tobytes()

    def _all(self) -> dict[int, npt.NDArray[np.uint8]]:
        """Give the legal names of all queues and configured topics, those of a length together."""
        names = {topic for kind in UNIT_FAMILIES for topic, _ in self.inspection.units(kind)}
        names |= self.inspection.topics or set()
        by_length: dict[int, list[bytes]] = defaultdict(list)
        for name in sorted(names):
            raw = topic_raw(name)
            if LEGAL_TOPIC.fullmatch(raw):
                by_length[len(raw)].append(raw)
        return {
            length: np.frombuffer(b"".join(some), np.uint8).reshape(-1, length)
            for length, some in by_length.items()
        }

    @staticmethod
    def _agrees(message: Message, topic: bytes) -> bool:
        raw = encode(message._replace(topic_bytes=topic))
        return crc_matches(raw, message.properties) is not False

    def _queues(self, message: Message, topic: bytes) -> Iterator[QueueUnits]:
        name = (topic_text(topic), message.queue_id)
        for kind in UNIT_FAMILIES:
            if name in self.inspection.units(kind):
                yield self.inspection.queue(kind, name)

    def _has_unit(self, place: int, message: Message, topic: bytes) -> bool:
        """Tell whether the unit of the record's queue offset there is that of the record."""
        units = (unit_at(queue, message.queue_offset) for queue in self._queues(message, topic))
        return any(
            unit is not None
            and (unit.physical_offset, unit.size, unit.queue_offset)
            == (place, message.size, message.queue_offset)
            for unit in units
        )

    def _is_alone(self, message: Message, topic: bytes) -> bool:
        """Tell whether the units beside it are right: else the file is wrong, not the record."""
        for queue in self._queues(message, topic):
            own = unit_at(queue, message.queue_offset)
            count = own.messages if own is not None else 1
            for number in (message.queue_offset - 1, message.queue_offset + count):
                unit = unit_at(queue, number)
                beside = _message_at(unit.physical_offset, self.log) if unit is not None else None
                if unit is None or beside is None or beside.size != unit.size:
                    continue
                is_named = beside.topic_bytes == topic
                is_named |= not LEGAL_TOPIC.fullmatch(beside.topic_bytes)
                claim = (beside.queue_id, beside.queue_offset)
                if not is_named or claim != (message.queue_id, unit.queue_offset):
                    return False
        return True

    def _is_indexed(self, place: int, message: Message, topic: bytes) -> bool:
        """Tell whether the index has the record's keys under this name."""
        if self._hashes is None:
            self._hashes = self._read_index()
        there = self._hashes.get(place, set())
        keys = [*index_keys(self.inspection.scope.release, message)]
        return bool(keys) and any(java.key_hash(java.text(topic), key) in there for key in keys)

    def _read_index(self) -> dict[int, set[int]]:
        """Give the hashes of the index by physical offset."""
        hashes_at: dict[int, set[int]] = defaultdict(set)
        for held in all_in_use(self.inspection.store.index_files()):
            with suppress(UnreadablePath), held.file.open() as file:  # said elsewhere
                for batch in scan(file, held):
                    offsets, hashes = batch.column("physical_offset"), batch.column("key_hash")
                    for row in np.flatnonzero(np.isin(offsets, self.places)).tolist():
                        hashes_at[int(offsets[row])].add(int(hashes[row]))
        return hashes_at


def unit_at(queue: QueueUnits, queue_offset: int) -> Unit | None:
    """Give the unit at a queue offset; None where there is not one that can be read."""
    try:
        stored = queue.find(queue_offset) if queue_offset >= 0 else None
    except UnreadablePath:  # said elsewhere
        return None
    return stored.unit if stored is not None else None
