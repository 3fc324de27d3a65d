"""Stage 4: recovery of the commitlog: what it walks over, where it ends, what it cuts.

Source: CommitLog#recoverNormally, #recoverAbnormally, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.startup.load import StartFails
from rmqtool.startup.model import DispatchFails
from rmqtool.startup.records import RecordCheck, RecordFailure
from rmqtool.startup.start_file import StartFile
from rmqtool.startup.walk import Block, Walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from rmqtool.startup.files import ModelFile, ModelReader
    from rmqtool.startup.model import Model
    from rmqtool.startup.records import DispatchRequest
    from rmqtool.startup.walked import WalkedLog

    MakesStartFile = Callable[[Model, RecordCheck], StartFile]


@dataclass(frozen=True, slots=True)
class Recovered:
    """How far recovery came."""

    first_path: str = ""  # file that it began with; empty when there is no log
    end: int = 0  # physical offset of the first byte that is no part of the log
    end_path: str = ""  # file that `end` was found in
    # why it ended there; None when that file is closed by a blank and is the last one
    stop: RecordFailure | None = None
    records: int = 0  # how many records it walked over
    last_store_timestamp: int = 0  # store time of the last of them, ms; 0 without one
    queues_cut: bool = False  # whether the queues were cut at `end`
    bytes_read: int = 0  # of the log, from the beginning of the first file to `end`
    bytes_after_stop: int = 0  # what it would be after a clean stop: see `repair --fast-start`


def recover(
    model: Model, start_file: MakesStartFile = StartFile, walked: WalkedLog | None = None
) -> Recovered:
    """Recover as the broker does; the model is afterwards what the broker would hold.

    Args:
        model: the store.
        start_file: finds the file that recovery begins with.
        walked: keeps what is walked over; None where nobody asks for it.

    Raises:
        StartFails: Java throws.
        UnreadablePath: the disk refused.
    """
    files = model.commitlog.files
    if not files:
        model.destroy_queues()
        return Recovered()
    check = RecordCheck(model.rules, model.settings)
    maximum = model.queue_maximum
    start = start_file(model, check)
    dispatch_from, first = start.dispatch_from, start.find()
    after_stop = files[start.after_stop()].start
    dispatches = model.rules.normal_dispatches or not model.stopped_cleanly
    walk = Walk(check, counts_keys=dispatches)
    scan = _Scan(model, walk, dispatch_from, walked)
    last, position, stop = scan.run(first)
    end = last.start + position
    if model.rules.cuts_by_new_maximum:
        maximum = model.queue_maximum
    first_path, queues_cut = files[first].path, maximum >= end
    if queues_cut:
        model.truncate_queues(end)
    model.commitlog.cut(end)
    return Recovered(
        *(first_path, end, last.path, stop, scan.records, scan.last_store_timestamp, queues_cut),
        bytes_read=end - files[first].start,
        bytes_after_stop=max(end - after_stop, 0),
    )


@dataclass(slots=True)
class _Scan:
    """Walks over the records from one file on, and dispatches what the broker would."""

    model: Model  # takes what is dispatched
    walk: Walk  # follows the records
    dispatch_from: int  # after a clean stop, records up to this offset are not dispatched
    walked: WalkedLog | None = None  # keeps what it walks over
    records: int = 0  # how many it has walked over
    last_store_timestamp: int = 0  # store time of the last of them

    def run(self, number: int) -> tuple[ModelFile, int, RecordFailure | None]:
        """Walk until a check fails, or to the blank of the last file; give where and why."""
        files = self.model.commitlog.files
        position = self._first_position(files[number])
        while True:
            file = files[number]
            with file.open() as reader:
                try:
                    position, stop = self._file(file, reader, position)
                except DispatchFails as failure:
                    reason = f"at {failure.physical_offset}: {failure.reason}"
                    raise StartFails(file.path, reason) from failure
            if stop is RecordFailure.OUT_OF_MEMORY:
                raise StartFails(file.path, f"at {position}: {stop}")
            number += 1
            if stop is not None or number == len(files):
                return file, position, stop
            position = 0

    def _first_position(self, file: ModelFile) -> int:
        """Begin inside the file where the broker is told to be quick."""
        if self.model.stopped_cleanly or not self.model.rules.accelerates:
            return 0
        return max(self.dispatch_from - file.start, 0) if self.model.settings.accelerates else 0

    def _file(
        self, file: ModelFile, reader: ModelReader, position: int
    ) -> tuple[int, RecordFailure | None]:
        """Walk over one file; give the end, and why it is the end: None is a blank."""
        steps = self.walk.steps(file, reader, position)
        if self.walked is not None:
            steps = self.walked.keeping(steps, file, reader, position)
        for step in steps:
            if isinstance(step, Block):
                if (foreign := self._block(step, file)) is not None:
                    return foreign, RecordFailure.FOREIGN_OFFSET
                position = step.end
            elif step.record is None:
                return position, step.stop
            elif self._is_foreign(step.record, file):
                return position, RecordFailure.FOREIGN_OFFSET
            else:
                self._record(step.record)
                position += step.size
        return position, None

    def _record(self, record: DispatchRequest) -> None:
        self.records += 1
        self.last_store_timestamp = record.store_timestamp
        is_new = record.physical_offset > self.dispatch_from
        if not self.model.stopped_cleanly or (self.model.rules.normal_dispatches and is_new):
            self.model.dispatch(record)

    def _block(self, block: Block, file: ModelFile) -> int | None:
        """Take a block; give the position of the first record that names another file, if any."""
        count, end = len(block.positions), None
        if self._checks_offsets:
            offsets = block.physical_offsets
            foreign = np.flatnonzero((offsets < file.start) | (offsets > file.end))
            if foreign.size:
                count, end = int(foreign[0]), int(block.positions[foreign[0]])
        if count:
            self.records += count
            self.last_store_timestamp = int(block.store_timestamps[count - 1])
            self.model.dispatch_block(block, self._chosen(block, count))
        return end

    def _chosen(self, block: Block, count: int) -> NDArray[np.bool_]:
        """Tell which of the first `count` records of a block are dispatched."""
        chosen = np.zeros(len(block.positions), np.bool_)
        if not self.model.stopped_cleanly:
            chosen[:count] = True
        elif self.model.rules.normal_dispatches:
            chosen[:count] = block.physical_offsets[:count] > self.dispatch_from
        return chosen

    def _is_foreign(self, record: DispatchRequest, file: ModelFile) -> bool:
        """Source: CommitLog#recoverAbnormally, checkCommitLogOffsetOnRecover, 5.5.0."""
        return self._checks_offsets and not file.start <= record.physical_offset <= file.end

    @property
    def _checks_offsets(self) -> bool:
        is_known = self.model.rules.checks_log_offset and not self.model.stopped_cleanly
        return is_known and self.model.settings.checks_log_offset
