"""Stage 4: recovery of the commitlog: where it begins, where it ends, what it cuts.

Source: CommitLog#recoverNormally, #recoverAbnormally, #isMappedFileMatchedRecover, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rmqtool.formats.message import (
    MESSAGE_MAGIC_CODE,
    MESSAGE_MAGIC_CODE_V2,
    MESSAGE_PREFIX,
    middle_of,
)
from rmqtool.startup.records import RecordCheck, Stop
from rmqtool.startup.rules import AbnormalStart, NormalStart

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.startup.files import FileReader, ModelFile
    from rmqtool.startup.model import Model
    from rmqtool.startup.records import Record

    Matches = Callable[[ModelFile], bool]

_CHECKPOINT: Final = "checkpoint"
_FILES_LOOKED_AT: Final = 3
_CHECKPOINT_MARGIN_MS: Final = 3000


class StartFails(Exception):
    """Java throws, and the broker does not start; never leaves the package."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__()
        self.path, self.reason = path, reason


@dataclass(frozen=True, slots=True)
class Recovered:
    """How far recovery came.

    Attributes:
        first_path: file that it began with; empty when there is no log.
        end: physical offset of the first byte that is no part of the log.
        end_path: file that `end` was found in.
        stop: why it ended there; None when that file is closed by a blank and is the last one.
        records: how many records it walked over.
        queues_cut: whether the queues were cut at `end`.
    """

    first_path: str = ""
    end: int = 0
    end_path: str = ""
    stop: Stop | None = None
    records: int = 0
    queues_cut: bool = False


def recover(model: Model) -> Recovered:
    """Recover as the broker does; the model is afterwards what the broker would hold.

    Raises:
        StartFails: Java throws.
        UnreadablePath: the disk refused.
    """
    if not model.commitlog.files:
        model.destroy_queues()
        return Recovered()
    check = RecordCheck(model.rules, model.settings)
    maximum_before = model.queue_maximum
    dispatch_from = _dispatch_from(model, maximum_before)
    start = _StartFile(model, check, dispatch_from).find()
    scan = _Scan(model, check, dispatch_from)
    recovered = scan.run(start)
    maximum = model.queue_maximum if model.rules.cuts_by_new_maximum else maximum_before
    queues_cut = maximum >= recovered.end
    if queues_cut:
        model.truncate_queues(recovered.end)
    model.commitlog.cut(recovered.end)
    return Recovered(
        recovered.first_path,
        recovered.end,
        recovered.end_path,
        recovered.stop,
        recovered.records,
        queues_cut,
    )


def _dispatch_from(model: Model, queue_maximum: int) -> int:
    """Give the physical offset behind which recovery dispatches.

    Source: ConsumeQueueStore#getDispatchFromPhyOffset, 5.5.0.
    """
    if model.stopped_cleanly or model.rules.abnormal_start is not AbnormalStart.QUEUED_OFFSET:
        return queue_maximum
    offset = model.checkpoint["logics_physical_offset"]
    is_accelerated = model.settings.accelerates and model.rules.accelerates
    if is_accelerated and offset <= 0 < model.checkpoint["physic_msg_timestamp"]:
        reason = "enableAcceleratedRecovery needs logicsPhysicalOffset, which is not set"
        raise StartFails(_CHECKPOINT, reason)
    return offset


