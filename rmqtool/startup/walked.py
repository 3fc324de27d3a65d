"""What recovery walks over, kept to count the messages: no file is read a second time for that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqtool.broker.dispatch import is_queued
from rmqtool.formats.message import BLANK
from rmqtool.formats.sys_flag import SysFlag
from rmqtool.startup.census import census_of, is_torn, messages_of
from rmqtool.startup.records import RecordFailure
from rmqtool.startup.walk import Block

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from rmqtool.startup.census import SegmentCensus
    from rmqtool.startup.files import ModelFile, ModelReader
    from rmqtool.startup.records import DispatchRequest
    from rmqtool.startup.walk import Step

    Int64s = NDArray[np.int64]

_DTYPES: Final = ("u4", "i4", "i8", "i4", "i4", "i8", "i8")  # what the fields of a record fit in
_ROWS_WAITING: Final = 1 << 14  # records that lie as tuples
_ZEROS_AT_A_TIME: Final = 1 << 20  # bytes


@dataclass(slots=True)
class _WalkedFile:
    """The messages of one file, in the order in which recovery meets them."""

    file: ModelFile
    # of each column what was met: arrays of the dtypes of `_DTYPES`
    _columns: list[list[NDArray[np.generic]]] = field(default_factory=lambda: [[] for _ in _DTYPES])
    _waiting: list[tuple[int, ...]] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)  # of topics
    _names: list[str] = field(default_factory=list)  # of the newest block
    _of_names: Int64s = field(default_factory=lambda: np.empty(0, np.int64))

    def add(self, reader: ModelReader, position: int, record: DispatchRequest) -> None:
        """Take one record."""
        if not is_queued(record.sys_flag) or is_torn(reader, position, record.size):
            return
        topic = self._numbers.setdefault(record.topic, len(self._numbers))
        place = (position, record.size, record.store_timestamp, topic)
        self._waiting.append((*place, record.queue_id, record.queue_offset, messages_of(record)))
        if len(self._waiting) >= _ROWS_WAITING:
            self._settle()

    def add_block(self, block: Block) -> bool:
        """Take a block, unless one is an inner batch: a block does not say of how many."""
        if (block.sys_flags & SysFlag.INNER_BATCH_FLAG).any():
            return False
        self._settle()
        chosen = block.are_queued
        columns: Iterable[Int64s] = (
            *(block.positions, block.sizes, block.store_timestamps, self._topics(block)),
            *(block.queue_ids, block.queue_offsets, np.ones(len(chosen), np.int64)),
        )
        self._keep(columns if chosen.all() else (column[chosen] for column in columns))
        return True

    def census(self) -> SegmentCensus:
        """Give all of them away: both at a time, narrow and wide, would take twice the memory."""
        self._settle()
        return census_of(self.file, map(_joined, self._columns), [*self._numbers])

    def _topics(self, block: Block) -> Int64s:
        """Give the topics of a block by their numbers in this file."""
        if block.names is not self._names:
            self._names, self._of_names = block.names, np.empty(0, np.int64)
        new = block.names[len(self._of_names) :]
        numbers = [self._numbers.setdefault(name, len(self._numbers)) for name in new]
        self._of_names = np.append(self._of_names, np.array(numbers, np.int64))
        topics: Int64s = self._of_names[block.topics]
        return topics

    def _settle(self) -> None:
        """Make columns of what waits."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._keep(np.array(waiting, np.int64).T)

    def _keep(self, columns: Iterable[Int64s]) -> None:
        for kept, column, dtype in zip(self._columns, columns, _DTYPES, strict=True):
            kept.append(column.astype(dtype))


@dataclass(slots=True)
class WalkedLog:
    """The messages of files that recovery has walked over from the first byte to the last."""

    keeps_all: bool  # whether of each file, not of the newest alone
    _files: dict[str, _WalkedFile] = field(default_factory=dict)  # by path

    def keeping(
        self, steps: Iterator[Step], file: ModelFile, reader: ModelReader, begin: int
    ) -> Iterator[Step]:
        """Yield the steps over a file; keep the messages where these are all that it has.

        They are not where recovery begins inside the file, ends early, or leaves something behind.

        Args:
            steps: up to a blank or a failure; who takes them may leave before.
            file: the file.
            reader: the same, open.
            begin: position of the first step.

        Raises:
            UnreadablePath: the disk refused.
        """
        if not self.keeps_all:
            self._files.clear()
        now, position = None if begin else _WalkedFile(file), begin
        for step in steps:
            if isinstance(step, Block):
                position = step.end
                if now is not None and not now.add_block(step):
                    now = None
            elif step.record is not None:
                if now is not None:
                    now.add(reader, position, step.record)
                position += step.size
            elif now is not None and _is_end(file, reader, position, step.stop):
                self._files[file.path] = now
            yield step

    def has(self, file: ModelFile) -> bool:
        """Tell whether a file was kept."""
        return file.path in self._files

    def take(self, file: ModelFile) -> SegmentCensus:
        """Give the messages of a file that was kept; who asks again has to read it."""
        return self._files.pop(file.path).census()


def _joined(pieces: list[NDArray[np.generic]]) -> Int64s:
    """Join the pieces of a column, which is emptied."""
    column: Int64s = np.concatenate([np.empty(0, np.int8), *pieces], dtype=np.int64)
    pieces.clear()
    return column


def _is_end(
    file: ModelFile, reader: ModelReader, position: int, stop: RecordFailure | None
) -> bool:
    """Tell whether nothing is written after a step; None is a blank."""
    if stop not in {None, RecordFailure.UNUSED, RecordFailure.NOTHING_LEFT}:
        return False
    rest = position + BLANK.size if stop is None else position
    return not any(
        np.frombuffer(reader.read_at(at, min(_ZEROS_AT_A_TIME, end - at)), np.uint8).any()
        for begin, end in reader.stretches(file.length, 1, rest)
        for at in range(begin, end, _ZEROS_AT_A_TIME)
    )
