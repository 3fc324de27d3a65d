"""All messages of the log as it lies there now, damage and what follows it included.

The broker's own scan ends at the first damage; to say what is lost behind it, this one goes on at
the next record that proves its own place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.formats import properties
from rmqtool.formats.message import MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2
from rmqtool.formats.sys_flag import SysFlag
from rmqtool.startup.load import integer
from rmqtool.startup.records import RecordCheck

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from rmqtool.startup.files import FileReader, ModelFile
    from rmqtool.startup.records import Record
    from rmqtool.startup.rules import Rules
    from rmqtool.startup.settings import Settings

_MAGICS: Final = tuple(
    (magic & 0xFFFFFFFF).to_bytes(4, "big") for magic in (MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2)
)
_MAGIC_POSITION: Final = 4
_SEARCH_BYTES: Final = 1 << 18
_QUEUED_TYPES: Final = (SysFlag.TRANSACTION_NOT_TYPE, SysFlag.TRANSACTION_COMMIT_TYPE)


@dataclass(frozen=True, slots=True)
class SegmentCensus:
    """The messages of one commitlog file that are whole and belong into a queue, in order.

    Attributes:
        path: the file.
        start: physical offset of its first byte.
        positions: int64, shape (n,); of the records, in the file, strictly increasing.
        sizes: int64, shape (n,); of the records.
        store_timestamps: int64, shape (n,); ms.
        topics: int64, shape (n,); numbers into `Census.topics`.
        messages: int64, shape (n,); how many each record holds.
    """

    path: str
    start: int
    positions: NDArray[np.int64]
    sizes: NDArray[np.int64]
    store_timestamps: NDArray[np.int64]
    topics: NDArray[np.int64]
    messages: NDArray[np.int64]


@dataclass(slots=True)
class Census:
    """Counts messages.

    Attributes:
        check: the record check; what it refuses is no message that could be lost.
        topics: names, in the order in which they are met.
    """

    check: RecordCheck
    topics: list[str] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)

    @classmethod
    def by(cls, rules: Rules, settings: Settings) -> Census:
        """Count by one version's check."""
        return cls(RecordCheck(rules, settings))

    def segments(self, files: Iterable[ModelFile]) -> Iterator[SegmentCensus]:
        """Yield the messages of each file.

        Raises:
            UnreadablePath: a file may not be read.
        """
        for file in files:
            with file.open() as reader:
                rows = [
                    (
                        position,
                        record.size,
                        record.store_timestamp,
                        self._number(record.topic),
                        _messages(record),
                    )
                    for position, record in self._records(file, reader)
                    if record.sys_flag & SysFlag.TRANSACTION_ROLLBACK_TYPE in _QUEUED_TYPES
                ]
            columns = np.array(rows, np.int64).reshape(-1, 5).T
            yield SegmentCensus(file.path, file.start, *columns)

    def _records(self, file: ModelFile, reader: FileReader) -> Iterator[tuple[int, Record]]:
        """Yield the whole records of a file: in sequence, and behind damage by their own word."""
        position, in_sequence = 0, True
        while True:
            checked = self.check.check(reader, position, file.length)
            record = checked.record
            is_blank = checked.passed and record is None
            if is_blank and in_sequence:
                return
            if record is not None and (
                in_sequence or record.physical_offset == file.start + position
            ):
                yield position, record
                position, in_sequence = position + record.size, True
                continue
            found = _next_magic(reader, position + 1, file.length)
            if found is None:
                return
            position, in_sequence = found, False

    def _number(self, topic: str) -> int:
        if topic not in self._numbers:
            self._numbers[topic] = len(self.topics)
            self.topics.append(topic)
        return self._numbers[topic]


def _next_magic(reader: FileReader, position: int, end: int) -> int | None:
    """Give the next position at which a record may begin."""
    while position + _MAGIC_POSITION < end:
        window = reader.read_at(position, _SEARCH_BYTES)
        found = [at for magic in _MAGICS if (at := window.find(magic, _MAGIC_POSITION)) >= 0]
        if found:
            return position + min(found) - _MAGIC_POSITION
        if position + len(window) >= end:
            return None
        position += len(window) - _MAGIC_POSITION - len(_MAGICS[0]) + 1
    return None


def _messages(record: Record) -> int:
    """Give how many messages a record holds."""
    if not record.sys_flag & SysFlag.INNER_BATCH_FLAG:
        return 1
    return max(integer(record.properties.get(properties.INNER_NUM, "")) or 1, 1)
