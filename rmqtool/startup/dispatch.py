"""Stage 5: what is dispatched once the broker runs, and whether it ever gets there.

4.9 begins where the queues end and waits; from 5.0 on dispatch begins at the end of the log, so
that a record without a unit stays without, unless `recheckReputOffsetFromCq` is set.
Source: DefaultMessageStore#start, #doRecheckReputOffsetFromCq, ReputMessageService#doReput,
4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.startup.files import java_remainder
from rmqtool.startup.model import DispatchFails
from rmqtool.startup.records import RecordCheck, RecordFailure
from rmqtool.startup.walk import Block, Walk

if TYPE_CHECKING:
    from rmqtool.startup.files import ModelFile, ModelReader
    from rmqtool.startup.model import Model


@dataclass(frozen=True, slots=True)
class Dispatched:
    """How dispatch went."""

    begin: int  # physical offset at which it began
    end: int  # physical offset at which it would go on with new messages
    # stretches of the log that it could not read and passed over, half open
    skipped: tuple[tuple[int, int], ...] = ()
    # physical offset after which it never gets; the broker then waits for ever
    hangs_at: int | None = None
    is_awaited: bool = True  # whether the broker waits for it before it comes up


def dispatch(model: Model) -> Dispatched:
    """Dispatch as a started broker does until it has nothing left to do.

    Raises:
        UnreadablePath: the disk refused.
    """
    log = model.commitlog
    if not (model.rules.dispatches_from_queues or model.settings.rechecks_queues):
        return Dispatched(log.maximum, log.maximum, is_awaited=False)
    begin = max(log.minimum, model.queue_maximum, 0)
    walk = Walk(RecordCheck(model.rules, model.settings))
    return _Reput(model, walk, begin).run()


@dataclass(slots=True)
class _Reput:
    """The thread that dispatches."""

    model: Model
    walk: Walk
    at: int

    def run(self) -> Dispatched:
        """Go on until the end of the log, or to where nothing goes on."""
        begin, log = self.at, self.model.commitlog
        skipped: list[tuple[int, int]] = []
        while self.at < log.maximum:
            file = log.find(self.at, or_first=not self.at)
            position = 0 if file is None else java_remainder(self.at, log.file_length)
            if file is None or position >= file.wrote_position:
                return Dispatched(begin, self.at, tuple(skipped), hangs_at=self.at)
            self.at = file.start + position
            before = self.at
            try:
                with file.open() as reader:
                    stretch = self._file(file, reader, position)
            except DispatchFails as failure:  # the thread tries the record again, for ever
                self.at = max(self.at, failure.physical_offset)
                return Dispatched(begin, self.at, tuple(skipped), hangs_at=self.at)
            if stretch is not None:
                skipped.append(stretch)
            if self.at == before:
                return Dispatched(begin, self.at, tuple(skipped), hangs_at=self.at)
        return Dispatched(begin, self.at, tuple(skipped))

    def _file(self, file: ModelFile, reader: ModelReader, position: int) -> tuple[int, int] | None:
        """Dispatch the records of one file; give a stretch that was passed over."""
        for step in self.walk.steps(file, reader, position, reads_body=False):
            if isinstance(step, Block):
                self.model.dispatch_block(step, np.ones(len(step.positions), np.bool_))
                self.at += step.end - position
                position = step.end
            elif step.record is not None:
                self.model.dispatch(step.record)
                self.at += step.size
                position += step.size
            elif step.passed:
                self._roll()
            elif step.stop is not RecordFailure.OUT_OF_MEMORY:
                return self._damage(file, reader, position)
        return None

    def _damage(self, file: ModelFile, reader: ModelReader, begin: int) -> tuple[int, int] | None:
        """Go on as the broker does after the first record that it cannot read.

        A record whose lengths do not add up is passed by its totalSize, but the buffer stays where
        its parts ended, and what is left to read is not counted down.
        """
        limit, position, done = file.wrote_position, begin, begin
        while done < limit:
            checked = self.walk.check.check(reader, position, limit, reads_body=False)
            position += checked.consumed
            if checked.record is not None:
                self.model.dispatch(checked.record)
                self.at += checked.size
                done += checked.size
            elif checked.passed:
                self._roll()
                return None
            elif checked.size > 0:
                self.at += checked.size
            else:
                return (
                    None
                    if checked.stop is RecordFailure.OUT_OF_MEMORY
                    else self._skip(limit - done)
                )
        return None

    def _roll(self) -> None:
        """Go on with the next file. Source: CommitLog#rollNextFile."""
        length = self.model.commitlog.file_length
        self.at += length - java_remainder(self.at, length)

    def _skip(self, length: int) -> tuple[int, int] | None:
        """Pass over what is left of the file, as a master does; others stay where they are."""
        if not self.model.settings.is_master:
            return None
        begin = self.at
        self.at += length
        return begin, self.at