@dataclass(slots=True)
class _StartFile:
    """Finds the file that recovery begins with."""

    model: Model
    check: RecordCheck
    dispatch_from: int

    def find(self) -> int:
        """Give its number."""
        if self.model.stopped_cleanly:
            return self._normal()
        return self._newest(self._matches_abnormally, down_to=-1)

    def _normal(self) -> int:
        files, rule = self.model.commitlog.files, self.model.rules.normal_start
        if rule is NormalStart.THIRD_LAST:
            return max(len(files) - _FILES_LOOKED_AT, 0)
        if rule is NormalStart.QUEUE_MAXIMUM:
            return self._newest(lambda file: file.start <= self.dispatch_from, down_to=0)
        return self._newest(self._matches_normally, down_to=0)

    def _newest(self, matches: Matches, *, down_to: int) -> int:
        """Go back from the newest file until one matches or enough have been looked at."""
        files = self.model.commitlog.files
        left = self.model.settings.recover_files if self.model.rules.recovers_newest_only else None
        for number in range(len(files) - 1, down_to, -1):
            if left is not None:
                left -= 1
            if matches(files[number]) or left == 0:
                return number
        return 0

    def _matches_normally(self, file: ModelFile) -> bool:
        record = self._first_record(file)
        return (
            record is not None
            and bool(record.store_timestamp)
            and record.physical_offset <= self.dispatch_from
            and self._index_agrees(record.store_timestamp)
        )

    def _matches_abnormally(self, file: ModelFile) -> bool:
        rule = self.model.rules.abnormal_start
        if rule is AbnormalStart.STORE_TIME:
            return self._is_old_enough(file)
        record = self._first_record(file)
        if record is None or not record.store_timestamp:
            return False
        if not self._index_agrees(record.store_timestamp):
            return False
        checkpoint = self.model.checkpoint
        if rule is AbnormalStart.CHECKED_STORE_TIME:
            return record.store_timestamp <= _minimum_timestamp(checkpoint)
        if checkpoint["logics_physical_offset"] <= 0:
            return record.store_timestamp <= checkpoint["logics_msg_timestamp"]
        return record.physical_offset <= self.dispatch_from

    def _first_record(self, file: ModelFile) -> Record | None:
        """Give the record that a file begins with; None where the check fails or it is a blank."""
        with file.open() as reader:
            checked = self.check.check(reader, 0, file.length)
        if checked.stop is Stop.OUT_OF_MEMORY:
            raise StartFails(file.path, str(Stop.OUT_OF_MEMORY))
        return checked.record

    def _index_agrees(self, store_timestamp: int) -> bool:
        if not (self.model.settings.indexes and self.model.settings.index_is_safe):
            return True
        return store_timestamp <= self.model.checkpoint["index_msg_timestamp"]

    def _is_old_enough(self, file: ModelFile) -> bool:
        """Look at magic and store time only, wherever a record's lengths may lead."""
        with file.open() as reader:
            prefix = MESSAGE_PREFIX.packer.unpack(reader.read_at(0, MESSAGE_PREFIX.size))
            fields = dict(zip(MESSAGE_PREFIX.positions, prefix, strict=True))
            layout = middle_of(fields["sys_flag"])
            middle = layout.packer.unpack(reader.read_at(MESSAGE_PREFIX.size, layout.size))
        known = {MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2 if self.model.rules.reads_v2 else None}
        store_timestamp = dict(zip(layout.positions, middle, strict=True))["store_timestamp"]
        if fields["magic_code"] not in known or not store_timestamp:
            return False
        checkpoint = self.model.checkpoint
        limit = _minimum_timestamp(checkpoint)
        if self.model.settings.indexes and self.model.settings.index_is_safe:
            limit = min(limit, checkpoint["index_msg_timestamp"])
        return bool(store_timestamp <= limit)


def _minimum_timestamp(checkpoint: dict[str, int]) -> int:
    """Source: StoreCheckpoint#getMinTimestamp."""
    newest = min(checkpoint["physic_msg_timestamp"], checkpoint["logics_msg_timestamp"])
    return max(newest - _CHECKPOINT_MARGIN_MS, 0)


@dataclass(slots=True)
class _Scan:
    """Walks over the records from one file on, and dispatches what the broker would."""

    model: Model
    check: RecordCheck
    dispatch_from: int

    def run(self, number: int) -> Recovered:
        """Walk until a check fails, or to the blank of the last file."""
        files = self.model.commitlog.files
        first, position, records = files[number], self._first_position(files[number]), 0
        while True:
            file = files[number]
            with file.open() as reader:
                position, count, stop = self._file(file, reader, position)
            records += count
            if stop is Stop.OUT_OF_MEMORY:
                raise StartFails(file.path, f"at {position}: {stop}")
            number += 1
            if stop is not None or number == len(files):
                end = file.start + position
                return Recovered(first.path, end, file.path, stop, records)
            position = 0

    def _first_position(self, file: ModelFile) -> int:
        """Begin inside the file where the broker is told to be quick."""
        if self.model.stopped_cleanly or not self.model.rules.accelerates:
            return 0
        return max(self.dispatch_from - file.start, 0) if self.model.settings.accelerates else 0

    def _file(
        self, file: ModelFile, reader: FileReader, position: int
    ) -> tuple[int, int, Stop | None]:
        """Walk over one file; give the end, the number of records, and why it is the end.

        None is a blank: the next file goes on.
        """
        count = 0
        while True:
            checked = self.check.check(reader, position, file.length)
            if checked.stop is not None:
                return position, count, checked.stop
            if checked.record is None:
                return position, count, None
            if self._is_foreign(checked.record, file):
                return position, count, Stop.FOREIGN_OFFSET
            if self._dispatches(checked.record):
                self.model.dispatch(checked.record)
            position += checked.size
            count += 1

    def _dispatches(self, record: Record) -> bool:
        if self.model.stopped_cleanly:
            has_no_unit = record.physical_offset > self.dispatch_from
            return self.model.rules.normal_dispatches and has_no_unit
        return True

    def _is_foreign(self, record: Record, file: ModelFile) -> bool:
        """Source: CommitLog#recoverAbnormally, checkCommitLogOffsetOnRecover, 5.5.0."""
        if self.model.stopped_cleanly or not self.model.rules.checks_log_offset:
            return False
        is_inside = file.start <= record.physical_offset <= file.end
        return self.model.settings.checks_log_offset and not is_inside
