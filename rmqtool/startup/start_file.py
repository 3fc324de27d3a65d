"""Stage 4, first half: which commitlog file recovery begins with.

Source: CommitLog#recoverNormally, #recoverAbnormally, #isMappedFileMatchedRecover,
ConsumeQueueStore#isMappedFileMatchedRecover, 4.9.3 to 5.5.0.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Final

from rmqtool.broker.conf import CHECKPOINT_MARGIN_MS
from rmqtool.broker.rules import AbnormalStart, NormalStart
from rmqtool.formats.message import (
    MESSAGE_MAGIC_CODE,
    MESSAGE_MAGIC_CODE_V2,
    MESSAGE_PREFIX,
    middle_of,
)
from rmqtool.startup.load import StartFails
from rmqtool.startup.records import RecordCheck, RecordFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.startup.files import ModelFile
    from rmqtool.startup.model import Model
    from rmqtool.startup.records import DispatchRequest

    Matches = Callable[[ModelFile], bool]

_FILES_LOOKED_AT: Final = 3
_CHECKPOINT: Final = "checkpoint"


class StartFile:
    """Finds the file that recovery begins with.

    Attributes:
        model: the store.
        check: of a record.
        dispatch_from: after a clean stop, records up to this physical offset are not dispatched.
    """

    def __init__(self, model: Model, check: RecordCheck) -> None:
        """Find out where dispatch goes on. Raises StartFails: Java throws."""
        self.model, self.check = model, check
        self.dispatch_from = self.dispatched()

    def dispatched(self) -> int:
        """Give the physical offset up to which queues have all records.

        Source: ConsumeQueueStore#getDispatchFromPhyOffset, 5.5.0.
        """
        model = self.model
        if model.stopped_cleanly or model.rules.abnormal_start is not AbnormalStart.QUEUED_OFFSET:
            return model.queue_maximum
        offset = model.checkpoint["logics_physical_offset"]
        is_accelerated = model.settings.accelerates and model.rules.accelerates
        if is_accelerated and offset <= 0 < model.checkpoint["physic_msg_timestamp"]:
            reason = "enableAcceleratedRecovery needs logicsPhysicalOffset, which is not set"
            raise StartFails(_CHECKPOINT, reason)
        return offset

    def find(self) -> int:
        """Give its number."""
        if self.model.stopped_cleanly:
            return self._normal()
        return self._newest(self.matches_abnormally, down_to=-1)

    def after_stop(self) -> int:
        """Give the number that it would be if there were no `abort`."""
        stopped = copy(self.model)
        stopped.stopped_cleanly = True
        return StartFile(stopped, self.check).find()

    def _normal(self) -> int:
        files, rule = self.model.commitlog.files, self.model.rules.normal_start
        if rule is NormalStart.THIRD_LAST:
            return max(len(files) - _FILES_LOOKED_AT, 0)
        if rule is NormalStart.QUEUE_MAXIMUM:
            return self._newest(lambda file: file.start <= self.dispatch_from, down_to=0)
        return self._newest(self.matches_normally, down_to=0)

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

    def matches_normally(self, file: ModelFile) -> bool:
        """Tell whether recovery after a clean stop may begin with a file."""
        record = self.first_record(file)
        return (
            record is not None
            and bool(record.store_timestamp)
            and self.queues_agree(record)
            and self._index_agrees(record.store_timestamp)
        )

    def matches_abnormally(self, file: ModelFile) -> bool:
        """Tell whether recovery after a crash may begin with a file."""
        rule = self.model.rules.abnormal_start
        if rule is AbnormalStart.STORE_TIME:
            return self._is_old_enough(file)
        record = self.first_record(file)
        if record is None or not record.store_timestamp:
            return False
        if not self._index_agrees(record.store_timestamp):
            return False
        checkpoint = self.model.checkpoint
        if rule is AbnormalStart.CHECKED_STORE_TIME:
            return record.store_timestamp <= _minimum_timestamp(checkpoint)
        if checkpoint["logics_physical_offset"] <= 0:
            return record.store_timestamp <= checkpoint["logics_msg_timestamp"]
        return self.queues_agree(record)

    def queues_agree(self, record: DispatchRequest) -> bool:
        """Tell whether queues have all before the first record of a file."""
        return record.physical_offset <= self.dispatch_from

    def first_record(self, file: ModelFile) -> DispatchRequest | None:
        """Give the record that a file begins with; None where the check fails or it is a blank."""
        with file.open() as reader:
            checked = self.check.check(reader, 0, file.length)
        if checked.stop is RecordFailure.OUT_OF_MEMORY:
            raise StartFails(file.path, str(RecordFailure.OUT_OF_MEMORY))
        return checked.record

    def _index_agrees(self, store_timestamp: int) -> bool:
        if not (self.model.settings.indexes and self.model.settings.index_is_safe):
            return True
        return store_timestamp <= self.model.checkpoint["index_msg_timestamp"]

    def _is_old_enough(self, file: ModelFile) -> bool:
        """Look at magic and store time only, wherever a record's lengths may lead."""
        with file.open() as reader:
            raw = reader.read_at(0, MESSAGE_PREFIX.size).ljust(MESSAGE_PREFIX.size, b"\0")
            prefix = MESSAGE_PREFIX.packer.unpack(raw)
            fields = dict(zip(MESSAGE_PREFIX.positions, prefix, strict=True))
            layout = middle_of(fields["sys_flag"])
            raw = reader.read_at(MESSAGE_PREFIX.size, layout.size).ljust(layout.size, b"\0")
            middle = layout.packer.unpack(raw)
        known = {MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2 if self.model.rules.has_v2 else None}
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
    return max(newest - CHECKPOINT_MARGIN_MS, 0)
